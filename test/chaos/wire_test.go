package chaos

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// fault is what becomes of a line.
type fault string

const (
	well  fault = ""
	cut   fault = "cut"   // connections are closed, new ones refused: the server has ended
	reset fault = "reset" // the same by RST, in the middle of what was being said
	hang  fault = "hang"  // connections stay, new ones are taken, and nothing comes through: a firewall, a server that is stopped
)

// wire is the line between salvor's processes and their database.
type wire struct {
	server string

	mu    sync.Mutex
	state fault
	conns map[*net.TCPConn]bool
}

// newWire makes a database of the test's own, and returns the line to it and the URL that leads over it.
func newWire(t *testing.T) (*wire, string) {
	t.Helper()
	direct := testkit.MariaDB(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{server: u.Host, conns: map[*net.TCPConn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.serve(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.set(cut)
		serving.Wait()
	})
	return w, strings.Replace(direct, u.Host, l.Addr().String(), 1)
}

func (w *wire) serve(c *net.TCPConn) {
	w.mu.Lock()
	state := w.state
	w.mu.Unlock()
	if state == cut || state == reset {
		w.end(c, state)
		return
	}
	s, err := net.DialTimeout("tcp", w.server, 10*time.Second)
	if err != nil {
		_ = c.Close()
		return
	}
	w.mu.Lock()
	w.conns[c], w.conns[s.(*net.TCPConn)] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		both.Go(func() {
			w.pass(way[0], way[1])
			_ = c.Close()
			_ = s.Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	delete(w.conns, c)
	delete(w.conns, s.(*net.TCPConn))
	w.mu.Unlock()
}

// pass carries bytes until either end is closed; what comes while the line hangs is lost for good.
func (w *wire) pass(to, from net.Conn) {
	for b := make([]byte, 64<<10); ; {
		n, err := from.Read(b)
		w.mu.Lock()
		lost := w.state == hang
		w.mu.Unlock()
		if !lost && n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) end(c *net.TCPConn, how fault) {
	if how == reset {
		_ = c.SetLinger(0)
	}
	_ = c.Close()
}

// set makes a fault, or ends it. Connections that hung do not live again: what was lost on them is lost.
func (w *wire) set(to fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to != hang {
		for c := range w.conns {
			w.end(c, to)
		}
	}
	w.state = to
}
