package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

func explainRecovery(conn *connection) *cobra.Command {
	return &cobra.Command{
		Use: "explain NOTIFICATION", Args: cobra.ExactArgs(1), Short: "What was decided, on which numbers, and what ends its wait",
		Long: `Tells a recovery in order: what was reported, each gate with its question, its numbers and its answer, the proof and what was
seen for it, what was changed in Nova, what became of each instance and why, who gave which order. It begins with what it waits for
now, and who or what ends that. All of it is read from salvor's rows: nothing is asked anew.`,
		Example: `  salvor recovery explain cmp-01
  salvor recovery explain NOTIFICATION -o json`,
		ValidArgsFunction: conn.completeNames(notificationNames, 1),
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			id, err := notificationOf(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			r, err := api.Recovery(cmd.Context(), id)
			if err != nil {
				return err
			}
			n, host, err := about(cmd.Context(), api, id)
			if err != nil {
				return err
			}
			var moves []wire.VMove
			if n.Type == string(ha.TypeComputeHost) {
				_, err := api.EachVMove(cmd.Context(), id, client.Query{Filters: url.Values{}}, func(page []wire.VMove) error {
					moves = append(moves, page...)
					return nil
				})
				if err != nil {
					return err
				}
			}
			slices.Reverse(moves) // in the order in which they were chosen
			s := storyOf(r, n, host, moves)
			if !ended(r) && noEngine(cmd.Context(), api) {
				s.Now = s.Now.withoutEngine()
			}
			return conn.print(cmd, s, s.text)
		}),
	}
}

// story is a recovery told in order.
type story struct {
	NotificationUUID string       `json:"notification_uuid"`
	Status           string       `json:"status"`
	Message          *string      `json:"message"`
	Now              waiting      `json:"now"`
	Reported         string       `json:"reported"`
	Gates            []told       `json:"gates"`
	Proof            *wire.Proof  `json:"proof"`
	Seen             []told       `json:"seen"`    // what the proof and other notes rest on
	Changed          []told       `json:"changed"` // orders to Nova and to power controllers that concern the host, or the instance that was reported, with their ends
	Instances        []wire.VMove `json:"instances"`
	Remarks          []told       `json:"remarks"` // on instances that are not moved, and others
	Alarms           []told       `json:"alarms"`
	Orders           []told       `json:"orders"` // operators'

	ordered string // the title of Changed
	host    string // whose recovery has ended: what is left of it in Nova is no part of this story
}

// waiting is what a recovery waits for.
type waiting struct {
	For  *string  `json:"for"`  // null: for nothing
	Ends []string `json:"ends"` // who or what can end it; commands as they are typed
}

// told is one line of the history.
type told struct {
	At       wire.Timestamp `json:"at"`
	Gate     string         `json:"gate,omitempty"`
	Question string         `json:"question,omitempty"`
	Instance *string        `json:"instance_uuid,omitempty"`
	Text     string         `json:"text"`
	Open     bool           `json:"open,omitempty"`
}

// questions are those of the gates (recovery section 2).
var questions = map[ha.Gate]string{
	ha.GateSegment:   "may this segment be recovered now?",
	ha.GateNova:      "do Nova's API, a scheduler and a conductor answer?",
	ha.GateBrake:     "are so many hosts down that it is rather a network failure?",
	ha.GateRate:      "have too many recoveries begun in the last minute?",
	ha.GateProof:     "is the host certainly dead?",
	ha.GateHeard:     "is a host that an operator calls off silent for Nova, too?",
	ha.GateHeartbeat: "is the host silent while its instances are moved?",
	ha.GateOperator:  "does no operator hold it?",
}

func storyOf(r wire.Recovery, n wire.Notification, host string, moves []wire.VMove) story {
	s := story{NotificationUUID: r.NotificationUUID, Status: r.Status, Message: r.Message, Instances: moves, Now: waitingFor(r, n, host, moves), ordered: "ORDERED FOR THE HOST"}
	if n.Type == string(ha.TypeVM) {
		s.ordered = "ORDERED FOR THE INSTANCE"
	}
	if n.Type == string(ha.TypeComputeHost) && ended(r) {
		s.host = host
	}
	s.Reported = fmt.Sprintf("%s %s of %s", n.Type, n.Payload[ha.KeyEvent], host)
	for _, key := range []string{ha.KeyHostStatus, "cluster_status", "process_name", "instance_uuid", "vir_domain_event", ha.KeyConfirmedBy} {
		if v := n.Payload[key]; v != "" {
			s.Reported += fmt.Sprintf(", %s %s", key, v)
		}
	}
	if r.Unit != nil {
		s.Proof = r.Unit.Proof
	}
	for _, e := range r.Timeline {
		line := told{At: e.At, Instance: e.InstanceUUID, Text: e.Text, Open: e.Open}
		switch ha.EntryKind(e.Kind) {
		case ha.EntryGate:
			if e.Task != nil {
				line.Gate, line.Question = *e.Task, questions[ha.Gate(*e.Task)]
			}
			s.Gates = append(s.Gates, line)
		case ha.EntryIntent, ha.EntryOutcome:
			if e.InstanceUUID == nil || n.Type != string(ha.TypeComputeHost) {
				s.Changed = append(s.Changed, line)
			}
		case ha.EntryNote:
			if e.InstanceUUID == nil {
				s.Seen = append(s.Seen, line)
			} else {
				s.Remarks = append(s.Remarks, line)
			}
		case ha.EntryAlarm:
			s.Alarms = append(s.Alarms, line)
		case ha.EntryOperator:
			s.Orders = append(s.Orders, line)
		}
	}
	return s
}

// everythingPaused begins the reason of a recovery that waits for the end of a pause of everything, not of its segment's (internal/plan).
const everythingPaused = "all recoveries are paused"

// withoutEngine says that an engine must come first.
func (w waiting) withoutEngine() waiting {
	why := "an engine: none is running"
	if w.For != nil {
		why += "; then for " + *w.For
	}
	return waiting{For: &why, Ends: append([]string{"nothing goes on before somebody starts one: salvor engine, or salvor serve"}, w.Ends...)}
}

// noEngine reports whether no engine lives. Where that cannot be asked, or may not, it is not said.
func noEngine(ctx context.Context, api *client.Client) bool {
	engines, err := api.Engines(ctx)
	return err == nil && !slices.ContainsFunc(engines, func(e wire.Engine) bool { return e.State == "alive" })
}

// warnWithoutEngine tells of what is not done with that nothing goes on.
func warnWithoutEngine(cmd *cobra.Command, api *client.Client) {
	if noEngine(cmd.Context(), api) {
		fmt.Fprintln(cmd.ErrOrStderr(), "no engine is running: nothing goes on before somebody starts one: salvor engine, or salvor serve")
	}
}

func stillOpen(m wire.VMove) bool {
	return m.Status == string(ha.MovePending) || m.Status == string(ha.MoveOngoing)
}

// unlockRefused is in the message of a move whose instance is still locked by salvor (internal/plan).
const unlockRefused = "Nova refuses to unlock it"

// waitingFor says what a recovery waits for and what ends that, as the command that is typed where it is an operator.
func waitingFor(r wire.Recovery, n wire.Notification, host string, moves []wire.VMove) waiting {
	id := r.NotificationUUID
	release := "salvor recovery release " + id + " --reason WHY"
	retry := "salvor recovery retry " + id
	wait := func(why string, ends ...string) waiting { return waiting{For: &why, Ends: ends} }
	u := r.Unit
	switch {
	case r.Status == string(ha.StatusFailed) && u == nil:
		return waiting{Ends: []string{"it has failed, and nothing is kept of a recovery that could be retried. If it is needed again, report it again: salvor notification create TYPE HOST KEY=VALUE..."}}
	case r.Status == string(ha.StatusFailed):
		return waiting{Ends: []string{"it has failed. Mend the reason, then: " + retry}}
	case ended(r):
		return waiting{Ends: []string{}}
	case u == nil:
		return wait("an engine that takes it up", "by itself, in a second, where an engine runs: salvor engine list")
	case u.Hold != nil:
		ends := []string{"an operator: salvor recovery release " + id}
		if u.Hold.Until != nil {
			ends = append(ends, "by itself at "+u.Hold.Until.Format(time.DateTime)+" UTC")
		}
		return wait(fmt.Sprintf("the end of a hold by %s: %s", u.Hold.By, u.Hold.Reason), ends...)
	case u.Held != nil:
		why := "gate " + u.Held.Gate + ": " + u.Held.Reason
		switch ha.Gate(u.Held.Gate) {
		case ha.GateSegment:
			resume := "salvor resume SEGMENT"
			if strings.HasPrefix(u.Held.Reason, everythingPaused) {
				resume = "salvor resume"
			}
			return wait(why, "by itself, when the pause ends", "an operator, for all that is paused: "+resume+" (salvor pause --list shows what is)",
				"an operator, for this one: "+release)
		case ha.GateBrake:
			return wait(why, "by itself, when fewer hosts are down", "an operator who knows that they are dead: "+release)
		case ha.GateRate:
			return wait(why, "by itself, within a minute", "an operator: "+release)
		case ha.GateProof:
			itself := "by itself, when the host has been silent for long enough, or is seen off"
			if !ha.Payload(n.Payload).Normal() { // the monitor was not sure itself
				itself = "by itself, when fencing sees the host off, once Nova does not hear it: of a report that is not sure (host_status is not NORMAL) silence is no proof"
			}
			return wait(why, itself,
				"an operator who has seen that it is off: salvor host confirm-off "+host+" --reason WHY", "an operator who wants none of it: salvor recovery cancel "+id)
		case ha.GateHeard:
			return wait(why, "by itself, when Nova has not heard the host for long enough: power it off", "an operator who knows better: "+release,
				"it was the wrong host: salvor recovery cancel "+id)
		case ha.GateHeartbeat:
			return wait(why, "by itself, when the host is silent again, or has been heard for so long that it counts as returned",
				"power it off, or let it return; a release does not end this")
		default:
			return wait(why, "by itself, when Nova answers again")
		}
	case u.NextAttempt != nil:
		return wait("the next attempt, at "+u.NextAttempt.Format(time.DateTime)+" UTC", "by itself, then", "an operator: "+retry)
	}
	open, locked, why := 0, 0, ""
	for _, m := range moves {
		if !stillOpen(m) {
			continue
		}
		if open++; m.Message == nil {
			continue
		}
		if why == "" {
			why = ", such as " + m.InstanceName + ": " + *m.Message
		}
		if strings.Contains(*m.Message, unlockRefused) {
			locked++
		}
	}
	stopped := u.CancelledBy != nil || u.HostReturned
	switch {
	case open > 0 && locked == open:
		return wait(fmt.Sprintf("the unlock of %d of %d instances%s", open, len(moves), why), "by itself, when Nova takes the unlock: it is tried on",
			"an operator, for each of them: openstack server unlock INSTANCE", "neither a cancel nor its expiry ends this: nobody would know of the lock")
	case open > 0 && stopped:
		return wait(fmt.Sprintf("what is under way in Nova, of %d of %d instances%s", open, len(moves), why), "by itself, when that has ended: nothing new is ordered")
	case open > 0:
		return wait(fmt.Sprintf("%d of %d instances%s", open, len(moves), why), "by itself, when Nova has moved them or has room for them", "an operator, for one of them: "+retry+" --move VMOVE")
	case r.Message != nil && *r.Message != "":
		return wait(*r.Message, "by itself")
	}
	return wait("the next step ("+orNone(u.Step)+")", "by itself, within seconds; if not: salvor engine list")
}

// text is the story for people.
func (s story) text() string {
	var b strings.Builder
	section := func(title string, lines []told, show func(told) string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", title)
		for i := 0; i < len(lines); {
			l, text, more, next := lines[i], show(lines[i]), "", i+1
			for ; next < len(lines) && show(lines[next]) == text && lines[next].Open == l.Open; next++ {
			}
			if l.Open {
				more = "  (no answer yet)"
			}
			if n := next - i; n > 1 { // asked again and again while it waits
				more += fmt.Sprintf("  (%d times, until %s)", n, lines[next-1].At.Format(time.DateTime))
			}
			fmt.Fprintf(&b, "  %s  %s%s\n", l.At.Format(time.DateTime), printable(text), more)
			i = next
		}
	}
	plain := func(l told) string { return l.Text }
	fmt.Fprintf(&b, "%s is %s", s.NotificationUUID, s.Status)
	if s.Message != nil && *s.Message != "" {
		fmt.Fprintf(&b, ": %s", printable(*s.Message))
	}
	b.WriteString("\n")
	if s.Now.For != nil {
		fmt.Fprintf(&b, "It waits for %s\n", printable(*s.Now.For))
	}
	for _, e := range s.Now.Ends {
		fmt.Fprintf(&b, "  ends: %s\n", printable(e))
	}
	fmt.Fprintf(&b, "\nREPORTED\n  %s\n", printable(s.Reported))
	section("GATES", s.Gates, func(l told) string { return fmt.Sprintf("%-9s  %s  %s", l.Gate, l.Question, l.Text) })
	if s.Proof != nil {
		fmt.Fprintf(&b, "\nPROOF\n  %s  %s: %s\n", s.Proof.At.Format(time.DateTime), s.Proof.Kind, printable(s.Proof.Text))
	}
	section("SEEN AND NOTED", s.Seen, plain)
	section(s.ordered, s.Changed, plain)
	if len(s.Instances) > 0 {
		b.WriteString("\nINSTANCES\n")
	}
	for _, m := range s.Instances {
		way, message := m.SourceHost, ""
		if m.DestHost != nil && *m.DestHost != "" {
			way += " to " + *m.DestHost
		}
		if m.Message != nil && *m.Message != "" {
			message = ": " + *m.Message
		}
		fmt.Fprintf(&b, "  %s\n", printable(fmt.Sprintf("%-9s  %s (%s), %s%s", m.Status, m.InstanceName, m.InstanceUUID, way, message)))
	}
	section("REMARKS ON INSTANCES", s.Remarks, func(l told) string { return *l.Instance + ": " + l.Text })
	section("ALARMS", s.Alarms, plain)
	section("ORDERS OF OPERATORS", s.Orders, plain)
	if s.host != "" {
		fmt.Fprintf(&b, "\nHow the host stands now, and what salvor still holds of it in Nova: salvor coverage --host %s\n", printable(s.host))
	}
	return b.String()
}
