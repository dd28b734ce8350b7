package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/blob"
	"github.com/salvor-ha/salvor/internal/ha"
)

// BlobBackend is what the use cases and agents need of the catalogue of blobs.
type BlobBackend interface {
	ReportStorage(ctx context.Context, r ha.AgentReport) (ha.Accepted, error)
	AddBlob(ctx context.Context, b ha.Blob, hosts []string) (ha.Blob, error)
	Blobs(ctx context.Context, f ha.BlobFilter, limit int, marker string) ([]ha.Blob, error)
	Blob(ctx context.Context, uuid string) (ha.BlobDetails, error)
	Transfers(ctx context.Context, f ha.TransferFilter, limit int, marker string) ([]ha.Transfer, map[string]string, error)
	RescueBlob(ctx context.Context, uuid string) error
	LoseBlob(ctx context.Context, uuid, by string) error
	DropLocation(ctx context.Context, d ha.DropLocation) error
	BlobCounts(ctx context.Context) (ha.BlobCounts, error)
	AgentOrders(ctx context.Context, host string, verifiedBefore time.Time) ([]ha.AgentOrder, error)
	NewTransfers(ctx context.Context, after int64) (targets []string, last int64, err error)
}

// blobCloud is some hosts with agents, and the replicator in the hands of one engine.
type blobCloud struct {
	*fixture
	hosts []ha.Host
	seq   int64
	lease *ha.Lease
}

var blobRules = blob.Rules{Total: 100, PerSource: 10, PerTarget: 10, Grace: time.Hour}

func (f *fixture) blobCloud(n int) *blobCloud {
	f.Helper()
	c := &blobCloud{fixture: f}
	s := f.segment()
	for range n {
		h := f.host(s.UUID)
		c.hosts = append(c.hosts, h)
		c.report(len(c.hosts)-1, ha.AgentReport{})
	}
	return c
}

// report has the agent of a host say something; it is well unless checks say otherwise.
func (c *blobCloud) report(host int, r ha.AgentReport) {
	c.Helper()
	c.seq++
	r.HostUUID, r.Epoch, r.Seq, r.URL, r.FreeBytes, r.TotalBytes = c.hosts[host].UUID, 1, c.seq, fmt.Sprintf("http://127.0.0.1:%d", 9000+host), 1<<40, 1<<41
	r.TicketKey, r.EpisodeUUID = []byte(strings.Repeat("k", 32)), id()
	if r.Checks == nil {
		r.Checks = []ha.Check{{Resource: "blobs", Path: "/b", Kinds: []ha.ObjectKind{ha.ObjectBlob}, Status: ha.CheckOK, CheckedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	}
	_, err := c.ReportStorage(c.ctx, r)
	c.must(err)
}

func (c *blobCloud) breaks(host int) {
	c.report(host, ha.AgentReport{Checks: []ha.Check{{Resource: "blobs", Path: "/b", Kinds: []ha.ObjectKind{ha.ObjectBlob}, Status: ha.CheckIOError}}})
}

func (c *blobCloud) add(want int, hosts ...int) ha.Blob {
	c.Helper()
	var at []string
	for _, h := range hosts {
		at = append(at, c.hosts[h].UUID)
	}
	b, err := c.AddBlob(c.ctx, ha.Blob{UUID: id(), Size: 100, SHA256: strings.Repeat("a", 64), WantCopies: want}, at)
	c.must(err)
	return b
}

func (c *blobCloud) finds(host int, b ha.Blob, state ha.CopyState) {
	c.Helper()
	c.report(host, ha.AgentReport{Copies: []ha.CopyReport{{BlobUUID: b.UUID, State: state, Size: b.Size, SHA256: b.SHA256}}})
}

// placed is a blob with verified copies on these hosts.
func (c *blobCloud) placed(want int, hosts ...int) ha.Blob {
	c.Helper()
	b := c.add(want, hosts...)
	for _, h := range hosts {
		c.finds(h, b, ha.CopyPresent)
	}
	return b
}

// load is what the replicator sees.
func (c *blobCloud) look() ha.Unit {
	c.Helper()
	if c.lease == nil {
		for _, u := range c.poll("r").Units {
			if u.Key == ha.ReplicatorKey {
				c.lease, _ = c.takeOver("r", ha.Lease{WorkID: u.WorkID, Epoch: u.Epoch, Beat: u.Beat})
			}
		}
	}
	return c.load(c.lease)
}

// pass is one of the replicator's. Who waits for orders sees each transfer that it begins, once.
func (c *blobCloud) pass() blob.Decision {
	c.Helper()
	u := c.look()
	d := blob.Decide(*u.Blobs, blobRules, u.Now, id)
	_, before, err := c.NewTransfers(c.ctx, -1)
	c.must(err)
	c.commit(c.lease, d.Changes...)
	var begun []string
	for _, change := range d.Changes {
		if p, is := change.(ha.PlanBlob); is {
			for _, t := range p.Start {
				begun = append(begun, t.To)
			}
		}
	}
	seen, last, err := c.NewTransfers(c.ctx, before)
	c.must(err)
	slices.Sort(begun)
	slices.Sort(seen)
	if !slices.Equal(seen, begun) {
		c.Fatalf("new transfers to %v are seen, and those to %v were begun", seen, begun)
	}
	if again, _, err := c.NewTransfers(c.ctx, last); err != nil || len(again) != 0 {
		c.Fatalf("new transfers to %v are seen again (%v)", again, err)
	}
	return d
}

func (c *blobCloud) show(b ha.Blob) ha.BlobDetails {
	c.Helper()
	d, err := c.Blob(c.ctx, b.UUID)
	c.must(err)
	return d
}

func (c *blobCloud) state(b ha.Blob, host int) ha.LocationState {
	c.Helper()
	for _, l := range c.show(b).Locations {
		if l.HostUUID == c.hosts[host].UUID {
			return l.State
		}
	}
	return ""
}

func (c *blobCloud) orders(host int) []ha.AgentOrder {
	c.Helper()
	o, err := c.AgentOrders(c.ctx, c.hosts[host].UUID, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	c.must(err)
	return o
}
