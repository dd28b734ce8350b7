package sim

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// "No valid host": 200, then ERROR within 0.3 s, with the fault; can be evacuated again, and ends active.
func TestNoValidHost(t *testing.T) {
	cases := map[string]struct {
		opt    Options
		target string
		close  func(b bed)
		open   func(b bed)
	}{
		"all others disabled": {
			close: func(b bed) {
				for _, h := range []string{"host-2", "host-3", "host-4"} {
					b.must(b.put(h, nil, new(false), "test"))
				}
			},
			open: func(b bed) { b.must(b.put("host-3", nil, new(true), "")) },
		},
		"named target disabled": {target: "host-2",
			close: func(b bed) { b.must(b.put("host-2", nil, new(false), "test")) },
			open:  func(b bed) { b.must(b.put("host-2", nil, new(true), "")) },
		},
		"named target forced down": {target: "host-2",
			close: func(b bed) { b.must(b.put("host-2", new(true), nil, "")) },
			open:  func(b bed) { b.must(b.put("host-2", new(false), nil, "")) },
		},
		"named target down": {target: "host-2",
			close: func(b bed) { b.must(b.Kill("host-2")); time.Sleep(11 * time.Second) },
			open:  func(b bed) { b.must(b.Revive("host-2")); time.Sleep(6 * time.Second) },
		},
		"all others full": {opt: Options{Capacity: 1, Instances: 4},
			close: func(b bed) {},
			open:  func(b bed) { b.must(b.AddHost("host-5")) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tc.opt, func(b bed) {
				tc.close(b)
				id := b.one(ha.VMStopped)
				b.must(b.evacuate(id, tc.target))
				rows, at := b.watch(id, "host-1")
				took := at[len(at)-1]
				if took < 190*time.Millisecond || took > 310*time.Millisecond {
					t.Errorf("turned to error after %v", took)
				}
				if last := rows[len(rows)-1]; last.Status != "ERROR" || last.VM != "error" || last.Host != "host-1" {
					t.Errorf("%+v", last)
				}
				if f := b.server(id).Fault; f != "No valid host was found. There are not enough hosts available." {
					t.Errorf("fault %q", f)
				}
				ms, err := b.nova.Migrations(b.Context(), "host-1")
				b.must(err)
				if ms[0].Status != "error" {
					t.Errorf("%+v", ms[0])
				}
				acts, err := b.nova.Actions(b.Context(), id)
				b.must(err)
				if acts[0].Message != "Error" {
					t.Errorf("%+v", acts[0])
				}
				tc.open(b)
				b.must(b.evacuate(id, tc.target))
				if ins := b.settle(id, "host-1"); ins.VMState != ha.VMActive || ins.Host == "host-1" {
					t.Errorf("a stopped one that failed so ends active, but %+v", ins)
				}
			})
		})
	}
}

// "Two evacuations of one server at once".
func TestTwoOrdersWreckTheServer(t *testing.T) {
	for _, later := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(later.String()+" later", func(t *testing.T) {
			inBubble(t, Options{}, func(b bed) {
				id := b.one(ha.VMActive)
				b.must(b.evacuate(id, ""))
				time.Sleep(later)
				b.must(b.evacuate(id, ""))
				var arrived bool
				for range 400 {
					ins := b.instance(id)
					arrived = arrived || ins.Status == "ACTIVE" && ins.Host != "host-1"
					time.Sleep(10 * time.Millisecond)
				}
				if !arrived && later == 0 {
					t.Error("the first order did not arrive")
				}
				wrecked := func() {
					t.Helper()
					ins := b.instance(id)
					if ins.Status != "REBUILD" || ins.VMState != "error" || ins.TaskState != "rebuilding" || ins.PowerState != 0 ||
						ins.Host == "host-1" || ins.Wrecks != 1 || ins.Evacuations != 2 {
						t.Fatalf("%+v", ins)
					}
				}
				wrecked()
				ms, err := b.nova.Migrations(b.Context(), "host-1")
				b.must(err)
				if ms[0].Status != "accepted" || ms[0].Dest != "" || ms[1].Status != "done" || ms[1].Dest == "" {
					t.Errorf("%+v", ms)
				}
				time.Sleep(time.Hour)
				wrecked()
				b.must(b.do(ha.Act{Kind: ha.ActResetState, Instance: id, State: "active"}))
				if s := b.server(id); s.VMState != ha.VMActive || s.TaskState != "" {
					t.Errorf("after the reset %+v", s)
				}
				if d := b.DoubleOrders(); len(d) != 1 || d[0].Instance != id || d[0].Earlier != ms[1].ID || d[0].Later != ms[0].ID {
					t.Errorf("%+v", d)
				}

				// "After a double evacuation of a server it needs two restarts".
				for restart := range 3 {
					b.must(b.Revive("host-1"))
					time.Sleep(3 * time.Second)
					err := b.put("host-1", new(false), nil, "")
					if refused := ha.StatusOf(err) == 400; refused != (restart == 0) {
						t.Errorf("after restart %d: %v", restart+1, err)
					}
					if err == nil {
						break
					}
					b.must(b.Kill("host-1"))
				}
			})
		})
	}
}

// "while such a server has a task_state, no restart helps".
func TestNoRestartHelpsAWreck(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.evacuate(id, ""))
		b.must(b.evacuate(id, ""))
		time.Sleep(5 * time.Second)
		for range 3 {
			b.must(b.Revive("host-1"))
			time.Sleep(3 * time.Second)
			if err := b.put("host-1", new(false), nil, ""); ha.StatusOf(err) != 400 {
				t.Fatalf("forced up: %v", err)
			}
			b.must(b.Kill("host-1"))
		}
	})
}

// "Destination dies or hangs after the order".
func TestDestinationDies(t *testing.T) {
	for _, how := range []string{"dead", "hung"} {
		for _, reset := range []bool{false, true} {
			t.Run(how, func(t *testing.T) {
				inBubble(t, Options{}, func(b bed) {
					id := b.one(ha.VMActive)
					down, up := b.Kill, b.Revive
					if how == "hung" {
						down, up = b.Hang, b.Resume
					}
					b.must(down("host-2"))
					b.must(b.evacuate(id, "host-2")) // Nova still believes that it is up
					time.Sleep(time.Hour)
					ins := b.instance(id)
					if ins.Status != "REBUILD" || ins.TaskState != "rebuilding" || ins.Host != "host-1" {
						t.Fatalf("%+v", ins)
					}
					ms, err := b.nova.Migrations(b.Context(), "host-1")
					b.must(err)
					if ms[0].Status != "accepted" {
						t.Errorf("%+v", ms[0])
					}
					hosts, err := b.nova.Providers(b.Context(), id)
					b.must(err)
					if len(hosts) != 2 || hosts[0] != "host-1" || hosts[1] != "host-2" {
						t.Errorf("Placement names %v", hosts)
					}
					b.must(b.put("host-2", new(true), nil, ""))
					if reset {
						b.must(b.do(ha.Act{Kind: ha.ActResetState, Instance: id, State: "error"}))
					}
					b.must(b.evacuate(id, ""))
					third := b.settle(id, "host-1")
					if third.VMState != ha.VMActive || third.Host == "host-2" {
						t.Fatalf("%+v", third)
					}
					b.must(up("host-2"))
					time.Sleep(5 * time.Second)
					ins = b.instance(id)
					if ins.VMState != "error" || ins.TaskState != "rebuilding" || ins.Host != third.Host || ins.PowerState != 0 {
						t.Errorf("the stale order left %+v", ins)
					}
					if d := b.DoubleOrders(); how == "dead" && len(d) != 0 {
						t.Errorf("an order after its destination was off and forced down is allowed: %+v", d)
					}
				})
			})
		}
	}
}

// An order that waits in the queue of a dead destination is carried out when that comes back.
func TestWaitingOrderIsCarriedOut(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.Kill("host-2"))
		b.must(b.evacuate(id, "host-2"))
		time.Sleep(time.Minute)
		b.must(b.Revive("host-2"))
		if ins := b.settle(id, "host-1"); ins.VMState != ha.VMActive || ins.Host != "host-2" {
			t.Errorf("%+v", ins)
		}
	})
}

// A destination that dies in the middle leaves the server rebuilding without end, its record pre-migrating.
func TestDestinationDiesInTheMiddle(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.evacuate(id, "host-2"))
		for b.instance(id).TaskState != "rebuild_spawning" {
			time.Sleep(time.Millisecond)
		}
		b.must(b.Kill("host-2"))
		time.Sleep(time.Hour)
		b.must(b.Revive("host-2"))
		time.Sleep(time.Minute)
		ms, err := b.nova.Migrations(b.Context(), "host-1")
		b.must(err)
		if ins := b.instance(id); ins.TaskState != "rebuild_spawning" || ins.Host != "host-1" || ms[0].Status != "pre-migrating" {
			t.Errorf("%+v %+v", ins, ms[0])
		}
		b.must(b.evacuate(id, ""))
		if ins := b.settle(id, "host-1"); ins.VMState != ha.VMActive {
			t.Errorf("%+v", ins)
		}
	})
}

func TestDeletedWhileUnderWay(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.evacuate(id, "host-2"))
		time.Sleep(650 * time.Millisecond)
		b.must(b.Delete(Masakari(), id))
		time.Sleep(3 * time.Second)
		if _, err := b.nova.Server(b.Context(), id); ha.ClassOf(err) != ha.ClassGone {
			t.Errorf("%v", err)
		}
		if err := b.do(ha.Act{Kind: ha.ActUnlock, Instance: id}); ha.ClassOf(err) != ha.ClassGone {
			t.Errorf("%v", err)
		}
		ms, err := b.nova.Migrations(b.Context(), "host-1")
		b.must(err)
		if ms[0].Status != "failed" {
			t.Errorf("%+v", ms[0])
		}
	})
}

// An instance that is evacuated off a host which still has power runs twice: the sim must say so.
func TestDoubleRunIsSeen(t *testing.T) {
	inBubbleUnchecked(t, func(b bed) {
		id := b.on("host-1", 1, InstanceSpec{})[0]
		b.must(b.KillCompute("host-1"))
		b.must(b.put("host-1", new(true), nil, ""))
		b.must(b.evacuate(id, "host-2"))
		b.settle(id, "host-1")
		if d := b.DoubleRuns(); len(d) != 1 || d[0].Instance != id || len(d[0].Hosts) != 2 {
			t.Fatalf("%+v", d)
		}
		b.must(b.Revive("host-1"))
		time.Sleep(3 * time.Second)
		if ins := b.instance(id); len(ins.Running) != 1 || ins.Running[0] != "host-2" {
			t.Errorf("the restarted nova-compute left %v", ins.Running)
		}
	})
}

func TestControlServices(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		id := b.one(ha.VMActive)
		b.must(b.StopControl("nova-conductor"))
		time.Sleep(time.Minute)
		all, err := b.nova.Services(b.Context())
		b.must(err)
		up := map[string]bool{}
		for _, s := range all {
			up[s.Binary] = up[s.Binary] || s.Up
		}
		if up["nova-conductor"] || !up["nova-scheduler"] {
			t.Errorf("%v", up)
		}
		b.must(b.evacuate(id, ""))
		time.Sleep(time.Minute)
		if ins := b.instance(id); ins.TaskState != "rebuilding" {
			t.Errorf("without a conductor: %+v", ins)
		}
		b.must(b.StartControl("nova-conductor"))
		if ins := b.settle(id, "host-1"); ins.VMState != ha.VMActive {
			t.Errorf("%+v", ins)
		}
	})
}
