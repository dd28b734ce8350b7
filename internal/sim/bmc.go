package sim

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// BMCFault is how the controller of a host's power misbehaves, as real ones do. The zero value is one that is well. Faults of
// requests (FaultRule) reach it besides, under /redfish/v1/Systems/{host}.
type BMCFault struct {
	OffAfter   time.Duration // ForceOff is answered at once, and acts that much later; not scaled
	RefuseOff  int           // the status that ForceOff is answered when the host is off; 0: it is taken
	Lies       int           // so many looks at the power state are answered with its opposite
	Stuck      bool          // the power state shown stays what it is now; orders work
	Deaf       bool          // orders are taken, and nothing happens
	Denied     bool          // every login is refused
	Dark       bool          // it answers nothing
	NoForceOff bool          // it does not offer ForceOff
}

// bmc is a host's controller.
type bmc struct {
	BMCFault
	shown bool // the power state that a stuck one shows
}

// SetBMC makes a host's controller misbehave; the zero fault makes it well again.
func (c *Cloud) SetBMC(name string, f BMCFault) error {
	if f.RefuseOff != 0 && (f.RefuseOff < 400 || f.RefuseOff > 599) {
		return fmt.Errorf("refuse_off %d: a status from 400 to 599", f.RefuseOff)
	}
	if f.Lies < 0 || f.OffAfter < 0 {
		return fmt.Errorf("lies %d, off after %s: not below 0", f.Lies, f.OffAfter)
	}
	return c.onHost(name, func(h *host) { h.bmc = bmc{BMCFault: f, shown: h.powered} })
}

// BMCOf tells how a host's controller misbehaves now.
func (c *Cloud) BMCOf(name string) (f BMCFault, err error) {
	err = c.onHost(name, func(h *host) { f = h.bmc.BMCFault })
	return f, err
}

// BMCPower is a look at the power state as the controller shows it.
func (c *Cloud) BMCPower(name string) (on bool, err error) {
	c.lock()
	defer c.unlock()
	return c.bmcPower(name)
}

// BMCReset carries out a ResetType of Redfish's.
func (c *Cloud) BMCReset(name, kind string) error {
	c.lock()
	defer c.unlock()
	return c.bmcReset(name, kind)
}

func (c *Cloud) bmcHost(name string) (*host, error) {
	h := c.hosts[name]
	switch {
	case h == nil:
		return nil, notFound("no system %s", name)
	case h.bmc.Denied:
		return nil, &Refusal{http.StatusUnauthorized, "unauthorized", "While accessing the resource, the service received an authorization error."}
	}
	return h, nil
}

func (c *Cloud) bmcPower(name string) (bool, error) {
	h, err := c.bmcHost(name)
	if err != nil {
		return false, err
	}
	on := h.powered
	if h.bmc.Stuck {
		on = h.bmc.shown
	}
	if h.bmc.Lies > 0 {
		h.bmc.Lies--
		on = !on
	}
	return on, nil
}

func (c *Cloud) bmcReset(name, kind string) error {
	h, err := c.bmcHost(name)
	if err != nil {
		return err
	}
	off := kind == "ForceOff" || kind == "GracefulShutdown"
	switch {
	case kind == "ForceOff" && h.bmc.NoForceOff:
		return badRequest("the value ForceOff for the property ResetType is not in the list of acceptable values")
	case off && !h.powered && h.bmc.RefuseOff != 0:
		return &Refusal{h.bmc.RefuseOff, "refused", "The request cannot be carried out in the current power state."}
	case h.bmc.Deaf:
	case off && h.bmc.OffAfter > 0:
		c.after(h.bmc.OffAfter, func() { c.powerOff(h) })
	case off:
		c.powerOff(h)
	case kind == "On" || kind == "ForceOn":
		c.powerOn(h)
	case kind == "ForceRestart" || kind == "GracefulRestart" || kind == "PowerCycle":
		c.powerOff(h)
		c.powerOn(h)
	default:
		return badRequest("no such ResetType: %s", kind)
	}
	return nil
}

// BMC is the out-of-band control of one host's power. Faults reach it under /redfish/v1/Systems/{host}; partitions of
// the client it was made with, too.
type BMC struct {
	client *Nova
	host   string
}

// BMC makes a handle on the host's power that travels the way of the client options.
func (c *Cloud) BMC(host string, o ClientOptions) *BMC {
	return &BMC{client: c.Nova(o), host: host}
}

// Power reports whether the host has power, as its controller shows it.
func (b *BMC) Power(ctx context.Context) (on bool, err error) {
	err = b.call(ctx, "GET", "", func() (err error) { on, err = b.client.c.bmcPower(b.host); return err })
	return on && err == nil, err
}

// PowerOff takes the host's power away. After an error it may be off or not.
func (b *BMC) PowerOff(ctx context.Context) error { return b.reset(ctx, "ForceOff") }

// PowerOn gives the host power; its nova-compute starts with it.
func (b *BMC) PowerOn(ctx context.Context) error { return b.reset(ctx, "On") }

func (b *BMC) reset(ctx context.Context, kind string) error {
	return b.call(ctx, "POST", kind, func() error { return b.client.c.bmcReset(b.host, kind) })
}

func (b *BMC) call(ctx context.Context, method, reset string, f func() error) error {
	n := b.client
	r := Request{Client: n.o.Name, Method: method, Path: "/redfish/v1/Systems/" + b.host, Action: reset, Host: b.host}
	if reset != "" {
		r.Path += "/Actions/ComputerSystem.Reset"
	}
	if err := n.ready(ctx, time.Time{}); err != nil {
		return err
	}
	deadline := time.Now().Add(n.o.Timeout)
	var err error
	if fault, _ := n.c.BMCOf(b.host); fault.Dark { // of a host that is not there, the call itself tells
		err = n.silence(ctx, deadline)
	} else {
		err = n.exchange(ctx, deadline, r, func() (time.Duration, error) { return 0, f() })
	}
	if err != nil {
		return fmt.Errorf("BMC of %s: %s %s: %w", b.host, method, r.Path, err)
	}
	return nil
}
