package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// bed is a cloud in virtual time with a client.
type bed struct {
	*testing.T
	*Cloud
	nova *Nova
}

// inBubble runs a test in virtual time on a cloud of its own.
func inBubble(t *testing.T, o Options, test func(b bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(o)
		defer c.Close()
		test(bed{T: t, Cloud: c, nova: c.Nova(ClientOptions{})})
		if d := c.DoubleRuns(); len(d) > 0 {
			t.Errorf("double runs: %+v", d)
		}
	})
}

func (b bed) do(act ha.Act) error {
	_, err := b.nova.Do(b.Context(), act)
	return err
}

func (b bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b bed) server(id string) ha.Server {
	b.Helper()
	s, err := b.nova.Server(b.Context(), id)
	b.must(err)
	return s
}

func (b bed) instance(id string) Instance {
	b.Helper()
	ins, ok := b.Instance(id)
	if !ok {
		b.Fatalf("instance %s is gone", id)
	}
	return ins
}

func (b bed) service(host string) ha.Service {
	b.Helper()
	all, err := b.nova.Services(b.Context())
	b.must(err)
	for _, s := range all {
		if s.Host == host {
			return s
		}
	}
	b.Fatalf("no service of %s", host)
	return ha.Service{}
}

func (b bed) put(host string, forcedDown, enable *bool, reason string) error {
	return b.do(ha.Act{Kind: ha.ActService, Host: host, ServiceID: b.service(host).ID, ForcedDown: forcedDown, Enable: enable, Reason: reason})
}

// one puts an instance of this state on host-1, kills the host and forces it down.
func (b bed) one(vm string) string {
	b.Helper()
	ids := b.on("host-1", 1, InstanceSpec{VMState: vm})
	b.die("host-1")
	return ids[0]
}

func (b bed) on(host string, n int, spec InstanceSpec) []string {
	b.Helper()
	ids, err := b.AddInstances(host, n, spec)
	b.must(err)
	return ids
}

func (b bed) die(host string) {
	b.Helper()
	b.must(b.Kill(host))
	b.must(b.put(host, new(true), nil, ""))
}

func (b bed) evacuate(id, target string) error {
	return b.do(ha.Act{Kind: ha.ActEvacuate, Instance: id, Target: target})
}

// settle waits until the instance has no task and is on another host, or in error.
func (b bed) settle(id, from string) Instance {
	b.Helper()
	for range 1000 {
		ins := b.instance(id)
		if ins.TaskState == "" && (ins.Host != from || ins.VMState == ha.VMError) {
			return ins
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatalf("not settled: %+v", b.instance(id))
	return Instance{}
}

// inBubbleUnchecked is inBubble for tests in which an instance runs twice on purpose.
func inBubbleUnchecked(t *testing.T, test func(b bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		defer c.Close()
		test(bed{T: t, Cloud: c, nova: c.Nova(ClientOptions{})})
	})
}
