package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/salvor-ha/salvor/internal/agent/copies"
	"github.com/salvor-ha/salvor/internal/wire"
)

const (
	reportLimit = 30 * time.Second // of one report
	firstPause  = time.Second      // after a report that failed; then twice as long each time
	lastPause   = 30 * time.Second
	gather      = 50 * time.Millisecond // changes that come together are told together
	// gatherBusy times that while more orders are being carried out: their ends will follow, and each report costs the API its writes. What an agent
	// that is busy so says, of its disks too, is up to a second late.
	gatherBusy = 20
	ordersWait = 20 * time.Second // of a long poll
	noRoute    = time.Minute      // an API of an older version knows no orders
)

// jittered is d, a little shorter or longer: not all agents come at once.
func jittered(d time.Duration) time.Duration {
	return d - d/8 + rand.N(d/4+1)
}

// reports tells the API on change and each period, until ctx ends. While the API is away it asks less and less often, and loses nothing: what
// is to be told is as it then stands.
func (a *Agent) reports(ctx context.Context) {
	pause := time.Duration(0)
	for {
		a.beat.Store(time.Now().Unix())
		more, err := a.report(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = min(max(2*pause, firstPause), lastPause)
			if a.rest(ctx, jittered(pause), false) {
				return
			}
		case more:
			pause = 0
		default:
			pause = 0
			period := jittered(a.cfg.Report)
			if a.moving.Load() {
				period = min(period, copies.Progress)
			}
			if a.rest(ctx, period, true) {
				return
			}
		}
	}
}

// rest waits, when it may be woken at most until something has changed. It reports that the agent stops.
func (a *Agent) rest(ctx context.Context, d time.Duration, wake bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	changes := a.wake
	if !wake {
		changes = nil
	}
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	case <-changes:
	}
	step, most := gather, gatherBusy
	if a.moving.Load() { // the end of the last copy under way has nothing to wait for
		step, most = gather/5, 5*gatherBusy
	}
	soon := time.NewTicker(step)
	defer soon.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return true
		case <-soon.C:
		}
		if n == most || a.copies == nil || !a.copies.Busy() {
			return false
		}
	}
}

// report sends one report and takes its answer over. more: another one should follow at once.
func (a *Agent) report(ctx context.Context) (more bool, err error) {
	select {
	case <-a.wake: // what it was about is in this report
	default:
	}
	a.seq++
	r := a.say()
	var batch copies.Batch
	if a.copies != nil {
		batch = a.copies.Batch(a.most)
		r.Copies, r.Transfers = batch.Copies, batch.Transfers
	}
	a.moving.Store(batch.Moving)
	limited, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	answer, err := a.cfg.API.AgentReport(limited, a.cfg.Host, r)
	a.note(answer, err)
	if err != nil {
		var fault *wire.Fault
		if errors.As(err, &fault) && fault.Status == http.StatusRequestEntityTooLarge {
			a.most = max(1, a.most/2)
		}
		return false, err
	}
	if a.copies != nil {
		a.copies.Accepted(batch)
		a.take(wire.OrdersBody{Orders: answer.Orders, Version: answer.Version})
	}
	return batch.More, nil
}

// say is the report of the host's storage.
func (a *Agent) say() wire.AgentReport {
	verdicts := a.watch.Verdicts()
	r := wire.AgentReport{Epoch: a.keep.Epoch, Seq: a.seq, URL: a.cfg.URL, Domain: a.cfg.Domain, Resources: []wire.AgentResource{}}
	for _, d := range a.cfg.Resources {
		v := verdicts[d.Name]
		if d.Name == a.store {
			r.TotalBytes, r.FreeBytes = v.Total, v.Free
		}
		if !v.Told() {
			continue
		}
		kinds := []string{}
		for _, k := range d.Kinds {
			kinds = append(kinds, string(k))
		}
		r.Resources = append(r.Resources, wire.AgentResource{Name: d.Name, Path: d.Path, Kinds: kinds, Status: string(v.Status), Detail: copies.Plain(v.Detail),
			FilesystemID: v.Filesystem, CheckedAt: wire.Timestamp{Time: v.CheckedAt}})
	}
	return r
}

// note keeps how the report went, for the health check, and says changes to the log.
func (a *Agent) note(answer wire.AgentAnswer, err error) {
	a.mu.Lock()
	before, health := a.trouble, a.health
	a.trouble = ""
	if err != nil {
		a.trouble = err.Error()
	} else {
		a.told, a.health = time.Now(), answer.Health
	}
	a.mu.Unlock()
	var fault *wire.Fault
	switch {
	case err == nil:
		if before != "" {
			a.cfg.Log.Info("the API takes this host's reports again")
		}
		if health != answer.Health && health != "" {
			a.cfg.Log.Warn("salvor sees this host's storage otherwise than before", "health", answer.Health, "was", health)
		}
		if err := a.keep.setHost(answer.Host, answer.TicketKey); err != nil {
			a.cfg.Log.Error("the agent's state cannot be kept, and is tried again with the next report: a restart would forget it", "error", err)
		}
	case before == err.Error():
	case errors.As(err, &fault) && fault.Status == http.StatusConflict:
		a.cfg.Log.Error("the API has reports of a later start of this host's agent: another one runs for it, or this machine's clock is behind and "+
			"its state directory was lost", "host", a.cfg.Host, "epoch", a.keep.Epoch, "error", err)
	default:
		a.cfg.Log.Error("the API does not take this host's report; the verdicts stand, and are told when it does", "host", a.cfg.Host, "error", err)
	}
}

// take takes orders over.
func (a *Agent) take(o wire.OrdersBody) {
	if o.Version == "" {
		o.Version = wire.OrdersVersion(o.Orders)
	}
	a.mu.Lock()
	a.version = o.Version
	a.mu.Unlock()
	a.copies.SetOrders(o.Orders)
}

// orders waits for orders, until ctx ends.
func (a *Agent) orders(ctx context.Context) {
	pause := time.Duration(0)
	fresh := false
	for {
		a.mu.Lock()
		version := a.version
		a.mu.Unlock()
		wait := ordersWait
		if fresh {
			version, wait = "", 0
		}
		asked := time.Now()
		o, err := a.askOrders(ctx, version, wait)
		var fault *wire.Fault
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &fault) && fault.Status == http.StatusNotFound:
			pause = noRoute
		case errors.Is(err, errStale):
			fresh, pause = true, 0
			continue
		case err != nil:
			pause = min(max(2*pause, firstPause), lastPause)
		default:
			fresh, pause = false, gather
			if o.Version == version && time.Since(asked) < firstPause {
				pause = firstPause // it does not wait, whyever
			}
			a.take(o)
		}
		if fresh {
			pause = max(pause, firstPause)
		}
		timer := time.NewTimer(jittered(pause))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// errStale ends a long poll, because a ticket was refused: newer ones are needed.
var errStale = errors.New("the tickets are to be renewed")

func (a *Agent) askOrders(ctx context.Context, version string, wait time.Duration) (wire.OrdersBody, error) {
	limited, cancel := context.WithTimeoutCause(ctx, wait+reportLimit, context.DeadlineExceeded)
	defer cancel()
	type result struct {
		o   wire.OrdersBody
		err error
	}
	answered := make(chan result, 1)
	go func() { // ends with the call, which ends with its context
		o, err := a.cfg.API.AgentOrders(limited, a.cfg.Host, version, wait)
		answered <- result{o, err}
	}()
	stale := a.stale
	if version == "" {
		stale = nil // they come with this answer
	}
	select {
	case r := <-answered:
		return r.o, r.err
	case <-stale:
		return wire.OrdersBody{}, errStale
	}
}
