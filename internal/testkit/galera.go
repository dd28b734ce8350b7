package testkit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// galeraProvider is where Debian's galera-4 has its library.
const galeraProvider = "/usr/lib/galera/libgalera_smm.so"

// takesPart is a node's state when it serves its clients.
const takesPart = "Synced Primary ready"

// galeraPatience is how long a node's start may take: some seconds, or minutes where others build on the same cores.
const galeraPatience = 4 * time.Minute

// Galera is a cluster of three MariaDB nodes on loopback, with data of their own.
type Galera struct {
	Nodes [3]*GaleraNode
	dir   string
}

// GaleraNode is one node. It is started by NewGalera, and may be killed, paused and started again.
type GaleraNode struct {
	Address string // of clients, HOST:PORT
	name    string
	dir     string
	args    []string
	cmd     *exec.Cmd
	done    chan struct{}
	db      *sql.DB
}

// errNoGalera is why there can be no cluster here.
var errNoGalera = errors.New("galera-4 or mariadb-server is not installed")

// NewGalera makes and starts a cluster. Close ends it. HasNone tells that this machine cannot have one.
func NewGalera() (*Galera, error) {
	for _, program := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoGalera, err)
		}
	}
	if _, err := os.Stat(galeraProvider); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoGalera, err)
	}
	dir, err := ownDir("salvor-galera")
	if err != nil {
		return nil, err
	}
	g := &Galera{dir: dir}
	if who, err := credential(); err != nil {
		return nil, errors.Join(err, g.Close())
	} else if who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if err := g.make(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if err := g.start(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// start makes a cluster of one, copies what it has written to the others, and starts all: so none has to fetch a snapshot,
// which takes long and needs more programs.
func (g *Galera) start() error {
	first := g.Nodes[0]
	if err := first.start("--wsrep-new-cluster"); err != nil {
		return err
	}
	first.Signal(syscall.SIGTERM)
	<-first.done
	for _, n := range g.Nodes[1:] {
		if err := run("cp", "-a", first.dir, n.dir); err != nil {
			return err
		}
	}
	if err := first.start("--wsrep-new-cluster"); err != nil {
		return err
	}
	var both errgroup.Group
	for _, n := range g.Nodes[1:] {
		both.Go(func() error { return n.Restart() })
	}
	return both.Wait()
}

// HasNone reports that err says that this machine cannot have a cluster, which is no fault of the test's.
func HasNone(err error) bool { return errors.Is(err, errNoGalera) }

// make lays out the nodes' directories.
func (g *Galera) make() error {
	first := filepath.Join(g.dir, "node-1")
	if err := run("mariadb-install-db", "--no-defaults", "--datadir="+first, "--innodb-log-file-size=16M",
		"--auth-root-authentication-method=normal", "--skip-test-db", "--tmpdir="+g.dir); err != nil {
		return err
	}
	ports, err := FreePorts(4 * len(g.Nodes))
	if err != nil {
		return err
	}
	var members []string
	for i := range g.Nodes {
		members = append(members, fmt.Sprintf("127.0.0.1:%d", ports[4*i+1]))
	}
	for i := range g.Nodes {
		n := &GaleraNode{name: fmt.Sprintf("node-%d", i+1), dir: filepath.Join(g.dir, fmt.Sprintf("node-%d", i+1))}
		client, group, ist, sst := ports[4*i], ports[4*i+1], ports[4*i+2], ports[4*i+3]
		n.Address = fmt.Sprintf("127.0.0.1:%d", client)
		n.args = []string{
			"--no-defaults", "--datadir=" + n.dir, "--tmpdir=" + g.dir, fmt.Sprintf("--port=%d", client), "--bind-address=127.0.0.1",
			"--socket=" + filepath.Join(n.dir, "s"), "--pid-file=" + filepath.Join(n.dir, "pid"), "--log-error=" + n.dir + ".log",
			"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M",
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", "--wsrep-provider=" + galeraProvider,
			"--wsrep-cluster-name=salvor-test", "--wsrep-cluster-address=gcomm://" + strings.Join(members, ","),
			"--wsrep-node-name=" + n.name, fmt.Sprintf("--wsrep-node-address=127.0.0.1:%d", group), "--wsrep-sst-method=rsync",
			fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", sst),
			fmt.Sprintf("--wsrep-provider-options=base_port=%d;gmcast.listen_addr=tcp://127.0.0.1:%d;ist.recv_addr=127.0.0.1:%d;gcache.size=64M",
				group, group, ist),
		}
		if n.db, err = sql.Open("mysql", "root@tcp("+n.Address+")/?timeout=2s&readTimeout=5s"); err != nil {
			return err
		}
		n.db.SetMaxIdleConns(0) // never trust a connection that was there before a fault
		g.Nodes[i] = n
	}
	return nil
}

// serverUser is who runs the servers where the test runs as root, as whom they refuse to run.
const serverUser = "mysql"

// credential is serverUser's, nil where the test is nobody special.
func credential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(serverUser)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// FreePorts are ports of loopback on which nobody listens. They are below those that the kernel gives to whoever connects: one of these could be taken before
// its server has started.
func FreePorts(n int) ([]int, error) {
	const first, last = 20_000, 32_000
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := first + rand.IntN(last-first)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			if tries > 100*n {
				return nil, err
			}
			continue
		}
		defer l.Close() // all at once, so that they differ
		ports = append(ports, port)
	}
	return ports, nil
}

// run runs a program to its end as the servers' user.
func run(name string, args ...string) error {
	who, err := credential()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), galeraPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// start runs the server and waits until it takes part in the cluster.
func (n *GaleraNode) start(more ...string) error {
	n.cmd = exec.Command("mariadbd", append(n.args[:len(n.args):len(n.args)], more...)...)
	who, err := credential()
	if err != nil {
		return err
	}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: who} // it ends with the test in any case
	began, done := make(chan error, 1), make(chan struct{})
	n.done = done
	cmd := n.cmd
	go func() {
		runtime.LockOSThread() // Pdeathsig means the thread that started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		began <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(done)
	}()
	if err := <-began; err != nil {
		return err
	}
	deadline := time.Now().Add(galeraPatience)
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		state := n.State()
		if state == takesPart {
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("%s ended:\n%s", n.name, n.Log(20))
		case <-poll.C:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not take part within %s (%s):\n%s", n.name, galeraPatience, state, n.Log(20))
		}
	}
}

// State is what the node says of itself: "Synced Primary ready" when it takes part; an error's text when it says nothing.
func (n *GaleraNode) State() string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	rows, err := n.db.QueryContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_status', 'wsrep_local_state_comment', 'wsrep_ready')")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var said []string
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err.Error()
		}
		if name == "wsrep_ready" {
			value = map[string]string{"ON": "ready"}[value]
		}
		said = append(said, value)
	}
	if err := rows.Err(); err != nil {
		return err.Error()
	}
	return strings.Join(said, " ")
}

// Exec carries out one statement on this node.
func (n *GaleraNode) Exec(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := n.db.ExecContext(ctx, statement)
	return err
}

// Clients counts the connections to the node that use a database.
func (n *GaleraNode) Clients(database string) (clients int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = n.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '"+database+"'").Scan(&clients)
	return clients, err
}

// Kill ends the node at once (SIGKILL).
func (n *GaleraNode) Kill() {
	if n.cmd == nil || n.cmd.Process == nil {
		return
	}
	_ = n.cmd.Process.Signal(syscall.SIGCONT)
	_ = n.cmd.Process.Kill()
	<-n.done
}

// Signal sends a signal to the node.
func (n *GaleraNode) Signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) }

// Isolate cuts the node off from the others, or lets it back: it answers its clients, and knows nobody.
func (n *GaleraNode) Isolate(cut bool) error {
	return n.Exec(fmt.Sprintf("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=%d'", map[bool]int{true: 1}[cut]))
}

var recovered = regexp.MustCompile(`Recovered position: (\S+)`)

// Restart starts a node that was killed: it finds its position as Debian's unit does, and joins.
func (n *GaleraNode) Restart() error {
	at := n.dir + ".recover"
	if err := run("mariadbd", append(n.args[:len(n.args):len(n.args)], "--wsrep-recover", "--log-error="+at)...); err != nil {
		return err
	}
	said, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	m := recovered.FindSubmatch(said)
	if m == nil {
		return fmt.Errorf("%s: no position was recovered:\n%s", n.name, said)
	}
	return n.start("--wsrep-start-position=" + string(m[1]))
}

// Synced waits until the node takes part again; the test fails when it does not within the time.
func (n *GaleraNode) Synced(tb testing.TB, within time.Duration) {
	tb.Helper()
	Eventually(tb, within, func() (bool, string) {
		state := n.State()
		return state == takesPart, n.name + ": " + state
	})
}

// Whole waits until every node takes part in a cluster of all of them. One that hung says so of itself until it has noticed that the
// others went on without it.
func (g *Galera) Whole(tb testing.TB, within time.Duration) {
	tb.Helper()
	Eventually(tb, within, func() (bool, string) {
		var said []string
		whole := true
		for _, n := range g.Nodes {
			state, size := n.State(), n.size()
			said = append(said, fmt.Sprintf("%s: %s, sees %d nodes", n.name, state, size))
			whole = whole && state == takesPart && size == len(g.Nodes)
		}
		return whole, strings.Join(said, "; ")
	})
}

// size is how many nodes this one sees in its cluster, 0 when it does not answer.
func (n *GaleraNode) size() (seen int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var name string
	if n.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'").Scan(&name, &seen) != nil {
		return 0
	}
	return seen
}

// Log returns the last lines that the server has written.
func (n *GaleraNode) Log(lines int) string {
	b, err := os.ReadFile(n.dir + ".log")
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Database makes a database of the test's own, which is gone with the cluster, and returns its name.
func (g *Galera) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("salvor_%d", time.Now().UnixNano())
	if err := g.Nodes[0].Exec("CREATE DATABASE " + name + " CHARACTER SET utf8mb4"); err != nil {
		tb.Fatal(err)
	}
	return name
}

// URL is a database's SQLAlchemy URL with all nodes, the at-th first.
func (g *Galera) URL(database string, at int) string {
	var hosts []string
	for i := range g.Nodes {
		hosts = append(hosts, g.Nodes[(at+i)%len(g.Nodes)].Address)
	}
	return "mysql+pymysql://root@" + strings.Join(hosts, ",") + "/" + database + "?charset=utf8mb4"
}

// Close ends all nodes and removes their data.
func (g *Galera) Close() error {
	for _, n := range g.Nodes {
		if n != nil {
			n.Kill()
			_ = n.db.Close()
		}
	}
	return os.RemoveAll(g.dir)
}
