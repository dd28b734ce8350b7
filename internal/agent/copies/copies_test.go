package copies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

const (
	here  = "aaaaaaaa-0000-4000-8000-000000000001"
	there = "aaaaaaaa-0000-4000-8000-000000000002"
	blobA = "11111111-2222-4333-8444-555555555555"
	blobB = "22222222-2222-4333-8444-555555555555"
)

// place is one host's copies, running.
type place struct {
	*Copies
	host  string
	key   []byte
	url   string
	stale atomic.Int32
	ready atomic.Pointer[error]
	stop  func()
	wake  chan struct{}
	ends  map[string]wire.AgentTransfer // that were told
	words map[string]wire.AgentCopy     // the last on each blob
}

func open(t *testing.T, host, dir string, with func(*Config)) *place {
	t.Helper()
	p := &place{host: host, key: []byte("key of " + host), wake: make(chan struct{}, 1),
		ends: map[string]wire.AgentTransfer{}, words: map[string]wire.AgentCopy{}}
	conf := Config{
		Dir: dir, Parallel: 2, Serving: 4, Interval: time.Hour, Pass: time.Hour, Patience: 2 * time.Second, Stall: time.Second,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Ready: func() error {
			if err := p.ready.Load(); err != nil {
				return *err
			}
			return nil
		},
		Changed: func() {
			select {
			case p.wake <- struct{}{}:
			default:
			}
		},
		Stale: func() { p.stale.Add(1) }, Key: func() ([]byte, string) { return p.key, p.host },
	}
	if with != nil {
		with(&conf)
	}
	p.Copies = New(conf)
	server := httptest.NewServer(p.Copies)
	p.url = server.URL
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	stopped := false
	p.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-done
			server.Close()
		}
	}
	t.Cleanup(p.stop)
	return p
}

// lay puts a blob of n bytes under its name, without a word about it.
func lay(t *testing.T, dir, blob string, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte([]byte(strings.Repeat(blob, 2)[:32]))).Read(content)
	put(t, filepath.Join(dir, blob[:2], blob), content)
	return content
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func ticket(t *testing.T, p *place, blob string, valid time.Duration) string {
	t.Helper()
	text, err := ha.SignTicket(p.key, ha.Ticket{Blob: blob, Source: p.host, Destination: here, Expires: time.Now().Add(valid)})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func from(t *testing.T, p *place, blob string) wire.AgentSource {
	t.Helper()
	return wire.AgentSource{Host: p.host, URL: p.url, Ticket: ticket(t, p, blob, time.Minute)}
}

func order(id, blob string, content []byte, sources ...wire.AgentSource) wire.AgentOrder {
	return wire.AgentOrder{ID: id, Kind: wire.OrderCopy, Blob: blob, Size: int64(len(content)), SHA256: sum(content), Sources: sources}
}

// ended waits for an order's end and returns it, with the last word on each blob.
func (p *place) ended(t *testing.T, id string) (wire.AgentTransfer, map[string]wire.AgentCopy) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		b := p.Batch(1000)
		p.Accepted(b)
		for _, w := range b.Copies {
			p.words[w.Blob] = w
		}
		for _, tr := range b.Transfers {
			if tr.State != "running" {
				p.ends[tr.ID] = tr
			}
		}
		if tr, ok := p.ends[id]; ok {
			delete(p.ends, id)
			return tr, p.words
		}
		select {
		case <-p.wake:
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			t.Fatalf("order %s did not end: %+v", id, b)
		}
	}
}

func (p *place) file(blob, end string) string { return filepath.Join(p.store.dir, blob[:2], blob+end) }

func holds(t *testing.T, path string, content []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%s: %d bytes, %v; want %d", path, len(got), err, len(content))
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", path, err)
	}
}

func TestACopyArrives(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 3<<20)
	target := open(t, here, t.TempDir(), nil)
	o := order("t1", blobA, content, from(t, source, blobA))
	target.SetOrders([]wire.AgentOrder{o})
	end, words := target.ended(t, "t1")
	if end.State != "done" || end.Bytes != int64(len(content)) {
		t.Errorf("%+v", end)
	}
	if w := words[blobA]; w.State != "present" || w.SHA256 != sum(content) || w.Size != int64(len(content)) {
		t.Errorf("the end was told without what it came to: %+v", words)
	}
	holds(t, target.file(blobA, ""), content)
	gone(t, target.file(blobA, partialEnd))

	// The same order again, from an answer that was under way, and after a restart: nothing is fetched.
	_, fetched := target.Moved()
	target.SetOrders([]wire.AgentOrder{o})
	if end, _ := target.ended(t, "t1"); end.State != "done" {
		t.Errorf("again: %+v", end)
	}
	target.stop()
	again := open(t, here, target.store.dir, nil)
	again.SetOrders([]wire.AgentOrder{o})
	if end, words := again.ended(t, "t1"); end.State != "done" || words[blobA].State != "present" {
		t.Errorf("after a restart: %+v, %+v", end, words)
	}
	if _, n := again.Moved(); fetched != int64(len(content)) || n != 0 {
		t.Errorf("%d bytes were fetched, then %d more", fetched, n)
	}
}

// breaking serves the first bytes of a source and then ends the connection.
func breaking(t *testing.T, source *place, after int64, asked *[]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Header.Get("Range"))
		source.Copies.ServeHTTP(&cutting{ResponseWriter: w, left: after}, r)
	}))
	t.Cleanup(s.Close)
	return s
}

type cutting struct {
	http.ResponseWriter
	left int64
}

func (c *cutting) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= int64(len(p))
	return c.ResponseWriter.Write(p)
}

// TestSourceDiesAtHalf: it resumes from the byte where it broke, from another source.
func TestSourceDiesAtHalf(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 2<<20)
	var asked []string
	dying := from(t, source, blobA)
	dying.Host, dying.URL = "aaaaaaaa-0000-4000-8000-000000000003", breaking(t, source, 1<<20, &asked).URL
	target := open(t, here, t.TempDir(), nil)
	target.SetOrders([]wire.AgentOrder{order("t1", blobA, content, dying, from(t, source, blobA))})
	if end, _ := target.ended(t, "t1"); end.State != "done" {
		t.Fatalf("%+v", end)
	}
	holds(t, target.file(blobA, ""), content)
	if _, fetched := target.Moved(); fetched != int64(len(content)) || len(asked) != 1 {
		t.Errorf("%d bytes were fetched for %d; the dying source was asked %q", fetched, len(content), asked)
	}
}

// TestLargeCopies: what goes past the kernel's memory arrives whole too, whatever its size and wherever a source breaks.
func TestLargeCopies(t *testing.T) {
	for _, tt := range []struct{ size, broken int }{{large, large}, {large + 1, 4096}, {3*large + 4095, 700001}, {3 * large, large + 8192}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			source := open(t, there, t.TempDir(), nil)
			content := lay(t, source.store.dir, blobA, tt.size)
			var asked []string
			dying := from(t, source, blobA)
			dying.Host, dying.URL = "aaaaaaaa-0000-4000-8000-000000000003", breaking(t, source, int64(tt.broken), &asked).URL
			target := open(t, here, t.TempDir(), nil)
			target.SetOrders([]wire.AgentOrder{order("t1", blobA, content, dying, from(t, source, blobA))})
			if end, _ := target.ended(t, "t1"); end.State != "done" {
				t.Fatalf("%+v", end)
			}
			holds(t, target.file(blobA, ""), content)
			if _, fetched := target.Moved(); fetched != int64(tt.size) {
				t.Errorf("%d bytes were fetched", fetched)
			}
		})
	}
}

// TestARestartGoesOnWhereItBroke: also the bytes that an earlier agent has fetched are not fetched again.
func TestARestartGoesOnWhereItBroke(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 2<<20)
	dir := t.TempDir()
	put(t, filepath.Join(dir, blobA[:2], blobA+partialEnd), content[:1500000])
	target := open(t, here, dir, nil)
	target.SetOrders([]wire.AgentOrder{order("t1", blobA, content, from(t, source, blobA))})
	if end, _ := target.ended(t, "t1"); end.State != "done" {
		t.Fatalf("%+v", end)
	}
	holds(t, target.file(blobA, ""), content)
	if _, fetched := target.Moved(); fetched != int64(len(content)-1500000) {
		t.Errorf("%d bytes were fetched", fetched)
	}
	// A partial file with other bytes: the whole is wrong, and is fetched anew.
	put(t, filepath.Join(dir, blobB[:2], blobB+partialEnd), make([]byte, 1000))
	other := lay(t, source.store.dir, blobB, 5000)
	target.SetOrders([]wire.AgentOrder{order("t2", blobB, other, from(t, source, blobB))})
	if end, _ := target.ended(t, "t2"); end.State != "done" {
		t.Errorf("over a wrong partial file: %+v", end)
	}
	holds(t, target.file(blobB, ""), other)
}

// TestByteFlippedInTransit: refused, and another source is tried.
func TestByteFlippedInTransit(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 100000)
	flipped := bytes.Clone(content)
	flipped[70000] ^= 1
	liar := func(host string, status int, body []byte, header ...string) wire.AgentSource {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}))
		t.Cleanup(s.Close)
		return wire.AgentSource{Host: host, URL: s.URL, Ticket: "x"}
	}
	bad := []wire.AgentSource{
		liar("flipped", 200, flipped), liar("short", 200, content[:1000]), liar("long", 200, append(bytes.Clone(content), 'x')),
		liar("range", 206, content, "Content-Range", "bytes 5-99999/100000"), liar("none", 404, nil), liar("broken", 500, []byte("ouch")),
	}
	target := open(t, here, t.TempDir(), nil)
	target.SetOrders([]wire.AgentOrder{order("t1", blobA, content, append(bad[:5:5], from(t, source, blobA))...)})
	if end, _ := target.ended(t, "t1"); end.State != "done" {
		t.Errorf("%+v", end)
	}
	holds(t, target.file(blobA, ""), content)

	target.SetOrders([]wire.AgentOrder{order("t2", blobB, content, bad...)})
	end, words := target.ended(t, "t2")
	for _, part := range []string{"flipped: it gave other bytes: sha256 " + sum(flipped), "short: it has 1000 bytes instead of 100000", "long: it has 100001 bytes", "range: it answers", "none: it has no such blob", "broken: it answers 500"} {
		if end.State != "failed" || !strings.Contains(end.Error, part) {
			t.Errorf("%q does not say %q", end.Error, part)
		}
	}
	if _, told := words[blobB]; told {
		t.Errorf("a copy that is none was told: %+v", words)
	}
	gone(t, target.file(blobB, ""))
}

// TestTicketsAtTheDoor: a ticket for another blob, of another host, an expired one, none, and a path that is no id are refused.
func TestTicketsAtTheDoor(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 1000)
	lay(t, source.store.dir, blobB, 1000)
	put(t, filepath.Join(filepath.Dir(source.store.dir), "secret"), []byte("x"))
	other := &place{host: there, key: []byte("another key")}
	elsewhere := &place{host: here, key: source.key}
	for _, tt := range []struct {
		path, auth string
		want       int
	}{
		{"/blobs/" + blobA, "Ticket " + ticket(t, source, blobA, time.Minute), 200},
		{"/blobs/" + blobA, "Ticket " + ticket(t, source, blobB, time.Minute), 403},
		{"/blobs/" + blobA, "Ticket " + ticket(t, source, blobA, -time.Second), 403},
		{"/blobs/" + blobA, "Ticket " + ticket(t, other, blobA, time.Minute), 403},
		{"/blobs/" + blobA, "Ticket " + ticket(t, elsewhere, blobA, time.Minute), 403},
		{"/blobs/" + blobA, "Bearer x", 401},
		{"/blobs/" + blobA, "", 401},
		{"/blobs/../secret", "Ticket " + ticket(t, source, blobA, time.Minute), 403},
		{"/blobs/..%2f..%2fsecret", "Ticket " + ticket(t, source, blobA, time.Minute), 403},
		{"/blobs/" + strings.ToUpper(there), "Ticket x", 403},
		{"/blobs/" + here, "Ticket " + ticket(t, source, here, time.Minute), 404},
		{"/other", "", 404},
	} {
		req := httptest.NewRequest(http.MethodGet, tt.path, nil)
		req.Header.Set("Authorization", tt.auth)
		w := httptest.NewRecorder()
		source.Copies.ServeHTTP(w, req)
		if w.Code != tt.want || w.Code == 200 && !bytes.Equal(w.Body.Bytes(), content) {
			t.Errorf("%s %s: %d %q, want %d", tt.path, tt.auth, w.Code, w.Body, tt.want)
		}
	}
	// What has a ticket is counted on: that it is not there is news.
	told := slices.DeleteFunc(source.Batch(1000).Copies, func(c wire.AgentCopy) bool { return c.State == "present" }) // the background may have come by
	if len(told) != 1 || told[0] != (wire.AgentCopy{Blob: here, State: "missing"}) {
		t.Errorf("told of what is not there: %+v", told)
	}
	// An expired one is asked for anew: the copy goes on with the newer.
	target := open(t, here, t.TempDir(), nil)
	old := from(t, source, blobA)
	old.Ticket = ticket(t, source, blobA, -time.Second)
	target.SetOrders([]wire.AgentOrder{order("t1", blobA, content, old)})
	await(t, "the expired ticket is refused", func() bool { return target.stale.Load() > 0 })
	target.SetOrders([]wire.AgentOrder{order("t1", blobA, content, from(t, source, blobA))})
	if end, _ := target.ended(t, "t1"); end.State != "done" {
		t.Errorf("with a newer ticket: %+v", end)
	}
}

// TestByteFlippedAtRest: what the background finds wrong is set aside, not removed; an order restores what is right after all, and an order
// drops the rest.
func TestByteFlippedAtRest(t *testing.T) {
	dir := t.TempDir()
	content := lay(t, dir, blobA, 100000)
	p := open(t, here, dir, func(c *Config) { c.Interval, c.Pass = 10*time.Millisecond, 10*time.Millisecond })
	p.word(t, blobA, "present")
	flipped := bytes.Clone(content)
	flipped[5] ^= 1
	put(t, p.file(blobA, "")+".flipped", flipped)
	if err := os.Rename(p.file(blobA, "")+".flipped", p.file(blobA, "")); err != nil { // at once: the background looks all the time
		t.Fatal(err)
	}
	p.word(t, blobA, "corrupt") // with its sum, or, when the next pass has spoken already, without
	gone(t, p.file(blobA, ""))
	holds(t, p.file(blobA, quarantineEnd), flipped)

	restore := wire.AgentOrder{ID: "r1", Kind: wire.OrderRestore, Blob: blobA, Size: int64(len(content)), SHA256: sum(content)}
	p.SetOrders([]wire.AgentOrder{restore})
	if end, _ := p.ended(t, "r1"); end.State != "failed" || !strings.Contains(end.Error, "not the blob") {
		t.Errorf("%+v", end)
	}
	put(t, p.file(blobA, quarantineEnd), content)
	restore.ID = "r2"
	p.SetOrders([]wire.AgentOrder{restore})
	if end, _ := p.ended(t, "r2"); end.State != "done" {
		t.Errorf("%+v", end)
	}
	holds(t, p.file(blobA, ""), content)

	p.SetOrders([]wire.AgentOrder{{ID: "d1", Kind: wire.OrderDrop, Blob: blobA}})
	if end, words := p.ended(t, "d1"); end.State != "done" || words[blobA].State != "missing" {
		t.Errorf("%+v, %+v", end, words)
	}
	if left, err := os.ReadDir(filepath.Dir(p.file(blobA, ""))); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// word waits for news of a blob.
func (p *place) word(t *testing.T, blob, state string) (word wire.AgentCopy) {
	t.Helper()
	await(t, "word that "+blob+" is "+state, func() bool {
		b := p.Batch(1000)
		p.Accepted(b)
		i := slices.IndexFunc(b.Copies, func(w wire.AgentCopy) bool { return w.Blob == blob && w.State == state })
		if i >= 0 {
			word = b.Copies[i]
		}
		return i >= 0
	})
	return word
}

// TestVerifyOrders: a right copy, a wrong one, and none.
func TestVerifyOrders(t *testing.T) {
	dir := t.TempDir()
	content := lay(t, dir, blobA, 1000)
	lay(t, dir, blobB, 1000)
	p := open(t, here, dir, nil)
	verify := func(blob string) wire.AgentOrder {
		return wire.AgentOrder{ID: "v-" + blob, Kind: wire.OrderVerify, Blob: blob, Size: 1000, SHA256: sum(content)}
	}
	p.SetOrders([]wire.AgentOrder{verify(blobA), verify(blobB), verify(there)})
	for blob, want := range map[string]string{blobA: "present", blobB: "corrupt", there: "missing"} {
		if end, words := p.ended(t, "v-"+blob); end.State != "done" || words[blob].State != want {
			t.Errorf("%s: %+v, %+v, want %s", blob, end, words[blob], want)
		}
	}
	if _, err := os.Stat(p.file(blobB, quarantineEnd)); err != nil {
		t.Error(err)
	}
}

// TestEndWithCopy: whenever a report is made, the word on an ordered copy comes with the order's end. Else the API would cancel what is done.
func TestEndWithCopy(t *testing.T) {
	a := open(t, there, t.TempDir(), nil)
	content := lay(t, a.store.dir, blobA, 100_000)
	var b *place
	var apart atomic.Int32
	b = open(t, here, t.TempDir(), func(c *Config) {
		changed := c.Changed
		c.Changed = func() {
			if r := b.Batch(1000); len(r.Copies) > 0 && (len(r.Transfers) == 0 || r.Transfers[0].State != "done") {
				apart.Add(1)
			}
			changed()
		}
	})
	b.SetOrders([]wire.AgentOrder{order("o1", blobA, content, from(t, a, blobA))})
	if end, words := b.ended(t, "o1"); end.State != "done" || words[blobA].State != "present" || apart.Load() > 0 {
		t.Errorf("end %+v, word %+v, %d reports without the end", end, words[blobA], apart.Load())
	}
}

// TestPartsOfDeadTransfers: what has arrived of a blob goes when nobody has asked for it for a day; not before, not while an order may go on
// with it, and not before the orders are known.
func TestPartsOfDeadTransfers(t *testing.T) {
	dir := t.TempDir()
	const dead, young, ordered, last = "01111111-2222-4333-8444-555555555555", "02222222-2222-4333-8444-555555555555",
		"03333333-2222-4333-8444-555555555555", "ff444444-2222-4333-8444-555555555555"
	old := time.Now().Add(-25 * time.Hour)
	part := func(blob string) string { return filepath.Join(dir, blob[:2], blob+partialEnd) }
	for _, blob := range []string{dead, young, ordered} {
		put(t, part(blob), []byte("a part"))
		if blob == young {
			continue
		}
		if err := os.Chtimes(part(blob), old, old); err != nil {
			t.Fatal(err)
		}
	}
	lay(t, dir, last, 10) // it is told when a pass has come by all parts
	p := open(t, here, dir, func(c *Config) { c.Pass, c.Interval, c.Patience = 10*time.Millisecond, time.Nanosecond, time.Minute })
	p.word(t, last, "present")
	if _, err := os.Stat(part(dead)); err != nil {
		t.Fatalf("removed before anybody has said what is asked for: %v", err)
	}
	// Its source is gone: the order waits, and the part is older than its patience.
	p.SetOrders([]wire.AgentOrder{{ID: "t1", Kind: wire.OrderCopy, Blob: ordered, Size: 100, SHA256: sum([]byte("x")),
		Sources: []wire.AgentSource{{Host: there, URL: "http://127.0.0.1:1", Ticket: "x"}}}})
	for range 3 {
		p.word(t, last, "present")
	}
	gone(t, part(dead))
	for _, blob := range []string{young, ordered} {
		if _, err := os.Stat(part(blob)); err != nil {
			t.Errorf("%s: %v", blob, err)
		}
	}
}

// TestAnUnmountedDirectoryMissesNothing: while the filesystem is not the right one, nothing counts as missing or corrupt, and nothing is written.
func TestAnUnmountedDirectoryMissesNothing(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 1000)
	p := open(t, here, t.TempDir(), nil)
	wrong := errors.New("the blob directory of cmp-01 has failed: wrong_filesystem")
	p.ready.Store(&wrong)
	p.SetOrders([]wire.AgentOrder{order("t1", blobA, content, from(t, source, blobA)), {ID: "v", Kind: wire.OrderVerify, Blob: blobB, SHA256: sum(content)}, {ID: "d", Kind: wire.OrderDrop, Blob: blobB}})
	for _, id := range []string{"t1", "v", "d"} {
		if end, words := p.ended(t, id); end.State != "failed" || !strings.Contains(end.Error, "wrong_filesystem") || len(words) != 0 {
			t.Errorf("%s: %+v, %+v", id, end, words)
		}
	}
	req := httptest.NewRequest(http.MethodGet, "/blobs/"+blobB, nil)
	req.Header.Set("Authorization", "Ticket "+ticket(t, p, blobB, time.Minute))
	w := httptest.NewRecorder()
	p.Copies.ServeHTTP(w, req)
	if b := p.Batch(1000); w.Code != http.StatusNotFound || len(b.Copies) != 0 {
		t.Errorf("%d, %+v", w.Code, b.Copies)
	}
	if left, err := os.ReadDir(p.store.dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestCancel stops a copy, keeps its bytes, and its end is that it failed.
func TestCancel(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 2<<20)
	hold := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:1<<20])
		_ = http.NewResponseController(w).Flush()
		<-hold
	}))
	defer slow.Close()
	defer close(hold)
	p := open(t, here, t.TempDir(), func(c *Config) { c.Stall = time.Minute })
	o := order("t1", blobA, content, wire.AgentSource{Host: there, URL: slow.URL})
	p.SetOrders([]wire.AgentOrder{o})
	await(t, "a MiB is there", func() bool {
		b := p.Batch(1000)
		return len(b.Transfers) == 1 && b.Transfers[0].Bytes == 1<<20
	})
	p.SetOrders([]wire.AgentOrder{{ID: "t1", Kind: wire.OrderCancel, Blob: blobA}})
	if end, _ := p.ended(t, "t1"); end.State != "failed" || end.Error != "cancelled" {
		t.Errorf("%+v", end)
	}
	p.SetOrders([]wire.AgentOrder{order("t2", blobA, content, from(t, source, blobA)), {ID: "t9", Kind: wire.OrderCancel, Blob: blobB}})
	if end, _ := p.ended(t, "t2"); end.State != "done" {
		t.Errorf("%+v", end)
	}
	if served, _ := source.Moved(); served != 1<<20 {
		t.Errorf("%d bytes were fetched after the cancelled copy's %d", served, 1<<20)
	}
	if end, _ := p.ended(t, "t9"); end.State != "failed" {
		t.Errorf("a cancel of what is not known: %+v", end)
	}
}

// TestASilentSourceIsGivenUp for another one.
func TestASilentSourceIsGivenUp(t *testing.T) {
	source := open(t, there, t.TempDir(), nil)
	content := lay(t, source.store.dir, blobA, 1000)
	hold := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	defer silent.Close()
	defer close(hold)
	p := open(t, here, t.TempDir(), func(c *Config) { c.Stall = 100 * time.Millisecond })
	p.SetOrders([]wire.AgentOrder{order("t1", blobA, content, wire.AgentSource{Host: "silent", URL: silent.URL}, from(t, source, blobA))})
	if end, _ := p.ended(t, "t1"); end.State != "done" {
		t.Errorf("%+v", end)
	}
	p.SetOrders([]wire.AgentOrder{order("t2", blobB, content, wire.AgentSource{Host: "silent", URL: silent.URL})})
	if end, _ := p.ended(t, "t2"); end.State != "failed" || !strings.Contains(end.Error, "nothing came for") {
		t.Errorf("%+v", end)
	}
}

// TestABlobsIDBecomesNoPath.
func TestABlobsIDBecomesNoPath(t *testing.T) {
	p := open(t, here, t.TempDir(), nil)
	for i, id := range []string{"../../etc/passwd", "", strings.ToUpper(here), "11111111222243338444555555555555", here + "/x", "urn:uuid:" + here} {
		for _, kind := range []string{wire.OrderCopy, wire.OrderDrop, wire.OrderVerify, wire.OrderRestore} {
			order := fmt.Sprintf("%s-%d", kind, i)
			p.SetOrders([]wire.AgentOrder{{ID: order, Kind: kind, Blob: id, SHA256: sum(nil)}})
			if end, words := p.ended(t, order); end.State != "failed" || !strings.Contains(end.Error, "no blob's id") || len(words) != 0 {
				t.Errorf("%s %q: %+v, %+v", kind, id, end, words)
			}
		}
	}
}

// TestADropThatIsOpenNoMore: an order to drop a copy that waits is not carried out when the API names it no more, nor when nobody has heard of
// it for long; named again, it is.
func TestADropThatIsOpenNoMore(t *testing.T) {
	var asked atomic.Int64
	p := open(t, here, t.TempDir(), func(c *Config) { c.Stale = func() { asked.Add(1) } })
	content := lay(t, p.store.dir, blobA, 1000)
	doubt := ErrDoubt
	drop := wire.AgentOrder{ID: "d1", Kind: wire.OrderDrop, Blob: blobA}
	job := func() *job {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.jobs["d1"]
	}
	for _, how := range []string{"withdrawn", "old"} {
		p.ready.Store(&doubt)
		p.SetOrders([]wire.AgentOrder{drop})
		await(t, "it is begun", func() bool { return p.Busy() })
		switch j := job(); how {
		case "withdrawn":
			p.SetOrders(nil)
		case "old":
			j.mu.Lock()
			j.seen = j.seen.Add(-dropStands)
			j.mu.Unlock()
		}
		p.ready.Store(nil)
		await(t, "it has ended", func() bool { return !p.Busy() })
		if job() != nil {
			t.Errorf("%s: it is kept", how)
		}
		if b := p.Batch(1000); len(b.Transfers) != 0 {
			t.Errorf("%s: it is told: %+v", how, b.Transfers)
		}
		holds(t, p.file(blobA, ""), content)
	}
	if asked.Load() != 1 {
		t.Errorf("the orders were asked for %d times", asked.Load())
	}
	p.SetOrders([]wire.AgentOrder{drop})
	if end, words := p.ended(t, "d1"); end.State != "done" || words[blobA].State != "missing" {
		t.Errorf("%+v, %+v", end, words)
	}
	gone(t, p.file(blobA, ""))
}

// await waits for what another goroutine does with real connections and files.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so within 20 s: %s", what)
		}
	}
}
