package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
)

const noteID = "0123abcd-4567-89ab-cdef-0123456789ab"

func TestOperatorsOrders(t *testing.T) {
	var got ha.Wish
	h := handler(t, Config{}, rows{
		note: func(uuid string) (ha.Notification, error) {
			if uuid != noteID {
				return ha.Notification{}, &ha.NotFoundError{Kind: ha.KindNotification, ID: uuid}
			}
			return ha.Notification{UUID: uuid, Type: ha.TypeComputeHost, Status: ha.StatusRunning}, nil
		},
		work: func(string) (ha.Work, error) {
			return ha.Work{Kind: ha.UnitHost, Recovery: ha.Recovery{Step: ha.StepMove}}, nil
		},
		journal: []ha.Entry{{Kind: ha.EntryNote, Text: "a note"}},
		move:    func(_, uuid string) (ha.VMove, error) { return ha.VMove{UUID: uuid}, nil },
		wish: func(notification string, w ha.Wish) error {
			if w.Kind == ha.WishRelease {
				return &ha.ConflictError{Text: "nothing is held"}
			}
			got = w
			return nil
		},
	})
	const unit = "/v1/ext/recoveries/" + noteID
	until := time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		path, body string
		want       ha.Wish
	}{
		{"/cancel", "", ha.Wish{Kind: ha.WishCancel, By: "admin"}},
		{"/hold", `{"reason": "power works", "until": "2126-01-01"}`, ha.Wish{Kind: ha.WishHold, By: "admin", Reason: "power works", Until: &until}},
		{"/retry", `{"reason": "fixed"}`, ha.Wish{Kind: ha.WishRetry, By: "admin", Reason: "fixed"}},
		{"/vmoves/" + noteID + "/retry", `{}`, ha.Wish{Kind: ha.WishRetryMove, By: "admin", VMove: noteID}},
	} {
		w := ask(h, "POST", unit+c.path, c.body)
		expect(t, w, 202, `"step":"move"`)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.path, diff)
		}
	}
	expect(t, ask(h, "POST", unit+"/release", ""), 409, `{"conflictingRequest":{"code":409,"message":"nothing is held"}}`)
	expect(t, ask(h, "POST", unit+"/hold", ""), 400, "'reason' is a required property")
	expect(t, ask(h, "POST", unit+"/hold", `{"reason": "x", "until": "2026-01-01"}`), 400, "until is in the past")
	expect(t, ask(h, "POST", unit+"/hold", "{}", "X-Auth-Token: member"), 400, "")
	expect(t, ask(h, "POST", unit+"/cancel", "", "X-Auth-Token: member"), 403, "Policy doesn't allow salvor_api:recoveries:cancel to be performed.")
	expect(t, ask(h, "POST", "/v1/ext/recoveries/x/cancel", ""), 404, "No notification with id x.")
	w := ask(h, "GET", "/v1/ab12/ext/recoveries/"+noteID, "")
	expect(t, w, 200, `"text":"a note"`)
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Error(err)
	}
}

func TestRecoveryThatNobodyHasTakenUp(t *testing.T) {
	h := handler(t, Config{}, rows{
		note: func(uuid string) (ha.Notification, error) {
			return ha.Notification{UUID: uuid, Status: ha.StatusNew}, nil
		},
		work: func(uuid string) (ha.Work, error) {
			return ha.Work{}, &ha.NotFoundError{Kind: ha.KindRecovery, ID: uuid}
		},
	})
	expect(t, ask(h, "GET", "/v1/ext/recoveries/"+noteID, ""), 200, `"status":"new","message":null,"unit":null,"timeline":[],"earlier":false`)
}

func TestConfirmOff(t *testing.T) {
	var got ha.Report
	h := handler(t, Config{}, rows{admit: func(r ha.Report) (ha.Notification, error) {
		if r.Hostname == "nobody" {
			return ha.Notification{}, &ha.NotFoundError{Kind: ha.KindHost, ID: r.Hostname}
		}
		got = r
		return ha.Notification{UUID: r.UUID, Type: r.Type, Payload: r.Payload}, nil
	}})
	expect(t, ask(h, "POST", "/v1/ext/hosts/cmp-1/confirm-off", `{"reason": "pulled the plug"}`), 202, `"salvor_confirmed_by":"admin: pulled the plug"`)
	if got.Hostname != "cmp-1" || !got.Payload.Stopped() || !got.Payload.Normal() || got.UUID == "" || time.Since(got.GeneratedTime) > time.Minute {
		t.Errorf("%+v", got)
	}
	expect(t, ask(h, "POST", "/v1/ext/hosts/nobody/confirm-off", `{"reason": "x"}`), 404, "Host with name nobody could not be found.")
	expect(t, ask(h, "POST", "/v1/ext/hosts/cmp-1/confirm-off", `{}`), 400, "'reason' is a required property")
	expect(t, ask(h, "POST", "/v1/ext/hosts/cmp-1/confirm-off", `{"reason": "x"}`, "X-Auth-Token: member"), 403, "salvor_api:hosts:confirm-off")
}

func TestExtensionsThatThePolicyHides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("\"os_masakari_api:vmoves:discoverable\": \"!\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Config{File: []string{file}}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Log: quiet}, service.New(rows{}, nil, service.Config{}), tokens{}, rules)
	if err != nil {
		t.Fatal(err)
	}
	w := ask(h, "GET", "/v1/extensions", "")
	expect(t, w, 200, `"alias":"os-hosts"`)
	if strings.Contains(w.Body.String(), "vmoves") {
		t.Error("vmoves is shown")
	}
	expect(t, ask(h, "GET", "/v1/extensions/vmoves", ""), 404, "")
}

// TestCoverageIsRefused: what is wrong with a question is said before Nova is asked, and that there is none is 503 with the reason.
func TestCoverageIsRefused(t *testing.T) {
	h := handler(t, Config{}, rows{})
	for _, path := range []string{"/v1/ext/coverage", "/v1/ext/coverage?host=h", "/v1/ext/coverage?instance=" + noteID, "/v1/ext/hosts/h/plan"} {
		expect(t, ask(h, "GET", path, ""), 503, `{"serviceUnavailable":{"code":503,"message":"Nova cannot be asked now: no Nova is configured"}}`)
	}
	expect(t, ask(h, "GET", "/v1/ext/coverage?host=h&instance="+noteID, ""), 400, "host and instance exclude each other")
	expect(t, ask(h, "GET", "/v1/ext/coverage?limit=x", ""), 400, "limit must be an integer")
	expect(t, ask(h, "GET", "/v1/ext/coverage", "", "X-Auth-Token: member"), 403, "Policy doesn't allow salvor_api:coverage:index to be performed.")
	expect(t, ask(h, "GET", "/v1/ext/hosts/h/plan", "", "X-Auth-Token: member"), 403, "Policy doesn't allow salvor_api:hosts:plan to be performed.")
}
