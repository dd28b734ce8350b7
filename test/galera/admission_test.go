package galera

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

const reports = 20

// TestOneOfTwentyIdenticalReportsIsAdmitted: three apis, each at a node of its own, get twenty reports of one death at once: one is
// admitted, in each of ROUNDS (30) rounds (rule A1, invariant I7).
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
		if count[202] != 1 || count[409] != reports-1 {
			t.Fatalf("round %d: %v, want one 202 and %d times 409", round, count, reports-1)
		}
	}
	t.Logf("%d rounds of %d reports in %s", rounds, reports, time.Since(began).Round(time.Millisecond))
}
