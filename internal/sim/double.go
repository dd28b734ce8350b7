package sim

import (
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// DoubleOrder is an evacuate order that Nova took, and that was sent while an earlier one of the instance could still be carried out
// (invariant I4). What its sender could not know yet when it left is no fault of it: a destination that came back later.
type DoubleOrder struct {
	Instance string
	At       time.Time // when Nova took the second one
	Earlier  int64     // migration ids, in the order of sending
	Later    int64
}

// DoubleOrders lists them. It must be empty.
func (c *Cloud) DoubleOrders() []DoubleOrder {
	c.lock()
	defer c.unlock()
	return slices.Clone(c.doubleOrders)
}

// noticed is how long after a destination's first heartbeat its return is known to whoever sends an order: a look at the services, the
// decision and its commit lie between the two.
const noticed = 5 * time.Second

// sending is an evacuate order on its way to Nova, with what could still be carried out of its instance when it left.
type sending struct {
	before []*sending // left earlier, and had not arrived
	open   []*order
	order  *order // that Nova made of it
	ended  bool   // it was carried out, or refused
}

// leaves notes that an order for the instance leaves its sender now; nil when there is no such instance.
func (c *Cloud) leaves(instance string) *sending {
	ins := c.instances[instance]
	if ins == nil {
		return nil
	}
	s := &sending{open: c.mayRun(ins)}
	ins.sent = slices.DeleteFunc(ins.sent, func(e *sending) bool { return e.ended && e.order == nil })
	for _, earlier := range ins.sent {
		if !earlier.ended {
			s.before = append(s.before, earlier)
		}
	}
	ins.sent = append(ins.sent, s)
	return s
}

// ends notes that what became of it is known. nil: it is no order.
func (s *sending) ends() {
	if s != nil {
		s.ended = true
	}
}

// judge notes whether an order that Nova takes now, or one that left after it, left while another could be carried out. One that comes
// by another face than Nova's counts as sent now. It is not among the instance's orders yet.
func (c *Cloud) judge(o *order) {
	s := c.carries
	if s == nil {
		s = c.leaves(o.ins.id)
		s.ends()
	}
	s.order = o
	double := func(earlier, later *order) {
		c.doubleOrders = append(c.doubleOrders, DoubleOrder{Instance: o.ins.id, At: c.now, Earlier: earlier.record.id, Later: later.record.id})
	}
	for _, earlier := range s.before {
		if earlier.order != nil {
			s.open = append(s.open, earlier.order)
		}
	}
	if len(s.open) > 0 {
		double(s.open[0], o)
	}
	for _, later := range o.ins.sent { // that overtook this one
		if later.order != nil && slices.Contains(later.before, s) {
			double(o, later.order)
		}
	}
}

// mayRun lists the instance's orders that can still be carried out, as far as is known now.
func (c *Cloud) mayRun(ins *instance) (open []*order) {
	for _, o := range ins.orders {
		if o.mayRun(c.now) {
			open = append(open, o)
		}
	}
	return open
}

// mayRun: one whose destination is off and forced down counts as ended, as RECOVERY section 2 allows a new order then, and so does one
// whose record Nova has closed, as a restarted source does. A destination that is back is known by its heartbeats.
func (o *order) mayRun(now time.Time) bool {
	switch {
	case o.ended, !ha.Migration{Status: o.record.status}.UnderWay():
		return false
	case o.dest == nil || !o.dest.service.forcedDown:
		return true
	}
	return o.dest.compute == computeUp && now.Sub(o.dest.heartbeat.from) >= noticed
}
