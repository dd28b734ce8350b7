package sim

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

var (
	errTimeout = errors.New("no answer within the timeout")
	errDropped = errors.New("connection closed without an answer")
	errGone    = errors.New("connection refused")
)

// exchange is one call on its way through the cloud. The cloud's lock guards it.
type exchange struct {
	arrived bool
	late    time.Duration // answers that much after arrival
	lost    bool          // answers nothing, and drops the connection after late
	err     error
	n       int64
	sent    *sending // of an evacuate order
}

// handler carries a request out, holding the cloud, and may say that the answer is late.
type handler func() (late time.Duration, err error)

// call sends a request and waits for its answer. changes says whether it changes something, which decides how a failure
// is classed; sendBy is the last moment at which it may leave, zero for none.
func (n *Nova) call(ctx context.Context, op string, r Request, changes bool, sendBy time.Time, do handler) error {
	r.Client = n.o.Name
	if err := n.ready(ctx, sendBy); err != nil {
		class := ha.ClassBroken
		if changes {
			class = ha.ClassNotSent
		}
		return &ha.CloudError{Class: class, Op: op, Text: err.Error()}
	}
	deadline := time.Now().Add(n.o.Timeout)
	err := n.exchange(ctx, deadline, r, do)
	// A frozen process does not see the answer, whatever it was.
	if frozen := n.awaitThaw(ctx); frozen != nil {
		err = frozen
	}
	return classify(op, changes, err)
}

// ready is the last look before a request leaves.
func (n *Nova) ready(ctx context.Context, sendBy time.Time) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := n.awaitThaw(ctx); err != nil {
		return err
	}
	if !sendBy.IsZero() && time.Now().After(sendBy) {
		return errors.New("the moment until which the order could be sent has passed")
	}
	return nil
}

func (n *Nova) exchange(ctx context.Context, deadline time.Time, r Request, do handler) error {
	if n.isCut() {
		return n.silence(ctx, deadline)
	}
	there, back := n.latency(r)
	x := n.c.send(r, there, do)
	if x == nil {
		return errGone
	}
	if err := waitUntil(ctx, deadline, there+back); err != nil {
		return err
	}
	late, lost, err := n.c.look(x)
	if late > 0 {
		if err := waitUntil(ctx, deadline, late); err != nil {
			return err
		}
	}
	switch {
	case n.isCut():
		return n.silence(ctx, deadline)
	case lost:
		return errDropped
	}
	return err
}

// silence waits for an answer that cannot come.
func (n *Nova) silence(ctx context.Context, deadline time.Time) error {
	return waitUntil(ctx, deadline, n.o.Timeout+time.Second)
}

// waitUntil waits for d, but not beyond the deadline.
func waitUntil(ctx context.Context, deadline time.Time, d time.Duration) error {
	left := time.Until(deadline)
	if d <= left {
		return sleep(ctx, d)
	}
	if err := sleep(ctx, left); err != nil {
		return err
	}
	return errTimeout
}

// send lets a request arrive after the way there, whatever becomes of its sender. nil: the cloud is closed.
func (c *Cloud) send(r Request, there time.Duration, do handler) *exchange {
	c.lock()
	defer c.unlock()
	if c.closed {
		return nil
	}
	x := &exchange{}
	if r.Action == "evacuate" {
		x.sent = c.leaves(r.Instance)
	}
	if there <= 0 {
		c.arriveAt(x, r, do)
	} else {
		c.after(there, func() { c.arriveAt(x, r, do) })
	}
	return x
}

func (c *Cloud) arriveAt(x *exchange, r Request, do handler) {
	x.arrived = true
	var fault *FaultRule
	x.n, fault = c.receive(r)
	act := func() (late time.Duration) {
		c.carries = x.sent
		late, x.err = do()
		c.carries = nil
		x.sent.ends()
		return late
	}
	carryOut := func() {
		x.late += act()
		c.answered(x.n, statusOfAnswer(x.err))
	}
	switch {
	case fault == nil:
		carryOut()
	case fault.Status != 0:
		x.sent.ends()
		x.err = &Refusal{Status: fault.Status, Name: "computeFault", Text: "Simulated fault"}
		c.answered(x.n, fault.Status)
	case fault.Delay > 0:
		carryOut()
		x.late += fault.Delay
	case fault.ActAfter > 0:
		x.lost, x.late = true, fault.ActAfter
		c.after(fault.ActAfter, func() { act() })
	default:
		carryOut()
		x.lost, x.late = true, 0
		c.answered(x.n, 0)
	}
}

// look reads how an exchange stands after its latency.
func (c *Cloud) look(x *exchange) (late time.Duration, lost bool, err error) {
	c.lock()
	defer c.unlock()
	if !x.arrived { // the cloud was closed on the way
		return 0, true, nil
	}
	return x.late, x.lost, x.err
}

func statusOfAnswer(err error) int {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Status
	}
	return http.StatusOK
}

// classify sorts a failure as RECOVERY section 5 does.
func classify(op string, changes bool, err error) error {
	if err == nil {
		return nil
	}
	uncertain := ha.ClassBroken
	if changes {
		uncertain = ha.ClassInDoubt
	}
	if changes && errors.Is(err, errGone) {
		uncertain = ha.ClassNotSent // nobody was there to take it
	}
	var r *Refusal
	if !errors.As(err, &r) {
		return &ha.CloudError{Class: uncertain, Op: op, Text: err.Error()}
	}
	class := uncertain
	switch {
	case r.Status == http.StatusNotFound:
		class = ha.ClassGone
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable && !changes:
		class = ha.ClassBusy
	case r.Status < 500:
		class = ha.ClassRefused
	}
	return &ha.CloudError{Class: class, Op: op, Status: r.Status, Text: r.Text}
}
