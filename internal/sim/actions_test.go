package sim

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func TestStopAndStart(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.on("host-1", 1, InstanceSpec{})[0]
		stop, start := ha.Act{Kind: ha.ActStop, Instance: id}, ha.Act{Kind: ha.ActStart, Instance: id}
		if err := b.do(start); ha.StatusOf(err) != 409 || ha.TextOf(err) != "Cannot 'start' instance "+id+" while it is in vm_state active" {
			t.Error(err)
		}
		b.must(b.do(stop))
		if s := b.server(id); s.TaskState != "powering-off" || s.VMState != ha.VMActive {
			t.Errorf("%+v", s)
		}
		if err := b.do(stop); ha.StatusOf(err) != 409 || ha.TextOf(err) != "Cannot 'stop' instance "+id+" while it is in task_state powering-off" {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if s := b.server(id); s.VMState != ha.VMStopped || s.TaskState != "" || s.Running {
			t.Errorf("%+v", s)
		}
		b.must(b.do(start))
		time.Sleep(time.Second)
		if s := b.server(id); s.VMState != ha.VMActive || !s.Running {
			t.Errorf("%+v", s)
		}
		acts, err := b.nova.Actions(b.Context(), id)
		b.must(err)
		if len(acts) != 2 || acts[0].Action != "start" || acts[1].Action != "stop" || acts[1].UserID != UserMasakari {
			t.Errorf("%+v", acts)
		}
	})
}

// "os-resetState … 202; sets vm_state and clears task_state"; a server in error can be stopped, as salvor does to give an
// errored one its state back.
func TestResetStopReset(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.on("host-1", 1, InstanceSpec{VMState: ha.VMError})[0]
		b.must(b.do(ha.Act{Kind: ha.ActStop, Instance: id}))
		time.Sleep(time.Second)
		b.must(b.do(ha.Act{Kind: ha.ActResetState, Instance: id, State: "error"}))
		if s := b.server(id); s.VMState != ha.VMError || s.Running {
			t.Errorf("%+v", s)
		}
		if err := b.do(ha.Act{Kind: ha.ActResetState, Instance: id, State: "stopped"}); ha.StatusOf(err) != 400 {
			t.Error(err)
		}
	})
}

func TestLock(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.on("host-1", 1, InstanceSpec{})[0]
		for range 2 {
			b.must(b.do(ha.Act{Kind: ha.ActLock, Instance: id, Reason: "salvor: host-1 failed"}))
		}
		if ins := b.instance(id); !ins.Locked || ins.LockedReason != "salvor: host-1 failed" {
			t.Errorf("%+v", ins)
		}
		demo := b.Nova(ClientOptions{Caller: Caller{UserID: UserDemo, ProjectID: ProjectDemo}})
		_, err := demo.Do(b.Context(), ha.Act{Kind: ha.ActStop, Instance: id})
		if ha.StatusOf(err) != 409 || ha.TextOf(err) != "Instance "+id+" is locked" {
			t.Error(err)
		}
		b.must(b.do(ha.Act{Kind: ha.ActStop, Instance: id})) // an admin's lock does not stop an admin
		for range 2 {
			b.must(b.do(ha.Act{Kind: ha.ActUnlock, Instance: id}))
		}
		if b.server(id).Locked {
			t.Error("still locked")
		}
	})
}

func TestLiveMigration(t *testing.T) {
	live := func(b bed) string {
		id := b.on("host-1", 1, InstanceSpec{})[0]
		b.must(b.Act(Masakari(), id, ServerAction{Name: "os-migrateLive", Host: "host-2"}))
		if ins := b.instance(id); ins.Status != "MIGRATING" || ins.TaskState != ha.TaskStateMigrating {
			b.Fatalf("%+v", ins)
		}
		return id
	}
	t.Run("arrives", func(t *testing.T) {
		inBubble(t, Options{}, func(b bed) {
			id := live(b)
			time.Sleep(6 * time.Second)
			ins := b.instance(id)
			if ins.Host != "host-2" || ins.TaskState != "" || len(ins.Running) != 1 || ins.Running[0] != "host-2" {
				t.Errorf("%+v", ins)
			}
			ms, err := b.nova.Migrations(b.Context(), "host-1")
			b.must(err)
			if ms[0].Type != ha.MigrationLiveMigration || ms[0].Status != "completed" || ms[0].Dest != "host-2" {
				t.Errorf("%+v", ms[0])
			}
		})
	})
	t.Run("source dies before it went over", func(t *testing.T) {
		inBubble(t, Options{}, func(b bed) {
			id := live(b)
			time.Sleep(time.Second)
			b.die("host-1")
			time.Sleep(time.Hour)
			ms, err := b.nova.Migrations(b.Context(), "host-1")
			b.must(err)
			if ins := b.instance(id); ins.TaskState != ha.TaskStateMigrating || len(ins.Running) != 0 || ms[0].Status != "running" {
				t.Errorf("%+v %+v", ins, ms[0])
			}
		})
	})
	t.Run("source dies when it has gone over", func(t *testing.T) {
		inBubble(t, Options{}, func(b bed) {
			id := live(b)
			for on := b.instance(id).Running; on[0] != "host-2"; on = b.instance(id).Running {
				time.Sleep(10 * time.Millisecond)
			}
			b.die("host-1")
			time.Sleep(time.Hour)
			ins := b.instance(id)
			if ins.TaskState != ha.TaskStateMigrating || ins.Host != "host-1" || len(ins.Running) != 1 {
				t.Errorf("may run on host-2, and does: %+v", ins)
			}
		})
	})
	t.Run("destination dies", func(t *testing.T) {
		inBubble(t, Options{}, func(b bed) {
			id := live(b)
			time.Sleep(time.Second)
			b.must(b.Kill("host-2"))
			time.Sleep(6 * time.Second)
			ms, err := b.nova.Migrations(b.Context(), "host-1")
			b.must(err)
			if ins := b.instance(id); ins.Host != "host-1" || ins.TaskState != "" || ms[0].Status != "error" {
				t.Errorf("%+v %+v", ins, ms[0])
			}
		})
	})
}

func TestOtherActions(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		for _, pair := range [][3]string{{"pause", "unpause", ha.VMPaused}, {"suspend", "resume", ha.VMSuspended}, {"rescue", "unrescue", ha.VMRescued}} {
			id := b.on("host-1", 1, InstanceSpec{})[0]
			b.must(b.Act(Masakari(), id, ServerAction{Name: pair[0]}))
			if s := b.server(id); s.VMState != pair[2] {
				t.Errorf("%s: %+v", pair[0], s)
			}
			b.must(b.Act(Masakari(), id, ServerAction{Name: pair[1]}))
			if s := b.server(id); s.VMState != ha.VMActive || !s.Running {
				t.Errorf("%s: %+v", pair[1], s)
			}
		}
		id := b.on("host-1", 1, InstanceSpec{})[0]
		b.must(b.Act(Masakari(), id, ServerAction{Name: "shelve"}))
		b.must(b.Act(Masakari(), id, ServerAction{Name: "shelveOffload"}))
		if s := b.server(id); s.Host != "" || s.VMState != ha.VMShelvedOffloaded {
			t.Errorf("%+v", s)
		}
		if err := b.Act(Masakari(), id, ServerAction{Name: "os-stop"}); err == nil {
			t.Error("stopped what is on no host")
		}
	})
}
