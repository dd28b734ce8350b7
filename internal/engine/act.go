package engine

import (
	"context"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// orderWithin is how soon after the commit of its intent an evacuate order must leave (RECOVERY section 2, "Never two orders").
const orderWithin = time.Second

// fenceWithin is how soon after its decision a fence must begin: while a slow database took the intent, the host may have come back.
const fenceWithin = 5 * time.Second

// send carries out acts that were decided at, and whose intents are committed. Each runs beside the loop and reports once.
func (u *unit) send(acts []ha.Act, decided time.Time) {
	by := u.wrote.Add(orderWithin) // the unit may have been loaded since
	u.e.limiter.promise(len(acts) - fences(acts))
	for _, a := range acts {
		switch a.Kind {
		case ha.ActEvacuate:
			a.SendBy = by
		case ha.ActFence:
			a.SendBy = decided.Add(fenceWithin)
		}
		if limit := u.guard.Deadline(); a.SendBy.IsZero() || limit.Before(a.SendBy) {
			a.SendBy = limit
		}
		u.flying[a.Key] = a.Kind
		u.group.Go(func() { u.done(u.carryOut(a)) })
	}
}

// fences counts the acts that are no calls to Nova.
func fences(acts []ha.Act) (n int) {
	for _, a := range acts {
		if a.Kind == ha.ActFence {
			n++
		}
	}
	return n
}

// tooLate says why an act whose SendBy has passed was not sent; it is decided anew.
const tooLate = "its time to be sent had passed"

func (u *unit) carryOut(a ha.Act) ha.Outcome {
	ctx, do := u.acts, u.do
	if a.Kind == ha.ActFence {
		do = u.fence
	}
	if span := u.e.cfg.Observe.Act; span != nil {
		var end func(ha.Class)
		ctx, end = span(ctx, a)
		out := do(ctx, a)
		end(ha.ClassOf(out.Err))
		return out
	}
	return do(ctx, a)
}

// do sends one act, at most once, under the process's limit and within the lease.
func (u *unit) do(ctx context.Context, a ha.Act) ha.Outcome {
	began := time.Now()
	fail := func(class ha.Class, text string) ha.Outcome {
		return ha.Outcome{Act: a, Err: &ha.CloudError{Class: class, Op: string(a.Kind) + " " + a.Key, Text: text}, At: u.now()}
	}
	if err := u.e.limiter.acquirePromised(ctx); err != nil {
		return fail(ha.ClassNotSent, "the lease ended before it could be sent")
	}
	if time.Now().After(a.SendBy) {
		u.e.limiter.release(ha.ClassNotSent)
		return fail(ha.ClassNotSent, tooLate)
	}
	ctx, cancel := context.WithTimeout(ctx, u.e.cfg.CallTimeout)
	out, err := u.e.cloud.Do(ctx, a)
	cancel()
	class := ha.ClassOf(err)
	u.e.limiter.release(class)
	if u.e.cfg.Observe.Acted != nil {
		u.e.cfg.Observe.Acted(a.Kind, class, time.Since(began))
	}
	out.Act, out.Err, out.At = a, err, u.now()
	return out
}

// fence powers a host off within the lease. It is no call to Nova: its methods have their own deadlines, and Nova's limit is not
// its own.
func (u *unit) fence(ctx context.Context, a ha.Act) ha.Outcome {
	began := time.Now()
	if began.After(a.SendBy) {
		return ha.Outcome{Act: a, Err: &ha.CloudError{Class: ha.ClassNotSent, Op: "fence " + a.Host, Text: tooLate}, At: u.now()}
	}
	seen, err := u.e.fencer.Fence(ctx, a.Host)
	out := ha.Outcome{Act: a, Fence: &seen}
	switch {
	case u.acts.Err() != nil && !seen.Off: // cut short: it may have been done, and says nothing of the host
		err, out.Fence = &ha.CloudError{Class: ha.ClassInDoubt, Op: "fence " + a.Host, Text: "the engine stopped, or its lease ended, before the host was seen off"}, nil
	case err != nil:
		seen.Text = err.Error()
		fallthrough
	case !seen.Off:
		err = &ha.CloudError{Class: ha.ClassRefused, Op: "fence " + a.Host, Text: seen.Text}
	}
	if u.e.cfg.Observe.Acted != nil {
		u.e.cfg.Observe.Acted(a.Kind, ha.ClassOf(err), time.Since(began))
	}
	out.Err, out.At = err, u.now()
	if at := seen.SeenOff(); !at.IsZero() { // looks by other methods may have followed: they make the proof no younger
		out.At = u.at(at)
	}
	return out
}

// done hands an outcome to the loop.
func (u *unit) done(o ha.Outcome) {
	u.mu.Lock()
	u.came = append(u.came, o)
	u.mu.Unlock()
	u.ring()
}

func (u *unit) ring() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// collect takes in what came since the last turn.
func (u *unit) collect() {
	u.mu.Lock()
	came, found := u.came, u.found
	u.came, u.found = nil, nil
	u.mu.Unlock()
	for _, o := range came {
		delete(u.flying, o.Act.Key)
		if o.Service != nil {
			u.facts.PutService(*o.Service, o.At, o.Service.Host == u.rows.Host.Name)
		}
	}
	u.ended = append(u.ended, came...)
	for _, put := range found {
		put(&u.facts)
	}
}

func (u *unit) stopActs() { u.stop() }
