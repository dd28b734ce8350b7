package nova

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// maxBody bounds an answer; a page of 1,000 servers has some 5 MB.
const maxBody = 64 << 20

// errTooLate stops an act whose time is over before it has left.
var errTooLate = errors.New("its time was over before it was sent")

// flight is an act on its way.
type flight struct {
	ctx    context.Context
	sendBy time.Time
	order  bool        // an evacuation: on a connection of its own
	left   atomic.Bool // bytes of it may be on the wire, and no answer has said that nothing was done
}

func (f *flight) check() error {
	if f.ctx.Err() != nil || (!f.sendBy.IsZero() && !time.Now().Before(f.sendBy)) {
		return errTooLate
	}
	return nil
}

type flightKey struct{}

// guard checks an act once more right before it leaves, and notes that it has.
type guard struct{ kept, once http.RoundTripper }

func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	f, _ := req.Context().Value(flightKey{}).(*flight)
	if f == nil {
		return limited(g.kept.RoundTrip(req))
	}
	if err := f.check(); err != nil {
		closeBody(req)
		return nil, err
	}
	// Finding a connection may take seconds more; the body is read when it is there.
	sent := req.Clone(req.Context())
	sent.Body = &guardedBody{ReadCloser: req.Body, flight: f}
	if req.GetBody != nil {
		sent.GetBody = func() (io.ReadCloser, error) {
			body, err := req.GetBody()
			return &guardedBody{ReadCloser: body, flight: f}, err
		}
	}
	next := g.kept
	if f.order {
		next = g.once
	}
	resp, err := limited(next.RoundTrip(sent))
	if resp != nil && resp.StatusCode == http.StatusUnauthorized {
		f.left.Store(false) // the token was refused: nothing was done
	}
	return resp, err
}

// guardedBody is read when a connection is there. An error here keeps the request from ever being complete: its head may
// have been sent, but the body says what to do, and the connection is closed without one.
type guardedBody struct {
	io.ReadCloser
	flight  *flight
	checked bool
}

func (b *guardedBody) Read(p []byte) (int, error) {
	if !b.checked {
		// Marked first: a caller that gives up meanwhile sees either the mark, or has ended the context that is checked.
		b.flight.left.Store(true)
		if err := b.flight.check(); err != nil {
			b.flight.left.Store(false)
			return 0, err
		}
		b.checked = true
	}
	return b.ReadCloser.Read(p)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

func limited(resp *http.Response, err error) (*http.Response, error) {
	if resp != nil {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxBody}
	}
	return resp, err
}

// errTooLong is the end of an answer that is longer than maxBody: cut off, it would only look broken.
var errTooLong = fmt.Errorf("it is longer than %d MiB, which no answer of OpenStack's is: is something else at this address?", maxBody>>20)

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n - 1, errTooLong // all but the first byte too many
	}
	return n, err
}
