package demo

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// display is a terminal's screen that a test reads along.
type display struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

func (d *display) await(t *testing.T, what string) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		d.mu.Lock()
		text := ansi.Strip(d.text.String())
		d.mu.Unlock()
		if strings.Contains(text, what) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q was never shown:\n%s", what, text)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestShow sits at the terminal: kills a host, sees its instances come back, revives it, and quits.
func TestShow(t *testing.T) {
	w, err := start(t.Context(), Options{Hosts: 3, Instances: 3, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	keys, hand := io.Pipe()
	var screen display
	ended := make(chan error, 1)
	go func() {
		ended <- show(context.WithoutCancel(t.Context()), w, keys, &screen, []string{"TERM=xterm-256color"}, tea.WithWindowSize(110, 30))
	}()
	press := func(key string) {
		if _, err := io.WriteString(hand, key); err != nil {
			t.Fatal(err)
		}
	}
	screen.await(t, "q quit")
	press("k")
	screen.await(t, "no power")
	screen.await(t, "ordered exactly once")
	press("r")
	screen.await(t, "has power again")
	press("q")
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("q does not quit")
	}
	_ = hand.Close()
	if err := w.stop(); err != nil {
		t.Error(err)
	}
}

// TestAWorldThatCannotStart leaves nothing behind and says why.
func TestAWorldThatCannotStart(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere")
	if _, err := start(t.Context(), Options{Hosts: 2, Instances: 1}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v", err)
	}
}
