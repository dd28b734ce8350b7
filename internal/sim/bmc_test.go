package sim

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestBMCFaults: what the controller shows, what is true, and what Nova sees, for each way in which controllers misbehave.
func TestBMCFaults(t *testing.T) {
	tests := []struct {
		name    string
		fault   BMCFault
		off     bool   // before it is asked
		status  int    // that the order is answered; 0: it is taken
		shown   []bool // a look before the order, one at once, one after 10 s
		powered bool   // in the end
	}{
		{"well", BMCFault{}, false, 0, []bool{true, false, false}, false},
		{"off slowly", BMCFault{OffAfter: 5 * time.Second}, false, 0, []bool{true, true, false}, false},
		{"refuses off when off", BMCFault{RefuseOff: 409}, true, 409, []bool{false, false, false}, false},
		{"takes off when on", BMCFault{RefuseOff: 409}, false, 0, []bool{true, false, false}, false},
		{"lies once", BMCFault{Lies: 1}, false, 0, []bool{false, false, false}, false},
		{"stuck", BMCFault{Stuck: true}, false, 0, []bool{true, true, true}, false},
		{"deaf", BMCFault{Deaf: true}, false, 0, []bool{true, true, true}, true},
		{"no ForceOff", BMCFault{NoForceOff: true}, false, 400, []bool{true, true, true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(b bed) {
				if tt.off {
					b.must(b.Kill("host-1"))
				}
				b.must(b.SetBMC("host-1", tt.fault))
				bmc := b.BMC("host-1", ClientOptions{})
				look := func(want bool) {
					t.Helper()
					if on, err := bmc.Power(b.Context()); err != nil || on != want {
						t.Errorf("shows on %v, %v; want %v", on, err, want)
					}
				}
				look(tt.shown[0])
				err := bmc.PowerOff(b.Context())
				var refused *Refusal
				if errors.As(err, &refused) != (tt.status != 0) || refused != nil && refused.Status != tt.status {
					t.Errorf("the order: %v, want status %d", err, tt.status)
				}
				look(tt.shown[1])
				time.Sleep(10 * time.Second)
				look(tt.shown[2])
				// Who is off in the BMC is dead in the cloud: it reports no more.
				time.Sleep(12 * time.Second)
				if got := b.Hosts()[0].Powered; got != tt.powered || b.service("host-1").Up != tt.powered {
					t.Errorf("powered %v, nova-compute up %v; want %v", got, b.service("host-1").Up, tt.powered)
				}
			})
		})
	}
}

func TestBMCThatIsSilentOrRefuses(t *testing.T) {
	inBubble(t, Options{}, func(b bed) {
		bmc := b.BMC("host-1", ClientOptions{Timeout: time.Minute})
		b.must(b.SetBMC("host-1", BMCFault{Dark: true}))
		ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := bmc.Power(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("dark: after %s: %v", time.Since(began), err)
		}
		b.must(b.SetBMC("host-1", BMCFault{Denied: true}))
		var refused *Refusal
		if err := bmc.PowerOff(b.Context()); !errors.As(err, &refused) || refused.Status != 401 || !b.Hosts()[0].Powered {
			t.Errorf("denied: %v", err)
		}
		for _, bad := range []BMCFault{{RefuseOff: 200}, {Lies: -1}, {OffAfter: -1}} {
			if b.SetBMC("host-1", bad) == nil {
				t.Errorf("%+v was taken", bad)
			}
		}
		if b.SetBMC("nowhere", BMCFault{}) == nil {
			t.Error("a host that is not there")
		}
	})
}
