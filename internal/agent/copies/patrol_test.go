package copies

import (
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
