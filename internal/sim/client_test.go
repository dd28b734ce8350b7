package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Faults, as a client of the direct face feels them.
func TestFaultKinds(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		ids := b.on("host-1", 20, InstanceSpec{})
		next := 0
		lock := func() (string, error, time.Duration) {
			id := ids[next]
			next++
			start := time.Now()
			err := b.do(ha.Act{Kind: ha.ActLock, Instance: id})
			return id, err, time.Since(start)
		}
		fault := func(f FaultRule) {
			t.Helper()
			f.Method, f.Path, f.Times = "POST", "/servers/.*/action$", 1
			b.must(b.AddFault(f))
		}
		for status, class := range map[int]ha.Class{500: ha.ClassInDoubt, 503: ha.ClassInDoubt, 504: ha.ClassInDoubt,
			429: ha.ClassBusy, 404: ha.ClassGone, 409: ha.ClassRefused, 403: ha.ClassRefused} {
			fault(FaultRule{Status: status})
			id, err, _ := lock()
			if ha.ClassOf(err) != class || ha.StatusOf(err) != status || b.server(id).Locked {
				t.Errorf("status %d: %v, locked %v", status, err, b.server(id).Locked)
			}
		}

		fault(FaultRule{Delay: 3 * time.Second})
		if id, err, took := lock(); err != nil || took != 3*time.Second || !b.server(id).Locked {
			t.Errorf("delay: %v after %v", err, took)
		}

		fault(FaultRule{Delay: time.Minute})
		if id, err, took := lock(); ha.ClassOf(err) != ha.ClassInDoubt || took != 30*time.Second || !b.server(id).Locked {
			t.Errorf("delay beyond the timeout: %v after %v", err, took)
		}

		fault(FaultRule{Drop: true})
		if id, err, took := lock(); ha.ClassOf(err) != ha.ClassInDoubt || took != 0 || !b.server(id).Locked {
			t.Errorf("drop: %v after %v", err, took)
		}

		fault(FaultRule{ActAfter: 45 * time.Second})
		id, err, took := lock()
		if ha.ClassOf(err) != ha.ClassInDoubt || took != 30*time.Second || b.server(id).Locked {
			t.Errorf("act after: %v after %v", err, took)
		}
		time.Sleep(16 * time.Second)
		if !b.server(id).Locked {
			t.Error("did not act later")
		}

		fault(FaultRule{ActAfter: 5 * time.Second})
		if id, err, took := lock(); ha.ClassOf(err) != ha.ClassInDoubt || took != 5*time.Second || !b.server(id).Locked {
			t.Errorf("act after, connection dropped then: %v after %v", err, took)
		}

		if _, err, _ := lock(); err != nil {
			t.Errorf("a fault was not over after its times: %v", err)
		}
		var kinds []string
		for _, call := range b.Calls(0) {
			if call.Fault != "" {
				kinds = append(kinds, call.Fault)
			}
		}
		if len(kinds) != 12 {
			t.Errorf("calls with faults: %v", kinds)
		}
	})
}

func TestFaultsOfReads(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		for status, class := range map[int]ha.Class{500: ha.ClassBroken, 503: ha.ClassBusy, 429: ha.ClassBusy, 401: ha.ClassRefused} {
			b.must(b.AddFault(FaultRule{Path: "os-services", Status: status, Times: 1}))
			if _, err := b.nova.Services(b.Context()); ha.ClassOf(err) != class {
				t.Errorf("%d: %v", status, err)
			}
		}
		b.must(b.AddFault(FaultRule{Path: "os-services", Drop: true, Times: 1}))
		if _, err := b.nova.Services(b.Context()); ha.ClassOf(err) != ha.ClassBroken {
			t.Error(err)
		}
	})
}

// A fault hits only what all of its fields match, as often as it says, and until it is cleared.
func TestFaultsMatch(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		on1, on2 := b.on("host-1", 1, InstanceSpec{})[0], b.on("host-2", 2, InstanceSpec{})
		lock := func(id string) int { return ha.StatusOf(b.do(ha.Act{Kind: ha.ActLock, Instance: id})) }

		b.must(b.AddFault(FaultRule{Method: "post", Path: "/action", Host: "host-2", Times: 2, Status: 500}))
		if got := []int{lock(on1), lock(on2[0]), lock(on2[1]), lock(on2[0])}; got[0] != 0 || got[1] != 500 || got[2] != 500 || got[3] != 0 {
			t.Errorf("by host, twice: %v", got)
		}
		b.must(b.AddFault(FaultRule{Instance: on2[1], Status: 503}))
		if got := []int{lock(on2[0]), lock(on2[1]), lock(on2[1])}; got[0] != 0 || got[1] != 503 || got[2] != 503 {
			t.Errorf("by instance, without end: %v", got)
		}
		b.ClearFaults()
		if lock(on2[1]) != 0 {
			t.Error("not cleared")
		}
		b.must(b.AddFault(FaultRule{Action: "evacuate", Status: 500}))
		if lock(on1) != 0 || ha.StatusOf(b.evacuate(on1, "")) != 500 {
			t.Error("by action")
		}
		b.ClearFaults()
		b.must(b.AddFault(FaultRule{Path: `servers/detail\?.*host=host-1`, Status: 500}))
		if _, err := b.nova.Servers(b.Context(), "host-2"); err != nil {
			t.Error(err)
		}
		if _, err := b.nova.Servers(b.Context(), "host-1"); ha.StatusOf(err) != 500 {
			t.Error(err)
		}
		for _, bad := range []FaultRule{{}, {Status: 500, Drop: true}, {Status: 200}, {Path: "(", Drop: true}, {Drop: true, Times: -1}} {
			if b.AddFault(bad) == nil {
				t.Errorf("taken: %+v", bad)
			}
		}
	})
}

func TestNotSent(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		calls := len(b.Calls(0))
		ended, cancel := context.WithCancel(b.Context())
		cancel()
		_, err := b.nova.Do(ended, ha.Act{Kind: ha.ActEvacuate, Instance: id})
		if ha.ClassOf(err) != ha.ClassNotSent {
			t.Errorf("context ended: %v", err)
		}
		out, err := b.nova.Do(b.Context(), ha.Act{Kind: ha.ActEvacuate, Instance: id, SendBy: time.Now().Add(-time.Millisecond)})
		if ha.ClassOf(err) != ha.ClassNotSent || !errors.Is(err, out.Err) || out.Act.Instance != id || out.At.IsZero() {
			t.Errorf("past SendBy: %+v %v", out, err)
		}
		_, err = b.nova.Server(ended, id)
		if ha.ClassOf(err) != ha.ClassBroken {
			t.Errorf("a read: %v", err)
		}
		if n := len(b.Calls(0)); n != calls || b.instance(id).Evacuations != 0 {
			t.Errorf("%d calls reached Nova", n-calls)
		}
		_, err = b.nova.Do(b.Context(), ha.Act{Kind: ha.ActEvacuate, Instance: id, SendBy: time.Now().Add(time.Second)})
		b.must(err)
	})
}

// A call whose context ends on the way acts all the same.
func TestContextEndsOnTheWay(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		nova := b.Nova(ClientOptions{MinLatency: time.Second, MaxLatency: time.Second})
		ctx, cancel := context.WithTimeout(b.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := nova.Do(ctx, ha.Act{Kind: ha.ActEvacuate, Instance: id})
		if ha.ClassOf(err) != ha.ClassInDoubt {
			t.Error(err)
		}
		if n := b.instance(id).Evacuations; n != 0 {
			t.Errorf("arrived too early: %d", n)
		}
		time.Sleep(time.Second)
		if n := b.instance(id).Evacuations; n != 1 {
			t.Errorf("sent, but %d orders", n)
		}
	})
}

func TestFreeze(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.on("host-1", 1, InstanceSpec{})[0]
		nova := b.Nova(ClientOptions{MinLatency: time.Second, MaxLatency: time.Second})
		lock := func(ctx context.Context, done chan<- error) {
			_, err := nova.Do(ctx, ha.Act{Kind: ha.ActLock, Instance: id})
			done <- err
		}
		sent, waiting, expired := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go lock(b.Context(), sent)
		time.Sleep(100 * time.Millisecond)
		nova.Freeze()
		time.Sleep(10 * time.Second)
		if !b.instance(id).Locked {
			t.Error("a call that was sent did not act")
		}
		select {
		case err := <-sent:
			t.Errorf("a frozen client saw an answer: %v", err)
		default:
		}

		b.must(b.do(ha.Act{Kind: ha.ActUnlock, Instance: id}))
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
		defer cancel()
		go lock(b.Context(), waiting)
		go lock(ctx, expired)
		time.Sleep(10 * time.Second)
		if b.instance(id).Locked {
			t.Error("a frozen client sent a call")
		}
		if err := <-expired; ha.ClassOf(err) != ha.ClassNotSent {
			t.Errorf("its context ended while frozen: %v", err)
		}
		nova.Thaw()
		if err := <-sent; err != nil {
			t.Error(err)
		}
		if err := <-waiting; err != nil || !b.instance(id).Locked {
			t.Errorf("after the thaw: %v", err)
		}
	})
}

func TestPartition(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.on("host-1", 1, InstanceSpec{})[0]
		cut, other := b.Nova(ClientOptions{Name: "cut", MinLatency: time.Second, MaxLatency: time.Second}), b.nova
		cut.Partition()
		start := time.Now()
		_, err := cut.Do(b.Context(), ha.Act{Kind: ha.ActLock, Instance: id})
		if ha.ClassOf(err) != ha.ClassInDoubt || time.Since(start) != 30*time.Second || b.instance(id).Locked {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, err := cut.Services(b.Context()); ha.ClassOf(err) != ha.ClassBroken {
			t.Error(err)
		}
		if _, err := other.Services(b.Context()); err != nil {
			t.Errorf("the other client is cut off too: %v", err)
		}
		cut.Heal()
		lost := make(chan error, 1)
		go func() {
			_, err := cut.Do(b.Context(), ha.Act{Kind: ha.ActLock, Instance: id})
			lost <- err
		}()
		time.Sleep(100 * time.Millisecond)
		cut.Partition()
		if err := <-lost; ha.ClassOf(err) != ha.ClassInDoubt || !b.instance(id).Locked {
			t.Errorf("sent before the partition: %v", err)
		}
	})
}

func TestClosedCloud(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		b.Close()
		if _, err := b.nova.Services(b.Context()); ha.ClassOf(err) != ha.ClassBroken {
			t.Error(err)
		}
		err := b.do(ha.Act{Kind: ha.ActLock, Instance: "x"})
		var ce *ha.CloudError
		if !errors.As(err, &ce) || ce.Class != ha.ClassNotSent || ce.Op != "POST servers/x/action lock" {
			t.Error(err)
		}
	})
}
