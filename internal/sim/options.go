package sim

import (
	"fmt"
	"time"
)

// Options shape a cloud. The zero value of each field means its default.
type Options struct {
	Seed      uint64
	Hosts     int // host-1 … host-N; default 4. Negative: none
	Instances int // spread over the hosts in turn, active; default 0

	// Scale multiplies every duration of the cloud, those below included: 0.1 makes it ten times as fast. Default 1.
	// Nova's times of whole seconds become multiples of one scaled second.
	Scale          float64
	ReportInterval time.Duration // between heartbeats; default 2 s, as observed
	DownTime       time.Duration // silence after which a service is down; default 10 s, as observed
	RPCTimeout     time.Duration // how long a PUT waits for a dead nova-compute; default 60 s
	PowerSync      time.Duration // from a restart to Nova's finding that instances do not run; default 5 s

	Capacity     int     // instances that a host can hold; 0: any number
	Rate         float64 // evacuations a second that the whole cloud carries out (before Scale); 0: no limit
	ResumeGuests bool    // a host that comes back starts its own instances again, instead of leaving them stopped

	// HypervisorDomain is appended to a host's name to make its hypervisor_hostname, which real clouds often have differ.
	HypervisorDomain string

	CallLog int // received calls that are kept; default 100,000, the oldest go first
}

func (o Options) withDefaults() Options {
	if o.Hosts == 0 {
		o.Hosts = 4
	}
	if o.Scale <= 0 {
		o.Scale = 1
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.ReportInterval, 2 * time.Second},
		{&o.DownTime, 10 * time.Second},
		{&o.RPCTimeout, 60 * time.Second},
		{&o.PowerSync, 5 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
		*d.field = scaled(*d.field, o.Scale)
	}
	if o.CallLog <= 0 {
		o.CallLog = 100_000
	}
	return o
}

func scaled(d time.Duration, scale float64) time.Duration {
	return time.Duration(float64(d) * scale)
}

// New makes a cloud whose hosts have been up for a while.
func New(o Options) *Cloud {
	o = o.withDefaults()
	c := &Cloud{
		opt:       o,
		start:     time.Now(),
		hosts:     map[string]*host{},
		services:  map[string]*service{},
		instances: map[string]*instance{},
		providers: map[string]*host{},
		calls:     newCallLog(o.CallLog),
	}
	c.now = c.start
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control = c.addController("controller")
	for i := range o.Hosts {
		c.addHost(fmt.Sprintf("host-%d", i+1))
	}
	if n := len(c.hostList); n > 0 {
		for i := range o.Instances {
			c.addInstance(c.hostList[i%n], InstanceSpec{})
		}
	}
	return c
}
