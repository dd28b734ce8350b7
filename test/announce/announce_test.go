package announce

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

const secret = "the webhook's secret"

// secondsAway is how long the broker is away: 20 s, or SECONDS_AWAY.
func secondsAway(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SECONDS_AWAY")
	if text == "" {
		return 20 * time.Second
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SECONDS_AWAY: %v", err)
	}
	return time.Duration(n) * time.Second
}

// endpoint is a webhook that believes only what is signed, as the guide says.
func endpoint(t *testing.T) (url string, g *got) {
	t.Helper()
	g = &got{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(r.Header.Get("X-Salvor-Timestamp") + "."))
		mac.Write(body)
		var e event
		if !hmac.Equal([]byte(r.Header.Get("X-Salvor-Signature")), []byte("sha256="+hex.EncodeToString(mac.Sum(nil)))) ||
			json.Unmarshal(body, &e) != nil || e.ID != r.Header.Get("X-Salvor-Delivery") || e.Type != r.Header.Get("X-Salvor-Event") {
			t.Errorf("a post that must not be believed: %v\n%s", r.Header, body)
		}
		g.add(e)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/events?key=hush", g
}

// rack registers hosts of the simulator and returns the segment.
func rack(l *load, hosts ...string) string {
	name := "rack"
	segment := uuidOf(testkit.Must(l.t, 201, "POST", l.api+"/v1/segments", map[string]any{"segment": map[string]any{"name": name, "recovery_method": "auto", "service_type": "COMPUTE"}}), "segment")
	l.told("segment "+name, "segment.create", false)
	for _, h := range hosts {
		l.hosts[h] = uuidOf(testkit.Must(l.t, 201, "POST", l.api+"/v1/segments/"+segment+"/hosts", map[string]any{"host": map[string]any{"name": h, "type": "COMPUTE", "control_attributes": "SSH"}}), "host")
		l.told("host "+h, "host.create", false)
	}
	return segment
}

// dies kills a host of the simulator and reports its death; its recovery sets it on maintenance and moves its instances.
func dies(l *load, sim, host string) string {
	testkit.Must(l.t, 200, "POST", sim+"/sim/hosts/"+host+"/kill", nil)
	note := l.report(host, "COMPUTE_HOST", map[string]any{"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"})
	l.told("host "+host, "host.update", false)
	return note
}

func finished(l *load, note string, within time.Duration) {
	l.t.Helper()
	testkit.Eventually(l.t, within, func() (bool, string) {
		n := testkit.Must(l.t, 200, "GET", l.api+"/v1/notifications/"+note, nil)["notification"].(map[string]any)
		return n["status"] == "finished", fmt.Sprintf("the recovery is %v: %v", n["status"], n["message"])
	})
}

// TestBrokerAway: RabbitMQ is killed under load and comes back; recoveries go on meanwhile, a webhook gets everything at once,
// one that is dead holds nobody up, and in the end nothing is missing anywhere.
func TestBrokerAway(t *testing.T) {
	b := newBroker(t)
	url, hooked := endpoint(t)
	c := testkit.NewCluster(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"), 5, "webhook_url = "+url,
		"webhook_url = http://127.0.0.1:1/dead", "webhook_secret = "+secret, b.conf())
	p, api := serve(t, c, "serve")
	l, taken := newLoad(t, api), &got{}
	segment := rack(l, "host-1", "host-2", "host-3")
	testkit.Must(t, 200, "POST", c.Sim+"/sim/instances", map[string]any{"host": "host-1", "count": 4, "metadata": map[string]any{"HA_Enabled": "True"}})
	stop := make(chan struct{})
	clients := l.run(stop, segment, "host-5", "host-3")
	note := dies(l, c.Sim, "host-1")
	testkit.Eventually(t, 2*time.Minute, func() (bool, string) {
		b.drain(t, taken)
		return taken.count() > 50, fmt.Sprint(taken.count(), " arrived")
	})

	b.kill()
	killed, before := time.Now(), hooked.count()
	p.Await(t, `notifications cannot be delivered.*messagingv2`, 2*time.Minute)
	finished(l, note, 3*time.Minute)
	t.Logf("the recovery has finished %s after the broker was killed", time.Since(killed).Round(100*time.Millisecond))
	<-time.After(time.Until(killed.Add(secondsAway(t))))
	if n := hooked.count() - before; n < 100 {
		t.Errorf("the webhook got %d events while the broker was away", n)
	}
	b.start()
	back := time.Now()
	<-time.After(2 * time.Second) // of load with the broker back
	close(stop)
	clients.Wait()
	testkit.Eventually(t, 3*time.Minute, func() (bool, string) {
		b.drain(t, taken)
		bus, hook := l.missing(taken), l.missing(hooked)
		return bus+hook == 0, fmt.Sprintf("RabbitMQ lacks %d, the webhook %d of %d events", bus, hook, l.counted())
	})
	t.Logf("the broker was away for %s; everything had arrived %s after it was back", back.Sub(killed).Round(100*time.Millisecond), time.Since(back).Round(100*time.Millisecond))
	b.drain(t, taken)
	l.check("RabbitMQ", taken)
	l.check("webhook", hooked)
	if code := p.Stop(t, 20*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, line := range p.Last(5000) {
		for _, hush := range []string{"hush", secret, "guest:guest"} {
			if strings.Contains(line, hush) {
				t.Fatalf("a secret in the log: %s", line)
			}
		}
	}
}

// TestFullQueue: a queue that is full refuses, and is emptied meanwhile: everything arrives, and what a consumer sees for the first
// time is in order.
func TestFullQueue(t *testing.T) {
	b := newBroker(t)
	b.full(10)
	c := testkit.NewCluster(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"), 1, b.conf()+"rabbit_retry_interval = 1\nrabbit_retry_backoff = 0\n")
	p, api := serve(t, c, "serve")
	l, taken := newLoad(t, api), &got{}
	segment := rack(l)
	for i := range 100 {
		testkit.Must(t, 200, "PUT", api+"/v1/segments/"+segment, map[string]any{"segment": map[string]any{"description": fmt.Sprint(i)}})
		l.told("segment rack", "segment.update", false)
	}
	p.Await(t, "notifications cannot be delivered", time.Minute)       // it is full
	for begun := time.Now(); l.missing(taken) > 0; b.drain(t, taken) { // as busy as a consumer is
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("%d of %d have arrived", taken.count(), l.counted())
		}
	}
	taken.mu.Lock()
	defer taken.mu.Unlock()
	last := -1
	for _, e := range taken.all {
		var n int
		if _, err := fmt.Sscan(fmt.Sprint(e.data()["description"]), &n); err == nil {
			if n < last {
				t.Errorf("the change to %d came after that to %d", n, last)
			}
			last = n
		}
	}
	if last != 99 {
		t.Errorf("the last change that came is %d", last)
	}
}

// TestWhatIsIgnored: an instance that is left paused is told as an error, as Masakari tells it, and of a report that finds its segment
// disabled only that it came.
func TestWhatIsIgnored(t *testing.T) {
	url, hooked := endpoint(t)
	c := testkit.NewCluster(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"), 5, "webhook_url = "+url, "webhook_secret = "+secret)
	_, api := serve(t, c, "serve")
	l := newLoad(t, api)
	segment := rack(l, "host-1", "host-2")
	testkit.Must(t, 200, "POST", c.Sim+"/sim/instances", map[string]any{"host": "host-1", "count": 1, "vm_state": "paused", "metadata": map[string]any{"HA_Enabled": "True"}})
	instance := ""
	for _, i := range testkit.Must(t, 200, "GET", c.Sim+"/sim/state", nil)["instances"].([]any) {
		if i := i.(map[string]any); i["host"] == "host-1" {
			instance = i["id"].(string)
		}
	}
	report := func(host string) {
		t.Helper()
		note := testkit.Must(t, 202, "POST", api+"/v1/notifications", map[string]any{"notification": map[string]any{"type": "VM", "hostname": host,
			"generated_time": time.Now().UTC().Format("2006-01-02T15:04:05"),
			"payload":        map[string]any{"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED", "instance_uuid": instance}}})["notification"].(map[string]any)
		testkit.Eventually(t, time.Minute, func() (bool, string) {
			n := testkit.Must(t, 200, "GET", fmt.Sprint(api, "/v1/notifications/", note["notification_uuid"]), nil)["notification"].(map[string]any)
			return n["status"] == "ignored", fmt.Sprint(n)
		})
	}
	report("host-1")
	testkit.Must(t, 200, "PUT", api+"/v1/segments/"+segment, map[string]any{"segment": map[string]any{"enabled": false}})
	report("host-2")
	testkit.Must(t, 204, "DELETE", api+"/v1/segments/"+segment, nil) // told last

	of := func(kind string) (types []string) {
		hooked.mu.Lock()
		defer hooked.mu.Unlock()
		for _, e := range hooked.all {
			if strings.HasPrefix(e.Type, kind) {
				types = append(types, e.Priority+" "+e.Type)
			}
		}
		return types
	}
	testkit.Eventually(t, time.Minute, func() (bool, string) { return len(of("segment.delete")) == 2, "the webhook has not had everything yet" })
	want := "INFO notification.create.start, INFO notification.create.end, INFO notification.process.start, ERROR notification.process.error, " +
		"INFO notification.create.start, INFO notification.create.end"
	if got := strings.Join(of("notification"), ", "); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

// TestShipperKilled: the process that ships is killed while the broker is away; another one ships the rest.
func TestShipperKilled(t *testing.T) {
	b := newBroker(t)
	url, hooked := endpoint(t)
	c := testkit.NewCluster(t, testkit.MariaDB(t), 5, "lease_ttl = 2", "lease_tick = 0.5", "webhook_url = "+url, "webhook_secret = "+secret, b.conf())
	first, firstURL := serve(t, c, "first")
	l, taken := newLoad(t, firstURL), &got{}
	segment := rack(l, "host-1", "host-2", "host-3")
	testkit.Eventually(t, 2*time.Minute, func() (bool, string) { b.drain(t, taken); return taken.count() >= l.counted(), "nothing was shipped" })
	second, secondURL := serve(t, c, "second")
	b.kill()
	stop := make(chan struct{})
	clients := l.run(stop, segment, "host-5", "host-3")
	<-time.After(3 * time.Second)
	close(stop)
	clients.Wait()
	first.Kill()
	killed := time.Now()
	second.Await(t, `this one goes on.*to=messagingv2`, 2*time.Minute)
	t.Logf("another process ships %s after the kill", time.Since(killed).Round(100*time.Millisecond))
	l.api = secondURL
	l.segment(1_000_000)
	b.start()
	testkit.Eventually(t, 3*time.Minute, func() (bool, string) {
		b.drain(t, taken)
		bus, hook := l.missing(taken), l.missing(hooked)
		return bus+hook == 0, fmt.Sprintf("RabbitMQ lacks %d, the webhook %d of %d events", bus, hook, l.counted())
	})
	l.check("RabbitMQ", taken)
	l.check("webhook", hooked)
}
