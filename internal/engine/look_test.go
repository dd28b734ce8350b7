package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// slowCloud takes its time to list migrations.
type slowCloud struct {
	Cloud
	takes time.Duration
	asked int
}

func (c *slowCloud) Migrations(context.Context, string) ([]ha.Migration, error) {
	c.asked++
	time.Sleep(c.takes)
	return nil, nil
}

// A Nova that answers in time is asked once a second; one that is slow has a rest after each answer.
func TestLooksLeaveASlowNovaItsRest(t *testing.T) {
	for takes, most := range map[time.Duration]int{
		100 * time.Millisecond:  60,
		500 * time.Millisecond:  60,
		1000 * time.Millisecond: 40, // 1 s + 0.5 s
		3000 * time.Millisecond: 15, // 3 s + 1 s
	} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &slowCloud{takes: takes}
				e := New(Config{Name: "engine", CallTimeout: 30 * time.Second, Concurrency: 8}, nil, c, nil)
				u := newUnit(e, ha.Lease{}, ha.Unit{}, nil)
				u.acts = t.Context()
				for began := time.Now(); time.Since(began) < time.Minute; {
					next := u.lookAt([]plan.Look{{Kind: plan.LookMigrations}})
					if next == 0 {
						next = time.Hour
					}
					select {
					case <-u.wake:
					case <-time.After(next):
					}
				}
				u.group.Wait()
				if c.asked < most-1 || c.asked > most+1 {
					t.Errorf("asked %d times in a minute, want %d", c.asked, most)
				}
			})
		})
	}
}
