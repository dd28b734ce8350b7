package storage

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// The cascade that engines are killed in.
const (
	cascadeInstances = 50
	cascadeBlobs     = 200
	cascadeItems     = cascadeInstances + cascadeBlobs
)

// kills are the items after which an engine is killed, in order: some of them, or each with CASCADE_KILLS=all, or the one that it names.
func kills(t *testing.T) []int {
	switch text := os.Getenv("CASCADE_KILLS"); text {
	case "": // in the middle of the blobs' transaction, at its last row, and among the instances
		return []int{117, cascadeBlobs, cascadeBlobs + 17}
	case "all":
		all := make([]int, cascadeItems)
		for i := range all {
			all[i] = i + 1
		}
		return all
	default:
		k, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("CASCADE_KILLS=%s: all, or a number", text)
		}
		return []int{k}
	}
}

// trap stops the engine that writes the k-th item, in the middle of its transaction, until it is let go. written has a row per write of an item
// that was committed: an item that was written twice is there twice.
type trap struct {
	t    *testing.T
	hold *sql.Conn // has the lock that the writer of the k-th item waits for
	look *sql.Conn // sees what is not committed yet
}

const trapLock = "salvor-test-item"

func newTrap(t *testing.T, database string) *trap {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", "root@tcp("+u.Host+")"+u.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	p := &trap{t: t}
	for _, c := range []**sql.Conn{&p.hold, &p.look} {
		if *c, err = db.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.run(p.look, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
	p.run(p.look, "CREATE TABLE trap (k INT NOT NULL)")
	p.run(p.look, "INSERT INTO trap VALUES (0)")
	p.run(p.look, "CREATE TABLE written (kind VARCHAR(36) NOT NULL, object_id VARCHAR(36) NOT NULL)")
	for _, event := range []string{"INSERT", "UPDATE"} {
		p.run(p.look, "CREATE TRIGGER trap_"+event+" AFTER "+event+" ON episode_items FOR EACH ROW BEGIN "+
			"INSERT INTO written VALUES (NEW.kind, NEW.object_id); "+
			"IF (SELECT COUNT(*) FROM written) = (SELECT k FROM trap) THEN DO GET_LOCK('"+trapLock+"', 600); END IF; END")
	}
	return p
}

func (p *trap) run(c *sql.Conn, statement string, args ...any) {
	p.t.Helper()
	if _, err := c.ExecContext(p.t.Context(), statement, args...); err != nil {
		p.t.Fatalf("%s: %v", statement, err)
	}
}

func (p *trap) number(c *sql.Conn, query string) (n int) {
	p.t.Helper()
	if err := c.QueryRowContext(p.t.Context(), query).Scan(&n); err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// set is for the writer of item k; the one that was caught before must be gone.
func (p *trap) set(k int) {
	p.t.Helper()
	if p.number(p.hold, "SELECT GET_LOCK('"+trapLock+"', 60)") != 1 {
		p.t.Fatal("who was killed still has its transaction")
	}
	p.run(p.hold, "UPDATE trap SET k = ?", k)
}

// caught waits until the writer of item k waits.
func (p *trap) caught(k int) {
	p.t.Helper()
	testkit.Eventually(p.t, patience, func() (bool, string) {
		n := p.number(p.look, "SELECT COUNT(*) FROM written")
		waits := p.number(p.look, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User lock'")
		return n == k && waits == 1, fmt.Sprintf("%d items of %d are written", n, k)
	})
}

// open lets go who waits; who was killed meanwhile is rolled back.
func (p *trap) open() { p.run(p.hold, "DO RELEASE_LOCK('"+trapLock+"')") }

// TestEngineKilledAfterItem: engines are killed one after another (kill -9) in a cascade over 50 instances and 200 blobs, each when it has written
// item k and not yet committed it: what it did in Nova is done, and no row says so. Each item exactly once, in all, and nothing beside the host
// is touched. CASCADE_KILLS=all does so after every one of the 250.
func TestEngineKilledAfterItem(t *testing.T) {
	t.Parallel()
	after := kills(t)
	database := testkit.MariaDB(t)
	c := startCascade(t, testkit.NewCluster(t, database, 4, "nova_concurrency_max = 1", "lease_ttl = 1", "lease_tick = 0.2", "poll_interval = 0.1"))
	c.instances("host-1", cascadeInstances)
	c.instances("host-2", 5)
	for h := range c.hosts {
		c.says(h, "ok", "ok")
	}
	for range cascadeBlobs {
		testkit.Must(t, 201, "POST", c.api+"/v1/ext/blobs", map[string]any{"blob": map[string]any{"uuid": uuid.NewString(), "size": 1,
			"sha256": strings.Repeat("0", 64), "want_copies": 1, "hosts": []string{"host-1"}}})
	}
	p := newTrap(t, database)
	p.set(after[0])
	c.says("host-1", "io_error", "io_error")
	began := time.Now()
	for i, k := range after {
		p.caught(k)
		c.killOwner("storage:" + c.hosts["host-1"])
		p.open()
		next := 0
		if i+1 < len(after) {
			next = after[i+1]
		}
		p.set(next)
		c.engine()
		if k%10 == 0 {
			t.Logf("%s: killed after item %d", time.Since(began).Round(time.Second), k)
		}
	}
	p.open()
	e := c.done("host-1")
	t.Logf("%d engines were killed; %s in all", len(after), time.Since(began).Round(time.Second))
	once := map[string]int{}
	for _, i := range e.Items {
		once[i.Kind]++
		if i.State != "done" {
			t.Errorf("item %+v", i)
		}
	}
	if once["instance"] != cascadeInstances || once["blob"] != cascadeBlobs {
		t.Errorf("items: %v, want %d instances and %d blobs", once, cascadeInstances, cascadeBlobs)
	}
	for _, r := range e.Runs {
		if r.Done != once[r.Kind] {
			t.Errorf("the run over %ss counts %d, and has %d items", r.Kind, r.Done, once[r.Kind])
		}
	}
	if n, items := p.number(p.look, "SELECT COUNT(*) FROM written"), p.number(p.look, "SELECT COUNT(DISTINCT kind, object_id) FROM written"); n != items || n != cascadeItems {
		t.Errorf("%d items were written %d times, want each of %d once", items, n, cascadeItems)
	}
	if n := p.number(p.look, "SELECT COUNT(*) FROM blob_locations WHERE state = 'suspect'"); n != cascadeBlobs {
		t.Errorf("%d copies are suspect, want %d", n, cascadeBlobs)
	}
	again := 0
	for _, n := range c.resets() {
		again += n - 1
	}
	takeovers := c.takeovers("storage:" + c.hosts["host-1"])
	t.Logf("%d orders were sent again, in %d takeovers: those that were under way when their engine was killed", again, takeovers)
	if again > takeovers {
		t.Errorf("%d orders were sent again in %d takeovers; only the one that is under way when an engine is killed may be", again, takeovers)
	}
	c.onlyItsHost()
}

// takeovers counts how often a unit changed hands: at each kill, and, with so short a lease, when a busy machine let an owner stand still.
func (c *cascade) takeovers(unit string) int {
	n := -1 // the first claim is none
	for _, p := range c.engines {
		for _, line := range p.Last(5000) {
			if strings.Contains(line, "msg=claimed ") && strings.Contains(line, " unit="+unit+" ") {
				n++
			}
		}
	}
	return n
}

// onlyItsHost: the instances of host-1 are in error, and it is out of scheduling; all others are as they were.
func (c *cascade) onlyItsHost() {
	c.t.Helper()
	s := c.cloud()
	for _, i := range s.Instances {
		if want := map[string]string{"host-1": "error", "host-2": "active"}[i.Host]; i.VMState != want {
			c.t.Errorf("instance %s on %s is %s", i.ID, i.Host, i.VMState)
		}
	}
	for _, svc := range s.Services {
		if svc.Binary == "nova-compute" && (svc.Status == "disabled") != (svc.Host == "host-1") {
			c.t.Errorf("the service of %s is %s", svc.Host, svc.Status)
		}
	}
}
