package copies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// TestWhoseTurnItIs: copies arrive in the order in which they were ordered, but one slot takes the largest; one who gives up keeps nobody waiting.
func TestWhoseTurnItIs(t *testing.T) {
	l := newLine(3)
	var all []*turn
	for _, size := range []int64{1, 2, 3, 4, 9, 5, 9, 6} {
		all = append(all, l.join(size))
	}
	began := map[int]bool{}
	next := func() (who []int) {
		for i, t := range all {
			if t.come == nil || began[i] {
				continue
			}
			select {
			case <-t.come:
				began[i] = true
				who = append(who, i)
			default:
			}
		}
		return who
	}
	for _, step := range []struct {
		leaves int
		begin  string
	}{{-1, "[0 1 2]"}, {0, "[3]"}, {2, "[4]"}, {4, "[6]"}, {5, "[]"}, {1, "[7]"}, {1, "[]"}, {6, "[]"}, {7, "[]"}} {
		if step.leaves >= 0 {
			l.leave(all[step.leaves])
		}
		if got := fmt.Sprint(next()); got != step.begin {
			t.Fatalf("when %d leaves %s begin, want %s", step.leaves, got, step.begin)
		}
	}
	ended, end := context.WithCancelCause(t.Context())
	busy := []*turn{l.join(1), l.join(1), l.join(1)} // one slot is taken still
	end(errCancelled)
	if err := busy[2].await(ended); !errors.Is(err, errCancelled) {
		t.Errorf("who gives up is told %v", err)
	}
	l.leave(busy[2])
	l.leave(all[3])
	if l.first+l.largest != 1 || len(l.waiting) != 0 {
		t.Errorf("%d slots are free and %d wait, want one and nobody", l.first+l.largest, len(l.waiting))
	}
	if only := newLine(1); only.first != 1 || only.largest != 0 {
		t.Error("the only slot is not for whoever came first")
	}
}

// TestOrdersFromBeforeTheStart: what was ordered before the work begins is begun in the order in which it came.
func TestOrdersFromBeforeTheStart(t *testing.T) {
	const n = 20
	content := []byte("what all of them hold")
	asked := make(chan string, n)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		_, _ = w.Write(content)
	}))
	defer source.Close()
	c := New(Config{Dir: t.TempDir(), Parallel: 1, Interval: time.Hour, Pass: time.Hour, Patience: time.Minute, Stall: time.Minute, Log: slog.New(slog.DiscardHandler),
		Changed: func() {}, Ready: func() error { return nil }, Key: func() ([]byte, string) { return nil, "" }})
	var orders []wire.AgentOrder
	for i := range n {
		orders = append(orders, order(fmt.Sprint("t", i), fmt.Sprintf("%02x000000-0000-4000-8000-000000000001", i), content, wire.AgentSource{Host: there, URL: source.URL}))
	}
	c.SetOrders(orders)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { c.Run(ctx); close(ran) }()
	defer func() { stop(); <-ran }()
	for i, o := range orders {
		select {
		case path := <-asked:
			if path != "/blobs/"+o.Blob {
				t.Fatalf("%s is asked for at place %d", path, i)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("only %d were asked for", i)
		}
	}
}
