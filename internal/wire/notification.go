package wire

import "github.com/salvor-ha/salvor/internal/ha"

// Notification is a notification in a response (contract 1.9). Details are shown, even when empty, by GET of one at 1.1
// and up, and nowhere else.
type Notification struct {
	ID                  int64             `json:"id"`
	NotificationUUID    string            `json:"notification_uuid"`
	GeneratedTime       Timestamp         `json:"generated_time"`
	SourceHostUUID      string            `json:"source_host_uuid"`
	Type                string            `json:"type"`
	Payload             map[string]string `json:"payload"`
	Status              string            `json:"status"`
	FailoverSegmentUUID *string           `json:"failover_segment_uuid"`
	Message             *string           `json:"message"`
	Stamps
	Details *[]WorkflowTask `json:"recovery_workflow_details,omitempty"`
}

// NotificationBody and NotificationList are the response bodies.
type (
	NotificationBody struct {
		Notification Notification `json:"notification"`
	}
	NotificationList struct {
		Notifications []Notification `json:"notifications"`
	}
)

// NewNotification renders n without details.
func NewNotification(n ha.Notification) Notification {
	payload := map[string]string(n.Payload)
	if payload == nil {
		payload = map[string]string{}
	}
	return Notification{
		ID: n.ID, NotificationUUID: n.UUID, GeneratedTime: Timestamp{n.GeneratedTime}, SourceHostUUID: n.SourceHostUUID,
		Type: string(n.Type), Payload: payload, Status: string(n.Status), FailoverSegmentUUID: n.SegmentUUID,
		Message: said(n.Message), Stamps: stamps(n.Stamps),
	}
}

// said is a message, null when it says nothing, as Masakari has it: an engine takes back what it said of a wait with an empty one.
func said(message *string) *string {
	if message != nil && *message == "" {
		return nil
	}
	return message
}

// NewNotificationList renders a page of notifications.
func NewNotificationList(notifications []ha.Notification) NotificationList {
	list := make([]Notification, len(notifications))
	for i, n := range notifications {
		list[i] = NewNotification(n)
	}
	return NotificationList{list}
}

var notificationRule = wrapped("notification", shape{
	properties: []property{
		{"type", word(string(ha.TypeComputeHost), string(ha.TypeVM), string(ha.TypeProcess))},
		{"hostname", all(typed("string"), length(1, 255), matching(`^[a-zA-Z0-9-._]*$`))},
		{"generated_time", all(typed("string"), format("date-time", isTime))},
		{"payload", payloadRule},
	},
	required: []string{"type", "hostname", "generated_time", "payload"}, requiredFirst: true,
}.rule())

// NotificationCreate reads the body of POST notifications, the payload by its type's rules included. UUID is left empty.
func (b Body) NotificationCreate() (ha.Report, error) {
	o, err := b.check("notification", notificationRule)
	if err != nil {
		return ha.Report{}, err
	}
	generated, _ := parseTime(*o.text("generated_time"))
	r := ha.Report{Type: ha.Type(*o.text("type")), Hostname: *o.text("hostname"), GeneratedTime: generated}
	payload, _ := o.get("payload")
	r.Payload, err = readPayload(r.Type, payload.(*object))
	return r, err
}
