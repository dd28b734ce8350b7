package copies

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// job is an order, and how it stands.
type job struct {
	id, kind, blob string
	nth            uint64 // in which the orders came
	size           int64
	sum            string
	bytes          atomic.Int64            // that have arrived
	stop           context.CancelCauseFunc // nil before it has begun
	turn           *turn                   // of a copy that has begun

	mu      sync.Mutex
	sources []wire.AgentSource
	renewed chan struct{} // closed and replaced when the sources are
	state   string        // running, done, failed
	err     string
	endAt   time.Time
	toldAt  time.Time // when its end was last told; zero: it is to be told
	heard   bool      // it was told once
	seen    time.Time // when the API last named it
}

func newJob(o wire.AgentOrder) *job {
	return &job{id: o.ID, kind: o.Kind, blob: o.Blob, size: o.Size, sum: o.SHA256, sources: o.Sources, renewed: make(chan struct{}), state: "running", seen: time.Now()}
}

func (j *job) ended() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state != "running"
}

func (j *job) isTold() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.toldAt.IsZero()
}

// past reports whether it has ended, was told, and is open all the same: it is to be carried out again.
func (j *job) past() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.heard && time.Since(j.endAt) > remembered
}

// renew takes newer sources; the end of one that has ended is told again.
func (j *job) renew(o wire.AgentOrder) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.toldAt, j.seen = time.Time{}, time.Now()
	if len(o.Sources) > 0 && !slices.Equal(j.sources, o.Sources) {
		j.sources = o.Sources
		close(j.renewed)
		j.renewed = make(chan struct{})
	}
}

// stands reports whether the API has named it lately.
func (j *job) stands() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.seen) < dropStands
}

func (j *job) from() ([]wire.AgentSource, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sources, j.renewed
}

// trouble is said while it goes on.
func (j *job) trouble(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = text
}

func (j *job) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state, j.err, j.endAt = "done", "", time.Now()
	if err != nil {
		j.state, j.err = "failed", err.Error()
	}
}

// told is what a report says of it.
func (j *job) told() wire.AgentTransfer {
	j.mu.Lock()
	defer j.mu.Unlock()
	return wire.AgentTransfer{ID: j.id, State: j.state, Bytes: j.bytes.Load(), Error: Plain(j.err)}
}

// Plain is a text of one line that the API takes.
func Plain(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > 0xFFFD || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > wire.MaxDetail {
		return string(r[:wire.MaxDetail])
	}
	return s
}

// Batch is what one report says of copies and orders.
type Batch struct {
	Copies    []wire.AgentCopy
	Transfers []wire.AgentTransfer
	More      bool // there is more to tell
	Moving    bool // copies are under way
	turns     map[string]uint64
}

// Progress is between two words on copies under way: each costs the API a write.
const Progress = 2 * time.Second

// mostWords bounds the errors of one batch together, in bytes: a report must fit into the API's limit of a body.
const mostWords = 30 << 10

// Batch returns what there is to report, at most that many of each: the ends of orders before how others stand.
func (c *Copies) Batch(most int) Batch {
	b := c.batch(most)
	words := mostWords
	for i := range b.Transfers {
		t := &b.Transfers[i]
		if words -= len(t.Error); words < 0 {
			t.Error = "" // what happened is in this host's log
		}
	}
	return b
}

func (c *Copies) batch(most int) Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := Batch{turns: map[string]uint64{}}
	for blob, n := range c.news {
		if len(b.Copies) == min(most, wire.MaxCopies) {
			b.More = true
			break
		}
		b.Copies = append(b.Copies, n.copy)
		b.turns[blob] = n.turn
	}
	var under []wire.AgentTransfer
	for id, j := range c.jobs {
		t := j.told()
		switch {
		case j.isTold():
			if time.Since(j.toldAt) > remembered {
				delete(c.jobs, id)
			}
		case t.State == "running":
			if t.Bytes > 0 || t.Error != "" {
				under = append(under, t)
			}
		case len(b.Transfers) == min(most, wire.MaxTransfers):
			b.More = true
		case t.State == "done" && c.unheard(j.blob, b):
			b.More = true // first what it came to
		default:
			b.Transfers = append(b.Transfers, t)
		}
	}
	b.Moving = len(under) > 0
	if b.Moving && time.Since(c.spoke) >= Progress {
		c.spoke = time.Now()
		b.Transfers = append(b.Transfers, under[:min(len(under), min(most, wire.MaxTransfers)-len(b.Transfers))]...)
	}
	return b
}

// unheard reports whether there is news of the blob that this batch does not tell.
func (c *Copies) unheard(blob string, b Batch) bool {
	_, there := c.news[blob]
	_, told := b.turns[blob]
	return there && !told
}

// Accepted says that the API has taken the batch.
func (c *Copies) Accepted(b Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for blob, turn := range b.turns {
		if c.news[blob].turn == turn {
			delete(c.news, blob)
		}
	}
	for _, t := range b.Transfers {
		if j := c.jobs[t.ID]; j != nil && t.State != "running" {
			j.mu.Lock()
			j.toldAt, j.heard = time.Now(), true
			j.mu.Unlock()
		}
	}
	close(c.room)
	c.room = make(chan struct{})
}

// spare waits until there is room for more news: while the API is away, the background stands still.
func (c *Copies) spare(ctx context.Context) error {
	for {
		c.mu.Lock()
		full, room := len(c.news) >= maxNews, c.room
		c.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
