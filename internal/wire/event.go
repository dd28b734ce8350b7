package wire

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// EventTopic is the topic of versioned notifications, which is fixed (contract section 8).
const EventTopic = "versioned_notifications"

// Priorities of events.
const (
	PriorityInfo  = "INFO"
	PriorityError = "ERROR"
)

// EventPriority is the priority of a type of event: ERROR for what failed.
func EventPriority(eventType string) string {
	if strings.HasSuffix(eventType, "."+string(ha.PhaseError)) {
		return PriorityError
	}
	return PriorityInfo
}

type eventMessage struct {
	MessageID   string      `json:"message_id"`
	PublisherID string      `json:"publisher_id"`
	EventType   string      `json:"event_type"`
	Priority    string      `json:"priority"`
	Payload     eventObject `json:"payload"`
	Timestamp   string      `json:"timestamp"`
}

// eventObject is an object of oslo.versionedobjects.
type eventObject struct {
	Name      string `json:"masakari_object.name"`
	Namespace string `json:"masakari_object.namespace"`
	Version   string `json:"masakari_object.version"`
	Data      any    `json:"masakari_object.data"`
}

func versioned(name, version string, data any) eventObject {
	return eventObject{Name: name, Namespace: "masakari", Version: version, Data: data}
}

// Ids are absent from what is told before an object has them.
type segmentEvent struct {
	Fault          *eventObject `json:"fault"`
	ID             *int64       `json:"id,omitempty"`
	UUID           *string      `json:"uuid,omitempty"`
	Name           string       `json:"name"`
	ServiceType    string       `json:"service_type"`
	Description    *string      `json:"description"`
	RecoveryMethod string       `json:"recovery_method"`
	Enabled        bool         `json:"enabled"`
}

type hostEvent struct {
	Fault             *eventObject `json:"fault"`
	ID                *int64       `json:"id,omitempty"`
	UUID              *string      `json:"uuid,omitempty"`
	Name              string       `json:"name"`
	FailoverSegment   eventObject  `json:"failover_segment"`
	Type              string       `json:"type"`
	Reserved          bool         `json:"reserved"`
	ControlAttributes string       `json:"control_attributes"`
	OnMaintenance     bool         `json:"on_maintenance"`
}

type notificationEvent struct {
	Fault            *eventObject      `json:"fault"`
	ID               *int64            `json:"id,omitempty"`
	NotificationUUID *string           `json:"notification_uuid,omitempty"`
	GeneratedTime    eventTime         `json:"generated_time"`
	SourceHostUUID   string            `json:"source_host_uuid"`
	Type             string            `json:"type"`
	Payload          map[string]string `json:"payload"`
	Status           string            `json:"status"`
}

// segmentOfHost is the segment as an object inside a host's event.
type segmentOfHost struct {
	ID             int64      `json:"id"`
	UUID           string     `json:"uuid"`
	Name           string     `json:"name"`
	ServiceType    string     `json:"service_type"`
	Enabled        bool       `json:"enabled"`
	Description    *string    `json:"description"`
	RecoveryMethod string     `json:"recovery_method"`
	CreatedAt      eventTime  `json:"created_at"`
	UpdatedAt      *eventTime `json:"updated_at"`
	DeletedAt      *eventTime `json:"deleted_at"`
	Deleted        bool       `json:"deleted"`
}

// eventTime is written with a Z and without a fraction, unlike the API's.
type eventTime time.Time

// MarshalJSON writes the time.
func (t eventTime) MarshalJSON() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format(`"2006-01-02T15:04:05Z"`)), nil
}

// NewEvent renders an event as its publisher's message; host is the publisher's machine. Host and segment events are the
// API's, also those that an engine causes.
func NewEvent(e ha.Event, host string) string {
	binary := "masakari-api"
	if e.Action == ha.ActionProcess {
		binary = "masakari-engine"
	}
	body, _ := json.Marshal(eventMessage{ //nolint:errchkjson // texts, numbers and times always marshal
		MessageID: e.UUID, PublisherID: binary + ":" + host, EventType: e.Type(), Priority: EventPriority(e.Type()),
		Timestamp: e.At.UTC().Format("2006-01-02 15:04:05.000000"), Payload: eventPayload(e),
	})
	return string(body)
}

func eventPayload(e ha.Event) eventObject {
	unborn := e.Action == ha.ActionCreate && e.Phase != ha.PhaseEnd
	ids := func(id int64, uuid string) (*int64, *string) {
		if unborn {
			return nil, nil
		}
		return &id, &uuid
	}
	switch e.Kind() {
	case ha.KindNotification:
		n := NewNotification(*e.Notification)
		d := notificationEvent{Fault: eventFault(e), GeneratedTime: eventTime(n.GeneratedTime.Time), SourceHostUUID: n.SourceHostUUID,
			Type: n.Type, Payload: n.Payload, Status: n.Status}
		d.ID, d.NotificationUUID = ids(n.ID, n.NotificationUUID)
		return versioned("NotificationApiPayload", "1.0", d)
	case ha.KindHost:
		h := e.Host
		d := hostEvent{Fault: eventFault(e), Name: h.Name, FailoverSegment: eventSegment(*e.Segment), Type: h.Type, Reserved: h.Reserved,
			ControlAttributes: h.ControlAttributes, OnMaintenance: h.OnMaintenance}
		d.ID, d.UUID = ids(h.ID, h.UUID)
		return versioned("HostApiPayload", "1.0", d)
	default:
		s := e.Segment
		d := segmentEvent{Fault: eventFault(e), Name: s.Name, ServiceType: s.ServiceType, Description: s.Description,
			RecoveryMethod: string(s.RecoveryMethod), Enabled: s.Enabled}
		d.ID, d.UUID = ids(s.ID, s.UUID)
		return versioned("SegmentApiPayload", "1.1", d)
	}
}

func eventSegment(s ha.Segment) eventObject {
	d := segmentOfHost{ID: s.ID, UUID: s.UUID, Name: s.Name, ServiceType: s.ServiceType, Enabled: s.Enabled, Description: s.Description,
		RecoveryMethod: string(s.RecoveryMethod), CreatedAt: eventTime(s.CreatedAt)}
	if s.UpdatedAt != nil {
		at := eventTime(*s.UpdatedAt)
		d.UpdatedAt = &at
	}
	return versioned("FailoverSegment", "1.1", d)
}

type exceptionPayload struct {
	ModuleName       string `json:"module_name"`
	FunctionName     string `json:"function_name"`
	Exception        string `json:"exception"`
	ExceptionMessage string `json:"exception_message"`
	Traceback        string `json:"traceback"`
}

// eventFault is why an action failed. The names are Masakari's, of the place where it would have failed there.
func eventFault(e ha.Event) *eventObject {
	if e.Err == nil {
		return nil
	}
	p := exceptionPayload{ExceptionMessage: e.Err.Error()}
	if e.Action == ha.ActionProcess {
		p.ModuleName = "masakari.engine.drivers.taskflow.driver"
		switch e.Notification.Type {
		case ha.TypeVM:
			p.FunctionName, p.Exception = "execute_instance_failure", "InstanceRecoveryFailureException"
		case ha.TypeProcess:
			p.FunctionName, p.Exception = "execute_process_failure", "ProcessRecoveryFailureException"
		default:
			p.FunctionName, p.Exception = "execute_host_failure", "HostRecoveryFailureException"
		}
	} else {
		fault, known := FaultOf(Op{}, e.Err)
		if known {
			p.ExceptionMessage = fault.Message
		}
		object := map[ha.Kind][2]string{
			ha.KindSegment: {"failover_segment", "FailoverSegmentExists"}, ha.KindHost: {"host", "HostExists"},
			ha.KindNotification: {"notification", "DBError"},
		}[e.Kind()]
		p.ModuleName, p.FunctionName, p.Exception = "masakari.db.sqlalchemy.api", object[0]+"_"+string(e.Action), object[1]
		if !known {
			p.Exception = "DBError"
		}
	}
	p.Traceback = p.Exception + ": " + p.ExceptionMessage + "\n"
	fault := versioned("ExceptionPayload", "1.0", p)
	return &fault
}

// EventV1 and EventV2 are a message as oslo.messaging's drivers messaging and messagingv2 send it: plain, and in an envelope
// as text. Its listeners drop a repetition by _unique_id.
func EventV1(m ha.Message) []byte {
	return []byte(`{"_unique_id": "` + strings.ReplaceAll(m.UUID, "-", "") + `", ` + strings.TrimPrefix(m.Body, "{"))
}

// EventV2: see EventV1.
func EventV2(m ha.Message) []byte {
	body, _ := json.Marshal(struct { //nolint:errchkjson // texts always marshal
		Version string `json:"oslo.version"`
		Message string `json:"oslo.message"`
	}{"2.0", string(EventV1(m))})
	return body
}
