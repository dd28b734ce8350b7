package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnswers is what commands make of an api's answers: the word that a host is off says what it has done, an order in JSON is what
// was asked and no state of before, and a workflow is lines.
func TestAnswers(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	answers := map[string]string{
		"POST /v1/ext/hosts/cmp-01/confirm-off": `{"notification": {"notification_uuid": "` + id + `", "status": "new"}}`,
		"GET /v1/ext/recoveries/" + id:          `{"recovery": {"notification_uuid": "` + id + `", "status": "failed", "timeline": []}}`,
		"POST /v1/ext/recoveries/" + id + "/retry": `{"recovery": {"notification_uuid": "` + id + `", "status": "failed", "timeline": [],
			"unit": {"engine": "e-1", "step": "moves"}}}`,
		"GET /v1/notifications/" + id: `{"notification": {"notification_uuid": "` + id + `", "type": "VM", "recovery_workflow_details": [
			{"name": "StopInstanceTask", "state": "SUCCESS", "progress": 1.0, "progress_details": [
				{"timestamp": "2026-01-02 03:04:05", "progress": "0.0", "message": "Stopping instance\u001b[2J: a"}, {"timestamp": "2026-01-02 03:04:06", "progress": "1.0", "message": "Stopped"}]}]}}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, body)
	}))
	defer api.Close()
	tests := []struct{ args, whole, part string }{
		{"host confirm-off cmp-01 --reason seen", "notification " + id + " is new; watch it: salvor recovery watch " + id + `
You have given your word that cmp-01 is off: its instances are started elsewhere as soon as Nova hears it no more and no other gate holds it.
If it still runs then, every one of them runs twice, on the same volumes. Power it off, or: salvor recovery cancel ` + id + "\n", ""},
		{"recovery retry " + id + " -o json", `{
  "notification_uuid": "` + id + `",
  "asked": "retry",
  "vmove": null,
  "engine": "e-1",
  "reason": null,
  "until": null
}
`, ""},
		{"notification show " + id, "", `recovery_workflow_details
  StopInstanceTask  SUCCESS
    2026-01-02 03:04:05  Stopping instance[2J: a
    2026-01-02 03:04:06  Stopped
`},
	}
	for _, tt := range tests {
		code, stdout, stderr := command(t, []string{"SALVOR_URL=" + api.URL}, strings.Fields(tt.args)...)
		if code != 0 || !strings.HasSuffix(stdout, tt.part) {
			t.Errorf("%s: %d\n%s%s", tt.args, code, stdout, stderr)
		}
		if diff := cmp.Diff(tt.whole, stdout); tt.whole != "" && diff != "" {
			t.Errorf("%s: %s", tt.args, diff)
		}
	}
}

// TestSegmentsOfAnotherAPI: what has no storage_failure_action, or does not tell it, still shows its segments; what fails otherwise is told.
func TestSegmentsOfAnotherAPI(t *testing.T) {
	for _, tt := range []struct {
		status      int
		answer      string
		code        int
		out, errout string
	}{
		{404, `{"itemNotFound": {"code": 404, "message": "The resource could not be found."}}`, 0, "NAME    STORAGE_FAILURE_ACTION\nrack-4  -\n", ""},
		{403, `{"forbidden": {"code": 403, "message": "Policy doesn't allow salvor_api:segments:index to be performed."}}`, 0,
			"NAME    STORAGE_FAILURE_ACTION\nrack-4  -\n", ""},
		{503, `{"serviceUnavailable": {"code": 503, "message": "no database"}}`, 5, "", "the api cannot do it now (503): no database"},
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/v1/ext/segments":
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.answer)
			case r.URL.Query().Get("marker") != "":
				_, _ = io.WriteString(w, `{"segments": []}`)
			default:
				_, _ = io.WriteString(w, `{"segments": [{"id": 1, "uuid": "00000000-0000-4000-8000-000000000001", "name": "rack-4"}]}`)
			}
		}))
		code, stdout, stderr := command(t, []string{"SALVOR_URL=" + api.URL}, "segment", "list", "-c", "name,storage_failure_action")
		if code != tt.code || stdout != tt.out || !strings.Contains(stderr, tt.errout) {
			t.Errorf("%d: %d\n%s%s", tt.status, code, stdout, stderr)
		}
		api.Close()
	}
}

// TestOneThatChangesWhileItIsListed: a notification that is new when those are asked for, and running when those are, is one line, and
// the list goes on behind it.
func TestOneThatChangesWhileItIsListed(t *testing.T) {
	const id = "00000000-0000-4000-8000-000000000001"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, marker := r.URL.Query().Get("status"), r.URL.Query().Get("marker")
		switch {
		case r.URL.Path != "/v1/notifications":
			_, _ = io.WriteString(w, `{"segments": []}`)
		case marker == "" && (status == "new" || status == "running"):
			_, _ = io.WriteString(w, `{"notifications": [{"id": 7, "notification_uuid": "`+id+`", "type": "COMPUTE_HOST", "status": "`+status+`"}]}`)
		case marker == "" || marker == "7":
			_, _ = io.WriteString(w, `{"notifications": []}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"badRequest": {"code": 400, "message": "Marker `+marker+` could not be found."}}`)
		}
	}))
	defer api.Close()
	code, stdout, stderr := command(t, []string{"SALVOR_URL=" + api.URL}, "recovery", "list")
	if code != 0 || strings.Count(stdout, id) != 1 {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
}

// TestAHostThatIsBack: by its name the recovery is found that moved its instances, not the report that it is back; and of what is not
// done with it is said that no engine lives.
func TestAHostThatIsBack(t *testing.T) {
	const host, dead, back = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003"
	status := "finished"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note := func(id, typ, event, status string) string {
			return `{"id": 7, "notification_uuid": "` + id + `", "source_host_uuid": "` + host + `", "type": "` + typ + `", "status": "` + status + `", "payload": {"event": "` + event + `"}}`
		}
		body, q := "", r.URL.Query()
		switch {
		case q.Get("marker") != "":
			body = `{"segments": [], "hosts": [], "notifications": [], "vmoves": []}`
		case r.URL.Path == "/v1/segments":
			body = `{"segments": [{"id": 1, "uuid": "` + host + `", "name": "rack"}]}`
		case r.URL.Path == "/v1/segments/"+host+"/hosts":
			body = `{"hosts": [{"id": 1, "uuid": "` + host + `", "name": "cmp-01"}]}`
		case r.URL.Path == "/v1/notifications" && status == "running" && q.Get("status") == status:
			body = `{"notifications": [` + note(dead, "COMPUTE_HOST", "STOPPED", status) + `]}`
		case r.URL.Path == "/v1/notifications" && q.Get("status") != "":
			body = `{"notifications": []}`
		case r.URL.Path == "/v1/notifications":
			body = `{"notifications": [` + note(back, "COMPUTE_HOST", "STARTED", "finished") + "," + note(dead, "COMPUTE_HOST", "STOPPED", status) + `]}`
		case r.URL.Path == "/v1/notifications/"+dead:
			body = `{"notification": ` + note(dead, "COMPUTE_HOST", "STOPPED", status) + `}`
		case r.URL.Path == "/v1/notifications/"+dead+"/vmoves":
			body = `{"vmoves": [{"id": 3, "uuid": "` + back + `", "instance_name": "vm-6", "status": "` + map[string]string{"running": "ongoing", "finished": "succeeded"}[status] + `"}]}`
		case r.URL.Path == "/v1/ext/recoveries/"+dead:
			body = `{"recovery": {"notification_uuid": "` + dead + `", "status": "` + status + `", "timeline": [], "unit": {"step": "move"` +
				map[string]string{"finished": `, "ended_at": "2026-01-02T03:04:05.000000"`}[status] + `}}}`
		case r.URL.Path == "/v1/ext/engines":
			body = `{"engines": [{"name": "e-1", "state": "silent"}]}`
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, body)
	}))
	defer api.Close()
	for _, tt := range []struct{ status, args, want, warns string }{
		{"finished", "vmove list cmp-01", "vm-6", ""},
		{"finished", "recovery show cmp-01", "COMPUTE_HOST STOPPED of cmp-01", ""},
		{"running", "vmove list cmp-01", "vm-6", "no engine is running"},
		{"running", "recovery show cmp-01", "COMPUTE_HOST STOPPED of cmp-01", "no engine is running"},
		{"running", "recovery list", dead, "no engine is running"},
		{"running", "recovery explain cmp-01", "It waits for an engine: none is running; then for 1 of 1 instances", ""},
		{"running", "recovery explain cmp-01", "ends: nothing goes on before somebody starts one: salvor engine", ""},
	} {
		status = tt.status
		code, stdout, stderr := command(t, []string{"SALVOR_URL=" + api.URL}, strings.Fields(tt.args)...)
		if code != 0 || !strings.Contains(stdout, tt.want) || !strings.Contains(stderr, tt.warns) || tt.warns == "" && stderr != "" {
			t.Errorf("%s: %d\n%s%s", tt.args, code, stdout, stderr)
		}
	}
}
