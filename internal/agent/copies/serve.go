package copies

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// slowest is the rate below which a reader is given up, in bytes per second, and grace what it has besides.
const (
	slowest = 256 << 10
	grace   = time.Minute
)

// maxPast is how many copies are read past the kernel's memory at a time. Each takes a buffer: beyond that it would be the agent's memory that
// grows, so others are read as files are.
const maxPast = 32

// ServeHTTP is GET and HEAD /blobs/{uuid}, with Range, for whoever shows a ticket of this host for the blob.
func (c *Copies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	blob, ok := strings.CutPrefix(r.URL.Path, "/blobs/")
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "blobs can be read only", http.StatusMethodNotAllowed)
		return
	}
	if status, err := c.mayRead(r, blob); err != nil {
		c.cfg.Log.Warn("a request for a blob is refused", "path", r.URL.Path[:min(len(r.URL.Path), 100)], "remote", r.RemoteAddr, "reason", err)
		http.Error(w, err.Error(), status)
		return
	}
	select {
	case c.out <- struct{}{}:
		defer func() { <-c.out }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "as many blobs as may are being read already", http.StatusServiceUnavailable)
		return
	}
	c.serve(w, r, blob)
}

func (c *Copies) mayRead(r *http.Request, blob string) (int, error) {
	if _, err := c.store.path(blob); err != nil {
		return http.StatusForbidden, err
	}
	key, host := c.cfg.Key()
	if len(key) == 0 || host == "" {
		return http.StatusServiceUnavailable, errors.New("this agent has not been told yet how to check tickets")
	}
	ticket, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Ticket ")
	if !ok {
		return http.StatusUnauthorized, errors.New("a ticket is needed")
	}
	if _, err := ha.CheckTicket(key, ticket, blob, host, time.Now()); err != nil {
		return http.StatusForbidden, err
	}
	return 0, nil
}

func (c *Copies) serve(w http.ResponseWriter, r *http.Request, blob string) {
	f, size, err := c.store.open(blob, "")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.missed(blob)
		http.Error(w, "there is no copy of the blob here", http.StatusNotFound)
		return
	case err != nil:
		c.cfg.Log.Error("a copy cannot be read", "blob", blob, "error", err)
		http.Error(w, "the copy cannot be read", http.StatusInternalServerError)
		return
	}
	defer f.Close()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(grace + time.Duration(size/slowest)*time.Second))
	w.Header().Set("Content-Type", "application/octet-stream")
	counted := &counter{ResponseWriter: w, n: &c.served}
	content, done := c.content(f, size)
	defer done()
	http.ServeContent(counted, r, "", time.Time{}, content)
}

func (c *Copies) content(f *os.File, size int64) (content io.ReadSeeker, done func()) {
	select {
	case c.past <- struct{}{}:
	default:
		return f, func() {}
	}
	leave := func() { <-c.past }
	if content = directly(f, size); content == io.ReadSeeker(f) {
		leave()
		return f, func() {}
	}
	return content, leave
}

// missed tells that a copy is gone which the catalogue counts on: its ticket says so.
func (c *Copies) missed(blob string) {
	path, err := c.store.path(blob)
	if err == nil {
		err = c.absent(path, blob)
	}
	if err != nil {
		c.cfg.Log.Warn("a copy that was asked for is not here, and may be elsewhere", "blob", blob, "error", err)
	}
}
