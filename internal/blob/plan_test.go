package blob

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

var (
	now  = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	long = now.Add(-time.Hour)
	all  = Rules{Total: 1000, PerSource: 1000, PerTarget: 1000, Grace: time.Hour}
)

func at(uuid string, change ...func(*ha.BlobHost)) ha.BlobHost {
	h := ha.BlobHost{UUID: uuid, Name: uuid, URL: "http://" + uuid, Free: 1 << 40}
	for _, c := range change {
		c(&h)
	}
	return h
}

func failed(h *ha.BlobHost)  { h.Failed, h.Errored = true, true }
func errored(h *ha.BlobHost) { h.Errored = true }
func silent(d time.Duration) func(*ha.BlobHost) {
	return func(h *ha.BlobHost) { h.Silent = d }
}

func free(n int64) func(*ha.BlobHost) { return func(h *ha.BlobHost) { h.Free = n } }
func in(d string) func(*ha.BlobHost)  { return func(h *ha.BlobHost) { h.Domain = d } }

func loc(id int64, host string, s ha.LocationState) ha.Location {
	return ha.Location{ID: id, BlobUUID: "b", HostUUID: host, State: s, Since: long, VerifiedAt: &long}
}

func blobOf(want int, locations ...ha.Location) ha.BlobState {
	return ha.BlobState{Blob: ha.Blob{UUID: "b", Size: 100, WantCopies: want, Touch: 3}, Locations: locations}
}

// planned is what one pass decides about one blob.
func planned(t *testing.T, r Rules, b ha.BlobState, hosts ...ha.BlobHost) ha.PlanBlob {
	t.Helper()
	n := 0
	var running []ha.Transfer
	for _, x := range b.Transfers {
		if x.State == ha.TransferRunning {
			running = append(running, x)
		}
	}
	d := Decide(ha.BlobWork{Hosts: hosts, Due: []ha.BlobState{b}, Running: running}, r, now, func() string { n++; return fmt.Sprint("t", n) })
	for _, c := range d.Changes {
		if p, is := c.(ha.PlanBlob); is {
			return p
		}
	}
	t.Fatalf("nothing was decided: %+v", d)
	return ha.PlanBlob{}
}

func targets(p ha.PlanBlob) (to []string) {
	for _, t := range p.Start {
		to = append(to, t.From+">"+t.To)
	}
	return to
}

func TestTargets(t *testing.T) {
	const present = ha.LocationPresent
	said := loc(2, "b", ha.LocationVerifying)
	said.Since = now.Add(-time.Minute)
	for _, c := range []struct {
		name  string
		blob  ha.BlobState
		hosts []ha.BlobHost
		rules Rules
		want  string
		why   string
	}{
		{"the most room", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b", free(500)), at("c", free(900))}, all, "[a>c]", "it is being copied"},
		{"another failure domain first", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a", in("r1")), at("b", in("r1"), free(900)), at("c", in("r2"), free(500))}, all, "[a>c]", "it is being copied"},
		{"each copy in a domain of its own", blobOf(3, loc(1, "a", present)), []ha.BlobHost{at("a", in("r1")), at("b", in("r2"), free(900)), at("c", in("r2"), free(800)), at("d", in("r3"), free(500))}, all, "[a>b a>d]", "it is being copied"},
		{"never a host in error", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b", errored), at("c", failed)}, all, "[]", "every host that is well and holds blobs has a copy already, good or not: add a host, or want fewer copies"},
		{"never one that is silent", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b", silent(4*time.Minute)), at("c", silent(-1))}, all, "[]", "every host that is well and holds blobs has a copy already, good or not: add a host, or want fewer copies"},
		{"never one without room", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b", free(99)), at("c", free(100))}, all, "[a>c]", "it is being copied"},
		{"what is reserved stays free", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b", free(100))}, Rules{Total: 9, PerSource: 9, PerTarget: 9, Reserve: 1, Grace: time.Hour}, "[]", "no other host that is well has 100 B free beyond what [salvor] blob_reserved_mb keeps free"},
		{"without room, reserved or not", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b", free(99))}, Rules{Total: 9, PerSource: 9, PerTarget: 9, Reserve: 1, Grace: time.Hour}, "[]", "no other host that is well has 100 B free, less what copies under way need"},
		{"all have one", blobOf(3, loc(1, "a", present), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b")}, all, "[]", "every host that is well and holds blobs has a copy already, good or not: add a host, or want fewer copies"},
		{"the only one that is well is hurt", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a", errored), at("b", failed)}, all, "[]", "no other host that holds blobs is well and heard"},
		{"a copy of a host whose instances only are hurt counts, and serves", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a", errored), at("b")}, all, "[a>b]", "it is being copied"},
		{"a silent host's copies count for a while", blobOf(2, loc(1, "a", present), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b", silent(30*time.Minute)), at("c")}, all, "[]", ""},
		{"and then no more", blobOf(2, loc(1, "a", present), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b", silent(61*time.Minute)), at("c")}, all, "[a>c]", "it is being copied"},
		{"a suspect copy does not count", blobOf(2, loc(1, "a", present), loc(2, "b", ha.LocationSuspect)), []ha.BlobHost{at("a"), at("b", failed), at("c")}, all, "[a>c]", "it is being copied"},
		{"the limit in all", blobOf(3, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b"), at("c")}, Rules{Total: 1, PerSource: 9, PerTarget: 9, Grace: time.Hour}, "[a>b]", "it waits for its turn: as much is being copied as the limits allow"},
		{"the limit per source", blobOf(3, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b"), at("c")}, Rules{Total: 9, PerSource: 1, PerTarget: 9, Grace: time.Hour}, "[a>b]", "it waits for its turn: as much is being copied as the limits allow"},
		{"a copy that is about to be hashed is waited for", blobOf(2, loc(1, "a", present), said), []ha.BlobHost{at("a"), at("b"), at("c")}, all, "[]", "a copy that is said to be there is being hashed"},
		{"but makes no other needless", blobOf(3, loc(1, "a", present), said), []ha.BlobHost{at("a"), at("b"), at("c")}, all, "[a>c]", "a copy that is said to be there is being hashed"},
		{"not for long", blobOf(2, loc(1, "a", present), loc(2, "b", ha.LocationVerifying)), []ha.BlobHost{at("a"), at("b"), at("c")}, all, "[a>c]", "it is being copied"},
		{"not of a host that is not heard", blobOf(2, loc(1, "a", present), said), []ha.BlobHost{at("a"), at("b", silent(4*time.Minute)), at("c")}, all, "[a>c]", "it is being copied"},
		{"at risk: nothing is waited for", blobOf(2, loc(1, "a", ha.LocationSuspect), said), []ha.BlobHost{at("a", failed), at("b"), at("c")}, all, "[a>c]", "it is read from a copy that does not count: there is no other"},
		{"at risk: it is read from where it may still be", blobOf(2, loc(1, "a", ha.LocationSuspect)), []ha.BlobHost{at("a", failed), at("b"), at("c")}, all, "[a>b]", "it is read from a copy that does not count: there is no other"},
		{"at risk: nothing can be asked", blobOf(2, loc(1, "a", ha.LocationSuspect)), []ha.BlobHost{at("a", failed, silent(time.Hour)), at("b")}, all, "[]", "no host that can be asked has a copy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planned(t, c.rules, c.blob, c.hosts...)
			if got := fmt.Sprint(targets(p)); got != c.want || p.Why != c.why {
				t.Errorf("transfers are %s (%s), want %s (%s)", got, p.Why, c.want, c.why)
			}
			for _, s := range p.Start {
				if s.Rescue != (p.Copies == 0) || s.Size != 100 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

func moves(p ha.PlanBlob) (out []string) {
	for _, m := range p.Move {
		out = append(out, fmt.Sprintf("%d>%s", m.ID, m.To))
	}
	return out
}

func TestWhatIsGivenUp(t *testing.T) {
	const present = ha.LocationPresent
	unsure := loc(2, "b", present)
	unsure.VerifiedAt = nil
	stale := func(l ha.Location) ha.Location {
		at := now.Add(-ha.HashTrust - time.Second)
		l.VerifiedAt = &at
		return l
	}
	ordered := loc(1, "a", ha.LocationDropping)
	ordered.Why = ha.WhyOrdered + "op"
	restoring := loc(1, "a", ha.LocationQuarantined)
	restoring.Why = ha.WhyRestore
	for _, c := range []struct {
		name  string
		blob  ha.BlobState
		hosts []ha.BlobHost
		want  string
	}{
		{"more than wanted: where room is scarcest", blobOf(1, loc(1, "a", present), loc(2, "b", present)), []ha.BlobHost{at("a", free(10)), at("b", free(20))}, "[1>dropping]"},
		{"of a domain that has another first", blobOf(2, loc(1, "a", present), loc(2, "b", present), loc(3, "c", present)), []ha.BlobHost{at("a", in("r1"), free(30)), at("b", in("r1"), free(40)), at("c", in("r2"), free(10))}, "[1>dropping]"},
		{"not while the others are not hashed", blobOf(1, loc(1, "a", present), unsure), []ha.BlobHost{at("a"), at("b")}, "[]"},
		{"not while the others are silent", blobOf(1, loc(1, "a", present), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b", silent(4*time.Minute))}, "[]"},
		{"not while the others are in error", blobOf(1, loc(1, "a", present), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b", errored)}, "[]"},
		{"a suspect copy on a broken disk stays", blobOf(1, loc(1, "a", ha.LocationSuspect), loc(2, "b", present), loc(3, "c", present)), []ha.BlobHost{at("a", failed), at("b", free(1)), at("c")}, "[2>dropping]"},
		{"a suspect copy on a host that is well is hashed", blobOf(1, loc(1, "a", ha.LocationSuspect), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b")}, "[1>verifying]"},
		{"what was set aside goes when another is good", blobOf(1, loc(1, "a", ha.LocationQuarantined), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b")}, "[1>dropping]"},
		{"and stays when none is", blobOf(2, loc(1, "a", ha.LocationQuarantined), loc(2, "b", ha.LocationSuspect)), []ha.BlobHost{at("a"), at("b", failed)}, "[]"},
		{"hashed once more when nothing else is left", blobOf(2, loc(1, "a", ha.LocationQuarantined)), []ha.BlobHost{at("a")}, "[1>quarantined]"},
		{"once", blobOf(2, restoring), []ha.BlobHost{at("a")}, "[]"},
		{"not for a hash of long ago: it is made anew", blobOf(1, loc(1, "a", present), stale(loc(2, "b", present))), []ha.BlobHost{at("a", free(10)), at("b")}, "[2>present]"},
		{"its own hash may be as old as it likes", blobOf(1, stale(loc(1, "a", present)), loc(2, "b", present)), []ha.BlobHost{at("a", free(10)), at("b")}, "[1>dropping]"},
		{"what was set aside is kept until the other is hashed anew", blobOf(1, loc(1, "a", ha.LocationQuarantined), stale(loc(2, "b", present))), []ha.BlobHost{at("a"), at("b")}, "[2>present]"},
		{"what waits to be dropped has the other hashed anew", blobOf(1, loc(1, "a", ha.LocationDropping), stale(loc(2, "b", present))), []ha.BlobHost{at("a"), at("b")}, "[2>present]"},
		{"an operator's order does not", blobOf(1, ordered, stale(loc(2, "b", present))), []ha.BlobHost{at("a"), at("b")}, "[]"},
		{"nor are hashes made anew that would not suffice", blobOf(1, loc(1, "a", ha.LocationQuarantined), stale(loc(2, "b", present))), []ha.BlobHost{at("a"), at("b", errored)}, "[]"},
		{"what is being dropped is kept when it is needed again", blobOf(2, loc(1, "a", ha.LocationDropping), loc(2, "b", present)), []ha.BlobHost{at("a"), at("b")}, "[1>verifying]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprint(moves(planned(t, all, c.blob, c.hosts...))); got != c.want {
				t.Errorf("moves are %s, want %s", got, c.want)
			}
		})
	}
}

func TestTransfersUnderWay(t *testing.T) {
	const present = ha.LocationPresent
	run := func(from, to string, bytes int64) ha.Transfer {
		return ha.Transfer{UUID: "x", BlobUUID: "b", From: from, To: to, State: ha.TransferRunning, Size: 100, Bytes: bytes, StartedAt: long, MovedAt: now}
	}
	with := func(b ha.BlobState, transfers ...ha.Transfer) ha.BlobState { b.Transfers = transfers; return b }
	quiet := func(t ha.Transfer) ha.Transfer { t.MovedAt = now.Add(-forgotten); return t }
	ended := func(to string, bytes int64, ago time.Duration) ha.Transfer {
		at := now.Add(-ago)
		return ha.Transfer{UUID: "f", BlobUUID: "b", From: "a", To: to, State: ha.TransferFailed, Size: 100, Bytes: bytes, EndedAt: &at, Why: "broken off"}
	}
	for _, c := range []struct {
		name      string
		blob      ha.BlobState
		hosts     []ha.BlobHost
		start     string
		cancelled string
		replaced  string
		again     time.Duration
	}{
		{"nothing is started twice", with(blobOf(2, loc(1, "a", present)), run("a", "b", 0)), []ha.BlobHost{at("a"), at("b"), at("c")}, "[]", "", "", 0},
		{"to a host that turned to error: to another one", with(blobOf(2, loc(1, "a", present)), run("a", "b", 0)), []ha.BlobHost{at("a"), at("b", failed), at("c")}, "[a>c]", "the storage of its target is in error", "", 0},
		{"to a host that went silent", with(blobOf(2, loc(1, "a", present)), run("a", "b", 0)), []ha.BlobHost{at("a"), at("b", silent(4*time.Minute)), at("c")}, "[a>c]", "the agent of its target is silent", "", 0},
		{"to a host whose instances only are hurt", with(blobOf(2, loc(1, "a", present)), run("a", "b", 0)), []ha.BlobHost{at("a"), at("b", errored), at("c")}, "[a>c]", "the storage of its target is in error", "", 0},
		{"to a host that holds no blobs any more", with(blobOf(2, loc(1, "a", present)), run("a", "b", 0)), []ha.BlobHost{at("a"), at("b", func(h *ha.BlobHost) { h.URL = "" }), at("c")}, "[a>c]", "its target has no place for blobs any more", "", 0},
		{"of which its target says nothing", with(blobOf(2, loc(1, "a", present)), quiet(run("a", "b", 0))), []ha.BlobHost{at("a"), at("b"), at("c")}, "[a>b]", "the agent of its target says nothing about it", "", 0},
		{"no host has room for it", blobOf(2, loc(1, "a", present)), []ha.BlobHost{at("a"), at("b", free(99))}, "[]", "", "", noRoom},
		{"from a host that turned to error: from another one", with(blobOf(3, loc(1, "a", ha.LocationSuspect), loc(2, "d", present), loc(3, "e", present)), run("a", "b", 60)), []ha.BlobHost{at("a", failed), at("b"), at("d"), at("e")}, "[]", "", "d", 0},
		{"from the last one, which turned to error: read all the same", with(blobOf(2, loc(1, "a", ha.LocationSuspect)), run("a", "b", 60)), []ha.BlobHost{at("a", failed), at("b")}, "[]", "", "a", 0},
		{"from the last one, which is gone", with(blobOf(2, loc(1, "a", present)), run("a", "b", 60)), []ha.BlobHost{at("a", silent(4*time.Minute)), at("b")}, "[]", "its source is gone, and there is no other", "", noRoom},
		{"there are enough by now", with(blobOf(1, loc(1, "a", present)), run("a", "b", 0)), []ha.BlobHost{at("a"), at("b")}, "[]", "there are enough copies", "", 0},
		{"after a failure it waits", with(blobOf(2, loc(1, "a", present)), ended("b", 60, time.Second)), []ha.BlobHost{at("a"), at("b"), at("c")}, "[]", "", "", time.Second},
		{"and resumes where the bytes are", with(blobOf(2, loc(1, "a", present)), ended("b", 60, 3*time.Second)), []ha.BlobHost{at("a"), at("b", free(50)), at("c")}, "[a>b]", "", "", 0},
		{"elsewhere when nothing has arrived", with(blobOf(2, loc(1, "a", present)), ended("b", 0, 3*time.Second)), []ha.BlobHost{at("a"), at("b"), at("c")}, "[a>c]", "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planned(t, all, c.blob, c.hosts...)
			cancelled, replaced := "", ""
			if len(p.Cancel) > 0 {
				cancelled = p.Cancel[0].Why
			}
			if len(p.Replace) > 0 {
				replaced = p.Replace[0].From
			}
			if got := fmt.Sprint(targets(p)); got != c.start || cancelled != c.cancelled || replaced != c.replaced || p.Again != c.again {
				t.Errorf("start %s, cancel %q, from %q, again %s", got, cancelled, replaced, p.Again)
			}
		})
	}
}

// TestRoomOfTransfers: what is still to come takes room at its target, and gives it back when it is cancelled.
func TestRoomOfTransfers(t *testing.T) {
	toB := ha.Transfer{UUID: "x", BlobUUID: "enough", From: "a", To: "b", State: ha.TransferRunning, Size: 100, Bytes: 60, StartedAt: long, MovedAt: now}
	enough := blobOf(1, loc(1, "a", ha.LocationPresent)) // its transfer is cancelled
	enough.UUID, enough.Transfers = "enough", []ha.Transfer{toB}
	for _, c := range []struct {
		name string
		due  []ha.BlobState
		room int64 // that is told to be free on b
		size int64
		want bool
	}{
		{"just enough beside it", nil, 140, 100, true},
		{"not enough beside it", nil, 139, 100, false},
		{"just enough without it", []ha.BlobState{enough}, 100, 100, true},
		{"not enough without it", []ha.BlobState{enough}, 100, 101, false},
	} {
		b := blobOf(2, loc(1, "a", ha.LocationPresent))
		b.Size = c.size
		started := 0
		w := ha.BlobWork{Hosts: []ha.BlobHost{at("a"), at("b", free(c.room))}, Due: append(c.due, b), Running: []ha.Transfer{toB}}
		for _, change := range Decide(w, all, now, func() string { return "t" }).Changes {
			if p, is := change.(ha.PlanBlob); is && p.BlobUUID == "b" {
				started += len(p.Start)
			}
		}
		if (started == 1) != c.want {
			t.Errorf("%s: %d transfers", c.name, started)
		}
	}
}

// TestTheFirstOfThoseThatAreHashedIsWaitedFor, whichever stands first.
func TestTheFirstOfThoseThatAreHashedIsWaitedFor(t *testing.T) {
	said := func(id int64, host string, ago time.Duration) ha.Location {
		l := loc(id, host, ha.LocationVerifying)
		l.Since = now.Add(-ago)
		return l
	}
	b, c := said(2, "b", time.Minute), said(3, "c", 5*time.Minute)
	for _, two := range [][]ha.Location{{b, c}, {c, b}} {
		p := planned(t, all, blobOf(3, loc(1, "a", ha.LocationPresent), two[0], two[1]), at("a"), at("b"), at("c"))
		if p.Again != settles-5*time.Minute {
			t.Errorf("looked at again after %s", p.Again)
		}
	}
}

// TestUnheardTransfersWakeTheirBlobs, which are not due: nobody else says that they will not go on.
func TestUnheardTransfersWakeTheirBlobs(t *testing.T) {
	run := func(blob, from, to string, rescue bool, moved time.Time) ha.Transfer {
		return ha.Transfer{UUID: blob, BlobUUID: blob, From: from, To: to, State: ha.TransferRunning, Rescue: rescue, Size: 9, MovedAt: moved}
	}
	hosts := []ha.BlobHost{at("well"), at("hurt", failed), at("deaf", silent(time.Hour))}
	running := []ha.Transfer{
		run("fine", "well", "well", false, now), run("rescue", "hurt", "well", true, now),
		run("source hurt", "hurt", "well", false, now), run("source deaf", "deaf", "well", true, now), run("source gone", "nobody", "well", true, now),
		run("target hurt", "well", "hurt", false, now), run("target deaf", "well", "deaf", false, now), run("still", "well", "well", false, now.Add(-forgotten)),
	}
	d := Decide(ha.BlobWork{Hosts: hosts, Running: running}, all, now, func() string { return "t" })
	want := []string{"source deaf", "source gone", "source hurt", "still", "target deaf", "target hurt"}
	if woken, is := d.Changes[0].(ha.WakeBlobs); !is || !slices.Equal(woken.UUIDs, want) {
		t.Errorf("%+v, want %q", d.Changes, want)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB", 3 << 60: "3072.0 PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestTenThousandBlobs: limits hold, and what a pass takes grows as its blobs do, not as their square. It is CPU time, and of two numbers of
// blobs, for what others do on this machine, and what looks for races, make each of them longer.
func TestTenThousandBlobs(t *testing.T) {
	const few, many = 2000, 20000
	small := max(passOver(t, few), time.Millisecond)
	if large := passOver(t, many); large > 40*small {
		t.Errorf("a pass over %d blobs took %s, one over %d took %s", few, small, many, large)
	}
}

// passOver is what the fastest of some passes over so many blobs took.
func passOver(t *testing.T, blobs int) time.Duration {
	t.Helper()
	w := ha.BlobWork{}
	for i := range 50 {
		w.Hosts = append(w.Hosts, at(fmt.Sprintf("h%02d", i)))
	}
	for i := range blobs {
		b := blobOf(2, loc(int64(i), fmt.Sprintf("h%02d", i%50), ha.LocationPresent))
		b.UUID = fmt.Sprintf("b%05d", i)
		w.Due = append(w.Due, b)
	}
	r := Rules{Total: 256, PerSource: 8, PerTarget: 8, Grace: time.Hour}
	var d Decision
	fastest := time.Duration(math.MaxInt64)
	for range 3 {
		n, began := 0, cpu(t)
		d = Decide(w, r, now, func() string { n++; return fmt.Sprint("t", n) })
		fastest = min(fastest, cpu(t)-began)
	}
	from, to, started := map[string]int{}, map[string]int{}, 0
	for _, c := range d.Changes {
		if p, is := c.(ha.PlanBlob); is {
			for _, s := range p.Start {
				from[s.From]++
				to[s.To]++
				started++
			}
		}
	}
	if started != r.Total {
		t.Errorf("%d transfers are started, want %d", started, r.Total)
	}
	for h, n := range from {
		if n > r.PerSource || to[h] > r.PerTarget {
			t.Errorf("%d from and %d to %s", n, to[h], h)
		}
	}
	return fastest
}

// cpu is what this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestShares: many copies are spread over hosts whose room differs little, by bytes; one that has less by more than a tenth gets none before
// the others have as little.
func TestShares(t *testing.T) {
	const room = int64(1 << 30)
	w := ha.BlobWork{Hosts: []ha.BlobHost{at("a"), at("b", free(room)), at("c", free(room+room/20)), at("d", free(room*8/10))}}
	for i := range int64(300) {
		b := blobOf(2, loc(i, "a", ha.LocationPresent))
		b.UUID, b.Size = fmt.Sprintf("b%03d", i), 1000+i*i
		w.Due = append(w.Due, b)
	}
	w.Hosts[0].Free = 0
	n := 0
	d := Decide(w, Rules{Total: 1000, PerSource: 1000, PerTarget: 1000, Grace: time.Hour}, now, func() string { n++; return fmt.Sprint("t", n) })
	bytes := map[string]int64{}
	for _, c := range d.Changes {
		if p, is := c.(ha.PlanBlob); is {
			for _, s := range p.Start {
				bytes[s.To] += s.Size
			}
		}
	}
	if n != 300 || bytes["d"] > 0 || max(bytes["b"], bytes["c"])-min(bytes["b"], bytes["c"]) > 1000+300*300 {
		t.Errorf("%d transfers, bytes %v", n, bytes)
	}
}

// TestWaitingForItsTurn: a blob that the limits let wait goes with the next pass, unless others could go before it.
func TestWaitingForItsTurn(t *testing.T) {
	one := Rules{Total: 9, PerSource: 9, PerTarget: 1, Grace: time.Hour}
	running := ha.Transfer{UUID: "x", BlobUUID: "other", From: "a", To: "b", State: ha.TransferRunning, Size: 100, StartedAt: long, MovedAt: now}
	two, three := []ha.BlobHost{at("a"), at("b")}, []ha.BlobHost{at("a"), at("b"), at("c")}
	here := []ha.Location{loc(1, "a", ha.LocationPresent)}
	for _, c := range []struct {
		name  string
		hosts []ha.BlobHost
		at    []ha.Location
		more  bool
		rules Rules
		again time.Duration
	}{
		{"nobody waits behind it", two, here, false, one, itsTurn},
		{"nor could those go who do", two, here, true, Rules{Total: 1, PerSource: 9, PerTarget: 9, Grace: time.Hour}, itsTurn},
		{"one who does could: to the host that has it", two, here, true, one, crowdedOut},
		{"another host is free for them", three, append(here, loc(2, "c", ha.LocationQuarantined)), true, one, crowdedOut},
	} {
		b := blobOf(2, c.at...)
		d := Decide(ha.BlobWork{Hosts: c.hosts, Due: []ha.BlobState{b}, Running: []ha.Transfer{running}, More: c.more}, c.rules, now, func() string { return "new" })
		p, is := d.Changes[0].(ha.PlanBlob)
		if !is || len(p.Start) > 0 || p.Again != c.again || p.Why != "it waits for its turn: as much is being copied as the limits allow" {
			t.Errorf("%s: %+v, want it again after %s", c.name, d.Changes, c.again)
		}
		b.Durability, b.Copies, b.Why = ha.DurabilityUnder, 1, p.Why
		d = Decide(ha.BlobWork{Hosts: c.hosts, Due: []ha.BlobState{b}, Running: []ha.Transfer{running}, More: c.more}, c.rules, now, func() string { return "new" })
		if _, writes := d.Changes[0].(ha.PlanBlob); writes != (c.again == crowdedOut) {
			t.Errorf("%s: the second look writes %+v", c.name, d.Changes)
		}
	}
}

// TestEqualShares: where all copies may begin at once each host gets as many bytes; where the limits let some wait, the first are those that need
// it most.
func TestEqualShares(t *testing.T) {
	hosts := []ha.BlobHost{at("a"), at("b"), at("c"), at("d")}
	var due []ha.BlobState // the smallest first
	for i := range 40 {
		b := blobOf(2, loc(1, "a", ha.LocationPresent))
		if b.UUID, b.Size = fmt.Sprint("b", i), 10; i >= 38 {
			b.Size = 200
		}
		due = append(due, b)
	}
	started := func(r Rules) (order []string, bytes map[string]int64) {
		bytes = map[string]int64{}
		for _, c := range Decide(ha.BlobWork{Hosts: hosts, Due: due}, r, now, func() string { return "t" }).Changes {
			if p, is := c.(ha.PlanBlob); is && len(p.Start) > 0 {
				order = append(order, p.BlobUUID)
				bytes[p.Start[0].To] += p.Start[0].Size
			}
		}
		return order, bytes
	}
	order, bytes := started(all)
	if got := fmt.Sprint(bytes); got != "map[b:260 c:260 d:260]" {
		t.Errorf("the hosts get %s", got)
	}
	if len(order) != 40 || order[0] != "b0" || order[39] != "b39" {
		t.Errorf("the order is %s", order)
	}
	few := all
	few.Total = 3
	if order, _ := started(few); fmt.Sprint(order) != "[b0 b1 b2]" {
		t.Errorf("first are %s", order)
	}
	few = all
	few.PerTarget = 1
	if order, _ := started(few); fmt.Sprint(order) != "[b0 b1 b2]" {
		t.Errorf("first are %s", order)
	}
}

// TestTheLastCopyComesFirst: neither size nor what the catalogue counted last lets a blob with more copies go before one with fewer; among those
// with as many, what is in use comes first.
func TestTheLastCopyComesFirst(t *testing.T) {
	blob := func(uuid string, size int64, counted int, hosts ...string) ha.BlobState {
		b := blobOf(3)
		b.UUID, b.Size, b.Copies = uuid, size, counted
		for i, h := range hosts {
			b.Locations = append(b.Locations, loc(int64(i), h, ha.LocationPresent))
		}
		return b
	}
	used := func(b ha.BlobState) ha.BlobState { b.InUse = true; return b }
	abroad := []ha.BlobHost{at("a"), at("b"), at("d"), at("gone", silent(2*time.Hour)), at("z", free(500))}
	for i := range 3 {
		abroad[i].Free = 0
	}
	four := all
	four.PerSource = 4
	for _, c := range []struct {
		name  string
		rules Rules
		hosts []ha.BlobHost
		due   []ha.BlobState
		want  string
	}{
		{"there is room for one of two", all, abroad, []ha.BlobState{blob("lone", 400, 1, "a"), blob("big", 500, 2, "a", "b")}, "[lone]"},
		{"the source gives four", four, []ha.BlobHost{at("a"), at("quiet", silent(10*time.Minute)), at("z")}, []ha.BlobState{
			blob("lone", 10, 1, "a"), blob("b1", 500, 2, "a", "quiet"), blob("b2", 500, 2, "a", "quiet"), blob("b3", 500, 2, "a", "quiet"), blob("b4", 500, 2, "a", "quiet"),
		}, "[lone b1 b2 b3]"},
		{"as many, one is in use", all, abroad, []ha.BlobState{used(blob("used", 400, 2, "a", "b")), blob("big", 500, 2, "a", "b")}, "[used]"},
		{"a host is away since they were counted", all, abroad, []ha.BlobState{blob("two", 400, 2, "a", "b"), blob("one", 300, 3, "d", "gone")}, "[one]"},
		{"and all may begin", all, append([]ha.BlobHost{at("y")}, abroad[:4]...), []ha.BlobState{blob("two", 400, 2, "a", "b"), blob("one", 300, 3, "d", "gone")}, "[one two]"},
	} {
		var began []string
		for _, ch := range Decide(ha.BlobWork{Hosts: c.hosts, Due: c.due}, c.rules, now, func() string { return "t" }).Changes {
			if p, is := ch.(ha.PlanBlob); is && len(p.Start) > 0 {
				began = append(began, p.BlobUUID)
			}
		}
		if fmt.Sprint(began) != c.want {
			t.Errorf("%s: %s are copied, want %s", c.name, began, c.want)
		}
	}
}
