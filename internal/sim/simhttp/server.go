package simhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

// Options shape the HTTP faces. The zero value of each field means its default.
type Options struct {
	Listen    string        // address for ListenAndServe; default 127.0.0.1:18774
	PageLimit int           // longest page of a list (Nova's max_limit); default 1000
	TokenTTL  time.Duration // default 1 h
	URL       string        // base of the catalog's URLs; default: as the client addressed this server
	HA        string        // instance-ha in the catalog, such as http://127.0.0.1:15868/v1; default: not in it
}

// Server is the HTTP face of one cloud.
type Server struct {
	cloud  *sim.Cloud
	opt    Options
	tokens *tokenStore
	logins sessions // of BMCs

	mu     sync.Mutex
	closed bool
	later  map[*time.Timer]struct{} // what faults of kind act_after still have to do
}

// New makes the face of a cloud. It is an http.Handler; Close it after use, unless ListenAndServe or Serve did.
func New(cloud *sim.Cloud, o Options) *Server {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:18774"
	}
	if o.PageLimit <= 0 {
		o.PageLimit = 1000
	}
	if o.TokenTTL <= 0 {
		o.TokenTTL = time.Hour
	}
	o.URL = strings.TrimRight(o.URL, "/")
	return &Server{cloud: cloud, opt: o, tokens: newTokenStore(o.TokenTTL), later: map[*time.Timer]struct{}{}}
}

// ListenAndServe serves on Options.Listen until ctx ends. It returns nil then.
func (s *Server) ListenAndServe(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.opt.Listen)
	if err != nil {
		return fmt.Errorf("simulated cloud: %w", err)
	}
	return s.Serve(ctx, l)
}

// Serve serves on l, which it closes, until ctx ends: requests under way have a second to end. It returns nil then.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(l) }()
	defer s.Close()
	select {
	case err := <-ended:
		return fmt.Errorf("simulated cloud: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := hs.Shutdown(grace); err != nil {
		_ = hs.Close() // what still hangs, such as an answer that a fault delays, is dropped
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("simulated cloud: %w", err)
	}
	return nil
}

// Close drops what faults of kind act_after still had to do.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for t := range s.later {
		t.Stop()
	}
	clear(s.later)
}

// after runs f in d, unless the server is closed before.
func (s *Server) after(d time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		s.mu.Lock()
		delete(s.later, t)
		closed := s.closed
		s.mu.Unlock()
		if !closed {
			f()
		}
	})
	s.later[t] = struct{}{}
}
