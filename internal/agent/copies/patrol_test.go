package copies

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/salvor-ha/salvor/internal/wire"
)

// TestAnOrderIsNotKeptWaitingByThePace of the background: while that hashes the blob so slowly that it would take weeks, the order, and all others
// behind it, would stand still.
func TestAnOrderIsNotKeptWaitingByThePace(t *testing.T) {
	dir := t.TempDir()
	content := lay(t, dir, blobA, bufferSize+1) // one read waits
	p := open(t, there, dir, func(c *Config) { c.Rate = 1 })
	await(t, "the background hashes", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.locks[blobA] != nil
	})
	p.SetOrders([]wire.AgentOrder{{ID: "v", Kind: wire.OrderVerify, Blob: blobA, Size: int64(len(content)), SHA256: sum(content)}})
	if end, words := p.ended(t, "v"); end.State != "done" || words[blobA].State != "present" || words[blobA].SHA256 != sum(content) {
		t.Errorf("%+v, %+v", end, words[blobA])
	}
}

// TestASourceSendsNobodyElsewhere: a host that another one asks for a blob does not choose what that asks next.
func TestASourceSendsNobodyElsewhere(t *testing.T) {
	var asked atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inner.Close()
	source := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusFound))
	defer source.Close()
	p := open(t, here, t.TempDir(), nil)
	p.SetOrders([]wire.AgentOrder{order("t1", blobA, []byte("content"), wire.AgentSource{Host: "source", URL: source.URL})})
	if end, _ := p.ended(t, "t1"); end.State != "failed" || !strings.Contains(end.Error, "302") || asked.Load() != 0 {
		t.Errorf("%+v, another server was asked %d times", end, asked.Load())
	}
}
