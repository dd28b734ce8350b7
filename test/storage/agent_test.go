package storage

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

const aBlob = "11111111-2222-4333-8444-555555555555"

// holder starts an agent that keeps blobs in a directory, and returns where it serves them.
func holder(t *testing.T, d *desk, host, dir string, lines ...string) (p *testkit.Process, conf, url string) {
	t.Helper()
	lines = append([]string{"resource = blobs:" + dir + ":instance,blob", "blob_directory = " + dir, "listen = 127.0.0.1:0"}, lines...)
	conf = agentConf(t, d.URL, host, lines...)
	p = startAgent(t, host, conf)
	url = p.Await(t, `listening on (https?://[0-9.:]+)`, patience)
	d.status(t, host, "blobs", ha.CheckOK)
	return p, conf, url
}

// layBlob puts a blob into a directory as if it had always been there.
func layBlob(t *testing.T, dir, blob string, n int) (content []byte, sum string) {
	t.Helper()
	content = make([]byte, n)
	_, _ = rand.Read(content)
	if err := os.MkdirAll(filepath.Join(dir, blob[:2]), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, blob[:2], blob), content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(content)
	return content, hex.EncodeToString(s[:])
}

func source(t *testing.T, host, url, blob string) wire.AgentSource {
	t.Helper()
	ticket, err := ha.SignTicket(hostKey(host), ha.Ticket{Blob: blob, Source: hostUUID(host), Destination: hostUUID("cmp-02"), Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return wire.AgentSource{Host: hostUUID(host), URL: url, Ticket: ticket}
}

// tally counts what is written to it.
type tally struct{ n *atomic.Int64 }

func (t tally) Write(b []byte) (int, error) {
	t.n.Add(int64(len(b)))
	return len(b), nil
}

// TestAgentKilledInTheMiddleOfACopy costs only the rest of that copy.
func TestAgentKilledInTheMiddleOfACopy(t *testing.T) {
	d := newDesk(t)
	from, to := t.TempDir(), t.TempDir()
	content, sum := layBlob(t, from, aBlob, 8<<20)
	_, _, url := holder(t, d, "cmp-01", from)
	target, conf, _ := holder(t, d, "cmp-02", to)

	// Between the two is a line that stops after 5 MiB the first time, and counts what goes through it later. What the source itself
	// counts is also what waits in the line for ever.
	stuck := make(chan struct{})
	var asked, passed atomic.Int64
	line := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url+r.URL.Path, nil)
		if err != nil {
			return
		}
		req.Header = r.Header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		if asked.Add(1) > 1 {
			_, _ = io.Copy(w, io.TeeReader(resp.Body, tally{&passed}))
			return
		}
		_, _ = io.CopyN(w, resp.Body, 5<<20)
		_ = http.NewResponseController(w).Flush()
		<-stuck
	}))
	defer line.Close()
	defer close(stuck)
	s := source(t, "cmp-01", url, aBlob)
	s.URL = line.URL
	order := wire.AgentOrder{ID: "t-1", Kind: wire.OrderCopy, Blob: aBlob, Size: int64(len(content)), SHA256: sum, Sources: []wire.AgentSource{s}}
	d.order("cmp-02", order)
	d.await(t, "cmp-02", "5 MiB", func(r wire.AgentReport) bool { return len(r.Transfers) == 1 && r.Transfers[0].Bytes == 5<<20 })
	target.Kill()

	d.order("cmp-02", order)
	again := startAgent(t, "cmp-02", conf)
	if end := d.ended(t, "cmp-02", "t-1"); end.State != "done" || end.Bytes != int64(len(content)) {
		t.Fatalf("%+v", end)
	}
	if got, err := os.ReadFile(filepath.Join(to, aBlob[:2], aBlob)); err != nil || !slices.Equal(got, content) {
		t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
	_, fetched := health(t, again.URL(t))
	if rest := int64(3 << 20); fetched != rest || passed.Load() != rest {
		t.Errorf("after the kill %d bytes were fetched, and %d went through the line, want the rest: %d", fetched, passed.Load(), rest)
	}
}

// TestTargetOutOfSpace: the order fails by name, and what had arrived is given back.
func TestTargetOutOfSpace(t *testing.T) {
	d := newDesk(t)
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "small")
	mount(t, to)
	content, sum := layBlob(t, from, aBlob, 8<<20)
	_, _, url := holder(t, d, "cmp-01", from)
	holder(t, d, "cmp-02", to)
	d.order("cmp-02", wire.AgentOrder{ID: "t-1", Kind: wire.OrderCopy, Blob: aBlob, Size: int64(len(content)), SHA256: sum, Sources: []wire.AgentSource{source(t, "cmp-01", url, aBlob)}})
	end := d.ended(t, "cmp-02", "t-1")
	if end.State != "failed" || !strings.Contains(end.Error, "no space left in "+to) {
		t.Errorf("%+v", end)
	}
	if left, err := os.ReadDir(filepath.Join(to, aBlob[:2])); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	d.status(t, "cmp-02", "blobs", ha.CheckOK)
}

// certificates are an authority's, and one for 127.0.0.1, as files.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	encode := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})), 0o600)
		return path
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	ca = encode("ca.pem", "CERTIFICATE", der)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "agent"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if der, err = x509.CreateCertificate(rand.Reader, leaf, authority, &private.PublicKey, private); err != nil {
		t.Fatal(err)
	}
	cert = encode("cert.pem", "CERTIFICATE", der)
	if der, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		t.Fatal(err)
	}
	return ca, cert, encode("key.pem", "PRIVATE KEY", der)
}

// TestAgentsSpeakTLS to each other, each with a certificate of the same authority; whoever has none gets nothing.
func TestAgentsSpeakTLS(t *testing.T) {
	d := newDesk(t)
	ca, cert, key := certificates(t)
	ssl := []string{"ssl_cert_file = " + cert, "ssl_key_file = " + key, "ssl_ca_file = " + ca}
	from, to := t.TempDir(), t.TempDir()
	content, sum := layBlob(t, from, aBlob, 100000)
	_, _, url := holder(t, d, "cmp-01", from, ssl...)
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	holder(t, d, "cmp-02", to, ssl...)
	holder(t, d, "cmp-03", t.TempDir())
	order := wire.AgentOrder{ID: "t-1", Kind: wire.OrderCopy, Blob: aBlob, Size: int64(len(content)), SHA256: sum, Sources: []wire.AgentSource{source(t, "cmp-01", url, aBlob)}}
	d.order("cmp-02", order)
	d.order("cmp-03", order)
	if end := d.ended(t, "cmp-02", "t-1"); end.State != "done" {
		t.Errorf("%+v", end)
	}
	d.await(t, "cmp-03", "that the source cannot be trusted", func(r wire.AgentReport) bool {
		return len(r.Transfers) == 1 && r.Transfers[0].Bytes == 0 && strings.Contains(r.Transfers[0].Error, "certificate")
	})
}

// TestAgentKeys: a key that others may read is none; the right one is shown with each call.
func TestAgentKeys(t *testing.T) {
	d := newDesk(t)
	dir := t.TempDir()
	conf := agentConf(t, d.URL, "cmp-01", "resource = x:"+dir+":blob")
	key := filepath.Join(filepath.Dir(conf), "key")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	open := startAgent(t, "open", conf)
	if code := open.Ended(t, patience); code != 1 || !strings.Contains(strings.Join(open.Last(5), "\n"), "chmod 600") {
		t.Errorf("exit status %d: %q", code, open.Last(5))
	}
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	p := startAgent(t, "cmp-01", conf)
	p.Await(t, "agent cmp-01 is running", patience)
	d.status(t, "cmp-01", "x", ha.CheckOK)
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.keys[0]; k != "secret-of-cmp-01" {
		t.Errorf("the key %q was shown", k)
	}
	for _, l := range p.Last(100) {
		if strings.Contains(l, "secret-of") {
			t.Errorf("the log has the key: %s", l)
		}
	}
}

// TestSystemdSeesTheAgentLive, also while the API is away: READY, then WATCHDOG as often as it must be.
func TestSystemdSeesTheAgentLive(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "400000")
	d := newDesk(t)
	d.away = true
	startAgent(t, "cmp-01", agentConf(t, d.URL, "cmp-01", "resource = x:"+t.TempDir()+":blob"))
	said := map[string]int{}
	buf := make([]byte, 100)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	for said["WATCHDOG=1"] < 4 {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%v; systemd was told %v", err, said)
		}
		said[string(buf[:n])]++
	}
	if said["READY=1"] != 1 {
		t.Errorf("%v", said)
	}
}

// TestAgentConfigurationsThatCannotBe are refused at the start, by the option's name.
func TestAgentConfigurationsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for line, want := range map[string]string{
		"probe_interval = 1":     "resource is not set",
		"resource = x:srv:blob":  "plain absolute path",
		"resource = x:/srv:blub": "is no kind",
		"resource = x:" + dir + ":upload\nblob_directory = " + dir + "\nlisten = 127.0.0.1:0": "in no resource that blobs need",
		"resource = x:" + dir + ":blob\nblob_directory = " + dir:                              "listen is not set",
		"resource = x:" + dir + ":blob\nssl_cert_file = /nonexistent":                         "ssl_cert_file",
		"resource = x:" + dir + ":blob\nkey_file = /nonexistent":                              "key_file",
	} {
		p := startAgent(t, "wrong", agentConf(t, "http://127.0.0.1:1", "cmp-01", line))
		if code := p.Ended(t, patience); code != 1 || !strings.Contains(strings.Join(p.Last(5), "\n"), want) {
			t.Errorf("%q: exit status %d, %q; want %q", line, code, p.Last(5), want)
		}
	}
}

// TestOneAgentOnAStateDirectory: the second is refused, and one that follows a killed one is not.
func TestOneAgentOnAStateDirectory(t *testing.T) {
	d := newDesk(t)
	first, conf, _ := holder(t, d, "cmp-01", t.TempDir())
	second := startAgent(t, "second", conf)
	if code := second.Ended(t, patience); code != 1 || !strings.Contains(strings.Join(second.Last(5), "\n"), "another agent runs on [agent] state_directory") {
		t.Errorf("exit status %d, %q", code, second.Last(5))
	}
	first.Kill()
	startAgent(t, "third", conf).Await(t, `listening on (https?://[0-9.:]+)`, patience)
}

// TestAnAgentSpeaksForItsHostOnly to a true API: with its host's key; with another host's it is refused, and says so.
func TestAnAgentSpeaksForItsHostOnly(t *testing.T) {
	cluster := testkit.NewCluster(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"), 2)
	_, api := cluster.API("api")
	testkit.Register(t, api, "auto", "host-1", "host-2")
	c, err := client.New(client.Config{URL: api})
	if err != nil {
		t.Fatal(err)
	}
	key, err := c.NewAgentKey(t.Context(), "host-1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, host := range []string{"host-1", "host-2"} {
		conf := agentConf(t, api, host, "resource = blobs:"+dir+":blob", "blob_directory = "+dir, "listen = 127.0.0.1:0")
		write(t, filepath.Join(filepath.Dir(conf), "key"), key.Key+"\n", 0o600)
		p := startAgent(t, host, conf)
		if host == "host-2" {
			p.Await(t, "does not take this host's report.*403", patience)
			continue
		}
		url := p.URL(t)
		testkit.Eventually(t, patience, func() (bool, string) {
			h, err := c.HostHealth(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			return h.State == "ok" && len(h.Checks) == 1 && h.Checks[0].FilesystemID != "" && h.AgentURL != nil && *h.AgentURL == url && h.TotalBytes > 0, fmt.Sprintf("%+v", h)
		})
	}
	if h, err := c.HostHealth(t.Context(), "host-2"); err != nil || h.State != "unknown" || len(h.Checks) != 0 {
		t.Errorf("host-2: %+v, %v", h, err)
	}
}
