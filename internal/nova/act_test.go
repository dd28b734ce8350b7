package nova

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

// TestBodiesOfActs compares bodies whole: what is not in want must not be in the request.
func TestBodiesOfActs(t *testing.T) {
	yes, no := true, false
	long := strings.Repeat("ä", 300)
	tests := []struct {
		name string
		act  ha.Act
		call string
		body string
	}{
		{"evacuate", ha.Act{Kind: ha.ActEvacuate, Instance: "i1"}, "POST /compute/v2.1/servers/i1/action", `{"evacuate": {}}`},
		{"evacuate to", ha.Act{Kind: ha.ActEvacuate, Instance: "i1", Target: "spare"}, "POST /compute/v2.1/servers/i1/action", `{"evacuate": {"host": "spare"}}`},
		{"lock", ha.Act{Kind: ha.ActLock, Instance: "i1", Reason: "salvor: host recovery"}, "POST /compute/v2.1/servers/i1/action", `{"lock": {"locked_reason": "salvor: host recovery"}}`},
		{"lock without reason", ha.Act{Kind: ha.ActLock, Instance: "i1"}, "POST /compute/v2.1/servers/i1/action", `{"lock": null}`},
		{"long reason", ha.Act{Kind: ha.ActLock, Instance: "i1", Reason: long}, "POST /compute/v2.1/servers/i1/action", `{"lock": {"locked_reason": "` + strings.Repeat("ä", 255) + `"}}`},
		{"unlock", ha.Act{Kind: ha.ActUnlock, Instance: "i1", Reason: "x"}, "POST /compute/v2.1/servers/i1/action", `{"unlock": null}`},
		{"stop", ha.Act{Kind: ha.ActStop, Instance: "i1"}, "POST /compute/v2.1/servers/i1/action", `{"os-stop": null}`},
		{"start", ha.Act{Kind: ha.ActStart, Instance: "i1"}, "POST /compute/v2.1/servers/i1/action", `{"os-start": null}`},
		{"reset", ha.Act{Kind: ha.ActResetState, Instance: "i1", State: "error"}, "POST /compute/v2.1/servers/i1/action", `{"os-resetState": {"state": "error"}}`},
		{"force down and disable", ha.Act{Kind: ha.ActService, ServiceID: "s1", ForcedDown: &yes, Enable: &no, Reason: "failed"},
			"PUT /compute/v2.1/os-services/s1", `{"forced_down": true, "status": "disabled", "disabled_reason": "failed"}`},
		{"an explicit false", ha.Act{Kind: ha.ActService, ServiceID: "s1", ForcedDown: &no}, "PUT /compute/v2.1/os-services/s1", `{"forced_down": false}`},
		{"enable", ha.Act{Kind: ha.ActService, ServiceID: "s1", Enable: &yes, Reason: "x"}, "PUT /compute/v2.1/os-services/s1", `{"status": "enabled"}`},
		{"disable without reason", ha.Act{Kind: ha.ActService, ServiceID: "s1", Enable: &no}, "PUT /compute/v2.1/os-services/s1", `{"status": "disabled"}`},
		{"add to aggregate", ha.Act{Kind: ha.ActAggregateAdd, Aggregate: "3", Host: "spare"}, "POST /compute/v2.1/os-aggregates/3/action", `{"add_host": {"host": "spare"}}`},
		{"remove from aggregate", ha.Act{Kind: ha.ActAggregateRemove, Aggregate: "3", Host: "spare"}, "POST /compute/v2.1/os-aggregates/3/action", `{"remove_host": {"host": "spare"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			answer := fault(202, "")
			switch {
			case tt.act.Kind == ha.ActService:
				answer = ok(`{"service": {"id": "s1", "binary": "nova-compute", "host": "compute-1", "status": "disabled", "state": "down",
					"forced_down": true, "disabled_reason": "failed", "updated_at": "2026-11-29T10:59:59.898424"}}`)
			case tt.act.Kind == ha.ActEvacuate:
				answer = ok("") // 200 and nothing at all
			}
			f.answer(tt.call, answer)
			out, err := f.client(t).Do(ctx(t), tt.act)
			if err != nil || out.Err != nil || out.At.IsZero() || !cmp.Equal(out.Act, tt.act) {
				t.Fatalf("%+v %v", out, err)
			}
			calls := f.calls(tt.call)
			if len(calls) != 1 {
				t.Fatalf("sent %d times", len(calls))
			}
			jsonEqual(t, calls[0].body, tt.body)
			if got := calls[0].header.Get("OpenStack-API-Version"); got != "compute 2.93" {
				t.Errorf("microversion %q", got)
			}
			if tt.act.Kind == ha.ActService {
				want := &ha.Service{ID: "s1", Binary: "nova-compute", Host: "compute-1", ForcedDown: true, DisabledReason: "failed",
					UpdatedAt: time.Date(2026, 11, 29, 11, 0, 0, 0, time.UTC)}
				if diff := cmp.Diff(want, out.Service); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestLockReasonOnlyWhereNovaTakesIt(t *testing.T) {
	f := newFake(t)
	f.versions = `{"version": {"version": "2.72", "min_version": "2.1"}}`
	f.answer("POST /compute/v2.1/servers/i1/action", fault(202, ""))
	if _, err := f.client(t).Do(ctx(t), ha.Act{Kind: ha.ActLock, Instance: "i1", Reason: "salvor"}); err != nil {
		t.Fatal(err)
	}
	jsonEqual(t, f.calls("POST /compute/v2.1/servers/i1/action")[0].body, `{"lock": null}`)
}

// TestClassesOfActs: each answer, or lack of one, has its class, and no act is ever sent a second time.
func TestClassesOfActs(t *testing.T) {
	const call = "POST /compute/v2.1/servers/i1/action"
	inUse := `{"badRequest": {"code": 400, "message": "Compute service of compute-1 is still in use."}}`
	tests := []struct {
		name   string
		answer http.HandlerFunc
		class  ha.Class
		status int
		want   string
	}{
		{"400", fault(400, inUse), ha.ClassRefused, 400, "still in use"},
		{"403", fault(403, `{"forbidden": {"code": 403, "message": "Policy"}}`), ha.ClassRefused, 403, "Policy"},
		{"404", fault(404, `{"itemNotFound": {"code": 404, "message": "Instance i1 could not be found."}}`), ha.ClassGone, 404, "could not be found"},
		{"404 of a proxy", fault(404, "<html>"), ha.ClassInDoubt, 404, ""},
		{"409", fault(409, `{"conflictingRequest": {"code": 409, "message": "Cannot 'evacuate' instance i1 while it is in vm_state paused"}}`), ha.ClassRefused, 409, "paused"},
		{"413", fault(413, "too large"), ha.ClassRefused, 413, ""},
		{"429", fault(429, "slow down"), ha.ClassBusy, 429, "slow down"},
		{"500", fault(500, `{"computeFault": {"code": 500, "message": "oops"}}`), ha.ClassInDoubt, 500, "oops"},
		{"502", fault(502, ""), ha.ClassInDoubt, 502, "Bad Gateway"},
		{"503", fault(503, ""), ha.ClassInDoubt, 503, ""},
		{"504", fault(504, "gateway time-out"), ha.ClassInDoubt, 504, "gateway time-out"},
		{"307", fault(307, ""), ha.ClassRefused, 307, ""},
		{"cut before the answer", cutAfter(""), ha.ClassInDoubt, 0, ""},
		{"cut in the answer's head", cutAfter("HTTP/1.1 200 OK\r\nConte"), ha.ClassInDoubt, 0, ""},
		{"not HTTP", cutAfter("SSH-2.0-x\r\n\r\n"), ha.ClassInDoubt, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.answer(call, tt.answer)
			_, err := f.client(t).Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"})
			wantError(t, err, tt.class, tt.status, tt.want)
			if n := len(f.calls(call)); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
	t.Run("cut in the body of a yes", func(t *testing.T) {
		f := newFake(t)
		f.answer(call, cutAfter("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{\"adminPass"))
		if _, err := f.client(t).Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"}); err != nil {
			t.Errorf("the status says that it was taken: %v", err)
		}
	})
	t.Run("cut in the service of a yes", func(t *testing.T) {
		f := newFake(t)
		f.answer("PUT /compute/v2.1/os-services/s1", cutAfter("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{\"serv"))
		down := true
		out, err := f.client(t).Do(ctx(t), ha.Act{Kind: ha.ActService, ServiceID: "s1", ForcedDown: &down})
		wantError(t, err, ha.ClassInDoubt, 0, "cannot be read")
		if out.Service != nil {
			t.Error("half a service")
		}
	})
	t.Run("silence", func(t *testing.T) {
		f := newFake(t)
		release := make(chan struct{})
		f.answer(call, waitFor(release))
		c := f.client(t, func(cfg *Config) { cfg.Timeout = 100 * time.Millisecond })
		_, err := c.Do(ctx(t), ha.Act{Kind: ha.ActEvacuate, Instance: "i1"})
		close(release)
		wantError(t, err, ha.ClassInDoubt, 0, "no answer in time")
	})
}

func TestActsThatMakeNoSenseAreNotSent(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	yes := true
	for _, act := range []ha.Act{
		{Kind: "reboot", Instance: "i1"}, {Kind: ha.ActEvacuate}, {Kind: ha.ActResetState, Instance: "i1", State: "paused"},
		{Kind: ha.ActService, ServiceID: "s1"}, {Kind: ha.ActService, ForcedDown: &yes}, {Kind: ha.ActAggregateAdd, Host: "h"},
	} {
		_, err := c.Do(ctx(t), act)
		if ha.ClassOf(err) != ha.ClassNotSent {
			t.Errorf("%+v: %v", act, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) != 0 {
		t.Errorf("%+v", f.requests)
	}
}
