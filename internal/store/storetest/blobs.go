package storetest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/salvor-ha/salvor/internal/blob"
	"github.com/salvor-ha/salvor/internal/ha"
)

func blobCatalogue(f *fixture) {
	c := f.blobCloud(2)
	one, two := c.add(2, 0), c.add(1)
	equal(f, "durability of a blob that nobody has hashed", one.Durability, ha.DurabilityAtRisk)
	again, err := c.AddBlob(c.ctx, ha.Blob{UUID: one.UUID, Size: one.Size, SHA256: one.SHA256, WantCopies: 3, InUse: true}, nil)
	f.must(err)
	if again.WantCopies != 3 || !again.InUse || again.ID != one.ID {
		f.Fatalf("added again it is %+v", again)
	}
	_, err = c.AddBlob(c.ctx, ha.Blob{UUID: one.UUID, Size: 101, SHA256: one.SHA256, WantCopies: 3}, nil)
	fails[*ha.ConflictError](f, err)
	_, err = c.AddBlob(c.ctx, ha.Blob{UUID: id(), WantCopies: 0}, nil)
	fails[*ha.InvalidError](f, err)
	_, err = c.Blob(c.ctx, id())
	fails[*ha.NotFoundError](f, err)

	c.finds(0, one, ha.CopyPresent)
	list := func(filter ha.BlobFilter, limit int, marker string) (uuids []string) {
		blobs, err := c.Blobs(c.ctx, filter, limit, marker)
		f.must(err)
		for _, b := range blobs {
			uuids = append(uuids, b.UUID)
		}
		return uuids
	}
	equal(f, "all", fmt.Sprint(list(ha.BlobFilter{}, 10, "")), fmt.Sprint([]string{one.UUID, two.UUID}))
	equal(f, "the second page", fmt.Sprint(list(ha.BlobFilter{}, 1, one.UUID)), fmt.Sprint([]string{two.UUID}))
	equal(f, "the second page by id", fmt.Sprint(list(ha.BlobFilter{}, 1, fmt.Sprint(one.ID))), fmt.Sprint([]string{two.UUID}))
	equal(f, "at risk", fmt.Sprint(list(ha.BlobFilter{Durability: ptr("at_risk")}, 10, "")), fmt.Sprint([]string{two.UUID}))
	equal(f, "under", fmt.Sprint(list(ha.BlobFilter{Durability: ptr("under")}, 10, "")), fmt.Sprint([]string{one.UUID}))
	equal(f, "of a host", fmt.Sprint(list(ha.BlobFilter{HostUUID: &c.hosts[0].UUID}, 10, "")), fmt.Sprint([]string{one.UUID}))
	_, err = c.Blobs(c.ctx, ha.BlobFilter{}, 10, id())
	fails[*ha.MarkerError](f, err)
	counts, err := c.BlobCounts(c.ctx)
	f.must(err)
	if counts.Blobs[ha.DurabilityAtRisk] != 1 || counts.Bytes[ha.DurabilityUnder] != 100 || counts.Transfers != 0 {
		f.Fatalf("counts are %+v", counts)
	}
}

// blobCopied: from an agent's hash to want_copies, by orders.
func blobCopied(f *fixture) {
	c := f.blobCloud(3)
	b := c.add(2, 0)
	orders := c.orders(0)
	if len(orders) != 1 || orders[0].Kind != ha.OrderVerify || orders[0].SHA256 != b.SHA256 || orders[0].Size != b.Size {
		f.Fatalf("orders for who is said to have it: %+v", orders)
	}
	c.pass()
	if n := len(c.show(b).Transfers); n != 0 {
		f.Fatalf("%d transfers of what nobody has hashed", n)
	}
	c.finds(0, b, ha.CopyPresent)
	c.pass()
	d := c.show(b)
	if len(d.Transfers) != 1 || d.Transfers[0].From != c.hosts[0].UUID || d.Transfers[0].State != ha.TransferRunning || d.Durability != ha.DurabilityUnder {
		f.Fatalf("after a pass: %+v", d)
	}
	equal(f, "the reason", d.Why, "it is being copied")
	c.pass()
	equal(f, "transfers after another pass", len(c.show(b).Transfers), 1)
	to := 1
	if d.Transfers[0].To == c.hosts[2].UUID {
		to = 2
	}
	orders = c.orders(to)
	if len(orders) != 1 || orders[0].Kind != ha.OrderCopy || orders[0].ID != d.Transfers[0].UUID || len(orders[0].Sources) != 1 {
		f.Fatalf("orders for the target: %+v", orders)
	}
	if s := orders[0].Sources[0]; s.Host != c.hosts[0].UUID || s.URL != "http://127.0.0.1:9000" || string(s.Key) != strings.Repeat("k", 32) {
		f.Fatalf("the source is %+v", s)
	}
	// Only its target speaks for a transfer.
	c.report(3-to, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: orders[0].ID, State: ha.TransferFailed}}})
	equal(f, "its state", c.show(b).Transfers[0].State, ha.TransferRunning)
	c.report(to, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: orders[0].ID, State: ha.TransferRunning, Bytes: 40}}})
	equal(f, "what has arrived", c.show(b).Transfers[0].Bytes, int64(40))
	c.report(to, ha.AgentReport{
		Copies:    []ha.CopyReport{{BlobUUID: b.UUID, State: ha.CopyPresent, Size: b.Size, SHA256: b.SHA256}},
		Transfers: []ha.TransferReport{{UUID: orders[0].ID, State: ha.TransferDone, Bytes: 100}},
	})
	c.pass()
	d = c.show(b)
	if d.Durability != ha.DurabilityOK || d.Copies != 2 || d.Why != "" || d.Transfers[0].State != ha.TransferDone || d.Transfers[0].EndedAt == nil {
		f.Fatalf("in the end: %+v", d)
	}
	equal(f, "orders left", len(c.orders(to)), 0)
	list, names, err := c.Transfers(c.ctx, ha.TransferFilter{State: ptr("done"), BlobUUID: &b.UUID, HostUUID: &c.hosts[to].UUID}, 10, "")
	f.must(err)
	if len(list) != 1 || names[c.hosts[0].UUID] != c.hosts[0].Name {
		f.Fatalf("transfers %+v, names %v", list, names)
	}
}

// blobStalePlan: what was decided by rows that have changed is not written.
func blobStalePlan(f *fixture) {
	c := f.blobCloud(4)
	b := c.placed(1, 0, 1)
	u := c.look()
	d := blob.Decide(*u.Blobs, blobRules, u.Now, id)
	c.finds(2, b, ha.CopyPresent) // meanwhile
	c.commit(c.lease, d.Changes...)
	for h := range 3 {
		equal(f, "the copy", c.state(b, h), ha.LocationPresent)
	}
	c.pass()
	dropping := 0
	for h := range 3 {
		if c.state(b, h) == ha.LocationDropping {
			dropping++
		}
	}
	equal(f, "copies being dropped", dropping, 2)
	equal(f, "copies that count", c.show(b).Copies, 1)
	c.pass()
	equal(f, "copies that count after another pass", c.show(b).Copies, 1)
}

// blobDropsCount: of two copies, each of which may go while the other is there, one goes, whoever asks and however often.
func blobDropsCount(f *fixture) {
	c := f.blobCloud(3)
	b := c.placed(1, 0, 1)
	u := c.look()
	var both []ha.MoveLocation
	for _, l := range c.show(b).Locations {
		both = append(both, ha.MoveLocation{ID: l.ID, To: ha.LocationDropping, Why: "a mistake"})
	}
	c.commit(c.lease, ha.PlanBlob{BlobUUID: b.UUID, Seen: c.show(b).Touch, Move: both})
	kept := 0
	for h := range 2 {
		if c.state(b, h) == ha.LocationPresent {
			kept++
		}
	}
	equal(f, "copies kept", kept, 1)
	// Operators' orders race.
	b = c.placed(1, 0, 1)
	var wg sync.WaitGroup
	for h := range 2 {
		wg.Go(func() {
			_ = c.DropLocation(c.ctx, ha.DropLocation{BlobUUID: b.UUID, HostUUID: c.hosts[h].UUID, By: "op", Reason: "x"})
		})
	}
	wg.Wait()
	kept = 0
	for h := range 2 {
		if c.state(b, h) == ha.LocationPresent {
			kept++
		}
	}
	if kept != 1 {
		f.Fatalf("of two copies that operators dropped at once %d are kept", kept)
	}
	// A drop that was right when it was decided is not ordered once it is wrong.
	b = c.placed(1, 0, 1)
	f.must(c.DropLocation(c.ctx, ha.DropLocation{BlobUUID: b.UUID, HostUUID: c.hosts[0].UUID, By: "op", Reason: "x"}))
	ordered := func(want ha.OrderKind) (n int) {
		for _, o := range c.orders(0) {
			if o.Blob == b.UUID && o.Kind == want {
				n++
			}
		}
		return n
	}
	equal(f, "drops ordered", ordered(ha.OrderDrop), 1)
	c.breaks(1)
	equal(f, "drops ordered after the other's disk died", ordered(ha.OrderDrop), 0)
	_ = u
}

// blobRehashed: a present copy that is to be hashed again still counts, is asked for, and spares no other before it was.
func blobRehashed(f *fixture) {
	c := f.blobCloud(2)
	b := c.placed(1, 0, 1)
	c.look()
	id := map[string]int64{}
	for _, l := range c.show(b).Locations {
		id[l.HostUUID] = l.ID
	}
	move := func(host int, to ha.LocationState, why string) {
		f.Helper()
		c.commit(c.lease, ha.PlanBlob{BlobUUID: b.UUID, Seen: c.show(b).Touch, Copies: 2, Move: []ha.MoveLocation{{ID: id[c.hosts[host].UUID], To: to, Why: why}}})
	}
	move(0, ha.LocationPresent, ha.WhyRehash)
	equal(f, "the copy", c.state(b, 0), ha.LocationPresent)
	orders := c.orders(0)
	if len(orders) != 1 || orders[0].Kind != ha.OrderVerify || orders[0].Blob != b.UUID {
		f.Fatalf("orders are %+v", orders)
	}
	move(1, ha.LocationDropping, "too many")
	equal(f, "the other, which may not go yet", c.state(b, 1), ha.LocationPresent)
	c.finds(0, b, ha.CopyPresent)
	equal(f, "orders once it was hashed", len(c.orders(0)), 0)
	move(1, ha.LocationDropping, "too many")
	equal(f, "the other", c.state(b, 1), ha.LocationDropping)

	move(0, ha.LocationPresent, ha.WhyRehash)
	equal(f, "drops ordered while the only other copy is to be hashed again", len(c.orders(1)), 0)
	c.report(0, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: c.orders(0)[0].ID, State: ha.TransferFailed, Error: "cannot read"}}})
	equal(f, "a copy that could not be hashed again", c.state(b, 0), ha.LocationSuspect)
}

// blobSuspected: the cascade's batches turn each copy once, and the way back is the agent's hash.
func blobSuspected(f *fixture) {
	c := f.blobCloud(3)
	var all []ha.Blob
	for range 5 {
		all = append(all, c.placed(2, 0, 1))
	}
	keep := c.placed(1, 2)
	c.pass()
	c.breaks(0)
	var storage *ha.Lease
	for _, u := range c.poll("s").Units {
		if u.Key == ha.UnitStorage.Key(c.hosts[0].UUID) {
			storage, _ = c.takeOver("s", ha.Lease{WorkID: u.WorkID, Epoch: u.Epoch, Beat: u.Beat})
		}
	}
	episode := c.load(storage).Storage.Episodes[0].UUID
	var cursor int64
	for range 4 {
		u := c.load(storage)
		run := u.Storage.Runs[0]
		if run.State != ha.RunOpen {
			break
		}
		cursor = 0
		if run.Cursor != "" {
			_, err := fmt.Sscan(run.Cursor, &cursor)
			f.must(err)
		}
		c.commit(storage, ha.SuspectLocations{HostUUID: c.hosts[0].UUID, EpisodeUUID: episode, Cursor: cursor, Limit: 2})
	}
	run := c.load(storage).Storage.Runs[0]
	equal(f, "copies that the run turned", run.Done, 5)
	equal(f, "the run", run.State, ha.RunDone)
	for _, b := range all {
		equal(f, "the copy", c.state(b, 0), ha.LocationSuspect)
		equal(f, "the durability", c.show(b).Durability, ha.DurabilityUnder)
	}
	equal(f, "the blob elsewhere", c.show(keep).Durability, ha.DurabilityOK)
	c.finds(0, all[0], ha.CopyPresent)
	equal(f, "a suspect copy that reads while its disk has failed", c.state(all[0], 0), ha.LocationSuspect)
	c.finds(0, all[0], ha.CopyMissing)
	equal(f, "a suspect copy on a disk that is not mounted", c.state(all[0], 0), ha.LocationSuspect)
	c.pass()
	for _, b := range all {
		if d := c.show(b); len(d.Transfers) != 1 || d.Transfers[0].To != c.hosts[2].UUID || d.Transfers[0].From != c.hosts[1].UUID {
			f.Fatalf("transfers are %+v", d.Transfers)
		}
	}
	c.commit(storage, ha.VerifyLocations{HostUUID: c.hosts[0].UUID, EpisodeUUID: episode, Limit: 100})
	for _, b := range all {
		equal(f, "the copy", c.state(b, 0), ha.LocationVerifying)
	}
	equal(f, "orders to verify", len(c.orders(0)), 5)
}

// blobReports: what agents find makes of copies what they are.
func blobReports(f *fixture) {
	c := f.blobCloud(3)
	b := c.placed(2, 0, 1)
	c.report(2, ha.AgentReport{Copies: []ha.CopyReport{{BlobUUID: id(), State: ha.CopyPresent}, {BlobUUID: b.UUID, State: ha.CopyPresent, Size: b.Size, SHA256: strings.Repeat("b", 64)}}})
	equal(f, "a file with other bytes", c.state(b, 2), ha.LocationVerifying)
	equal(f, "copies", c.show(b).Copies, 2)
	c.finds(2, b, ha.CopyCorrupt)
	equal(f, "a corrupt copy", c.state(b, 2), ha.LocationQuarantined)
	c.pass()
	equal(f, "a corrupt copy when a good one is elsewhere", c.state(b, 2), ha.LocationDropping)
	orders := c.orders(2)
	if len(orders) != 1 || orders[0].Kind != ha.OrderDrop {
		f.Fatalf("orders are %+v", orders)
	}
	c.report(2, ha.AgentReport{Copies: []ha.CopyReport{{BlobUUID: b.UUID, State: ha.CopyMissing}}, Transfers: []ha.TransferReport{{UUID: orders[0].ID, State: ha.TransferDone}}})
	equal(f, "what was dropped", c.state(b, 2), ha.LocationDropped)
	equal(f, "orders", len(c.orders(2)), 0)

	c.finds(1, b, ha.CopyMissing)
	d := c.show(b)
	equal(f, "durability after a copy vanished", d.Durability, ha.DurabilityUnder)
	c.finds(0, b, ha.CopyCorrupt)
	equal(f, "durability after the last copy went bad", c.show(b).Durability, ha.DurabilityAtRisk)
	c.pass()
	equal(f, "the bad copy of a blob without a good one", c.state(b, 0), ha.LocationQuarantined)
	equal(f, "orders for it", len(c.orders(0)), 0)
	f.must(c.RescueBlob(c.ctx, b.UUID))
	orders = c.orders(0)
	if len(orders) != 1 || orders[0].Kind != ha.OrderRestore {
		f.Fatalf("orders after a rescue are %+v", orders)
	}
	c.finds(0, b, ha.CopyCorrupt)
	equal(f, "orders once it is corrupt still", len(c.orders(0)), 0)
	fails[*ha.ConflictError](f, c.DropLocation(c.ctx, ha.DropLocation{BlobUUID: b.UUID, HostUUID: c.hosts[0].UUID, By: "op", Force: true}))
	f.must(c.LoseBlob(c.ctx, b.UUID, "op"))
	c.pass()
	equal(f, "durability by an operator's word", c.show(b).Durability, ha.DurabilityLost)
	f.must(c.DropLocation(c.ctx, ha.DropLocation{BlobUUID: b.UUID, HostUUID: c.hosts[0].UUID, By: "op", Reason: "x"}))
	f.must(c.RescueBlob(c.ctx, b.UUID))
	c.finds(1, b, ha.CopyPresent)
	fails[*ha.ConflictError](f, c.LoseBlob(c.ctx, b.UUID, "op"))
	fails[*ha.NotFoundError](f, c.LoseBlob(c.ctx, id(), "op"))
	fails[*ha.NotFoundError](f, c.DropLocation(c.ctx, ha.DropLocation{BlobUUID: b.UUID, HostUUID: id(), By: "op"}))

	twice := c.add(2)
	found := ha.CopyReport{BlobUUID: twice.UUID, State: ha.CopyPresent, Size: twice.Size, SHA256: twice.SHA256}
	c.report(2, ha.AgentReport{Copies: []ha.CopyReport{{BlobUUID: twice.UUID, State: ha.CopyCorrupt}, found, found}})
	equal(f, "a copy that one report tells of again and again: the last word", c.state(twice, 2), ha.LocationPresent)
}

// blobFailures: a transfer that failed is tried again, after a while; one that is cancelled is told until the agent knows; what could not be
// verified is suspect.
func blobFailures(f *fixture) {
	c := f.blobCloud(2)
	b := c.placed(2, 0)
	c.pass()
	t := c.show(b).Transfers[0]
	c.report(1, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: t.UUID, State: ha.TransferFailed, Bytes: 30, Error: "no route"}}})
	d := c.show(b)
	if d.Transfers[0].State != ha.TransferFailed || d.Transfers[0].Why != "no route" || d.Transfers[0].Bytes != 30 {
		f.Fatalf("the transfer is %+v", d.Transfers[0])
	}
	c.pass()
	d = c.show(b)
	equal(f, "transfers at once after one failed", len(d.Transfers), 1)
	equal(f, "the reason", d.Why, "it could not be copied, and will be tried again: no route")
	f.must(c.RescueBlob(c.ctx, b.UUID)) // an operator need not wait
	c.pass()
	d = c.show(b)
	equal(f, "transfers", len(d.Transfers), 2)
	c.finds(1, b, ha.CopyPresent) // laid there by hand
	c.pass()
	d = c.show(b)
	equal(f, "the state of what is not needed", d.Transfers[0].State, ha.TransferCancelled)
	orders := c.orders(1)
	if len(orders) != 1 || orders[0].Kind != ha.OrderCancel || orders[0].ID != d.Transfers[0].UUID {
		f.Fatalf("orders are %+v", orders)
	}
	c.report(1, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: orders[0].ID, State: ha.TransferFailed}}})
	equal(f, "orders once the agent knows", len(c.orders(1)), 0)
	equal(f, "the state", c.show(b).Transfers[0].State, ha.TransferCancelled)

	b = c.add(1, 0)
	order := c.orders(0)[0]
	c.report(0, ha.AgentReport{Transfers: []ha.TransferReport{{UUID: order.ID, State: ha.TransferFailed, Error: "cannot read"}}})
	equal(f, "what could not be verified", c.state(b, 0), ha.LocationSuspect)
	equal(f, "orders", len(c.orders(0)), 0)
}
