package copies

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// puller fetches one blob.
type puller struct {
	c    *Copies
	j    *job
	path string
	file *os.File // the partial one
	past bool     // what is written goes past the kernel's memory of files
	hash hash.Hash
	at   int64 // bytes that are there and hashed

	from   []string          // hosts whose bytes are in it, "" for those of an earlier attempt
	apart  bool              // a whole was wrong: from now on one host gives it all
	bad    map[string]string // hosts that are not asked again, and why
	errors map[string]string // the last of each other host
}

// mostApart bounds the turns of a copy that must come whole from one host: each turn may begin it anew.
const mostApart = 50

// fatal is an error that another source would not mend.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// pull makes the copy, or fails. What has arrived before a failure stays for the next order, but for want of room. arrived is called when all
// bytes are there and right, before they are made durable; its error ends the copy.
func (c *Copies) pull(ctx context.Context, j *job, arrived func() error) error {
	has, err := c.store.has(j.blob, j.size, j.sum)
	if err != nil {
		return err
	}
	if has {
		j.bytes.Store(j.size)
		c.done(j)
		return nil
	}
	p := &puller{c: c, j: j, hash: sha256.New(), bad: map[string]string{}, errors: map[string]string{}}
	if p.path, err = c.store.path(j.blob); err != nil {
		return err
	}
	if err := p.open(ctx); err != nil {
		return p.noRoom(err)
	}
	defer p.file.Close()
	if err := p.fetch(ctx); err != nil {
		return p.noRoom(err)
	}
	if err := arrived(); err != nil {
		return err
	}
	if err := c.cfg.Ready(); err != nil { // what was mounted when it began may be gone
		return err
	}
	if err := c.store.commit(p.file, p.path, j.sum); err != nil {
		return p.noRoom(err)
	}
	c.done(j)
	return nil
}

// open opens the partial file and hashes what an earlier attempt has left of it.
func (p *puller) open(ctx context.Context) error {
	if err := p.c.store.makePlace(p.path); err != nil {
		return err
	}
	f, err := os.OpenFile(p.path+partialEnd, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return err
	}
	p.file = f
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no plain file", f.Name())
	}
	if err == nil && info.Size() > p.j.size {
		err = p.restart()
	} else if err == nil && info.Size() > 0 {
		p.at, err = hashOf(f, p.hash, func(int) error { return context.Cause(ctx) })
		p.from = []string{""} // nobody knows whose bytes they are
	}
	if err == nil {
		err = p.hasRoom()
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	p.j.bytes.Store(p.at)
	// A large blob that passes through the kernel's memory is copied once more, and drives out what the host's instances have there.
	p.past = p.j.size-p.at >= large && p.at%block == 0 && setDirect(f, true) == nil
	return nil
}

// block is what a write past the kernel's memory is a multiple of, at a multiple of it in the file, and from a multiple of it in memory, as buffers
// are; large is from how many bytes on that is done.
const (
	block = 4 << 10
	large = 1 << 20
)

func (p *puller) hasRoom() error {
	free, err := freeBytes(p.file)
	if err != nil {
		return err
	}
	if need := p.j.size - p.at; free < need {
		return fmt.Errorf("%d bytes are needed and %d are free: %w", need, free, syscall.ENOSPC)
	}
	return nil
}

// noRoom names a full filesystem, and gives it back what had arrived: another host is asked.
func (p *puller) noRoom(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	_ = os.Remove(p.path + partialEnd)
	return fmt.Errorf("no space left in %s for blob %s: %w", p.c.cfg.Dir, p.j.blob, err)
}

func (p *puller) restart() error {
	p.at, p.from = 0, nil
	p.hash.Reset()
	p.j.bytes.Store(0)
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	return err
}

// Steps of waiting when no source gives anything.
const (
	firstWait = 200 * time.Millisecond
	lastWait  = 5 * time.Second
)

// fetch asks one source after the other until all is there and right.
func (p *puller) fetch(ctx context.Context) error {
	quiet, wait := time.Now(), firstWait
	for turn := 0; ; turn++ {
		if p.at == p.j.size {
			wrong, err := p.judge()
			if err != nil || !wrong {
				return err
			}
		}
		all, renewed := p.j.from()
		open := p.askable(all)
		if len(open) == 0 || p.apart && turn > mostApart {
			return fmt.Errorf("no source gives it: %s", p.said())
		}
		before := p.at
		s := open[turn%len(open)]
		err := p.ask(ctx, s)
		var stop fatal
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case errors.As(err, &stop):
			return stop.error
		case err != nil:
			delete(p.errors, s.Host)
			if p.bad[s.Host] == "" {
				p.errors[s.Host] = err.Error()
			}
			p.j.trouble(p.said())
			p.c.cfg.Log.Warn("a source broke off", "blob", p.j.blob, "order", p.j.id, "source", s.Host, "at", p.at, "of", p.j.size, "error", err)
		}
		if p.at > before || err == nil {
			quiet, wait = time.Now(), firstWait
			continue
		}
		if time.Since(quiet) > p.c.cfg.Patience {
			return fmt.Errorf("no source gives more than %d of %d bytes: %s", p.at, p.j.size, p.said())
		}
		if (turn+1)%len(open) != 0 {
			continue // the next one at once
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-renewed:
		case <-timer.C:
		}
		timer.Stop()
		wait = min(2*wait, lastWait)
	}
}

// askable are the sources that may still be asked.
func (p *puller) askable(all []wire.AgentSource) []wire.AgentSource {
	return slices.DeleteFunc(slices.Clone(all), func(s wire.AgentSource) bool { return p.bad[s.Host] != "" })
}

func (p *puller) said() string {
	var all []string
	for _, m := range []map[string]string{p.bad, p.errors} {
		for host, text := range m {
			all = append(all, host+": "+text)
		}
	}
	if len(all) == 0 {
		return "none is named"
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// judge compares what has arrived with what was ordered. A host that alone gave wrong bytes is not asked again.
func (p *puller) judge() (wrong bool, err error) {
	got := sumOf(p.hash)
	if got == p.j.sum {
		return false, nil
	}
	text := "it gave other bytes: sha256 " + got
	if len(p.from) == 1 && p.from[0] != "" {
		p.bad[p.from[0]] = text
	}
	p.c.cfg.Log.Error("a blob arrived with wrong bytes and is fetched again", "blob", p.j.blob, "order", p.j.id, "sources", p.from, "sha256", got, "expected", p.j.sum)
	p.j.trouble(text)
	p.apart = true
	return true, p.restart()
}

// ask fetches the rest from one source, as much as it gives.
func (p *puller) ask(ctx context.Context, s wire.AgentSource) error {
	if p.apart && len(p.from) > 0 && !slices.Contains(p.from, s.Host) {
		if err := p.restart(); err != nil {
			return fatal{err}
		}
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	stall := time.AfterFunc(p.c.cfg.Stall, cancel)
	defer stall.Stop()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, strings.TrimRight(s.URL, "/")+"/blobs/"+p.j.blob, nil)
	if err != nil {
		p.bad[s.Host] = err.Error()
		return err
	}
	req.Header.Set("Authorization", "Ticket "+s.Ticket)
	req.Header.Set("Accept-Encoding", "identity")
	if p.at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.at))
	}
	resp, err := p.c.cfg.HTTP.Do(req)
	if err != nil {
		return p.stalled(limited, ctx, err)
	}
	defer resp.Body.Close()
	if err := p.accept(s, resp); err != nil {
		return err
	}
	if !slices.Contains(p.from, s.Host) {
		p.from = append(p.from, s.Host)
	}
	err = p.receive(resp.Body, stall)
	return p.stalled(limited, ctx, err)
}

// stalled names the reason when a source that fell silent was given up.
func (p *puller) stalled(limited, ctx context.Context, err error) error {
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("nothing came for %s", p.c.cfg.Stall)
	}
	return err
}

// accept checks the head of an answer: it must be the blob, from the byte where it broke.
func (p *puller) accept(s wire.AgentSource, resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if p.at > 0 { // it cannot begin in the middle
			if err := p.restart(); err != nil {
				return fatal{err}
			}
		}
		if resp.ContentLength < 0 {
			p.bad[s.Host] = "it does not say how many bytes it has"
			return errors.New(p.bad[s.Host])
		}
		if resp.ContentLength != p.j.size {
			p.bad[s.Host] = fmt.Sprintf("it has %d bytes instead of %d", resp.ContentLength, p.j.size)
			return errors.New(p.bad[s.Host])
		}
		return nil
	case http.StatusPartialContent:
		if want := fmt.Sprintf("bytes %d-%d/%d", p.at, p.j.size-1, p.j.size); resp.Header.Get("Content-Range") != want {
			p.bad[s.Host] = fmt.Sprintf("it answers the range %.80q instead of %q", resp.Header.Get("Content-Range"), want)
			return errors.New(p.bad[s.Host])
		}
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		p.bad[s.Host] = fmt.Sprintf("it has no byte %d: it is shorter than %d bytes", p.at, p.j.size)
		return errors.New(p.bad[s.Host])
	case http.StatusNotFound, http.StatusGone:
		p.bad[s.Host] = "it has no such blob"
		return errors.New(p.bad[s.Host])
	case http.StatusUnauthorized, http.StatusForbidden:
		p.c.cfg.Stale()
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	return fmt.Errorf("it answers %s: %s", resp.Status, strings.TrimSpace(string(text)))
}

// receive hashes and writes what comes, a buffer at a time, and what has come when the source breaks off.
func (p *puller) receive(body io.Reader, stall *time.Timer) (err error) {
	spare, full, wrote := make(chan []byte, ahead), make(chan []byte, ahead), make(chan error, 1)
	var broken atomic.Bool
	buf := buffers.get()
	defer buffers.put(buf)
	for part := range slices.Chunk(buf.bytes, bufferSize/ahead) {
		spare <- part
	}
	go func() { // ends before receive does
		var failed error
		for b := range full {
			if failed == nil {
				if failed = p.write(b); failed == nil {
					p.j.bytes.Add(int64(len(b)))
				}
				broken.Store(failed != nil)
			}
			spare <- b[:cap(b)]
		}
		wrote <- failed
	}()
	at := p.at
	for at < p.j.size && err == nil && !broken.Load() {
		buf := <-spare
		var n int
		n, err = p.fill(buf[:min(int64(len(buf)), p.j.size-at)], body, stall)
		full <- buf[:n]
		at += int64(n)
	}
	close(full)
	if err := <-wrote; err != nil {
		return fatal{fmt.Errorf("writing: %w", err)}
	}
	p.at = at
	switch {
	case p.at == p.j.size:
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	default:
		return err
	}
}

// fill reads and hashes until buf is full or nothing more comes.
func (p *puller) fill(buf []byte, body io.Reader, stall *time.Timer) (all int, err error) {
	for all < len(buf) && err == nil {
		var n int
		n, err = body.Read(buf[all:])
		if n == 0 {
			continue
		}
		stall.Reset(p.c.cfg.Stall)
		_, _ = p.hash.Write(buf[all : all+n]) // never fails
		all += n
		p.c.fetched.Add(int64(n))
	}
	return all, err
}

// write appends to the partial file. What goes past the kernel's memory must be whole blocks; with the first that are not that ends.
func (p *puller) write(b []byte) error {
	if p.past {
		n, err := p.file.Write(b[:len(b)&^(block-1)])
		if b = b[n:]; len(b) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EINVAL) { // else this filesystem has larger blocks
			return err
		}
		p.past = false
		if err := setDirect(p.file, false); err != nil {
			return err
		}
	}
	_, err := p.file.Write(b)
	return err
}
