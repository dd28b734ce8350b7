package rules

import (
	"errors"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Announce says who is told of changes. Its rows are written in the transaction of the change they tell of.
type Announce struct {
	// Sinks are the destinations. Each has rows of its own, so that one that is away holds up no other.
	Sinks []string
	// Render makes an event the text that is kept. It cannot fail: telling must not keep a change from happening (F073).
	Render func(ha.Event) string
	// Wake is called after events were written. It must not block.
	Wake func()
}

// Messages are the events, complete and rendered; now is the database's clock.
func (a *Announce) Messages(now time.Time, events []ha.Event) []ha.Message {
	messages := make([]ha.Message, len(events))
	for i, e := range events {
		e.UUID, e.At = uuid.NewString(), now
		messages[i] = ha.Message{UUID: e.UUID, Type: e.Type(), Body: a.Render(e)}
	}
	return messages
}

// DropLimit bounds how many messages one transaction drops.
const DropLimit = 1000

// Around are the events of a change that was written: both are written with it, so neither is ever alone.
func Around(e ha.Event) []ha.Event {
	start, end := e, e
	start.Phase, end.Phase = ha.PhaseStart, ha.PhaseEnd
	return []ha.Event{start, end}
}

// Failed are the events of a change that could not be written.
func Failed(e ha.Event, err error) []ha.Event {
	start, failed := e, e
	start.Phase, failed.Phase, failed.Err = ha.PhaseStart, ha.PhaseError, err
	return []ha.Event{start, failed}
}

// What is ignored says why by its message only. test/announce sees to it that plan words it so.
const segmentDisabled = "Recovery aboart: the segment HA is disabled."

var leftInState = regexp.MustCompile("^instance [^ ]+ is (" + ha.VMPaused + "|" + ha.VMRescued + ")$")

// Processed are the events of a notification's change of status (contract section 8): running is the start of its
// processing, finished and ignored are its end, error is its error. A recovery that is given up at once (running to failed)
// is an error too, so that each start has its end; failed after an error or unprocessed tells nothing new. As in Masakari
// the end is told as of one that still runs, an instance that is left paused or rescued is an error, and a report that found its
// segment disabled was never processed.
func Processed(n ha.Notification, to ha.Status, message string) []ha.Event {
	if n.Status == to || to == ha.StatusIgnored && n.Status != ha.StatusRunning && message == segmentDisabled {
		return nil
	}
	start := ha.Event{Action: ha.ActionProcess, Phase: ha.PhaseStart, Notification: &n}
	if to == ha.StatusRunning {
		return []ha.Event{start}
	}
	ran := n
	ran.Status = ha.StatusRunning
	last := ha.Event{Action: ha.ActionProcess, Notification: &ran}
	switch {
	case to == ha.StatusIgnored && n.Type == ha.TypeVM && leftInState.MatchString(message):
		last.Phase, last.Err = ha.PhaseError, errors.New(message)
	case to == ha.StatusFinished || to == ha.StatusIgnored:
		last.Phase = ha.PhaseEnd
	case to == ha.StatusError || n.Status == ha.StatusRunning:
		last.Phase, last.Err = ha.PhaseError, errors.New(message)
	default:
		return nil
	}
	if n.Status == ha.StatusNew {
		return []ha.Event{start, last}
	}
	return []ha.Event{last}
}
