package fencing

import (
	"encoding/json"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// sights are what the timeline has of a host's power: method and state, in their order.
func sights(r wire.Recovery) string {
	var all []string
	for _, e := range r.Timeline {
		if m := regexp.MustCompile(`^power of \S+ by (\S+) at [0-9:.]+: (\w+), `).FindStringSubmatch(e.Text); m != nil {
			all = append(all, m[1]+":"+m[2])
		}
	}
	return strings.Join(all, " ")
}

// TestUnknownHostIsFenced: a monitor is not sure that a host is dead. It is powered off and seen off before anything is ordered,
// also when its instances still run (field finding F097).
func TestUnknownHostIsFenced(t *testing.T) {
	t.Parallel()
	w := open(t, 5, bmc)
	tests := []struct {
		name, host, verb string
		powerOffs        int
		sights, text     string
	}{
		{"cut off from the controllers, and running", "host-1", "hang", 1, "redfish:on redfish:off redfish:off", "ordered once, answered: ForceOff answered 204"},
		{"its nova-compute dead, and running", "host-2", "kill-compute", 1, "redfish:on redfish:off redfish:off", "ordered once, answered: ForceOff answered 204"},
		{"without power", "host-3", "kill", 0, "redfish:off redfish:off", "nothing was ordered"},
	}
	notes := map[string]string{}
	for _, tc := range tests {
		w.register(t, tc.host)
		w.do(t, tc.host, tc.verb)
	}
	w.allDown(t, "host-1", "host-2", "host-3") // so that nothing is evacuated to one of them
	for _, tc := range tests {
		notes[tc.host] = w.unknown(t, tc.host)
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := w.recovered(t, tc.host, notes[tc.host], "fenced")
			if got := sights(r); got != tc.sights {
				t.Errorf("sights %q, want %q", got, tc.sights)
			}
			if text := r.Unit.Proof.Text; !strings.Contains(text, tc.text) || !strings.Contains(text, tc.host+" was seen off: redfish: off, seen at ") {
				t.Errorf("the proof says %q, want %q", text, tc.text)
			}
			off, orders := w.calls(t, tc.host, call.powersOff), w.calls(t, tc.host, call.evacuates)
			if len(off) != tc.powerOffs || len(orders) != instances || len(off) > 0 && off[0].N > orders[0].N {
				t.Errorf("power taken by %+v, then %+v", off, orders)
			}
			looks := w.calls(t, tc.host, func(c call) bool { return c.toBMC() && c.Method == "GET" })
			if len(looks) < 2 || looks[1].N > orders[0].N {
				t.Errorf("looks %+v, first order %+v", looks, orders[0])
			}
			if w.powered(t, tc.host) {
				t.Error("it has power")
			}
		})
	}
}

// TestHeardHostIsNotFenced: Nova hears the host, so the report is not believed, whatever the monitor is trusted with. HEARD=all
// waits the minute until the report is ignored.
func TestHeardHostIsNotFenced(t *testing.T) {
	t.Parallel()
	w := open(t, 4, bmc, "trust_reports = true")
	w.register(t, "host-1")
	n := w.unknown(t, "host-1")
	w.says(t, n, "waiting at gate proof: Nova still hears host-1")
	looks := func() int {
		return len(w.calls(t, "", func(c call) bool { return c.Method == "GET" && strings.HasSuffix(c.Path, "/os-services") }))
	}
	first := looks()
	testkit.Eventually(t, patience, func() (bool, string) { return looks() >= first+5, "Nova is not looked at" })
	if os.Getenv("HEARD") == "all" {
		r := w.eventually(t, n, func(r wire.Recovery) bool { return r.Status == "ignored" })
		if !strings.HasPrefix(told(r.Message), "host still reports to Nova: ") {
			t.Errorf("message %q", told(r.Message))
		}
	} else {
		w.says(t, n, "waiting at gate proof: Nova still hears host-1")
		w.mustRun("recovery", "cancel", n, "--reason", "the host lives")
		r := w.eventually(t, n, func(r wire.Recovery) bool { return r.Unit != nil && r.Unit.EndedAt != nil })
		if r.Status == "finished" || !strings.Contains(told(r.Message), "cancelled by admin") {
			t.Errorf("%s: %q", r.Status, told(r.Message))
		}
	}
	w.untouched(t, "host-1")
	if asked := w.calls(t, "host-1", call.toBMC); len(asked) > 0 {
		t.Errorf("asked of its BMC: %+v", asked)
	}
}

// dark has BMCs that give themselves up after a third of a second.
var dark = strings.Replace(bmc, "deadline: 30s", "deadline: 1s", 1)

// TestDarkBMC: a BMC that does not answer proves nothing. The operator is told what to do, and the operator's word is kept; or the
// BMC comes back (field findings F084, F085, F093).
func TestDarkBMC(t *testing.T) {
	t.Parallel()
	w := open(t, 5, dark)
	notes := map[string]string{}
	for _, host := range []string{"host-1", "host-2"} {
		w.register(t, host)
		w.bmc(t, host, map[string]any{"dark": true})
	}
	w.silence(t, "host-1", "host-2")
	for _, host := range []string{"host-1", "host-2"} {
		notes[host] = w.unknown(t, host)
	}
	fails := func(t *testing.T, host string) string {
		t.Helper()
		n := notes[host]
		r := w.says(t, n, host+" could not be fenced", "redfish: not seen: no answer within 333ms", "salvor host confirm-off "+host)
		if strings.Contains(told(r.Message), "seen off:") || r.Unit.Proof != nil && r.Unit.Proof.Kind == "fenced" {
			t.Errorf("%q, %+v", told(r.Message), r.Unit.Proof)
		}
		w.untouched(t, host)
		return n
	}
	t.Run("an operator's word", func(t *testing.T) {
		n := fails(t, "host-1")
		asked := len(w.calls(t, "host-1", call.toBMC))
		testkit.Eventually(t, patience, func() (bool, string) { return len(w.calls(t, "host-1", call.toBMC)) > asked, "it is not tried again" })
		w.untouched(t, "host-1")
		w.do(t, "host-1", "kill") // somebody pulls the cord
		var confirmed struct {
			ID string `json:"notification_uuid"`
		}
		out := w.mustRun("host", "confirm-off", "host-1", "--reason", "pulled the power cord", "-o", "json")
		if err := json.Unmarshal([]byte(out), &confirmed); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Cleanup(func() { w.story(t, "host-1", confirmed.ID) })
		r := w.recovered(t, "host-1", confirmed.ID, "confirmed")
		if text := r.Unit.Proof.Text; text != `admin confirmed that host-1 is off ("pulled the power cord")` {
			t.Errorf("the proof says %q", text)
		}
		if show := w.mustRun("recovery", "show", confirmed.ID); !strings.Contains(show, `admin confirmed that host-1 is off ("pulled the power cord")`) {
			t.Errorf("recovery show does not say who:\n%s", show)
		}
		first, err := w.Notification(t.Context(), n)
		if err != nil || first.Status != "ignored" || !strings.Contains(told(first.Message), confirmed.ID) {
			t.Errorf("the first report: %s, %q, %v", first.Status, told(first.Message), err)
		}
	})
	t.Run("it answers again", func(t *testing.T) {
		n := fails(t, "host-2")
		w.bmc(t, "host-2", map[string]any{})
		w.recovered(t, "host-2", n, "fenced")
	})
}

// TestSecondMethod: the first BMC takes the call and never answers; the second way is taken (field finding F084).
func TestSecondMethod(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	w := open(t, 4, strings.Replace(`
defaults: {deadline: 30s, pause: 0.1s, insecure: true}
hosts:
  "*":
    - {kind: redfish, name: bmc, address: "http://SILENT", system: "{host}", deadline: 1s}
    - {kind: redfish, name: strip, address: SIM, system: "{host}"}
`, "SILENT", silent.Addr().String(), 1))
	w.register(t, "host-1")
	w.do(t, "host-1", "hang")
	r := w.recovered(t, "host-1", w.unknown(t, "host-1"), "fenced")
	if got, want := sights(r), "bmc:unknown strip:on strip:off strip:off"; got != want {
		t.Errorf("sights %q, want %q", got, want)
	}
	if text := r.Unit.Proof.Text; !strings.Contains(text, "bmc: not seen: no answer within 333ms; strip: off, seen at ") {
		t.Errorf("the proof says %q", text)
	}
}

// TestNovaIsAway: who cannot reach Nova knows nothing of hosts, and fences none, though their BMCs can be reached. When Nova is back,
// the recovery goes on (field finding F115).
func TestNovaIsAway(t *testing.T) {
	t.Parallel()
	w := open(t, 4, bmc)
	w.register(t, "host-1")
	w.silence(t, "host-1")
	testkit.Must(t, 204, "POST", w.sim+"/sim/faults", map[string]any{"path": "/os-services", "status": 503})
	n := w.unknown(t, "host-1")
	w.says(t, n, "waiting at gate nova: Nova does not answer")
	w.untouched(t, "host-1")
	if asked := w.calls(t, "host-1", call.toBMC); len(asked) > 0 {
		t.Errorf("asked of its BMC: %+v", asked)
	}
	testkit.Must(t, 204, "DELETE", w.sim+"/sim/faults", nil)
	w.recovered(t, "host-1", n, "fenced")
}
