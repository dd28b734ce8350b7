package sim

import (
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// An order is judged by the moment at which it left: what Nova does with it, and when, its sender cannot know (invariant I4).
func TestDoubleOrdersAreJudgedByTheirSending(t *testing.T) {
	late := func(b bed, after time.Duration) {
		b.must(b.AddFault(FaultRule{Method: "POST", Action: "evacuate", ActAfter: after, Times: 1}))
	}
	send := func(b bed, id string) { _ = b.evacuate(id, "") }
	for name, c := range map[string]struct {
		then func(b bed, id string) // after an order hangs, whose destination host-2 is off and forced down
		want int
	}{
		"its destination is off": {func(b bed, id string) { send(b, id) }, 0},
		"its destination comes back after the new one has left": {func(b bed, id string) {
			late(b, 20*time.Second)
			go send(b, id)
			time.Sleep(time.Second)
			b.must(b.Revive("host-2"))
		}, 0},
		"its destination is back, and has not been heard": {func(b bed, id string) {
			b.must(b.Revive("host-2"))
			time.Sleep(500 * time.Millisecond)
			late(b, 20*time.Second)
			send(b, id)
		}, 0},
		"its destination is back and heard": {func(b bed, id string) {
			b.must(b.Revive("host-2"))
			time.Sleep(initialDelay + noticed)
			send(b, id)
		}, 1},
		"its record was closed when the source restarted": {func(b bed, id string) {
			b.must(b.do(ha.Act{Kind: ha.ActResetState, Instance: id, State: "error"}))
			b.must(b.Revive("host-1"))
			time.Sleep(3 * time.Second)
			b.must(b.Kill("host-1"))
			b.must(b.Revive("host-2"))
			time.Sleep(initialDelay + noticed)
			send(b, id)
		}, 0},
		"the new one is under way, and another is sent": {func(b bed, id string) {
			late(b, 20*time.Second)
			go send(b, id)
			time.Sleep(time.Second)
			late(b, 19500*time.Millisecond)
			send(b, id)
		}, 1},
		"the new one is refused, and another is sent": {func(b bed, id string) {
			b.must(b.AddFault(FaultRule{Method: "POST", Action: "evacuate", Status: 503, Times: 1}))
			send(b, id)
			send(b, id)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleUnchecked(t, func(b bed) {
				id := b.one(ha.VMActive)
				b.must(b.evacuate(id, "host-2"))
				time.Sleep(400 * time.Millisecond)
				b.must(b.Kill("host-2")) // in the middle of it
				time.Sleep(time.Minute)
				b.must(b.put("host-2", new(true), nil, ""))
				c.then(b, id)
				time.Sleep(time.Minute)
				if d := b.DoubleOrders(); len(d) != c.want {
					t.Errorf("%+v, want %d", d, c.want)
				}
			})
		})
	}
}
