package wire

import (
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// What is below /v1/ext is salvor's own: it has no counterpart in Masakari.

// Recovery is one notification's unit of work as operators see it: where it stands, what it waits for and why, how death
// is known, and what happened: a page of the timeline, the newest by default. Before an engine has taken the notification
// up, only the first three and an empty timeline are there.
type Recovery struct {
	NotificationUUID string          `json:"notification_uuid"`
	Status           string          `json:"status"`
	Message          *string         `json:"message"`
	Unit             *Unit           `json:"unit"`
	Timeline         []TimelineEntry `json:"timeline"`
	// Earlier says that there are entries before the timeline's first: its id is the marker that shows them.
	Earlier bool `json:"earlier"`
}

// Unit is the latest unit of work of a notification.
type Unit struct {
	Kind         string     `json:"kind"`
	HostUUID     string     `json:"host_uuid"`
	SegmentUUID  string     `json:"failover_segment_uuid"`
	Engine       *string    `json:"engine"` // null while nobody holds it
	Step         string     `json:"step"`
	Attempt      int        `json:"attempt"`
	Held         *Held      `json:"held"`
	Proof        *Proof     `json:"proof"`
	Hold         *Hold      `json:"hold"`
	CancelledBy  *string    `json:"cancelled_by"`
	NextAttempt  *Timestamp `json:"next_attempt_at"`
	CreatedAt    Timestamp  `json:"created_at"`
	StartedAt    *Timestamp `json:"started_at"` // when it passed its gates
	EndedAt      *Timestamp `json:"ended_at"`
	WaivedGates  []string   `json:"waived_gates"`
	HostReturned bool       `json:"host_returned"`
}

// Held names the gate that a unit waits at, and why.
type Held struct {
	Gate   string     `json:"gate"`
	Reason string     `json:"reason"`
	Since  *Timestamp `json:"since"`
}

// Proof is how the host's death is known, and when that was last seen.
type Proof struct {
	Kind string    `json:"kind"`
	Text string    `json:"text"`
	At   Timestamp `json:"at"`
}

// Hold is an operator's order to start nothing.
type Hold struct {
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	Until  *Timestamp `json:"until"`
}

// TimelineEntry is one line of the journal.
type TimelineEntry struct {
	ID           int64     `json:"id"`
	At           Timestamp `json:"at"`
	Kind         string    `json:"kind"`
	InstanceUUID *string   `json:"instance_uuid"`
	Act          *string   `json:"act"`
	Task         *string   `json:"task"`
	State        *string   `json:"state"`
	Text         string    `json:"text"`
	Open         bool      `json:"open"` // an act whose outcome is not known yet
}

// RecoveryBody is the response body.
type RecoveryBody struct {
	Recovery Recovery `json:"recovery"`
}

// NewRecovery renders a notification's recovery and a page of its journal; w is nil before there is one.
func NewRecovery(n ha.Notification, w *ha.Work, journal []ha.Entry, earlier bool) RecoveryBody {
	r := Recovery{
		NotificationUUID: n.UUID, Status: string(n.Status), Message: n.Message,
		Timeline: make([]TimelineEntry, len(journal)), Earlier: earlier,
	}
	for i, e := range journal {
		r.Timeline[i] = TimelineEntry{
			ID: e.ID, At: Timestamp{e.At}, Kind: string(e.Kind), InstanceUUID: present(e.InstanceUUID), Act: present(string(e.Act)),
			Task: present(e.Task), State: present(e.State), Text: e.Text, Open: e.Open,
		}
	}
	if w != nil {
		u := newUnit(*w)
		r.Unit = &u
	}
	return RecoveryBody{r}
}

func newUnit(w ha.Work) Unit {
	u := Unit{
		Kind: string(w.Kind), HostUUID: w.HostUUID, SegmentUUID: w.SegmentUUID, Engine: present(w.Owner),
		Step: string(w.Step), Attempt: w.Attempt, CancelledBy: present(w.Wishes.CancelBy),
		NextAttempt: timestamp(w.WakeAt), CreatedAt: Timestamp{w.CreatedAt}, StartedAt: timestamp(w.StartedAt),
		EndedAt: timestamp(w.EndedAt), HostReturned: w.Returned, WaivedGates: make([]string, len(w.Waived)),
	}
	for i, g := range w.Waived {
		u.WaivedGates[i] = string(g)
	}
	if w.HeldAt != "" {
		u.Held = &Held{Gate: string(w.HeldAt), Reason: w.HeldWhy, Since: timestamp(w.HeldSince)}
	}
	if w.Proof != ha.ProofNone {
		u.Proof = &Proof{Kind: string(w.Proof), Text: w.ProofText, At: Timestamp{w.ProofAt}}
	}
	if w.Wishes.HoldBy != "" {
		u.Hold = &Hold{By: w.Wishes.HoldBy, Reason: w.Wishes.HoldReason, Until: timestamp(w.Wishes.HoldUntil)}
	}
	return u
}

// present is nil for an empty text: JSON's null says "none" where "" would say "empty".
func present(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Order is what an operator says with an order about a recovery.
type Order struct {
	Reason string
	Until  *time.Time
}

var (
	reasonRule = all(typed("string"), length(1, 200), descriptionRule)
	orderRule  = shape{properties: []property{{"reason", reasonRule}}}.rule()
	holdRule   = shape{
		properties: []property{{"reason", reasonRule}, {"until", all(typed("string"), format("date-time", isTime))}},
		required:   []string{"reason"},
	}.rule()
	confirmRule = shape{properties: []property{{"reason", reasonRule}}, required: []string{"reason"}}.rule()
)

// OrderOf reads the body of an order: cancel, release, retry and resume may have none, hold, pause and confirm-off need a reason.
func (b Body) OrderOf(action string) (Order, error) {
	r := orderRule
	switch action {
	case "hold", "pause":
		r = holdRule
	case "confirm-off":
		r = confirmRule
	}
	v := b.value
	if v == nil {
		v = &object{}
	}
	if bad := r("", v); bad != nil {
		return Order{}, bad.error()
	}
	var order Order
	o := v.(*object)
	if reason := o.text("reason"); reason != nil {
		order.Reason = *reason
	}
	if until := o.text("until"); until != nil {
		t, _ := parseTime(*until)
		order.Until = &t
	}
	return order, nil
}
