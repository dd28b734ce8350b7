package galera

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// TestNodeIsLost: in the middle of a recovery the node that an engine and an api are at is killed, hangs, or is cut off from the
// others, and comes back, one node after the other. Both go over to another node, the recovery ends with one order for each instance, and no api tells
// less than it was told, through whichever node.
func TestNodeIsLost(t *testing.T) {
	const perHost = 20
	s := newScene(t, 7, "order_in_doubt = 4")
	_, here := s.at(t, 0).API("api at node 1")
	_, elsewhere := s.at(t, 1).API("api at node 2")
	for i := range 2 {
		s.at(t, i).Engine(fmt.Sprintf("engine at node %d", i+1))
	}
	hosts := s.doom(t, elsewhere, 4, perHost) // all before the first instance moves: none moves to one of them
	want := 0
	for _, tt := range []struct {
		name       string
		lose, mend func(*testkit.GaleraNode) error
	}{
		{"killed", func(n *testkit.GaleraNode) error { n.Kill(); return nil }, (*testkit.GaleraNode).Restart},
		{"hangs", func(n *testkit.GaleraNode) error { n.Signal(syscall.SIGSTOP); return nil }, func(n *testkit.GaleraNode) error { n.Signal(syscall.SIGCONT); return nil }},
		{"cut off", func(n *testkit.GaleraNode) error { return n.Isolate(true) }, func(n *testkit.GaleraNode) error { return n.Isolate(false) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			note := report(t, here, hosts[want/perHost])
			testkit.Eventually(t, 60*time.Second, func() (bool, string) {
				n := s.ordered(t)
				return n > want+perHost/4, fmt.Sprintf("%d orders", n-want)
			})
			want += perHost
			node := s.busiest(t)
			at := time.Now()
			if err := tt.lose(node); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := tt.mend(node); err != nil {
					t.Fatal(err)
				}
				s.g.Whole(t, 90*time.Second)
			})
			for _, api := range []string{here, elsewhere} {
				testkit.Eventually(t, 60*time.Second, func() (bool, string) {
					status, answer, err := testkit.TryCall("GET", api+"/v1/notifications/"+note, nil)
					if err == nil && status < 500 && status != 200 {
						t.Fatalf("an api does not know what was reported: %d %v", status, answer)
					}
					return err == nil && status == 200, fmt.Sprintf("%d %v %v", status, answer, err)
				})
			}
			t.Logf("both apis answer %s after the loss", time.Since(at).Round(100*time.Millisecond))
			finished(t, here, 120*time.Second, note)
			t.Logf("finished %s after the loss; the node says %s", time.Since(at).Round(100*time.Millisecond), node.State())
			s.moved(t, want)
		})
	}
	// All nodes are back, and whoever asks is told the same.
	note := report(t, elsewhere, hosts[3])
	testkit.Must(t, 200, "GET", here+"/v1/notifications/"+note, nil)
	finished(t, here, 60*time.Second, note)
	s.moved(t, want+perHost)
}

// busiest is the node at which most of salvor's connections are: processes go over to the next one also when a node was slow.
func (s *scene) busiest(t *testing.T) (busiest *testkit.GaleraNode) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, func() (bool, string) {
		most := 0
		var said []string
		for _, node := range s.g.Nodes {
			n, err := node.Clients(s.database)
			said = append(said, fmt.Sprintf("%s: %d connections, %v", node.Address, n, err))
			if n > most {
				most, busiest = n, node
			}
		}
		return most > 0, strings.Join(said, "; ")
	})
	return busiest
}

// ordered counts the evacuate orders that Nova has taken.
func (s *scene) ordered(t *testing.T) (n int) {
	t.Helper()
	for _, i := range testkit.Must(t, 200, "GET", s.Sim+"/sim/state", nil)["instances"].([]any) {
		n += int(i.(map[string]any)["evacuations"].(float64))
	}
	return n
}
