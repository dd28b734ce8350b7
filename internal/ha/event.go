package ha

import "time"

// Action is what is done to an object, as events name it (contract section 8).
type Action string

const (
	ActionCreate  Action = "create"
	ActionUpdate  Action = "update"
	ActionDelete  Action = "delete"
	ActionProcess Action = "process"
)

// Phase says whether an event tells of the beginning of an action, of its end, or of its failure.
type Phase string

const (
	PhaseStart Phase = "start"
	PhaseEnd   Phase = "end"
	PhaseError Phase = "error"
)

// Event is what outsiders are told about one change (contract section 8). It is about one object: Segment, or Host with the
// segment it is in, or Notification.
type Event struct {
	UUID   string    // of the message; the same for every destination and every repetition
	At     time.Time // the database's clock
	Action Action
	Phase  Phase

	Segment      *Segment
	Host         *Host
	Notification *Notification

	Err error // why, with PhaseError
}

// Kind is the kind of object that the event is about.
func (e Event) Kind() Kind {
	switch {
	case e.Notification != nil:
		return KindNotification
	case e.Host != nil:
		return KindHost
	default:
		return KindSegment
	}
}

// Type is the event's name, such as host.update.end.
func (e Event) Type() string {
	return string(e.Kind()) + "." + string(e.Action) + "." + string(e.Phase)
}

// Message is an event on its way to one destination: a row of the outbox, until the destination has confirmed it.
type Message struct {
	ID   int64 // rows of one object have ids in the order of its changes
	UUID string
	Type string        // of the event
	Body string        // the message as Masakari has it, JSON
	Age  time.Duration // by the database's clock, when read
}

// Shipping is the right to ship what waits for one destination. As with a unit of work, who writes must still be Owner at
// Epoch, and an owner is dead when Beat has not moved for TTL on the watcher's own clock (DESIGN section 3).
type Shipping struct {
	Sink  string
	Owner string // "" when nobody has it
	Epoch int64  // 0: nobody ever had it
	Beat  int64
	TTL   time.Duration
}

// Backlog is what waits for one destination.
type Backlog struct {
	Rows   int
	Oldest time.Duration // age of the first, by the database's clock
}
