package sim

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// chance draws from [0, 1) for the n-th time that kind is asked of id. It depends on nothing else but the seed.
func (c *Cloud) chance(kind, id string, n int) float64 {
	return rand.New(rand.NewPCG(c.opt.Seed, hash(kind, id, n))).Float64()
}

// span draws a duration between lo and hi and scales it.
func (c *Cloud) span(kind, id string, n int, lo, hi time.Duration) time.Duration {
	return c.Scaled(lo + time.Duration(c.chance(kind, id, n)*float64(hi-lo)))
}

// uuid makes the n-th uuid of a kind of object.
func (c *Cloud) uuid(kind string, n int) string {
	r := rand.New(rand.NewPCG(c.opt.Seed, hash("uuid", kind, n)))
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], r.Uint64())
	binary.BigEndian.PutUint64(b[8:], r.Uint64())
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// hash is FNV-1a, with a separator that ids do not contain.
func hash(kind, id string, n int) uint64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for i := range len(kind) {
		add(kind[i])
	}
	add(0)
	for i := range len(id) {
		add(id[i])
	}
	add(0)
	for v := uint64(n); v > 0; v >>= 8 {
		add(byte(v))
	}
	return h
}
