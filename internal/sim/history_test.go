package sim

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// story evacuates a host with many goroutines at once and tells what everybody saw.
func story(t *testing.T, seed uint64) (history []string) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Seed: seed, Hosts: 6, Instances: 60, Rate: 20})
		defer c.Close()
		nova := c.Nova(ClientOptions{MinLatency: 5 * time.Millisecond, MaxLatency: 40 * time.Millisecond})
		if err := c.Kill("host-1"); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		_, err := nova.Do(ctx, ha.Act{Kind: ha.ActService, ServiceID: c.Services("nova-compute", "host-1")[0].ID, ForcedDown: new(true)})
		if err != nil {
			t.Fatal(err)
		}
		list, err := nova.Servers(ctx, "host-1")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, s := range list {
			wg.Go(func() {
				nova.Do(ctx, ha.Act{Kind: ha.ActLock, Instance: s.ID})
				nova.Do(ctx, ha.Act{Kind: ha.ActEvacuate, Instance: s.ID})
			})
		}
		wg.Wait()
		time.Sleep(5 * time.Second)
		for _, call := range c.Calls(0) {
			history = append(history, fmt.Sprint(call.At, call.Method, call.Path, call.Action, call.Status))
		}
		all, _, _ := c.Instances(InstanceQuery{})
		for _, ins := range all {
			history = append(history, fmt.Sprint(ins.ID, ins.Host, ins.VMState, ins.Evacuations, ins.Running))
		}
		ms, _, _ := c.Migrations(MigrationQuery{})
		for _, m := range ms {
			history = append(history, fmt.Sprint(m))
		}
	})
	return history
}

// The same seed gives the same history, whatever the Go scheduler does between.
func TestDeterminism(t *testing.T) {
	first := story(t, 7)
	for range 5 {
		if d := cmp.Diff(first, story(t, 7)); d != "" {
			t.Fatal(d)
		}
	}
	if slices.Equal(first, story(t, 8)) {
		t.Error("another seed gives the same history")
	}
}

// 500 hosts and 25,000 instances: a cloud that only lives costs nothing, and a look at a host costs what is on it.
func TestBigCloudStaysLight(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	inBubble(t, Options{Hosts: 500, Instances: 25_000}, func(b bed) {
		runtime.GC()
		runtime.ReadMemStats(&after)
		if mb := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; mb > 40 {
			t.Errorf("%d MB", mb)
		}
		if n := runtime.NumGoroutine(); n > 20 {
			t.Errorf("%d goroutines", n)
		}
		for i := 1; i <= 50; i++ {
			b.die(fmt.Sprintf("host-%d", i))
		}
		time.Sleep(24 * time.Hour)
		moved := 0
		for i := 1; i <= 50; i++ {
			list, err := b.nova.Servers(b.Context(), fmt.Sprintf("host-%d", i))
			b.must(err)
			for _, s := range list {
				b.must(b.evacuate(s.ID, ""))
				moved++
			}
		}
		time.Sleep(5 * time.Second)
		if moved != 2500 {
			t.Fatalf("%d orders", moved)
		}
		for _, h := range b.Hosts() {
			if h.Powered == (h.Instances == 0) {
				t.Errorf("%+v", h)
			}
		}
	})
}

func TestCallLogIsBounded(t *testing.T) {
	inBubble(t, Options{CallLog: 10}, func(b bed) {
		for range 25 {
			b.service("host-1")
		}
		calls := b.Calls(0)
		if len(calls) != 10 || calls[0].N != 16 || calls[9].N != 25 || calls[9].Status != 200 {
			t.Errorf("%+v", calls)
		}
		if rest := b.Calls(23); len(rest) != 2 || rest[0].N != 24 {
			t.Errorf("%+v", rest)
		}
		if len(b.Calls(25)) != 0 {
			t.Error("calls after the last")
		}
	})
}

// Nova shows a second's precision; scaled clouds show a scaled second's.
func TestStamps(t *testing.T) {
	inBubble(t, Options{Scale: 0.1}, func(b bed) {
		time.Sleep(1234 * time.Millisecond)
		if s := b.service("host-1"); s.UpdatedAt.UnixNano()%int64(100*time.Millisecond) != 0 || time.Since(s.UpdatedAt) > 300*time.Millisecond {
			t.Errorf("%v", s.UpdatedAt)
		}
	})
}

func BenchmarkServersOfAHost(b *testing.B) {
	c := New(Options{Hosts: 500, Instances: 25_000})
	nova := c.Nova(ClientOptions{})
	for b.Loop() {
		if _, err := nova.Servers(b.Context(), "host-77"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvacuation(b *testing.B) {
	c := New(Options{Hosts: 500, Instances: 25_000, Scale: 0.000001})
	nova := c.Nova(ClientOptions{})
	list, _, _ := c.Instances(InstanceQuery{})
	for _, s := range c.Services("nova-compute", "") {
		if _, _, err := c.UpdateService(Masakari(), s.ID, ServicePatch{ForcedDown: new(true)}); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; b.Loop(); i++ {
		if _, err := nova.Do(b.Context(), ha.Act{Kind: ha.ActEvacuate, Instance: list[i%len(list)].ID}); err != nil {
			b.Fatal(err)
		}
	}
}
