package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// world is the hosts and what they hold.
type world struct {
	tb     testing.TB
	o      options
	api    *client.Client
	hosts  []string
	dirs   map[string]string
	confs  map[string]string
	agents map[string]*testkit.Process
	server *testkit.Process
	engine *testkit.Process
	// database is the process id of its server, which is this measurement's alone.
	database int
	blobs    map[string]client.NewBlob
	before   map[string]bool // transfers that were done before the store died
}

func measure(tb testing.TB, o options, r *result) {
	database := gauge.MariaDB(tb)
	cluster := testkit.NewCluster(tb, database.Create(tb, "salvor"), o.agents)
	server, address := cluster.API("api")
	engine, _ := cluster.Engine("engine")
	api, err := client.New(client.Config{URL: address})
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{tb: tb, o: o, api: api, server: server, engine: engine, database: database.PID, dirs: map[string]string{}, confs: map[string]string{}, agents: map[string]*testkit.Process{}, blobs: map[string]client.NewBlob{}}
	root := tb.TempDir()
	if o.dir != "" {
		if root, err = os.MkdirTemp(o.dir, "replicate-"); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = os.RemoveAll(root) })
	}
	for i := range o.agents {
		w.hosts = append(w.hosts, fmt.Sprintf("host-%d", i+1))
	}
	testkit.Register(tb, address, "auto", w.hosts...)
	for _, h := range w.hosts {
		w.begin(h, filepath.Join(root, h), address)
	}
	w.fill()
	w.until("each blob is verified in two places, and nothing moves", 10*time.Minute, func() (bool, string) {
		n, moving, copies := w.count("ok"), len(w.transfers("running")), w.copies() // a third copy, made while the second was hashed, is trimmed first
		return n == len(w.blobs) && moving == 0 && copies == 2*n, fmt.Sprintf("%d of %d are, %d transfers, %d copies", n, len(w.blobs), moving, copies)
	})
	w.before = map[string]bool{}
	for _, t := range w.transfers("done") {
		w.before[t.UUID] = true
	}
	say("%d blobs are verified in two places", len(w.blobs))
	w.coldCaches()
	w.lose(r)
	copied := w.copied(r.affected)
	for range o.rounds { // in turn, so that a drift of the machine is shared
		r.bare = append(r.bare, w.bare(copied, false))
		r.hashing = append(r.hashing, w.bare(copied, true))
	}
	w.kill(r)
	r.blobs = o.blobs
	r.ok = true
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "replicate: "+format+"\n", args...) }

// begin starts the agent of a host, with a key of its own.
func (w *world) begin(host, dir, api string) {
	key, err := w.api.NewAgentKey(w.tb.Context(), host)
	if err != nil {
		w.tb.Fatal(err)
	}
	conf := w.tb.TempDir()
	keyFile := filepath.Join(conf, "key")
	probe := "60" // the default
	if host == w.hosts[0] {
		probe = "2" // its store dies, and what is measured begins when that was noticed
	}
	text := strings.Join([]string{
		"[agent]", "host = " + host, "api_url = " + api, "key_file = " + keyFile, "state_directory = " + filepath.Join(conf, "state"),
		"resource = blobs:" + dir + ":blob", "blob_directory = " + dir, "listen = 127.0.0.1:0", "probe_interval = " + probe, "write_interval = 60",
		"report_interval = 5", fmt.Sprintf("copies_in = %d", w.o.parallel), "copies_out = 64", "verify_rate = 0", "",
	}, "\n")
	w.dirs[host], w.confs[host] = dir, filepath.Join(conf, "agent.conf")
	for _, err := range []error{os.MkdirAll(dir, 0o700), os.WriteFile(keyFile, []byte(key.Key+"\n"), 0o600), os.WriteFile(w.confs[host], []byte(text), 0o600)} {
		if err != nil {
			w.tb.Fatal(err)
		}
	}
	w.start(host)
}

func (w *world) start(host string) {
	w.agents[host] = testkit.Start(w.tb, host, "agent", "--config-file", w.confs[host])
	w.agents[host].URL(w.tb)
}

// fill lays the blobs into two hosts' directories each, and puts them into the catalogue.
func (w *world) fill() {
	sizes := make([]int64, w.o.blobs)
	left := int64(w.o.mib) << 20
	weights := 0.0
	chance := mathrand.New(mathrand.NewPCG(1, 2))
	shares := make([]float64, w.o.blobs)
	for i := range sizes {
		if i < w.o.big {
			sizes[i] = 100 << 20
			left -= sizes[i]
			continue
		}
		shares[i] = math.Exp(6 * chance.Float64()) // from one to four hundred times as large as another
		weights += shares[i]
	}
	for i := w.o.big; i < w.o.blobs; i++ {
		sizes[i] = max(1, int64(shares[i]/weights*float64(left)))
	}
	for i, n := range sizes {
		a, b := w.hosts[i%len(w.hosts)], w.hosts[(i+1+i/len(w.hosts)%(len(w.hosts)-1))%len(w.hosts)]
		w.add(n, a, b)
	}
}

// add makes a blob of random bytes.
func (w *world) add(size int64, hosts ...string) client.NewBlob {
	var seed [32]byte
	_, _ = rand.Read(seed[:])
	b := client.NewBlob{UUID: uuid.NewString(), Size: size, WantCopies: 2, Hosts: hosts}
	h := sha256.New()
	into := []io.Writer{h}
	for _, host := range hosts {
		path := filepath.Join(w.dirs[host], b.UUID[:2], b.UUID)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			w.tb.Fatal(err)
		}
		f, err := os.Create(path)
		if err != nil {
			w.tb.Fatal(err)
		}
		defer f.Close()
		into = append(into, f)
	}
	if _, err := io.CopyN(io.MultiWriter(into...), mathrand.NewChaCha8(seed), size); err != nil {
		w.tb.Fatal(err)
	}
	b.SHA256 = hex.EncodeToString(h.Sum(nil))
	if _, err := w.api.AddBlob(w.tb.Context(), b); err != nil {
		w.tb.Fatal(err)
	}
	w.blobs[b.UUID] = b
	return b
}

func (w *world) until(what string, within time.Duration, f func() (bool, string)) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.tb.Context(), within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, said := f()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.tb.Fatalf("%s: not within %s: %s", what, within, said)
		}
	}
}

// count is how many blobs stand so.
func (w *world) count(durability string) int {
	n := 0
	_, err := w.api.EachBlob(w.tb.Context(), client.Query{Filters: url.Values{"durability": {durability}}}, func(page []wire.Blob) error {
		n += len(page)
		return nil
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	return n
}

// transfers are those of a state.
func (w *world) transfers(state string) []wire.BlobTransfer {
	var all []wire.BlobTransfer
	if _, err := w.api.EachTransfer(w.tb.Context(), client.Query{Filters: url.Values{"state": {state}}}, func(page []wire.BlobTransfer) error {
		all = append(all, page...)
		return nil
	}); err != nil {
		w.tb.Fatal(err)
	}
	return all
}

// wanting reports whether any blob stands so: one row is enough.
func (w *world) wanting() bool {
	for _, durability := range []string{"under", "at_risk"} {
		any := false
		if _, err := w.api.EachBlob(w.tb.Context(), client.Query{Filters: url.Values{"durability": {durability}}, Limit: 1}, func(page []wire.Blob) error {
			any = any || len(page) > 0
			return nil
		}); err != nil {
			w.tb.Fatal(err)
		}
		if any {
			return true
		}
	}
	return false
}

// lose takes the first host's blob store away, and waits until each of its blobs has two good copies elsewhere.
func (w *world) lose(r *result) {
	victim := w.hosts[0]
	for id, b := range w.blobs {
		if _, err := os.Stat(filepath.Join(w.dirs[victim], id[:2], id)); err == nil {
			r.affected++
			r.bytes += b.Size
		}
	}
	began := time.Now()
	if err := os.Rename(w.dirs[victim], w.dirs[victim]+".gone"); err != nil {
		w.tb.Fatal(err)
	}
	w.until("the host is in error", time.Minute, func() (bool, string) {
		h, err := w.api.HostHealth(w.tb.Context(), victim)
		if err != nil {
			w.tb.Fatal(err)
		}
		return h.State == "error", h.State
	})
	failed, computed, own := time.Now(), w.cpu(), cpu(os.Getpid())
	r.noticed = failed.Sub(began)
	say("the store of %s is gone: %d blobs, %d MiB", victim, r.affected, r.bytes>>20)
	w.until("the first blob has lost a copy", time.Minute, func() (bool, string) { return w.wanting(), "none has" })
	w.until("each blob has two good copies", 10*time.Minute, func() (bool, string) {
		return !w.wanting() && w.count("ok") == len(w.blobs) && w.spread(victim, false) == nil, "some have not" // cheap: what it costs is in the measurement
	})
	r.salvor, r.salvorCPU, r.watchCPU = time.Since(failed), w.cpu().since(computed), cpu(os.Getpid())-own
	if err := w.spread(victim, true); err != nil {
		w.tb.Fatal(err)
	}
}

// spent is what each part has computed so far.
type spent struct{ agents, api, engine, database time.Duration }

func (w *world) cpu() spent {
	s := spent{api: cpu(w.server.PID()), engine: cpu(w.engine.PID()), database: cpu(w.database)}
	for _, p := range w.agents {
		s.agents += cpu(p.PID())
	}
	return s
}

// since is what was computed after that.
func (s spent) since(before spent) spent {
	return spent{s.agents - before.agents, s.api - before.api, s.engine - before.engine, s.database - before.database}
}

func (s spent) all() time.Duration { return s.agents + s.api + s.engine + s.database }

// copies counts the blobs' copies on all disks.
func (w *world) copies() int {
	n := 0
	for id := range w.blobs {
		for _, dir := range w.dirs {
			if _, err := os.Stat(filepath.Join(dir, id[:2], id)); err == nil {
				n++
			}
		}
	}
	return n
}

// spread checks, on the disks themselves, that each blob is in two places that are not the victim's; hashed: that it is the blob.
func (w *world) spread(victim string, hashed bool) error {
	for id, b := range w.blobs {
		n := 0
		for _, h := range w.hosts {
			path := filepath.Join(w.dirs[h], id[:2], id)
			if h == victim {
				continue
			}
			if info, err := os.Stat(path); err != nil || info.Size() != b.Size {
				continue
			}
			n++
			if !hashed {
				continue
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			sum := sha256.New()
			_, err = io.Copy(sum, f)
			_ = f.Close()
			if err != nil || hex.EncodeToString(sum.Sum(nil)) != b.SHA256 {
				return fmt.Errorf("%s is not the blob (%w)", path, err)
			}
		}
		if n < 2 {
			return fmt.Errorf("blob %s has %d copies", id, n)
		}
	}
	return nil
}

// moved are the bytes that an agent has served and fetched since its start.
func (w *world) moved(host string) (served, fetched int64) {
	req, err := http.NewRequestWithContext(w.tb.Context(), http.MethodGet, w.agents[host].URL(w.tb)+"/healthcheck", nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer resp.Body.Close()
	var h struct {
		Served  int64 `json:"served_bytes"`
		Fetched int64 `json:"fetched_bytes"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		w.tb.Fatal(err)
	}
	return h.Served, h.Fetched
}

// kill ends the agent that fetches a large blob with SIGKILL in the middle, and starts it again.
func (w *world) kill(r *result) {
	source := w.hosts[1]
	r.size = 512 << 20
	before, _ := w.moved(source)
	b := w.add(r.size, source)
	target := ""
	w.until("a third of the blob has arrived", 5*time.Minute, func() (bool, string) {
		for ctx := w.tb.Context(); ctx.Err() == nil; { // without a pause: it is soon over
			for _, h := range w.hosts[2:] {
				info, err := os.Stat(filepath.Join(w.dirs[h], b.UUID[:2], b.UUID+".partial"))
				if err == nil && info.Size() > r.size/3 {
					r.killedAt, target = info.Size(), h
					w.agents[h].Kill()
					return true, ""
				}
			}
			if blob, err := w.api.Blob(ctx, b.UUID); err == nil && blob.Copies > 1 {
				w.tb.Fatal("the blob arrived before its agent could be killed")
			}
		}
		return false, ""
	})
	say("the agent of %s is killed at %d of %d MiB", target, r.killedAt>>20, r.size>>20)
	w.start(target)
	w.until("the blob has two copies", 5*time.Minute, func() (bool, string) {
		blob, err := w.api.Blob(w.tb.Context(), b.UUID)
		if err != nil {
			w.tb.Fatal(err)
		}
		return blob.Copies >= 2, fmt.Sprint(blob.Copies)
	})
	_, rest := w.moved(target)
	served, _ := w.moved(source)
	r.again = max(r.killedAt+rest-r.size, served-before-r.size)
}
