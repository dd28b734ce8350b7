package demo

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
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

// TestReviveTwice: r pressed again before the screen shows that a host has power again is for another host, or for none: its monitor reports
// a return once. One that dies again can be revived again.
func TestReviveTwice(t *testing.T) {
	scene := func(off ...string) Scene {
		var s Scene
		for _, name := range []string{"host-1", "host-2", "host-3"} {
			s.Hosts = append(s.Hosts, Host{Name: name, Powered: !slices.Contains(off, name)})
		}
		s.Incidents = []Incident{{Host: "host-2"}, {Host: "host-1"}}
		return s
	}
	var m tea.Model = screen{stage: &stage{}, scene: scene("host-1", "host-2"), dying: map[string]bool{}, reviving: map[string]bool{}}
	press := func(acts bool, want ...string) {
		t.Helper()
		var c tea.Cmd
		m, c = m.Update(tea.KeyPressMsg{Code: 'r', Text: "r"})
		if got := slices.Sorted(maps.Keys(m.(screen).reviving)); !slices.Equal(got, want) || (c != nil) != acts {
			t.Errorf("revived: %v, want %v; acts: %v", got, want, c != nil)
		}
	}
	shown := func(s Scene) {
		m.(screen).stage.scene = s
		m, _ = m.Update(looked{})
	}
	press(true, "host-2")
	press(true, "host-1", "host-2")
	press(false, "host-1", "host-2")
	shown(scene("host-1"))
	press(false, "host-1")
	shown(scene("host-2"))
	press(true, "host-2")
}

// TestKillTwice: k pressed again before the screen shows that a host has lost power kills another host, and never the last one. One that
// has been revived can be killed again.
func TestKillTwice(t *testing.T) {
	hosts := func(off ...string) Scene {
		var s Scene
		for _, name := range []string{"host-1", "host-2", "host-3"} {
			s.Hosts = append(s.Hosts, Host{Name: name, Powered: !slices.Contains(off, name)})
		}
		return s
	}
	var m tea.Model = screen{stage: &stage{}, scene: hosts(), dying: map[string]bool{}, reviving: map[string]bool{}}
	press := func(want ...string) {
		t.Helper()
		m, _ = m.Update(tea.KeyPressMsg{Code: 'k', Text: "k"})
		if got := slices.Sorted(maps.Keys(m.(screen).dying)); !slices.Equal(got, want) {
			t.Errorf("killed: %v, want %v", got, want)
		}
	}
	shown := func(s Scene) {
		m.(screen).stage.scene = s
		m, _ = m.Update(looked{})
	}
	press("host-1")
	if _, c := m.Update(calmOver{}); c != nil {
		t.Error("the first host dies twice")
	}
	press("host-1", "host-2")
	press("host-1", "host-2")
	shown(hosts("host-1"))
	press("host-2")
	shown(hosts("host-1", "host-2"))
	shown(hosts("host-2"))
	press("host-1")
}

// TestAWorldThatCannotStart leaves nothing behind and says why.
func TestAWorldThatCannotStart(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere")
	if _, err := start(t.Context(), Options{Hosts: 2, Instances: 1}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v", err)
	}
}
