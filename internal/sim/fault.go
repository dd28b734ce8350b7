package sim

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// FaultRule makes requests go wrong. Those that Method, Path, Action, Host and Instance all match are hit; empty ones
// match all. Exactly one of Status, Delay, ActAfter and Drop says how.
type FaultRule struct {
	Method   string
	Path     string // regular expression, matched anywhere in the path, or in path?query
	Action   string // of a POST …/action, such as evacuate
	Host     string // the host concerned: a query's, a service's, or the instance's at the time of the call
	Instance string
	Client   string
	Times    int // requests hit before the fault is over; 0: until it is cleared

	Status   int           // answers so, does nothing
	Delay    time.Duration // acts at once, answers late
	ActAfter time.Duration // answers nothing: acts that much later, then drops the connection
	Drop     bool          // acts at once, drops the connection without an answer
}

type armedFault struct {
	FaultRule
	path *regexp.Regexp
	left int
}

// AddFault arms a fault. The first armed one that matches a request hits it.
func (c *Cloud) AddFault(f FaultRule) error {
	kinds := 0
	for _, set := range []bool{f.Status != 0, f.Delay > 0, f.ActAfter > 0, f.Drop} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("a fault needs exactly one of status, delay, act_after and drop")
	}
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("fault status %d: 400 to 599", f.Status)
	}
	if f.Times < 0 {
		return fmt.Errorf("fault times %d: 0 (until cleared) or more", f.Times)
	}
	path, err := regexp.Compile(f.Path)
	if err != nil {
		return fmt.Errorf("fault path: %w", err)
	}
	c.lock()
	defer c.unlock()
	c.faults = append(c.faults, &armedFault{FaultRule: f, path: path, left: f.Times})
	return nil
}

// ClearFaults disarms all faults. What they hit before goes its way.
func (c *Cloud) ClearFaults() {
	c.lock()
	defer c.unlock()
	c.faults = nil
}

func (f *armedFault) hits(r Request) bool {
	match := func(want, is string) bool { return want == "" || want == is }
	return match(strings.ToUpper(f.Method), r.Method) && match(f.Action, r.Action) && match(f.Host, r.Host) &&
		match(f.Instance, r.Instance) && match(f.Client, r.Client) &&
		(f.path.MatchString(r.Path) || r.Query != "" && f.path.MatchString(r.Path+"?"+r.Query))
}

// kind names the fault in the log of calls.
func (f *FaultRule) kind() string {
	switch {
	case f == nil:
		return ""
	case f.Status != 0:
		return "status"
	case f.Delay > 0:
		return "delay"
	case f.ActAfter > 0:
		return "act_after"
	default:
		return "drop"
	}
}

// Receive notes a request and says which fault hits it, nil for none. For a face that carries requests out by itself.
func (c *Cloud) Receive(r Request) (n int64, fault *FaultRule) {
	c.lock()
	defer c.unlock()
	return c.receive(r)
}

func (c *Cloud) receive(r Request) (int64, *FaultRule) {
	c.concern(&r)
	var hit *FaultRule
	for i, f := range c.faults {
		if !f.hits(r) {
			continue
		}
		rule := f.FaultRule
		hit = &rule
		if f.Times > 0 {
			if f.left--; f.left == 0 {
				c.faults = append(c.faults[:i:i], c.faults[i+1:]...)
			}
		}
		break
	}
	return c.calls.add(Call{At: c.now.UTC(), Request: r, Fault: hit.kind()}), hit
}

// concern fills in the host that a request concerns.
func (c *Cloud) concern(r *Request) {
	if r.Host != "" {
		return
	}
	if ins := c.instances[r.Instance]; ins != nil && ins.host != nil {
		r.Host = ins.host.name
		return
	}
	if _, id, ok := strings.Cut(r.Path, "/os-services/"); ok && c.services[id] != nil {
		r.Host = c.services[id].host
	}
}
