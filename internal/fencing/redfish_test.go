package fencing

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/sim/simhttp"
)

// rack is a simulated cloud whose BMCs are reached by HTTPS.
type rack struct {
	*testing.T
	cloud  *sim.Cloud
	server *httptest.Server
	ca     string // file

	mu    sync.Mutex
	seen  []string // METHOD PATH of what the BMCs were asked
	alter func(http.ResponseWriter, *http.Request) bool
}

func newRack(t *testing.T, hosts int) *rack {
	t.Helper()
	r := &rack{T: t, cloud: sim.New(sim.Options{Hosts: hosts, Scale: 0.05})}
	face := simhttp.New(r.cloud, simhttp.Options{})
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, hr.Method+" "+hr.URL.Path)
		alter := r.alter
		r.mu.Unlock()
		if alter == nil || !alter(w, hr) {
			face.ServeHTTP(w, hr)
		}
	}))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it are meant
	r.server.StartTLS()
	t.Cleanup(func() { r.server.CloseClientConnections(); r.server.Close(); face.Close(); r.cloud.Close() })
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	r.ca = write(t, "ca.pem", 0o644, string(block))
	return r
}

func (r *rack) port() string {
	u, err := url.Parse(r.server.URL)
	if err != nil {
		r.Fatal(err)
	}
	return u.Port()
}

// fencer fences all hosts by Redfish; more are keys of the method.
func (r *rack) fencer(more string) *Fencer {
	r.Helper()
	if !strings.Contains(more, "system:") {
		more += `, system: "{host}"`
	}
	return from(r.T, `
defaults: {pause: 0.1s, user: admin, password: secret}
hosts:
  "host-*": [{kind: redfish, address: "`+r.server.URL+`", ca_file: "`+r.ca+`"`+more+`}]
`)
}

func (r *rack) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// dead tells whether the host has lost its power, and reports to Nova no more.
func (r *rack) dead(host string) bool {
	for _, h := range r.cloud.Hosts() {
		if h.Name == host {
			return !h.Powered && h.Compute == "dead"
		}
	}
	return false
}

// TestRedfish: each way of logging in, and of finding the system; what is off in the BMC is dead in the cloud.
func TestRedfish(t *testing.T) {
	r := newRack(t, 2)
	for host, more := range map[string]string{"host-1": "", "host-2": ", auth: session"} {
		got := fenced(t, r.fencer(more), host)
		if powers(got) != "redfish:on redfish:off redfish:off" || !strings.Contains(got.Text, "answered: ForceOff answered 204") || !r.dead(host) {
			t.Errorf("%s: %+v", more, got)
		}
	}
	// Sessions are given back.
	if logins, logouts := r.count("POST /redfish/v1/SessionService/Sessions"), r.count("DELETE "); logins == 0 || logins != logouts {
		t.Errorf("%d sessions were opened, %d closed", logins, logouts)
	}
	one := newRack(t, 1)
	if got := fenced(t, one.fencer(`, name: bmc, system: ""`), "host-1"); !one.dead("host-1") || got.Sights[0].Method != "bmc" {
		t.Errorf("the only system: %+v", got)
	}
	if got, err := r.fencer(`, system: ""`).Fence(t.Context(), "host-1"); err != nil || got.Off || !strings.Contains(got.Text, "2 systems, not one: set system") {
		t.Errorf("%v %+v", err, got)
	}
}

func (r *rack) count(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// TestRedfishFaults: BMCs that misbehave as the simulator has them, by our own Redfish and by the real fence_redfish.
func TestRedfishFaults(t *testing.T) {
	tests := []struct {
		name  string
		fault sim.BMCFault
		off   bool // before it is fenced
		want  bool
		text  string // of our own
		agent string // of the agent's; "": not tried with it
	}{
		{"well", sim.BMCFault{}, false, true, "off, seen at", "off, seen at"},
		{"off already", sim.BMCFault{RefuseOff: 409}, true, true, "nothing was ordered", "nothing was ordered"},
		{"off slowly", sim.BMCFault{OffAfter: 300 * time.Millisecond}, false, true, "off, seen at", ""},
		{"lies once", sim.BMCFault{Lies: 1}, false, true, "off, seen at", "off, seen at"},
		{"lies once, and cannot be ordered", sim.BMCFault{Lies: 1, Deaf: true}, false, false, "showed off, then on: not believed", ""},
		{"deaf", sim.BMCFault{Deaf: true}, false, false, "but not seen off", ""},
		{"stuck at on", sim.BMCFault{Stuck: true}, false, false, "but not seen off", ""},
		{"dark", sim.BMCFault{Dark: true}, false, false, "no answer within", ""},
		{"denied", sim.BMCFault{Denied: true}, false, false, "login refused", "Unable to get PowerState"},
		{"no ForceOff", sim.BMCFault{NoForceOff: true}, false, false, "ForceOff is not among", ""},
	}
	kinds := map[string]func(*rack, string) *Fencer{
		"redfish": func(r *rack, deadline string) *Fencer { return r.fencer(", deadline: " + deadline) },
		"fence_redfish": func(r *rack, deadline string) *Fencer {
			program(r.T, "fence_redfish", "fence-agents")
			return from(r.T, `
hosts:
  host-1:
    - {kind: agent, agent: fence_redfish, name: redfish, deadline: `+deadline+`, pause: 0.1s, address: 127.0.0.1, user: admin, password: secret,
       options: {ipport: `+r.port()+`, ssl_insecure: 1, systems-uri: /redfish/v1/Systems/host-1, power_timeout: 2, login_timeout: 2}}
`)
		},
	}
	for kind, fencer := range kinds {
		for _, tt := range tests {
			text := map[string]string{"redfish": tt.text, "fence_redfish": tt.agent}[kind]
			if text == "" {
				continue
			}
			t.Run(kind+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				r := newRack(t, 1)
				if tt.off {
					r.must(r.cloud.Kill("host-1"))
				}
				r.must(r.cloud.SetBMC("host-1", tt.fault))
				deadline := "60s"
				if tt.fault.Deaf || tt.fault.Stuck || tt.fault.Dark { // those use up all of it
					deadline = "3s"
				}
				got, err := fencer(r, deadline).Fence(t.Context(), "host-1")
				if err != nil || got.Off != tt.want || !strings.Contains(got.Text, text) {
					t.Errorf("%v %+v", err, got)
				}
				if got.Off && !r.dead("host-1") {
					t.Error("proven off, and it runs")
				}
			})
		}
	}
}

func TestRedfishRefusals(t *testing.T) {
	r := newRack(t, 1)
	tests := []struct{ name, more, text string }{
		{"wrong password", ", password: s3cr3t-wrong", "login refused: GET /redfish/v1/Systems/host-1 answered 401: The authentication credentials"},
		{"wrong password, session", ", auth: session, password: s3cr3t-wrong", "login refused: POST /redfish/v1/SessionService/Sessions answered 401"},
		{"no such system", ", system: nowhere", "answered 404: no system nowhere"},
		{"a certificate of an unknown authority", ", ca_file: " + write(t, "other.pem", 0o644, otherCA), "certificate signed by unknown authority"},
		{"nobody listens", ", address: \"https://127.0.0.1:1\"", "connection refused"},
	}
	for _, tt := range tests {
		text := `
hosts:
  host-1: [{kind: redfish, pause: 0.1s, ` + strings.TrimPrefix(tt.more, ", ") + "}]\n"
		for key, def := range map[string]string{"address": `"` + r.server.URL + `"`, "system": "host-1", "user": "admin", "password": "secret", "ca_file": r.ca} {
			if !strings.Contains(tt.more, " "+key+":") {
				text = strings.Replace(text, "}]", ", "+key+": "+def+"}]", 1)
			}
		}
		got, err := from(t, text).Fence(t.Context(), "host-1")
		if err != nil || got.Off || !strings.Contains(got.Text, tt.text) || strings.Contains(got.Text, "s3cr3t") {
			t.Errorf("%s: %v %s", tt.name, err, got.Text)
		}
	}
	if r.cloud.Hosts()[0].Powered == false {
		t.Error("one of them worked")
	}
	// A refused login is not tried again: accounts are locked for that.
	if n := r.count("POST /redfish/v1/SessionService"); n != 1 {
		t.Errorf("%d logins", n)
	}
}

// TestRedfishAsOthersSpeakIt: If-Match, tasks, ActionInfo, redirections, absolute links, null, and bodies without an end.
func TestRedfishAsOthersSpeakIt(t *testing.T) {
	const system = "/redfish/v1/Systems/host-1"
	answer := func(w http.ResponseWriter, status int, body string) bool {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
		return true
	}
	tests := []struct {
		name  string
		alter func(r *rack, w http.ResponseWriter, hr *http.Request) bool
		off   bool
		text  string
	}{
		{"wants If-Match", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			if hr.Method == "GET" {
				w.Header().Set("ETag", `"e1"`)
			}
			return hr.Method == "POST" && hr.Header.Get("If-Match") != `"e1"` && answer(w, 412, "")
		}, true, "answered: ForceOff answered 204"},
		{"answers with a task", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			if hr.Method != "POST" {
				return false
			}
			r.must(r.cloud.Kill("host-1"))
			w.Header().Set("Location", "/redfish/v1/TaskService/Tasks/1")
			return answer(w, 202, `{"TaskState": "Running"}`)
		}, true, "answered: ForceOff answered 202"},
		{"says in ActionInfo that ForceOff is not allowed", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			if hr.URL.Path == "/info" {
				return answer(w, 200, `{"Parameters": [{"Name": "ResetType", "AllowableValues": ["On", "PushPowerButton"]}]}`)
			}
			return hr.Method == "GET" && answer(w, 200, `{"PowerState": "On", "Actions": {"#ComputerSystem.Reset": {"target": "/x", "@Redfish.ActionInfo": "/info"}}}`)
		}, false, "ForceOff is not among what the system allows (On, PushPowerButton)"},
		{"does not say what is allowed", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			power := "On"
			if r.dead("host-1") {
				power = "Off"
			}
			if hr.URL.Path == "/" {
				return answer(w, 404, "")
			}
			return hr.Method == "GET" && answer(w, 200, `{"PowerState": "`+power+`", "Actions": {"#ComputerSystem.Reset": {"target": "`+system+`/Actions/ComputerSystem.Reset"}}}`)
		}, true, "answered: ForceOff answered 204"},
		{"breaks off in the middle of an answer", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			w.Header().Set("Content-Length", "1000")
			return answer(w, 200, `{"PowerState": "Off"}`)
		}, false, "broke off"},
		{"redirects elsewhere, to steal the account", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			http.Redirect(w, hr, "https://elsewhere.example"+hr.URL.Path, http.StatusTemporaryRedirect)
			return true
		}, false, "redirected elsewhere"},
		{"points elsewhere", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			return hr.Method == "GET" && answer(w, 200, `{"PowerState": "On", "Actions": {"#ComputerSystem.Reset": {"target": "https://elsewhere.example/x"}}}`)
		}, false, "which is not at"},
		{"has no power state", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			return answer(w, 200, `{"PowerState": null}`)
		}, false, "shows no PowerState"},
		{"is on its way down for ever", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			return hr.Method == "GET" && answer(w, 200, `{"PowerState": "PoweringOff", "Actions": {"#ComputerSystem.Reset": {"target": "`+system+`/Actions/ComputerSystem.Reset"}}}`)
		}, false, "PowerState PoweringOff"},
		{"is not Redfish", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			return answer(w, 200, "<html>login</html>")
		}, false, "cannot be read"},
		{"never ends", func(r *rack, w http.ResponseWriter, hr *http.Request) bool {
			for hr.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					break
				}
			}
			return true
		}, false, "is longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRack(t, 1)
			r.alter = func(w http.ResponseWriter, hr *http.Request) bool { return tt.alter(r, w, hr) }
			deadline := "10s"
			if tt.name == "is on its way down for ever" {
				deadline = "1s"
			}
			got, err := r.fencer(", deadline: "+deadline).Fence(t.Context(), "host-1")
			if err != nil || got.Off != tt.off || !strings.Contains(got.Text, tt.text) {
				t.Errorf("%v %+v", err, got)
			}
		})
	}
}

func TestRehearsalOrdersNothing(t *testing.T) {
	r := newRack(t, 3)
	r.must(r.cloud.SetBMC("host-2", sim.BMCFault{NoForceOff: true}))
	r.must(r.cloud.SetBMC("host-3", sim.BMCFault{Denied: true}))
	f := r.fencer("")
	for host, want := range map[string]string{
		"host-1": "PowerState On, ForceOff allowed", "host-2": "ForceOff is not among what the system allows", "host-3": "login refused",
	} {
		checks, err := f.Rehearse(t.Context(), host)
		if err != nil || len(checks) != 1 || checks[0].OK != (host == "host-1") || !strings.Contains(checks[0].Text, want) || checks[0].At.IsZero() {
			t.Errorf("%s: %v %+v", host, err, checks)
		}
	}
	if n := r.count("POST"); n != 0 {
		t.Errorf("%d orders", n)
	}
	if _, err := f.Rehearse(t.Context(), "elsewhere"); !errors.Is(err, ErrNotConfigured) {
		t.Error(err)
	}
}

func FuzzRedfishAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"PowerState": "Off"}`, `{"PowerState": "On", "Actions": {"#ComputerSystem.Reset": {"target": "/x", "ResetType@Redfish.AllowableValues": ["ForceOff"]}}}`,
		`{"PowerState": null}`, `{"PowerState": 1}`, `{"error": {"message": "no", "@Message.ExtendedInfo": [{"Message": "really"}]}}`,
		`{"Parameters": [{"Name": "ResetType", "AllowableValues": ["On"]}]}`, `[]`, ``, `{"PowerState": "off\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := readSystem(body)
		power, text, none := s.power()
		if err == nil && power == ha.PowerOff && (none != nil || *s.PowerState != "Off") {
			t.Errorf("%q is off", body)
		}
		if err == nil && none != nil && power != ha.PowerUnknown {
			t.Errorf("%q: %s and %v", body, power, none)
		}
		for _, line := range []string{text, (config.Cleaner{}).Line(redfishMessage(body))} {
			if strings.ContainsAny(line, "\n\r\x00\x1b") || len([]rune(line)) > config.MaxSaid+1 {
				t.Errorf("%q", line)
			}
		}
		if slices.Contains(readActionInfo(body), "\x00never") {
			t.Error("what is not there")
		}
	})
}

func FuzzAgentOutput(f *testing.F) {
	f.Add(0, "Status: ON\n", "", "pw")
	f.Add(2, "Status: OFF\n", "", "pw")
	f.Add(2, "", "/usr/bin/python3: can't open file", "pw")
	f.Add(1, "", "Ignoring unknown option 'password=pw'", "pw")
	f.Add(0, "Status: OFF\nStatus: ON", "\x1b[31m", "\n")
	f.Fuzz(func(t *testing.T, status int, out, errs, secret string) {
		e := ended{status: status, out: out, errs: errs}
		switch power := agentPower(e); {
		case power == ha.PowerOff && (status != 2 || !strings.Contains(strings.ToLower(out), "off")):
			t.Errorf("off by %d %q", status, out)
		case power == ha.PowerOn && (status != 0 || !strings.Contains(strings.ToLower(out), "on")):
			t.Errorf("on by %d %q", status, out)
		}
		c := child{clean: config.NewCleaner("u", config.NewSecret(secret))}
		said := c.said(e)
		if strings.ContainsAny(said, "\n\r\x00\x1b") || len([]rune(said)) > config.MaxSaid+40 {
			t.Errorf("%q", said)
		}
		if len(secret) > 8 && strings.Contains(said, secret) {
			t.Errorf("%q has %q", said, secret)
		}
	})
}

// otherCA is an authority that nobody's certificate is from.
const otherCA = `-----BEGIN CERTIFICATE-----
MIIBiDCCAS2gAwIBAgIUZJgNqyRvzoZbwOHLroDPu9in6eMwCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTAgFw0yNjExMjkxNzMwNTVaGA8yMTI2
MTEwNTE3MzA1NVowGDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABNPMeAHJtFibGniXClN83Mk0RJr19QxU89Yv6mtezDdo
WRRyntmYrJn/sFzFE2rCiEdcLiAorlbRubnKe9pkJDWjUzBRMB0GA1UdDgQWBBRD
hfWanLa9ylxcTgOdlKd1ir4vSDAfBgNVHSMEGDAWgBRDhfWanLa9ylxcTgOdlKd1
ir4vSDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQCBXgdL8IOY
+Ird6kJiyDETCPG7ByHUPDiqAs3jZmEJcwIhAI0Z2M5Otxvhiw3WgYoiEWwaNs4f
WrQnZa+hMteXp4vN
-----END CERTIFICATE-----
`
