package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/salvor-ha/salvor/internal/ha"
)

// proxy is a node of a cluster: it passes bytes on to the true server, until it hangs or is killed.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]bool
	ever  int
	hung  bool
	done  sync.WaitGroup
}

// hang makes the node keep its connections, take new ones, and say nothing any more.
func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = true
}

func (p *proxy) hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hung
}

// mute is an end of a connection that loses what is written to it once its node hangs.
type mute struct {
	net.Conn
	p *proxy
}

func (m mute) Write(b []byte) (int, error) {
	if m.p.hangs() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, conns: map[net.Conn]bool{}}
	p.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.done.Go(func() { p.serve(c, server) })
		}
	})
	t.Cleanup(p.kill)
	return p
}

func (p *proxy) serve(c net.Conn, server string) {
	s, err := net.Dial("tcp", server)
	if err != nil {
		c.Close()
		return
	}
	p.mu.Lock()
	p.conns[c], p.conns[s] = true, true
	p.ever++
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		both.Go(func() {
			io.Copy(mute{way[0], p}, way[1])
			c.Close()
			s.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, s)
	p.mu.Unlock()
}

// open counts the connections that are open now, ever those that were opened.
func (p *proxy) open() (now, ever int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2, p.ever
}

func (p *proxy) kill() {
	p.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

// clusters runs a test on each server, as if it were a cluster of two nodes.
func clusters(t *testing.T, run func(t *testing.T, url string, nodes [2]*proxy)) {
	t.Helper()
	t.Run("MariaDB", func(t *testing.T) {
		url := mariadb.database(t)
		name := databaseOf(url)
		nodes := [2]*proxy{newProxy(t, mariadbAddress), newProxy(t, mariadbAddress)}
		run(t, fmt.Sprintf("mysql+pymysql://root@%s,%s/%s", nodes[0].Addr(), nodes[1].Addr(), name), nodes)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := postgres.database(t)
		nodes := [2]*proxy{newProxy(t, postgresAddress), newProxy(t, postgresAddress)}
		run(t, strings.Replace(url, postgresAddress, fmt.Sprintf("%s,%s", nodes[0].Addr(), nodes[1].Addr()), 1), nodes)
	})
}

// A process talks to one node at a time. When that dies, it goes on with the next, without an error in between.
func TestFailover(t *testing.T) {
	clusters(t, func(t *testing.T, url string, nodes [2]*proxy) {
		b := newBench(t, url, open)
		at := func(node, want int) {
			t.Helper()
			if now, _ := nodes[node].open(); (now > 0) != (want > 0) {
				t.Fatalf("%d connections to node %d, want %d", now, node, want)
			}
		}
		at(0, 1)
		at(1, 0)
		nodes[0].kill()
		for i := range 5 {
			if _, err := b.Commit(t.Context(), b.lease, note(int64(i))); err != nil {
				t.Fatalf("commit %d after a node died: %v", i, err)
			}
		}
		b.must(b.Ping(t.Context()))
		at(1, 1)
		nodes[1].kill()
		_, err := b.Commit(t.Context(), b.lease)
		b.away(err)
		if !strings.Contains(err.Error(), nodes[1].Addr().String()) {
			t.Fatalf("the error names no node: %v", err)
		}
	})
}

// A node that hangs is left with all connections to it, in the middle of a statement as of a commit, and so is the next one.
func TestHangingNode(t *testing.T) {
	clusters(t, func(t *testing.T, url string, nodes [2]*proxy) {
		b := newBench(t, url, open)
		impatient := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 1600*time.Millisecond)
			defer cancel()
			_, err := b.Commit(ctx, b.lease, note(1))
			return err
		}
		nodes[0].hang()
		b.away(impatient())
		if _, err := b.Commit(t.Context(), b.lease, note(2)); err != nil {
			t.Fatalf("commit after a node hung: %v", err)
		}
		if now, _ := nodes[1].open(); now == 0 {
			t.Fatal("no connection to the next node")
		}
		b.spy.once(func(commit, _ func() error) error {
			nodes[1].hang()
			return commit()
		})
		began := time.Now()
		b.away(impatient())
		if took := time.Since(began); took > 20*time.Second {
			t.Fatalf("a commit waited %s for a node that hangs", took)
		}
	})
}

// A read from a node that hangs ends with its context, and the next one goes to the next node; one that was given up in time leaves no
// connection behind that would fail the next.
func TestHangingRead(t *testing.T) {
	clusters(t, func(t *testing.T, url string, nodes [2]*proxy) {
		b := newBench(t, url, open)
		read := func(patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := b.Notifications(ctx, ha.NotificationFilter{}, ha.Page{Limit: 10})
			return err
		}
		for range 2 {
			if err := read(-time.Second); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a read without time: %v", err)
			}
			b.must(read(time.Minute))
		}
		nodes[0].hang()
		b.away(read(1600 * time.Millisecond))
		b.must(read(time.Minute))
		if now, _ := nodes[1].open(); now == 0 {
			t.Fatal("no connection to the next node")
		}
	})
}

// A node that answers but says that it cannot serve (Galera's 1047) is left whole: its pooled connections are not used again.
func TestLeaveNode(t *testing.T) {
	nodes := [2]*proxy{newProxy(t, mariadbAddress), newProxy(t, mariadbAddress)}
	url := mariadb.database(t)
	name := databaseOf(url)
	b := newBench(t, fmt.Sprintf("mysql://root@%s,%s/%s", nodes[0].Addr(), nodes[1].Addr(), name), open)
	var wg sync.WaitGroup
	for range 4 { // several pooled connections
		wg.Go(func() { b.Poll(t.Context(), "x") })
	}
	wg.Wait()
	_, before := nodes[0].open()
	refused := false
	b.spy.set(func(s *spy) {
		s.exec = func(string) error {
			if refused {
				return nil
			}
			refused = true
			return &mysql.MySQLError{Number: 1047, Message: "WSREP has not yet prepared node for application use"}
		}
	})
	for range 10 {
		_, err := b.Commit(t.Context(), b.lease)
		b.must(err)
	}
	if _, after := nodes[0].open(); after != before {
		t.Fatalf("%d more connections to the node that was left", after-before)
	}
	if now, _ := nodes[1].open(); now == 0 {
		t.Fatal("no connection to the next node")
	}
}
