package galera

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

const reports = 20

// TestOneOfTwentyIdenticalReportsIsAdmitted: three apis, each at a node of its own, get twenty reports of one death at once: one is
// admitted, in each of ROUNDS (30) rounds (rule A1, invariant I7). What is answered with 503, as when a node's disk stands still for
// seconds, is sent again, as monitors do.
func TestOneOfTwentyIdenticalReportsIsAdmitted(t *testing.T) {
	rounds := int(number(t, "ROUNDS", 30))
	s := newScene(t, rounds)
	var apis []string
	for i := range s.g.Nodes {
		_, url := s.at(t, i).API(fmt.Sprintf("api-%d", i+1))
		apis = append(apis, url)
	}
	var hosts []string
	for i := range rounds {
		hosts = append(hosts, fmt.Sprintf("host-%d", i+1))
	}
	testkit.Register(t, apis[0], "auto", hosts...)
	began := time.Now()
	for round, host := range hosts {
		body := testkit.HostDown(host, time.Now())
		var mu sync.Mutex
		count := map[int]int{}
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range reports {
			wg.Go(func() {
				<-start
				status, _, err := testkit.TryCall("POST", apis[i%len(apis)]+"/v1/notifications", body)
				for tries := 0; status == 503 && err == nil && tries < 5; tries++ {
					mu.Lock()
					count[status]++
					mu.Unlock()
					status, _, err = testkit.TryCall("POST", apis[i%len(apis)]+"/v1/notifications", body)
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				count[status]++
			})
		}
		close(start)
		wg.Wait()
		stored, told := s.admitted(t, host)
		lost := count[202] == 0 && count[503] > 0 // whose 202 it was got 503, and then a 409
		if stored != 1 || count[202] != 1 && !lost || count[202]+count[409] != reports {
			t.Fatalf("round %d: %v, want one 202 and %d times 409; %s", round, count, reports-1, told)
		}
	}
	t.Logf("%d rounds of %d reports in %s", rounds, reports, time.Since(began).Round(time.Millisecond))
}

// admitted tells what the rows say of a host: how many reports are stored, and how many transactions that decided about it were committed.
func (s *scene) admitted(t *testing.T, host string) (stored int, told string) {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+s.g.Nodes[0].Address+")/"+s.database+"?wsrep_sync_wait=3")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var touch int
	var rows string
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*), h.touch, GROUP_CONCAT(CONCAT_WS(' ', n.id, n.created_at, n.status, n.unit_key) SEPARATOR '; ') "+
		"FROM hosts h JOIN notifications n ON n.source_host_uuid = h.uuid WHERE h.name = ? GROUP BY h.id", host).Scan(&stored, &touch, &rows); err != nil {
		t.Fatal(err)
	}
	return stored, fmt.Sprintf("the host was decided about %d times, stored are %s", touch, rows)
}
