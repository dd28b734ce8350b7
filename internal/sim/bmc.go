package sim

import (
	"context"
	"fmt"
	"time"
)

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

// Power reports whether the host has power.
func (b *BMC) Power(ctx context.Context) (on bool, err error) {
	err = b.call(ctx, "GET", "", func(h *host) { on = h.powered })
	return on && err == nil, err
}

// PowerOff takes the host's power away. After an error it may be off or not.
func (b *BMC) PowerOff(ctx context.Context) error {
	return b.call(ctx, "POST", "ForceOff", b.client.c.powerOff)
}

// PowerOn gives the host power; its nova-compute starts with it.
func (b *BMC) PowerOn(ctx context.Context) error {
	return b.call(ctx, "POST", "On", b.client.c.powerOn)
}

func (b *BMC) call(ctx context.Context, method, reset string, f func(*host)) error {
	n := b.client
	r := Request{Client: n.o.Name, Method: method, Path: "/redfish/v1/Systems/" + b.host, Action: reset, Host: b.host}
	if reset != "" {
		r.Path += "/Actions/ComputerSystem.Reset"
	}
	if err := n.ready(ctx, time.Time{}); err != nil {
		return err
	}
	err := n.exchange(ctx, time.Now().Add(n.o.Timeout), r, func() (time.Duration, error) {
		h := n.c.hosts[b.host]
		if h == nil {
			return 0, notFound("no system %s", b.host)
		}
		f(h)
		return 0, nil
	})
	if err != nil {
		return fmt.Errorf("BMC of %s: %s %s: %w", b.host, method, r.Path, err)
	}
	return nil
}
