package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// patience is how long something may take on a busy machine.
const patience = 2 * time.Minute

// depot is salvor over a simulated cloud, with hosts whose agents keep blobs.
type depot struct {
	*testing.T
	*client.Client
	conf   string
	listen string
	salvor *testkit.Process
	names  []string
	dirs   map[string]string // blob directories by host
	agents map[string]*testkit.Process
	urls   map[string]string
}

// newDepot starts everything; lines are further ones of each agent.
func newDepot(t *testing.T, hosts int, dir func(host string) string, lines ...string) *depot {
	t.Helper()
	d := &depot{T: t, dirs: map[string]string{}, agents: map[string]*testkit.Process{}, urls: map[string]string{}}
	sim := testkit.Start(t, "sim", "sim", "--listen", "127.0.0.1:0", "--hosts", fmt.Sprint(hosts), "--instances", "0").URL(t)
	d.conf = filepath.Join(t.TempDir(), "masakari.conf")
	write(t, d.conf, strings.NewReplacer("SIM", sim, "FILE", filepath.Join(t.TempDir(), "salvor.sqlite")).Replace(`[DEFAULT]
os_privileged_user_auth_url = SIM/v3
os_privileged_user_name = masakari
os_privileged_user_password = secret
os_privileged_user_tenant = service

[database]
connection = sqlite:///FILE

[keystone_authtoken]
auth_url = SIM/v3
username = masakari
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default

[salvor]
blob_reserved_mb = 0
doctor_interval = 0
`), 0o600)
	d.listen = "127.0.0.1:0"
	api := d.serve()
	d.listen = strings.TrimPrefix(api, "http://")
	login, _ := client.LoginFrom([]string{"OS_AUTH_URL=" + sim + "/v3", "OS_USERNAME=admin", "OS_PASSWORD=secret", "OS_PROJECT_NAME=admin",
		"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default"})
	var err error
	if d.Client, err = client.New(client.Config{URL: api, Auth: client.NewKeystone(login)}); err != nil {
		t.Fatal(err)
	}
	segment, err := d.CreateSegment(t.Context(), client.NewSegment{Name: "rack", ServiceType: "COMPUTE", RecoveryMethod: "auto"})
	d.must(err)
	for i := range hosts {
		name := fmt.Sprint("host-", i+1)
		_, err := d.CreateHost(t.Context(), segment.UUID, client.NewHost{Name: name, Type: "COMPUTE", ControlAttributes: "SSH"})
		d.must(err)
		key, err := d.NewAgentKey(t.Context(), name)
		d.must(err)
		d.names, d.dirs[name] = append(d.names, name), dir(name)
		conf := agentConf(t, api, name, append([]string{"resource = blobs:" + d.dirs[name] + ":blob", "blob_directory = " + d.dirs[name], "listen = 127.0.0.1:0"}, lines...)...)
		write(t, filepath.Join(filepath.Dir(conf), "key"), key.Key+"\n", 0o600)
		d.agents[name] = startAgent(t, name, conf)
	}
	for _, name := range d.names {
		d.urls[name] = d.agents[name].Await(t, `listening on (https?://[0-9.:]+)`, patience)
		d.await(name+" is well", func() bool {
			h, err := d.HostHealth(t.Context(), name)
			return err == nil && h.State == "ok"
		})
	}
	return d
}

// serve starts salvor; it returns where it listens.
func (d *depot) serve() string {
	d.Helper()
	d.salvor = testkit.Start(d.T, "salvor", "serve", "--config-file", d.conf, "--listen", d.listen)
	return d.salvor.URL(d.T)
}

func (d *depot) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *depot) await(what string, is func() bool) {
	d.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			d.Fatalf("after %s: not %s", patience, what)
		}
	}
}

// lay puts a new blob into the directory of a host and adds it.
func (d *depot) lay(host string, size, want int) wire.BlobDetails {
	d.Helper()
	id := uuid.NewString()
	_, sum := layBlob(d.T, d.dirs[host], id, size)
	b, err := d.AddBlob(d.Context(), client.NewBlob{UUID: id, Size: int64(size), SHA256: sum, WantCopies: want, Hosts: []string{host}})
	d.must(err)
	return b
}

func (d *depot) list(durability string) (blobs []wire.Blob) {
	d.Helper()
	q := client.Query{Filters: map[string][]string{}}
	if durability != "" {
		q.Filters.Set("durability", durability)
	}
	_, err := d.EachBlob(d.Context(), q, func(page []wire.Blob) error { blobs = append(blobs, page...); return nil })
	if err != nil {
		d.Logf("listing: %v", err)
		return nil
	}
	return blobs
}

// states counts the locations on a host by state.
func (d *depot) states(host string) map[string]int {
	d.Helper()
	n := map[string]int{}
	for _, b := range d.list("") {
		details, err := d.Blob(d.Context(), b.UUID)
		if err != nil {
			return nil
		}
		for _, l := range details.Locations {
			if l.Host != nil && *l.Host == host {
				n[l.State]++
			}
		}
	}
	return n
}

// files are the blobs that lie whole and right in the directories, by uuid; but names a host that is left out.
func (d *depot) files(sums map[string]string, but string) map[string]int {
	d.Helper()
	found := map[string]int{}
	for host, dir := range d.dirs {
		if host == but {
			continue
		}
		d.must(filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error { // what goes meanwhile is not found
			sum, known := sums[filepath.Base(path)]
			if !known {
				return nil
			}
			content, _ := os.ReadFile(path) // one that has just gone is none
			if got := sha256.Sum256(content); hex.EncodeToString(got[:]) == sum {
				found[filepath.Base(path)]++
			}
			return nil
		}))
	}
	return found
}

// TestBlobsOfADeadDiskAreCopiedElsewhere: radius {blob}: each location suspect, copies made elsewhere until want_copies; the operator clears,
// suspects verify, and what then is too much is trimmed, never below want_copies. Killed with kill -9 in the middle of the cascade over 200
// blobs, salvor goes on where it was: each item once.
func TestBlobsOfADeadDiskAreCopiedElsewhere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDepot(t, 3, func(host string) string {
		dir := filepath.Join(root, host)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	})
	const blobs = 200
	sums := map[string]string{}
	for i := range blobs {
		size := 2000 + i
		if i%50 == 0 {
			size = 1 << 20
		}
		b := d.lay("host-1", size, 2)
		sums[b.UUID] = b.SHA256
	}
	d.await("every blob in two places", func() bool { return len(d.list("ok")) == blobs })
	for id, n := range d.files(sums, "") {
		if n != 2 {
			t.Errorf("blob %s lies in %d places", id, n)
		}
	}

	gone := d.dirs["host-1"] + ".gone"
	d.must(os.Rename(d.dirs["host-1"], gone))
	var episode wire.Episode
	d.await("an episode with progress", func() bool {
		_ = d.Episodes(t.Context(), "host-1", true, 1, func(page []wire.Episode) error { episode = page[0]; return nil })
		if episode.UUID == "" {
			return false
		}
		e, err := d.Episode(t.Context(), episode.UUID)
		return err == nil && len(e.Runs) == 1 && e.Runs[0].Done > 0
	})
	d.salvor.Kill()
	d.serve()
	d.await("every blob in two places again", func() bool { return len(d.list("ok")) == blobs })
	elsewhere := d.files(sums, "host-1")
	for id := range sums {
		if elsewhere[id] != 2 {
			t.Fatalf("blob %s lies in %d places beside the dead disk", id, elsewhere[id])
		}
	}
	details, err := d.Episode(t.Context(), episode.UUID)
	d.must(err)
	if r := details.Runs[0]; r.State != "done" || r.Done != blobs {
		t.Errorf("the run is %+v, want %d done", r, blobs)
	}
	if got := d.states("host-1"); got["suspect"] != blobs || len(got) != 1 {
		t.Errorf("the copies on the dead disk are %v", got)
	}

	d.must(os.Rename(gone, d.dirs["host-1"]))
	d.await("the disk is good again", func() bool {
		_, err := d.ClearHost(t.Context(), "host-1", client.Clear{Reason: "mounted again"})
		return err == nil
	})
	d.await("what is too much trimmed", func() bool {
		for _, n := range d.files(sums, "") {
			if n != 2 {
				return false
			}
		}
		return len(d.list("ok")) == blobs
	})
}

// TestByteFlippedAtRest: the copy is set aside, another one is made from the good one, and only then the bad bytes go. A ticket opens one
// blob at one source.
func TestByteFlippedAtRest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDepot(t, 2, func(host string) string {
		dir := filepath.Join(root, host)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}, "verify_interval = 1")
	b := d.lay("host-1", 100_000, 2)
	d.await("the blob in two places", func() bool { return len(d.list("ok")) == 1 })
	path := filepath.Join(d.dirs["host-2"], b.UUID[:2], b.UUID)
	content, err := os.ReadFile(path)
	d.must(err)
	content[50_000] ^= 1
	d.must(os.WriteFile(path, content, 0o600))
	sums := map[string]string{b.UUID: b.SHA256}
	quarantined := false
	d.await("the blob good in two places again", func() bool {
		details, err := d.Blob(t.Context(), b.UUID)
		if err != nil {
			return false
		}
		for _, l := range details.Locations {
			quarantined = quarantined || l.State == "quarantined" || l.Why != nil && strings.Contains(*l.Why, "not the blob's")
		}
		return quarantined && details.Durability == "ok" && d.files(sums, "")[b.UUID] == 2
	})

	other := d.lay("host-1", 10, 1)
	for _, ticket := range []string{"", "Ticket", "Ticket x.y"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.urls["host-1"]+"/blobs/"+other.UUID, nil)
		d.must(err)
		if ticket != "" {
			req.Header.Set("Authorization", ticket)
		}
		resp, err := http.DefaultClient.Do(req)
		d.must(err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("with %q the blob is given: %d", ticket, resp.StatusCode)
		}
	}
}

// TestLastGoodCopyOnAFailedDisk: at_risk, never deleted, rescued since it still reads.
func TestLastGoodCopyOnAFailedDisk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := newDepot(t, 2, func(host string) string {
		dir := filepath.Join(root, host)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if host == "host-1" {
			mount(t, dir)
		}
		return dir
	})
	b := d.lay("host-1", 100_000, 1)
	d.await("the blob where it is wanted", func() bool { return len(d.list("ok")) == 1 })
	if err := syscall.Mount("", d.dirs["host-1"], "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	rescued := false
	d.await("the blob rescued", func() bool {
		details, err := d.Blob(t.Context(), b.UUID)
		if err != nil {
			return false
		}
		for _, x := range details.Transfers {
			rescued = rescued || x.Rescue
		}
		return rescued && details.Durability == "ok"
	})
	if n := d.files(map[string]string{b.UUID: b.SHA256}, "")[b.UUID]; n != 2 {
		t.Errorf("the blob lies in %d places: what it was rescued from must stay", n)
	}
	if got := d.states("host-1"); got["suspect"] != 1 {
		t.Errorf("the copy on the failed disk is %v", got)
	}
}
