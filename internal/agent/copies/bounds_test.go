package copies

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// still is one host's copies that nobody runs.
func still(t *testing.T) *Copies {
	t.Helper()
	return New(Config{
		Dir: t.TempDir(), Parallel: 1, Serving: 1, Interval: time.Hour, Pass: time.Hour, Patience: time.Second, Stall: time.Second,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Ready: func() error { return nil }, Changed: func() {}, Stale: func() {},
		Key: func() ([]byte, string) { return nil, "" },
	})
}

// told is what a pass over all copies has news of, by blob.
func (c *Copies) told(t *testing.T) (words map[string]string, err error) {
	t.Helper()
	err = c.pass(t.Context(), &pacer{ctx: t.Context()})
	b := c.Batch(maxNews)
	c.Accepted(b)
	words = map[string]string{}
	for _, w := range b.Copies {
		words[w.Blob] = w.State
	}
	return words, err
}

// TestWhatIsLaidByHandIsToldTwice, as the first word may be lost with its process, and then only when it is due.
func TestWhatIsLaidByHandIsToldTwice(t *testing.T) {
	c := still(t)
	lay(t, c.store.dir, blobA, 100)
	for turn, want := range []string{"present", "present", ""} {
		if words, err := c.told(t); err != nil || words[blobA] != want {
			t.Errorf("pass %d: %q, %v; want %q", turn, words[blobA], err, want)
		}
	}
}

// TestOneBadCopyKeepsNoOtherBack; where many are bad it is the directory, which is somebody else's matter.
func TestOneBadCopyKeepsNoOtherBack(t *testing.T) {
	c := still(t)
	bad := func(blob string) {
		lay(t, c.store.dir, blob, 10)
		if err := os.Mkdir(filepath.Join(c.store.dir, blob[:2], blob+sumEnd), 0o700); err != nil { // its hash cannot be noted
			t.Fatal(err)
		}
	}
	bad(blobA)
	lay(t, c.store.dir, blobB, 100)
	if words, err := c.told(t); err == nil || !strings.Contains(err.Error(), blobA) || words[blobB] != "present" {
		t.Errorf("%v, %v", words, err)
	}
	const last = "ff111111-2222-4333-8444-555555555555"
	lay(t, c.store.dir, last, 100)
	for i := range 12 {
		bad(fmt.Sprintf("%02x333333-2222-4333-8444-555555555555", 0x33+i))
	}
	if words, err := c.told(t); err == nil || words[last] != "" {
		t.Errorf("%v, %v", words, err)
	}
}

// TestNoRoom: an order that cannot fit ends at once, says so, and leaves nothing.
func TestNoRoom(t *testing.T) {
	p := open(t, here, t.TempDir(), nil)
	o := order("t1", blobA, nil, wire.AgentSource{Host: there, URL: "http://127.0.0.1:1", Ticket: "x"})
	o.Size = 1 << 60
	p.SetOrders([]wire.AgentOrder{o})
	if end, _ := p.ended(t, "t1"); end.State != "failed" || !strings.Contains(end.Error, "no space left in "+p.store.dir+" for blob "+blobA) {
		t.Errorf("%+v", end)
	}
	gone(t, p.file(blobA, partialEnd))
}

// TestAsManyReadersAsMay: one more is told to come again.
func TestAsManyReadersAsMay(t *testing.T) {
	p := open(t, there, t.TempDir(), nil)
	content := lay(t, p.store.dir, blobA, 100)
	read := func() *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/blobs/"+blobA, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Ticket "+ticket(t, p, blobA, time.Minute))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	for range cap(p.out) {
		p.out <- struct{}{}
	}
	if resp := read(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	<-p.out
	if body, err := io.ReadAll(read().Body); err != nil || string(body) != string(content) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// TestSpareBuffers: after a rush the memory is given back.
func TestSpareBuffers(t *testing.T) {
	var p pool
	var all []buffer
	for range spareBuffers + 4 {
		all = append(all, p.get())
	}
	for i, b := range all {
		p.put(b)
		if most := spareBuffers; len(p.free) > most || i == len(all)-1 && len(p.free) != idleBuffers {
			t.Errorf("%d kept after %d came back", len(p.free), i+1)
		}
	}
	if b := p.get(); len(b.bytes) != bufferSize || len(p.free) != idleBuffers-1 {
		t.Errorf("%d bytes, and %d are kept", len(b.bytes), len(p.free))
	}
}

// TestANoteIsAPlainFile: where a link leads, or what a large file says, is no note.
func TestANoteIsAPlainFile(t *testing.T) {
	s := still(t).store
	lay(t, s.dir, blobA, 10)
	path, err := s.path(blobA)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("0", 64)
	if err := s.note(path, want, time.Unix(9, 0)); err != nil {
		t.Fatal(err)
	}
	if sum, at, err := s.noted(path); err != nil || sum != want || !at.Equal(time.Unix(9, 0)) {
		t.Errorf("%s %s %v", sum, at, err)
	}
	if err := os.Rename(path+sumEnd, path+".else"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".else", path+sumEnd); err != nil {
		t.Fatal(err)
	}
	if sum, _, err := s.noted(path); err != nil || sum != "" {
		t.Errorf("by a link: %s %v", sum, err)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"as it is":                            "as it is",
		"two\nlines\tand more":                "two lines and more",
		"\x1b[31mred\x00":                     "?[31mred?",
		"bad \xff\xfe utf":                    "bad ? utf",
		"\u0085\u007f\u009f":                  "??",
		"é ü 漢 \U0001F600":                    "é ü 漢 ?",
		strings.Repeat("ä", wire.MaxDetail+1): strings.Repeat("ä", wire.MaxDetail),
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestACancelIsAnsweredAgain: it is still open for the API when the order's end got lost on the way.
func TestACancelIsAnsweredAgain(t *testing.T) {
	c := still(t)
	c.ctx = context.Background()
	cancel := wire.AgentOrder{ID: "t1", Kind: wire.OrderCancel, Blob: blobA}
	for turn := range 3 {
		c.SetOrders([]wire.AgentOrder{cancel})
		b := c.Batch(10)
		if len(b.Transfers) != 1 || b.Transfers[0].State != "failed" || b.Transfers[0].Error != "cancelled" {
			t.Errorf("turn %d: %+v", turn, b.Transfers)
		}
		c.Accepted(b)
		if b := c.Batch(10); len(b.Transfers) != 0 {
			t.Errorf("turn %d: told and taken, and told again: %+v", turn, b.Transfers)
		}
	}
}
