package service

import (
	"context"
	"sync"
	"time"
)

// arrivalsLook is between two looks for new transfers; arrivalsSoon for arrivalsBusy after something has happened that many are to follow.
const (
	arrivalsLook = 100 * time.Millisecond
	arrivalsSoon = 20 * time.Millisecond
	arrivalsBusy = 3 * time.Second
)

// arrivals wake those who wait for orders as soon as there is a new transfer to their host: one short look for all of them, where a look for
// each at what is open for it can be made once a second only.
type arrivals struct {
	store BlobStore

	mu      sync.Mutex
	waiting map[chan struct{}]string // for which host
	stop    context.CancelFunc       // of the look; nil while nobody waits
	last    int64                    // transfer that was seen; -1: none was looked for
	busy    time.Time                // until when there are looks sooner
}

// join returns a channel that is poked when there is a new transfer to the host. leave must follow.
func (a *arrivals) join(ctx context.Context, host string) (came chan struct{}) {
	came = make(chan struct{}, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[came] = host
	if a.stop == nil {
		ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx)) // for all who wait: it ends with the last of them
		go a.look(ctx)
	}
	return came
}

func (a *arrivals) leave(came chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, came)
	if len(a.waiting) == 0 {
		a.stop()
		a.stop = nil
	}
}

// look ends with ctx. What it cannot read, those who wait find by their own looks.
func (a *arrivals) look(ctx context.Context) {
	tick := time.NewTicker(arrivalsLook)
	defer tick.Stop()
	for {
		a.mu.Lock()
		last, pause := a.last, arrivalsLook
		if time.Now().Before(a.busy) {
			pause = arrivalsSoon
		}
		a.mu.Unlock()
		if hosts, next, err := a.store.NewTransfers(ctx, last); err == nil {
			a.wake(hosts, next)
		}
		tick.Reset(pause)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// expect has the next looks made sooner: many transfers are to follow.
func (a *arrivals) expect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = time.Now().Add(arrivalsBusy)
}

func (a *arrivals) wake(hosts []string, next int64) {
	to := make(map[string]bool, len(hosts))
	for _, h := range hosts {
		to[h] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, next)
	for came, host := range a.waiting {
		if to[host] {
			select {
			case came <- struct{}{}:
			default: // it is poked already
			}
		}
	}
}
