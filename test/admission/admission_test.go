package admission

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

const (
	apis    = 3
	reports = 20
)

func rounds(t *testing.T) int {
	text := os.Getenv("ROUNDS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ROUNDS=%s: a number is wanted", text)
	}
	return n
}

func TestOneOfTwentyIdenticalReportsIsAdmitted(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{"mariadb": testkit.MariaDB, "postgresql": testkit.Postgres} {
		t.Run(name, func(t *testing.T) {
			n := rounds(t)
			c := testkit.NewCluster(t, database(t), n)
			var urls []string
			for i := range apis {
				_, url := c.API(fmt.Sprintf("api-%d", i+1))
				urls = append(urls, url)
			}
			var hosts []string
			for i := range n {
				hosts = append(hosts, fmt.Sprintf("host-%d", i+1))
			}
			testkit.Register(t, urls[0], "auto", hosts...)
			for round, host := range hosts {
				round1(t, urls, round, host)
			}
		})
	}
}

// round1 posts the report of one host's death twenty times at once.
func round1(t *testing.T, urls []string, round int, host string) {
	t.Helper()
	body := testkit.HostDown(host, time.Now())
	var mu sync.Mutex
	count := map[int]int{}
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() {
			<-start
			status, answer, err := testkit.TryCall("POST", urls[i%len(urls)]+"/v1/notifications", body)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("round %d: %v", round, err)
				return
			}
			if status != 202 && status != 409 {
				t.Errorf("round %d: %d %v", round, status, answer)
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
