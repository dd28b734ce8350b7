package keystone

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/policy"
)

// key stands for a token in memory: what is no token cannot be stolen.
type key [sha256.Size]byte

func keyOf(token string, allowExpired bool) key {
	if allowExpired { // another question, another answer; no token begins with a blank
		token = " " + token
	}
	return sha256.Sum256([]byte(token))
}

// verdict is what Keystone said of a token.
type verdict struct {
	id    policy.Identity
	valid bool
	rules *[]accessRule // of an application credential that has some; nil: it may do all that its roles may
}

// cache keeps verdicts for a while: at most max of them, the ones longest unused go first.
type cache struct {
	max int

	mu      sync.Mutex
	entries map[key]*list.Element
	order   *list.List // of *cached, the last used in front
}

type cached struct {
	key     key
	verdict verdict
	until   time.Time
}

func newCache(size int) *cache {
	return &cache{max: size, entries: map[key]*list.Element{}, order: list.New()}
}

func (c *cache) get(k key) (verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if !ok {
		return verdict{}, false
	}
	entry := e.Value.(*cached)
	if !time.Now().Before(entry.until) {
		c.remove(e)
		return verdict{}, false
	}
	c.order.MoveToFront(e)
	return entry.verdict, true
}

func (c *cache) put(k key, v verdict, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[k]; ok {
		c.remove(e)
	}
	if !time.Now().Before(until) {
		return
	}
	c.entries[k] = c.order.PushFront(&cached{k, v, until})
	for c.order.Len() > c.max {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	delete(c.entries, e.Value.(*cached).key)
	c.order.Remove(e)
}
