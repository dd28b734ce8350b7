package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

type service struct {
	n          int
	id         string
	binary     string
	host       string
	zone       string
	disabled   bool
	reason     string
	forcedDown bool
	put        time.Time // of the last PUT
	beat       *heartbeat
}

// controller is the host of the scheduler and the conductor.
type controller struct {
	scheduler, conductor heartbeat
	waiting              []func() // orders that no conductor or scheduler has taken
}

func (c *Cloud) addController(name string) *controller {
	ctl := &controller{scheduler: c.runningHeartbeat("scheduler"), conductor: c.runningHeartbeat("conductor")}
	c.addService("nova-scheduler", name, &ctl.scheduler).zone = "internal"
	c.addService("nova-conductor", name, &ctl.conductor).zone = "internal"
	return ctl
}

func (c *Cloud) addService(binary, host string, beat *heartbeat) *service {
	n := len(c.services)
	s := &service{n: n, id: c.uuid("service", n), binary: binary, host: host, zone: "nova", beat: beat}
	c.services[s.id] = s
	return s
}

// Service is a Nova service as os-services shows it.
type Service struct {
	ID             string
	Number         int // its id before 2.53
	Binary         string
	Host           string
	Zone           string
	Disabled       bool
	DisabledReason string
	ForcedDown     bool
	Up             bool
	UpdatedAt      time.Time // of the last heartbeat or PUT, in whole (scaled) seconds
	// Answered is what a PUT answers as updated_at: the time before the database rounded it. Zero otherwise.
	Answered time.Time
}

func (c *Cloud) showService(s *service) Service {
	updated := s.beat.last(c.now)
	if s.put.After(updated) {
		updated = s.put
	}
	return Service{
		ID: s.id, Number: s.n + 1, Binary: s.binary, Host: s.host, Zone: s.zone,
		Disabled: s.disabled, DisabledReason: s.reason, ForcedDown: s.forcedDown,
		Up: c.isUp(s), UpdatedAt: c.stamp(updated),
	}
}

// stamp rounds a time as Nova's database keeps it: a PUT answers 11.898424 where the next GET says 12 (measured).
func (c *Cloud) stamp(t time.Time) time.Time {
	return t.UTC().Round(c.Scaled(time.Second))
}

// isUp judges by the last heartbeat, not by updated_at, which PUTs move too.
func (c *Cloud) isUp(s *service) bool {
	return !s.forcedDown && c.now.Sub(s.beat.last(c.now)) <= c.opt.DownTime
}

// Services lists services by binary and host; "" is any.
func (c *Cloud) Services(binary, host string) []Service {
	c.lock()
	defer c.unlock()
	return c.listServices(binary, host)
}

func (c *Cloud) listServices(binary, host string) []Service {
	var found []*service
	if h := c.hosts[host]; h != nil {
		found = append(found, h.service)
	} else {
		for _, s := range c.services {
			if host == "" || s.host == host {
				found = append(found, s)
			}
		}
		slices.SortFunc(found, func(a, b *service) int { return cmp.Compare(a.n, b.n) })
	}
	out := make([]Service, 0, len(found))
	for _, s := range found {
		if binary == "" || s.binary == binary {
			out = append(out, c.showService(s))
		}
	}
	return out
}

// ServicePatch is the body of a PUT os-services: nil leaves a field.
type ServicePatch struct {
	ForcedDown *bool
	Disabled   *bool
	Reason     *string
}

// UpdateService is PUT os-services/{id}. The change is made at once; the answer comes after late, which is Nova's RPC
// timeout when it asks a nova-compute that is dead but not noticed.
func (c *Cloud) UpdateService(who Caller, id string, p ServicePatch) (s Service, late time.Duration, err error) {
	c.lock()
	defer c.unlock()
	return c.updateService(who, id, p)
}

func (c *Cloud) updateService(who Caller, id string, p ServicePatch) (Service, time.Duration, error) {
	if err := who.May("os_compute_api:os-services:update"); err != nil {
		return Service{}, 0, err
	}
	s := c.services[id]
	if s == nil {
		return Service{}, 0, notFound("Service %s could not be found.", id)
	}
	h := c.hosts[s.host]
	if p.ForcedDown != nil {
		if !*p.ForcedDown && s.forcedDown && h != nil && h.hasDoneEvacuations() {
			return Service{}, 0, badRequest("Unable to force up host %s as `done` evacuation migration records remain "+
				"associated with the host. Ensure the compute service has been restarted, allowing these records to move "+
				"to `completed` before retrying this request.", s.host)
		}
		s.forcedDown = *p.ForcedDown
	}
	var late time.Duration
	if p.Disabled != nil {
		changed := s.disabled != *p.Disabled
		s.disabled = *p.Disabled
		if !s.disabled {
			s.reason = ""
		}
		// Nova tells the compute node of the change, and waits for one that it believes to be up.
		if changed && h != nil && c.isUp(s) && h.compute != computeUp {
			late = c.opt.RPCTimeout
		}
	}
	if p.Reason != nil && s.disabled {
		s.reason = *p.Reason
	}
	s.put = c.now
	out := c.showService(s)
	out.Answered = c.now.UTC().Truncate(time.Microsecond)
	return out, late, nil
}

// StopControl and StartControl end and start the nova-scheduler or nova-conductor. Without them no evacuation gets
// beyond the order.
func (c *Cloud) StopControl(binary string) error {
	return c.onControl(binary, func(b *heartbeat) { b.stop(c.now) })
}

func (c *Cloud) StartControl(binary string) error {
	return c.onControl(binary, func(b *heartbeat) {
		if !b.beating {
			b.begin(c.now.Add(c.Scaled(initialDelay)))
		}
		if !c.control.takes() {
			return
		}
		waiting := c.control.waiting
		c.control.waiting = nil
		for _, f := range waiting {
			f()
		}
	})
}

func (c *Cloud) onControl(binary string, f func(*heartbeat)) error {
	c.lock()
	defer c.unlock()
	switch binary {
	case "nova-scheduler":
		f(&c.control.scheduler)
	case "nova-conductor":
		f(&c.control.conductor)
	default:
		return fmt.Errorf("no control service %s: nova-scheduler or nova-conductor", binary)
	}
	return nil
}

func (ctl *controller) takes() bool { return ctl.scheduler.beating && ctl.conductor.beating }

// conduct runs f in the conductor after d, or when there is one again.
func (c *Cloud) conduct(d time.Duration, f func()) {
	c.after(d, func() {
		if !c.control.takes() {
			c.control.waiting = append(c.control.waiting, f)
			return
		}
		f()
	})
}
