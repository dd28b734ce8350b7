package copies

import (
	"io"
	"net/http"
	"sync/atomic"
)

// counter counts the bytes of a body, and lets the kernel send a file by itself.
type counter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *counter) ReadFrom(r io.Reader) (int64, error) {
	if part, ok := r.(*io.LimitedReader); ok { // as package http asks for a range
		if s, ok := part.R.(*direct); ok {
			return s.sendTo(c, part.N)
		}
	}
	n, err := io.Copy(c.ResponseWriter, r)
	c.n.Add(n)
	return n, err
}

// Moved are the bytes of blobs that were served and fetched since the start.
func (c *Copies) Moved() (served, fetched int64) { return c.served.Load(), c.fetched.Load() }
