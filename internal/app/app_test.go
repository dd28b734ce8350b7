package app

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// script makes parts that note when they begin to stop and when they have stopped.
type script struct {
	mu    sync.Mutex
	noted []string
}

func (s *script) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted = append(s.noted, what)
}

func (s *script) part(name string) part {
	return part{name, func(ctx context.Context) error {
		<-ctx.Done()
		s.note(name + " stops")
		s.note(name + " stopped")
		return nil
	}}
}

// TestPartsStopInOrder: an engine may only drain when the api has ended, so that nothing is admitted that it would not see.
func TestPartsStopInOrder(t *testing.T) {
	s := &script{}
	a := &App{log: silent(), parts: []part{s.part("api"), s.part("engine")}}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []string{"api stops", "api stopped", "engine stops", "engine stopped"}; !slices.Equal(s.noted, want) {
		t.Errorf("got %q", s.noted)
	}
}

func TestAFailedPartStopsTheOthers(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{{errors.New("no more files"), "api: no more files"}, {nil, "api ended by itself"}} {
		s := &script{}
		a := &App{log: silent(), parts: []part{{"api", func(context.Context) error { return tt.err }}, s.part("engine")}}
		if err := a.Run(t.Context()); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
		if !slices.Contains(s.noted, "engine stopped") {
			t.Error("the engine was not stopped")
		}
	}
}

// TestSystemdIsTold speaks to a socket as systemd's.
func TestSystemdIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	ctx, stop := context.WithCancel(t.Context())
	a := &App{log: silent(), parts: []part{(&script{}).part("engine")}}
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	said := make([]byte, 100)
	n, err := conn.Read(said)
	if err != nil || string(said[:n]) != "READY=1" {
		t.Errorf("%q, %v", said[:n], err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n, err = conn.Read(said); err != nil || !strings.HasPrefix(string(said[:n]), "STOPPING=1") {
		t.Errorf("%q, %v", said[:n], err)
	}
}

func TestCloseWithoutRun(t *testing.T) {
	a, err := Sim(t.Context(), SimOptions{Listen: "127.0.0.1:0", Hosts: 2, Instances: 1, Log: silent()})
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(a.URL(), "http://")
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address) // it is free again
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
