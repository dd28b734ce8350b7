package copies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// verify hashes a copy as an order says: the outcome is news, not the order's error.
func (c *Copies) verify(ctx context.Context, j *job) error {
	path, err := c.store.path(j.blob)
	if err != nil {
		return err
	}
	return c.examine(path, j.blob, j.sum, c.hasher(ctx, j.blob, "", func(n int) error {
		j.bytes.Add(int64(n))
		return context.Cause(ctx)
	}))
}

// restore hashes what is quarantined, and takes it back if it is right.
func (c *Copies) restore(ctx context.Context, j *job) error {
	path, err := c.store.path(j.blob)
	if err != nil {
		return err
	}
	size, sum, err := c.hasher(ctx, j.blob, quarantineEnd, func(n int) error {
		j.bytes.Add(int64(n))
		return context.Cause(ctx)
	})()
	if err != nil {
		return err
	}
	if sum != j.sum || size != j.size {
		c.tell(wire.AgentCopy{Blob: j.blob, State: "corrupt", Size: size, SHA256: sum})
		return fmt.Errorf("the quarantined copy is not the blob: it has %d bytes with sha256 %s", size, sum)
	}
	if err := c.store.restore(path, sum); err != nil {
		return err
	}
	c.tell(wire.AgentCopy{Blob: j.blob, State: "present", Size: size, SHA256: sum})
	return nil
}

// hasher hashes a copy as the disk has it, not as memory still does.
func (c *Copies) hasher(ctx context.Context, blob, end string, pace func(int) error) func() (int64, string, error) {
	return func() (int64, string, error) {
		c.forget(blob, end)
		size, sum, err := c.store.hashFile(blob, end, pace)
		c.forget(blob, end)
		if cause := context.Cause(ctx); cause != nil {
			return 0, "", cause
		}
		return size, sum, err
	}
}

// forget lets the kernel drop what it holds of a file in memory.
func (c *Copies) forget(blob, end string) {
	f, _, err := c.store.open(blob, end)
	if err != nil {
		return
	}
	defer f.Close()
	dropCache(f)
}

// examine compares a copy with what it should be (expected, or else what was noted when it came) and tells what it is. A copy that is wrong
// twice, or cannot be read twice, is quarantined, where the disk as a whole is well.
func (c *Copies) examine(path, blob, expected string, read func() (int64, string, error)) error {
	noted, _, err := c.store.noted(path)
	if err != nil {
		return err
	}
	if expected == "" {
		expected = noted
	}
	size, sum, err := read()
	if broken(err) || err == nil && expected != "" && sum != expected {
		size, sum, err = read() // what is wrong in memory only is right on the disk
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.absent(path, blob)
	case broken(err):
		return errors.Join(c.setAside(path, wire.AgentCopy{Blob: blob, State: "corrupt"}, err.Error()), err)
	case err != nil:
		return err
	case expected == "":
		// Laid there by hand. It is told twice, now and when it is due again, which is at once: the first word may be lost with this process.
		if err := c.store.note(path, sum, time.Unix(0, 0)); err != nil {
			return err
		}
	case sum != expected:
		return c.setAside(path, wire.AgentCopy{Blob: blob, State: "corrupt", Size: size, SHA256: sum}, "expected sha256 "+expected)
	default:
		if err := c.store.note(path, sum, time.Now()); err != nil && !readOnlyError(err) { // a read-only disk can still be right
			return err
		}
	}
	c.tell(wire.AgentCopy{Blob: blob, State: "present", Size: size, SHA256: sum})
	return nil
}

// broken reports whether a copy's bytes cannot be read, twice in a row a fault of the copy where the rest of the disk is well.
func broken(err error) bool { return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG) }

// setAside quarantines a copy and tells it.
func (c *Copies) setAside(path string, w wire.AgentCopy, why string) error {
	if err := c.cfg.Ready(); err != nil {
		return err
	}
	if err := c.store.quarantine(path); err != nil {
		return err
	}
	c.cfg.Log.Error("a copy is corrupt and is quarantined", "blob", w.Blob, "bytes", w.Size, "sha256", w.SHA256, "why", why)
	c.tell(w)
	return nil
}

// absent tells that a copy is quarantined, or gone, if its filesystem is the right one.
func (c *Copies) absent(path, blob string) error {
	if err := c.cfg.Ready(); err != nil {
		return err
	}
	state := "missing"
	if _, err := os.Lstat(path + quarantineEnd); err == nil {
		state = "corrupt"
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.tell(wire.AgentCopy{Blob: blob, State: state})
	return nil
}

// patrol hashes all copies ever again, at low priority.
func (c *Copies) patrol(ctx context.Context) {
	lowPriority()
	p := pacer{rate: c.cfg.Rate, ctx: ctx}
	for {
		if err := c.pass(ctx, &p); err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("copies cannot be looked at now", "directory", c.cfg.Dir, "error", err)
		}
		timer := time.NewTimer(c.cfg.Pass)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// pass looks at all copies once and hashes those that are due.
func (c *Copies) pass(ctx context.Context, p *pacer) error {
	if err := c.cfg.Ready(); err != nil {
		return err
	}
	var failures []error
	for shard := range 256 {
		names, err := shardNames(filepath.Join(c.cfg.Dir, fmt.Sprintf("%02x", shard)))
		if err != nil {
			return err
		}
		for blob, ends := range names {
			if err := c.spare(ctx); err != nil {
				return err
			}
			if err := c.visit(ctx, p, blob, ends); err != nil {
				if ctx.Err() != nil || broken(err) { // a disk that begins to fail is its probe's matter: not one copy after the other
					return err
				}
				if failures = append(failures, fmt.Errorf("%s: %w", blob, err)); len(failures) == 10 {
					return errors.Join(failures...)
				}
			}
		}
	}
	return errors.Join(failures...)
}

// shardNames are the blobs of one directory, each with what is there of it. Other files are none of the agent's.
func shardNames(dir string) (map[string][]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, n := range names {
		if blob, end, ok := known(n); ok && blob[:2] == filepath.Base(dir) {
			all[blob] = append(all[blob], end)
		}
	}
	return all, nil
}

// visit looks at one blob's files.
func (c *Copies) visit(ctx context.Context, p *pacer, blob string, ends []string) error {
	arrives, asked := c.arrives(blob)
	if arrives { // the next pass finds it; this one waits for no source
		return nil
	}
	unlock, err := c.lock(ctx, blob)
	if err != nil {
		return err
	}
	defer unlock()
	path, err := c.store.path(blob)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range ends {
		there[e] = true
	}
	if there[partialEnd] && asked {
		if err := c.sweep(path, blob); err != nil {
			return err
		}
	}
	switch {
	case there[""]:
		_, at, err := c.store.noted(path)
		if err != nil || !at.IsZero() && time.Since(at) < c.cfg.Interval {
			return err
		}
		wanted := c.wanted(blob) // by an order, behind which others wait
		return c.examine(path, blob, "", c.hasher(ctx, blob, "", func(n int) error { return p.wait(n, wanted) }))
	case there[quarantineEnd], there[sumEnd] && !there[partialEnd]:
		return c.absent(path, blob)
	}
	return nil
}

// partialKept is for how long what has arrived of a blob waits for an order that goes on with it. The engine gives the target of a transfer that
// failed the next one too, within an hour; what is older is asked for by nobody.
const partialKept = 24 * time.Hour

// arrives reports whether an order to copy a blob is open; asked is false before the orders are known.
func (c *Copies) arrives(blob string) (arrives, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		arrives = arrives || j.blob == blob && j.kind == wire.OrderCopy && !j.ended()
	}
	return arrives, c.asked
}

// sweep removes what a transfer has left behind that nobody goes on with. It is no copy and never was one. The caller holds the blob's lock, so
// nothing arrives there.
func (c *Copies) sweep(path, blob string) error {
	info, err := os.Lstat(path + partialEnd)
	if err != nil || time.Since(info.ModTime()) < partialKept {
		return ignoreGone(err)
	}
	if err := os.Remove(path + partialEnd); err != nil {
		return ignoreGone(err)
	}
	c.cfg.Log.Info("what has arrived of a blob and nobody has asked for since is removed", "blob", blob, "bytes", info.Size(), "last_written", info.ModTime())
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// pacer keeps the background below a rate.
type pacer struct {
	rate int64 // bytes per second; 0: no limit
	ctx  context.Context
	next time.Time
}

// wait waits as long as n bytes should have taken, but not once somebody is in a hurry.
func (p *pacer) wait(n int, hurry <-chan struct{}) error {
	if p.rate <= 0 {
		return context.Cause(p.ctx)
	}
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	timer := time.NewTimer(time.Until(p.next))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-hurry:
		p.next = time.Now()
		return context.Cause(p.ctx)
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}
