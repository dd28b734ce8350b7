package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// seen is a row of "What GET /servers/{id} shows through time".
type seen struct {
	Status, VM, Task string
	Power            int
	Host, HostStatus string
}

// watch notes each change that a look shows, with its time, until the instance has settled.
func (b bed) watch(id, from string) (rows []seen, at []time.Duration) {
	b.Helper()
	start := time.Now()
	for range 5000 {
		ins := b.instance(id)
		row := seen{ins.Status, ins.VMState, ins.TaskState, ins.PowerState, ins.Host, ins.HostStatus}
		if len(rows) == 0 || rows[len(rows)-1] != row {
			rows, at = append(rows, row), append(at, time.Since(start))
		}
		if ins.TaskState == "" && (ins.Host != from || ins.VMState == ha.VMError) {
			return rows, at
		}
		time.Sleep(time.Millisecond)
	}
	b.Fatalf("not settled: %+v", rows)
	return nil, nil
}

func TestCourseOfAnActiveServer(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, Options{Seed: seed}, func(b bed) {
			id := b.on("host-1", 1, InstanceSpec{})[0]
			b.must(b.Kill("host-1"))
			b.must(b.put("host-1", new(true), nil, ""))
			if got := b.instance(id); got.HostStatus != "DOWN" || got.Status != "ACTIVE" || got.PowerState != 1 {
				t.Fatalf("before: %+v", got)
			}
			b.must(b.evacuate(id, "host-2"))
			rows, at := b.watch(id, "host-1")
			want := []seen{
				{"REBUILD", "active", "rebuilding", 1, "host-1", "DOWN"},
				{"REBUILD", "active", "rebuilding", 0, "host-1", "DOWN"},
				{"REBUILD", "active", "rebuild_block_device_mapping", 0, "host-1", "DOWN"},
				{"REBUILD", "active", "rebuild_spawning", 0, "host-1", "DOWN"},
				{"ACTIVE", "active", "", 1, "host-1", "UP"},
				{"ACTIVE", "active", "", 1, "host-2", "UP"},
			}
			if d := cmp.Diff(want, rows); d != "" {
				t.Fatal(d)
			}
			gap := at[5] - at[4]
			if gap < 45*time.Millisecond || gap > 255*time.Millisecond {
				t.Errorf("active without a task on the dead host for %v, want 50 to 250 ms", gap)
			}
			if at[5] < 600*time.Millisecond || at[5] > 1500*time.Millisecond {
				t.Errorf("took %v, observed about 0.9 s", at[5])
			}
		})
	}
}

func TestCourseOfAStoppedServer(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMStopped)
		b.must(b.evacuate(id, "host-2"))
		rows, _ := b.watch(id, "host-1")
		want := []seen{
			{"REBUILD", "stopped", "rebuilding", 4, "host-1", "DOWN"},
			{"REBUILD", "stopped", "rebuilding", 0, "host-1", "DOWN"},
			{"REBUILD", "stopped", "rebuild_block_device_mapping", 0, "host-1", "DOWN"},
			{"REBUILD", "stopped", "rebuild_spawning", 0, "host-1", "DOWN"},
			{"ACTIVE", "active", "powering-off", 1, "host-1", "UP"},
			{"SHUTOFF", "stopped", "", 4, "host-2", "UP"},
		}
		if d := cmp.Diff(want, rows); d != "" {
			t.Fatal(d)
		}
		acts, err := b.Actions(Masakari(), id)
		b.must(err)
		var events []string
		for _, e := range acts[0].Events {
			events = append(events, e.Event+" "+e.Result)
		}
		if d := cmp.Diff([]string{"rebuild_server Success", "compute_stop_instance Success", "compute_rebuild_instance Success"}, events); d != "" {
			t.Error(d)
		}
	})
}

func TestCourseOfAServerInError(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMError)
		if s := b.server(id); s.Fault == "" {
			t.Error("in error without a fault")
		}
		b.must(b.evacuate(id, ""))
		rows, _ := b.watch(id, "host-1")
		first, last := rows[0], rows[len(rows)-1]
		if first.Status != "REBUILD" || first.VM != "error" || first.Task != "rebuilding" {
			t.Errorf("first %+v", first)
		}
		if last.Status != "ACTIVE" || last.VM != "active" {
			t.Errorf("it ends active, but %+v", last)
		}
	})
}

// "a task left over on the dead host: taken with 200, goes like an active one. No reset needed."
func TestCourseWithALeftoverTask(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.Act(Masakari(), id, ServerAction{Name: "reboot"}))
		if ins := b.instance(id); ins.Status != "REBOOT" || ins.TaskState != "rebooting" {
			t.Fatalf("%+v", ins)
		}
		time.Sleep(20 * time.Second)
		if ins := b.instance(id); ins.TaskState != "rebooting" {
			t.Fatalf("a dead host carried a reboot out: %+v", ins)
		}
		b.must(b.evacuate(id, ""))
		if ins := b.settle(id, "host-1"); ins.VMState != ha.VMActive || ins.Host == "host-1" {
			t.Errorf("%+v", ins)
		}
	})
}

// "ten evacuations posted one after another … do not queue per host; the scheduler spreads them."
func TestTenAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		ids := b.on("host-1", 10, InstanceSpec{})
		b.die("host-1")
		start := time.Now()
		for _, id := range ids {
			b.must(b.evacuate(id, ""))
		}
		on := map[string]int{}
		for _, id := range ids {
			on[b.settle(id, "host-1").Host]++
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v: they queued", took)
		}
		for _, h := range []string{"host-2", "host-3", "host-4"} {
			if on[h] < 3 || on[h] > 4 {
				t.Errorf("not spread: %v", on)
			}
		}
	})
}

func TestRateBoundsTheWholeCloud(t *testing.T) {
	inBubble(t, Options{Rate: 2}, func(b bed) {
		ids := b.on("host-1", 10, InstanceSpec{})
		b.die("host-1")
		start := time.Now()
		for _, id := range ids {
			b.must(b.evacuate(id, ""))
		}
		for _, id := range ids {
			b.settle(id, "host-1")
		}
		if took := time.Since(start); took < 4500*time.Millisecond || took > 6500*time.Millisecond {
			t.Errorf("ten at two a second took %v", took)
		}
	})
}

func TestScaleMakesItFaster(t *testing.T) {
	inBubble(t, Options{Scale: 0.1}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.evacuate(id, "host-2"))
		_, at := b.watch(id, "host-1")
		if took := at[len(at)-1]; took < 60*time.Millisecond || took > 150*time.Millisecond {
			t.Errorf("took %v at a scale of 0.1", took)
		}
	})
}

// "Records of an evacuation": accepted, dest null or the target; pre-migrating; done; completed when the source is back.
func TestMigrationRecord(t *testing.T) {
	for _, target := range []string{"", "host-2"} {
		t.Run("target "+target, func(t *testing.T) {
			inBubble(t, Options{}, func(b bed) {
				id := b.one(ha.VMActive)
				b.must(b.evacuate(id, target))
				var statuses []string
				first := ha.Migration{}
				for range 3000 {
					ms, err := b.nova.Migrations(b.Context(), "host-1")
					b.must(err)
					if len(ms) != 1 || ms[0].Type != ha.MigrationEvacuation || ms[0].InstanceID != id || ms[0].Source != "host-1" {
						t.Fatalf("%+v", ms)
					}
					if first.ID == 0 {
						first = ms[0]
					}
					if !slices.Contains(statuses, ms[0].Status) {
						statuses = append(statuses, ms[0].Status)
					}
					time.Sleep(time.Millisecond)
				}
				if first.Dest != target || first.Status != "accepted" {
					t.Errorf("at first %+v", first)
				}
				if d := cmp.Diff([]string{"accepted", "pre-migrating", "done"}, statuses); d != "" {
					t.Error(d)
				}
				b.must(b.Revive("host-1"))
				time.Sleep(2 * time.Second)
				ms, err := b.nova.Migrations(b.Context(), "host-1")
				b.must(err)
				if ms[0].Status != "completed" || ms[0].Dest != b.instance(id).Host {
					t.Errorf("after the return %+v", ms[0])
				}
				acts, err := b.nova.Actions(b.Context(), id)
				b.must(err)
				if acts[0].Action != "evacuate" || acts[0].Message != "" || acts[0].UserID != UserMasakari {
					t.Errorf("%+v", acts[0])
				}
			})
		})
	}
}
