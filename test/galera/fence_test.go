package galera

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// writes watches what owners of units write, by rows, over a connection to one node that waits for the others' writes.
type writes struct {
	db *sql.DB
	// at is how many journal rows there were of a unit's earlier epochs when each of its takeovers was first seen.
	at map[[2]int64]int
}

func (s *scene) watch(t *testing.T) *writes {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+s.g.Nodes[2].Address+")/"+s.database+"?wsrep_sync_wait=3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &writes{db: db, at: map[[2]int64]int{}}
}

// earlier counts the journal rows of a unit's epochs before one.
func (w *writes) earlier(ctx context.Context, unit, epoch int64) (n int, err error) {
	err = w.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM journal WHERE work_id = ? AND epoch < ?", unit, epoch).Scan(&n)
	return n, err
}

// look notes takeovers that it has not seen yet.
func (w *writes) look(t *testing.T) {
	t.Helper()
	rows, err := w.db.QueryContext(t.Context(), "SELECT id, epoch FROM work WHERE epoch > 1 AND kind = 'host'")
	if err != nil {
		t.Fatal(err)
	}
	var fresh [][2]int64
	for rows.Next() {
		var k [2]int64 // unit, epoch
		if err := rows.Scan(&k[0], &k[1]); err != nil {
			t.Fatal(err)
		}
		if _, known := w.at[k]; !known {
			fresh = append(fresh, k)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	for _, k := range fresh {
		if w.at[k], err = w.earlier(t.Context(), k[0], k[1]); err != nil {
			t.Fatal(err)
		}
	}
}

// late counts the rows that were written by an old owner after its unit was seen taken over.
func (w *writes) late(t *testing.T) (late int) {
	t.Helper()
	for k, was := range w.at {
		now, err := w.earlier(t.Context(), k[0], k[1])
		if err != nil {
			t.Fatal(err)
		}
		late += now - was
	}
	return late
}

// owners are the engines that hold a host's recovery, by name.
func (w *writes) owners(t *testing.T) map[string]int {
	t.Helper()
	rows, err := w.db.QueryContext(t.Context(), "SELECT owner, COUNT(*) FROM work WHERE ended = 0 AND kind = 'host' AND owner <> '' GROUP BY owner")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	owners := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		owners[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return owners
}

// TestFence: two engines at different nodes; again and again one is stopped past its lease, its recoveries are taken over, and it
// is woken up, for MINUTES (half of one). No old owner writes a row after its takeover, and no instance gets two orders.
func TestFence(t *testing.T) {
	const perHost = 6
	span := time.Duration(number(t, "MINUTES", 0.5) * float64(time.Minute))
	// Two deaths at a time, and a few hosts that live on.
	doomed := 2*int(span/(4*time.Second)) + 6
	s := newScene(t, doomed+3, "lease_ttl = 2", "lease_tick = 0.5", "order_in_doubt = 3")
	_, api := s.at(t, 2).API("api")
	engines := map[string]*testkit.Process{}
	for i := range 2 {
		p, name := s.at(t, i).Engine(fmt.Sprintf("engine-%d", i+1))
		engines[name] = p
	}
	hosts := s.doom(t, api, doomed, perHost)
	w := s.watch(t)
	var notes []string
	rounds := 0
	for end := time.Now().Add(span); time.Now().Before(end) && len(hosts) > 1; {
		notes = append(notes, report(t, api, hosts[0]), report(t, api, hosts[1]))
		hosts = hosts[2:]
		var victim string
		testkit.Eventually(t, 30*time.Second, func() (bool, string) {
			w.look(t)
			for name := range w.owners(t) {
				victim = name
			}
			return victim != "", "no engine is at work"
		})
		engines[victim].Signal(syscall.SIGSTOP)
		// Its lease runs out, another engine goes on with all that it held, and only then it wakes up.
		testkit.Eventually(t, 60*time.Second, func() (bool, string) {
			w.look(t)
			held := w.owners(t)[victim]
			return held == 0, fmt.Sprintf("%s, stopped, still holds %d", victim, held)
		})
		engines[victim].Signal(syscall.SIGCONT)
		rounds++
		w.look(t)
	}
	finished(t, api, 120*time.Second, notes...)
	w.look(t)
	takeovers := len(w.at)
	refused := 0
	for _, p := range engines {
		for _, line := range p.Last(5000) {
			if strings.Contains(line, "another engine owns this unit now") || strings.Contains(line, "the work ends here") {
				refused++
			}
		}
	}
	late := w.late(t)
	t.Logf("%d recoveries, %d pauses, %d takeovers, %d times an old owner saw its end, LATE WRITES %d", len(notes), rounds, takeovers, refused, late)
	if late != 0 {
		t.Errorf("%d rows were written by old owners after their takeover", late)
	}
	if takeovers == 0 || refused == 0 {
		t.Errorf("%d takeovers, %d old owners that saw their end: nothing was proven", takeovers, refused)
	}
	s.moved(t, len(notes)*perHost)
}
