package clients

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/instanceha/v1/notifications"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// monitor is masakari-monitors' sending code in a process of its own.
type monitor struct {
	*lab
	in  io.Writer
	out *bufio.Scanner
	n   int // events so far
}

//go:embed testdata/monitors.py
var monitorScript string

func startMonitor(l *lab) *monitor {
	l.t.Helper()
	conf := filepath.Join(l.t.TempDir(), "masakarimonitors.conf")
	text := "[api]\nregion = RegionOne\napi_interface = internal\nauth_type = password\nauth_url = " + l.cloud.url + "/v3\n" +
		"username = masakari\npassword = secret\nproject_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(l.t.Context(), interpreter, "-c", monitorScript, conf)
	cmd.Env = l.environment("masakari", "service")
	in, err := cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &monitor{lab: l, in: in, out: bufio.NewScanner(out)}
}

// event is one of an instance that has not been heard of yet, so that it is no duplicate.
func (m *monitor) event(host string) string {
	m.n++
	return note("VM", host, fmt.Sprintf(`{"event": "LIFECYCLE", "instance_uuid": "00000000-0000-4000-8000-%012d", "vir_domain_event": "SHUTDOWN_FINISHED"}`, m.n))
}

func note(kind, host, payload string) string {
	return fmt.Sprintf(`{"notification": {"type": %q, "hostname": %q, "generated_time": %q, "payload": %s}}`,
		kind, host, time.Now().UTC().Format("2006-01-02T15:04:05.000000"), payload)
}

// begin gives the monitor an event to send; done waits until it is rid of it.
func (m *monitor) begin(retries int, event string) {
	m.t.Helper()
	m.door.since("")
	if _, err := fmt.Fprintf(m.in, "[%d, %s]\n", retries, event); err != nil {
		m.t.Fatal(err)
	}
}

func (m *monitor) done() {
	m.t.Helper()
	if !m.out.Scan() {
		m.t.Fatal("the monitor's process ended")
	}
}

// answers are those that the monitor got to its POSTs.
func answers(lines []string) []string {
	var got []string
	for _, line := range lines {
		got = append(got, line[strings.LastIndex(line, " ")+1:])
	}
	return got
}

// stored is how many notifications salvor has.
func (l *lab) stored() int {
	l.t.Helper()
	ids := names(l.t, notifications.List(l.gopher().client, notifications.ListOpts{}), notifications.ExtractNotifications,
		func(n notifications.Notification) string { return n.UUID })
	return len(strings.Fields(ids))
}

// register makes a segment with host-1.
func (l *lab) register() {
	l.t.Helper()
	g := l.gopher()
	rack := g.post("segments", "segment", "uuid", map[string]any{"name": "rack", "recovery_method": "auto", "service_type": "COMPUTE"})
	g.post("segments/"+rack+"/hosts", "host", "uuid", map[string]any{"name": "host-1", "type": "COMPUTE", "control_attributes": "SSH"})
}

const monitorsMissing = "python3-masakari-monitors"

// What the monitors' code tries again arrives in the end, and once; what it drops is what cannot come right by trying again.
func TestMonitors(t *testing.T) {
	needs(t, "masakarimonitors.ha.masakari", monitorsMissing)
	l := open(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"))
	l.register()
	m := startMonitor(l)
	stored := 0
	for _, c := range []struct {
		name    string
		trouble []string
		last    string // answer
		tries   int
	}{
		{"at once", nil, "202", 1},
		{"5xx", []string{"500", "503", "502"}, "202", 4},
		{"refused logins", []string{"401", "401"}, "202", 3},
		{"a connection that is cut", []string{"cut", "cut"}, "202", 3},
		{"an answer that is lost", []string{"lost"}, "409", 2},
	} {
		l.door.fail(c.trouble...)
		m.begin(20, m.event("host-1"))
		m.done()
		got := answers(l.door.since("POST"))
		if len(got) != c.tries || got[len(got)-1] != c.last {
			t.Errorf("%s: the answers were %q, want %d and at last %s", c.name, got, c.tries, c.last)
		}
		stored++
		if n := l.stored(); n != stored {
			t.Errorf("%s: %d notifications, want %d", c.name, n, stored)
		}
	}

	twice := m.event("host-1")
	for _, want := range []string{"202", "409"} {
		m.begin(20, twice)
		m.done()
		expect(t, "a report and its twin", strings.Join(answers(l.door.since("POST")), " "), want)
	}
	m.begin(2, m.event("host-2")) // versions after 14 drop a 400 at once, this one tries on
	m.done()
	expect(t, "a host that is not known", strings.Join(answers(l.door.since("POST")), " "), "400 400 400")
	if n := l.stored(); n != stored+1 {
		t.Errorf("%d notifications, want %d", n, stored+1)
	}

	// Nova being away is no reason not to take a report.
	l.cloud.leave("/compute")
	m.begin(20, m.event("host-1"))
	m.done()
	l.cloud.leave("")
	expect(t, "Nova away", strings.Join(answers(l.door.since("POST")), " "), "202")

	m.outlives(t, "Keystone", func() { l.cloud.leave("/v3/auth") }, func() { l.cloud.leave("") })
}

// outlives sends an event while something is away: salvor says that it is for now, and the event arrives when it is back.
func (m *monitor) outlives(t *testing.T, what string, leave, come func()) {
	t.Helper()
	before := m.stored()
	leave()
	m.begin(300, m.event("host-1"))
	var got []string
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		got = append(got, answers(m.door.since("POST"))...)
		return len(got) >= 2, fmt.Sprint(got)
	})
	come()
	m.done()
	got = append(got, answers(m.door.since("POST"))...)
	for i, a := range got {
		if i == len(got)-1 {
			expect(t, what+" is back", a, "202")
		} else {
			expect(t, what+" is away", a, "503")
		}
	}
	if n := m.stored(); n != before+1 {
		t.Errorf("%s: %d notifications, want %d", what, n, before+1)
	}
}

// An event that comes while the database is away is not lost, nor refused for good.
func TestMonitorsWithoutADatabase(t *testing.T) {
	needs(t, "masakarimonitors.ha.masakari", monitorsMissing)
	r := &relay{}
	l := open(t, r.before(t, testkit.MariaDB(t)))
	l.register()
	m := startMonitor(l)
	m.outlives(t, "the database", func() { r.leave(true) }, func() { r.leave(false) })
}

// relay is a stretch of network before a database server, which can be cut.
type relay struct {
	mu    sync.Mutex
	away  bool
	conns []net.Conn
}

func (r *relay) leave(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
	if away {
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.conns = nil
	}
}

// keep remembers a connection; false when it is to be closed at once.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.away {
		r.conns = append(r.conns, c)
	}
	return !r.away
}

// before returns the URL of the database behind the relay.
func (r *relay) before(t *testing.T, database string) string {
	t.Helper()
	server := strings.SplitN(strings.SplitN(database, "@", 2)[1], "/", 2)[0]
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil || !r.keep(in) {
				_ = in.Close()
				continue
			}
			all.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
			all.Go(func() { _, _ = io.Copy(in, out); _ = in.Close() })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.leave(true)
		all.Wait()
	})
	return strings.Replace(database, server, listener.Addr().String(), 1)
}
