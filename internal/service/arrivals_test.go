package service

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// queue is the transfers to hosts, by id from 1.
type queue struct {
	Store
	mu      sync.Mutex
	targets []string
	looks   int
}

func (q *queue) begin(host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.targets = append(q.targets, host)
}

func (q *queue) AgentOrders(_ context.Context, host string, _ time.Time) (orders []ha.AgentOrder, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range q.targets {
		if t == host {
			orders = append(orders, ha.AgentOrder{ID: fmt.Sprint(i), Kind: ha.OrderCopy})
		}
	}
	return orders, nil
}

func (q *queue) NewTransfers(_ context.Context, after int64) ([]string, int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looks++
	if last := int64(len(q.targets)); after < 0 || after >= last {
		return nil, last, nil
	}
	return q.targets[after:], int64(len(q.targets)), nil
}

// TestNewTransferIsToldAtOnce: who waits for orders hears of a new transfer long before he would look by himself, the others wait on, and
// nobody looks when nobody waits.
func TestNewTransferIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		s := New(q, nil, Config{})
		began := time.Now()
		told := make(map[string]time.Duration)
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, host := range []string{"a", "b"} {
			all.Go(func() {
				orders, err := s.WaitOrders(t.Context(), ha.Host{UUID: host}, 20*time.Second, func(o []ha.AgentOrder) bool { return len(o) > 0 })
				if err != nil || len(orders) == 0 && host == "a" {
					t.Errorf("host %s: orders %v, %v", host, orders, err)
				}
				mu.Lock()
				defer mu.Unlock()
				told[host] = time.Since(began)
			})
		}
		time.Sleep(450 * time.Millisecond)
		q.begin("a")
		all.Wait()
		if told["a"] > 450*time.Millisecond+arrivalsLook || told["b"] != 20*time.Second {
			t.Errorf("a was told after %s, b after %s; want a within %s of its transfer, b at the end of its time", told["a"], told["b"], arrivalsLook)
		}
		synctest.Wait()
		before := q.looks
		time.Sleep(time.Minute)
		if q.looks != before {
			t.Errorf("%d looks while nobody waits", q.looks-before)
		}
	})
}
