package conformance

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// world is an API over SQLite with some rows, and a second look at them from behind.
type world struct {
	t    *testing.T
	base string
	http *http.Client // checks every exchange against openapi.yaml
	rows *sql.DB

	segment, empty         string // uuids; empty has no hosts
	free, busy, maintained string // hosts of segment; busy has an open notification
	hostNote, vmNote       string // open notifications: of a COMPUTE_HOST, of a VM
}

func newWorld(t *testing.T) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "salvor.sqlite")
	base := start(t, "sqlite:///"+file, withKeystone(t))
	rows, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rows.Close() })
	w := &world{t: t, base: base, rows: rows, http: &http.Client{Transport: testkit.Document(t).Transport(t, http.DefaultTransport)}}
	w.segment = w.make("segments", `{"segment": {"name": "rack-1", "recovery_method": "auto", "service_type": "COMPUTE"}}`, "segment", "uuid")
	w.empty = w.make("segments", `{"segment": {"name": "rack-2", "recovery_method": "auto", "service_type": "COMPUTE"}}`, "segment", "uuid")
	host := func(name, more string) string {
		return w.make("segments/"+w.segment+"/hosts", `{"host": {"name": "`+name+`", "type": "COMPUTE", "control_attributes": "SSH"`+more+`}}`, "host", "uuid")
	}
	w.free, w.busy, w.maintained = host("free", ""), host("busy", ""), host("maintained", `, "on_maintenance": true`)
	w.hostNote = w.make("notifications", note("COMPUTE_HOST", "busy", now(), stopped), "notification", "notification_uuid")
	w.vmNote = w.make("notifications", note("VM", "busy", now(), died), "notification", "notification_uuid")
	return w
}

const (
	stopped = `{"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}`
	died    = `{"event": "LIFECYCLE", "instance_uuid": "0123abcd-4567-89ab-cdef-0123456789ab", "vir_domain_event": "STOPPED_FAILED"}`
	nowhere = "00000000-0000-4000-8000-00000000dead"
)

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000") }

func note(kind, host, at, payload string) string {
	return fmt.Sprintf(`{"notification": {"type": %q, "hostname": %q, "generated_time": %q, "payload": %s}}`, kind, host, at, payload)
}

// ask sends a request with the token; headers are "Name: value".
func (w *world) ask(method, path, token, body string, headers ...string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", token)
	req.Header.Set("Accept", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func (w *world) make(path, body, wrapper, key string) string {
	w.t.Helper()
	status, text := w.ask("POST", "/v1/"+path, AdminToken, body)
	var got map[string]map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil || status >= 300 {
		w.t.Fatalf("%s: %d %s", path, status, text)
	}
	return got[wrapper][key].(string)
}

// dump is every row of every table.
func (w *world) dump() string {
	w.t.Helper()
	tables, err := w.rows.QueryContext(w.t.Context(), "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			w.t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := tables.Err(); err != nil {
		w.t.Fatal(err)
	}
	var b bytes.Buffer
	for _, name := range names {
		fmt.Fprintln(&b, name)
		w.dumpTable(&b, name)
	}
	return b.String()
}

func (w *world) dumpTable(b io.Writer, name string) {
	w.t.Helper()
	rows, err := w.rows.QueryContext(w.t.Context(), "SELECT * FROM "+name+" ORDER BY 1, 2")
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		w.t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			w.t.Fatal(err)
		}
		for i, c := range columns {
			fmt.Fprintf(b, "  %s=%v", c, values[i])
		}
		fmt.Fprintln(b)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
}

// refused asks, wants this fault, and wants every row as it was.
func (w *world) refused(status int, message, method, path, body string) {
	w.t.Helper()
	before := w.dump()
	got, text := w.ask(method, "/v1/"+path, AdminToken, body, "OpenStack-API-Version: instance-ha 1.2")
	if diff := cmp.Diff(before, w.dump()); diff != "" {
		w.t.Errorf("%s %s %s changed rows:\n%s", method, path, body, diff)
	}
	var fault map[string]struct {
		Code    int
		Message string
	}
	if err := json.Unmarshal([]byte(text), &fault); err != nil || len(fault) != 1 {
		w.t.Errorf("%s %s %s: %d %s is no fault", method, path, body, got, text)
		return
	}
	key := map[int]string{400: "badRequest", 403: "forbidden", 404: "itemNotFound", 405: "badMethod", 409: "conflictingRequest", 503: "serviceUnavailable"}[status]
	if f := fault[key]; got != status || f.Code != status || !strings.Contains(f.Message, message) {
		w.t.Errorf("%s %s %.200s:\n got %d %s\nwant %d %s", method, path, body, got, text, status, message)
	}
}

// Each rule of contract 1.5 to 1.10 is broken by itself: its fault, and no row changes.
func TestEveryRuleBroken(t *testing.T) {
	w := newWorld(t)
	const segment = `{"segment": {"name": "x", "recovery_method": "auto", "service_type": "x"%s}}`
	segments := func(more string) string { return fmt.Sprintf(segment, more) }
	hosts := func(name, more string) string {
		return `{"host": {"name": "` + name + `", "type": "C", "control_attributes": "SSH"` + more + `}}`
	}
	one := "segments/" + w.segment
	in := one + "/hosts/"
	long := strings.Repeat("x", 256)
	const description = "does not match '^[printable characters and newlines]*$'"
	name := "An invalid 'name' value was provided."
	for _, c := range []struct {
		status                      int
		message, method, path, body string
	}{
		// 1.7 segments
		{400, "None is not of type 'object'", "POST", "segments", ""},
		{400, "Malformed request body", "POST", "segments", "{"},
		{400, "'segment' is a required property", "POST", "segments", "{}"},
		{400, "('x' was unexpected)", "POST", "segments", `{"x": 1, "segment": {"name": "x", "recovery_method": "auto", "service_type": "x"}}`},
		{400, "('foo' was unexpected)", "POST", "segments", segments(`, "foo": 1`)},
		{400, "'recovery_method' is a required property", "POST", "segments", `{"segment": {"name": "x", "service_type": "x"}}`},
		{400, "'service_type' is a required property", "POST", "segments", `{"segment": {"name": "x", "recovery_method": "auto"}}`},
		{400, name, "POST", "segments", segments(`, "name": " x"`)},
		{400, "is too long", "POST", "segments", segments(`, "name": "` + long + `"`)},
		{400, "'' is too short", "POST", "segments", segments(`, "service_type": ""`)},
		{400, name, "POST", "segments", segments(`, "service_type": "x\u0000"`)},
		{400, "is not one of ['auto',", "POST", "segments", segments(`, "recovery_method": "none"`)},
		{400, description, "POST", "segments", segments(`, "description": "a\u0000b"`)},
		{400, description, "POST", "segments", segments(`, "description": "😀"`)},
		{400, "description", "POST", "segments", segments(`, "description": "` + strings.Repeat("x", 65536) + `"`)},
		{400, "is not of type 'boolean', 'string'", "POST", "segments", segments(`, "enabled": 0`)},
		{409, "Failover segment with name rack-1 already exists.", "POST", "segments", segments(`, "name": "rack-1"`)},
		{409, "Failover segment with name RACK-1 already exists.", "POST", "segments", segments(`, "name": "RACK-1"`)},
		{400, "is not valid under any of the given schemas", "PUT", "segments/" + w.empty, `{"segment": {}}`},
		{409, "Failover segment with name rack-1 already exists.", "PUT", "segments/" + w.empty, `{"segment": {"name": "rack-1"}}`},
		{404, "No failover segment with id " + nowhere + ".", "PUT", "segments/" + nowhere, `{"segment": {"name": "y"}}`},
		{404, "No failover segment with id x.", "PUT", "segments/x", `{"segment": {"name": "y"}}`},
		{404, "No failover segment with id 1.", "GET", "segments/1", ""},
		{404, "No failover segment with id " + nowhere + ".", "DELETE", "segments/" + nowhere, ""},
		{409, "Failover segment " + w.segment + " can't be updated as it is in-use to process notifications.", "PUT", one, `{"segment": {"name": "y"}}`},
		{409, "Failover segment (" + w.segment + ") can't be deleted as it is in-use to process notifications.", "DELETE", one, ""},
		// 1.8 hosts
		{404, "No failover segment with id " + nowhere + ".", "POST", "segments/" + nowhere + "/hosts", hosts("y", "")},
		{404, "No failover segment with id x.", "GET", "segments/x/hosts", ""},
		{400, "Compute service with name missing-1 could not be found.", "POST", one + "/hosts", hosts("missing-1", "")},
		{400, "Compute service with name missing-1 could not be found.", "PUT", in + w.free, `{"host": {"name": "missing-1"}}`},
		{403, "stub says 403", "POST", one + "/hosts", hosts("nova403-1", "")},
		{503, "", "POST", one + "/hosts", hosts("nova401-1", "")},
		{503, "", "POST", one + "/hosts", hosts("nova409-1", "")},
		{503, "", "PUT", in + w.free, `{"host": {"name": "nova404-1"}}`},
		{503, "", "PUT", in + w.free, `{"host": {"name": "nova500-1"}}`},
		{409, "Host with name free already exists.", "POST", one + "/hosts", hosts("free", "")},
		{409, "Host with name FREE already exists.", "POST", "segments/" + w.empty + "/hosts", hosts("FREE", "")},
		{409, "Host with name busy already exists.", "PUT", in + w.free, `{"host": {"name": "busy"}}`},
		{400, "'type' is a required property", "POST", one + "/hosts", `{"host": {"name": "y", "control_attributes": "x"}}`},
		{400, "None is not of type 'string'", "POST", one + "/hosts", hosts("y", `, "type": null`)},
		{400, "None is not of type 'string'", "PUT", in + w.free, `{"host": {"control_attributes": null}}`},
		{400, "does not match '^[a-zA-Z0-9]*$'", "PUT", in + w.free, `{"host": {"type": "a b"}}`},
		{400, "is too long", "PUT", in + w.free, `{"host": {"type": "` + long + `"}}`},
		{400, description, "PUT", in + w.free, `{"host": {"control_attributes": "a\tb"}}`},
		{400, "attribute reserved", "PUT", in + w.free, `{"host": {"reserved": null}}`},
		{400, "attribute on_maintenance", "PUT", in + w.free, `{"host": {"on_maintenance": "maybe"}}`},
		{400, "('failover_segment_id' was unexpected)", "PUT", in + w.free, `{"host": {"failover_segment_id": "` + w.empty + `"}}`},
		{404, "Host '" + nowhere + "' under failover_segment '" + w.segment + "' could not be found.", "PUT", in + nowhere, `{"host": {"name": "missing-1"}}`},
		{404, "Host '" + w.free + "' under failover_segment '" + w.empty + "' could not be found.", "PUT", "segments/" + w.empty + "/hosts/" + w.free, `{"host": {"type": "x"}}`},
		{404, "No host with id x.", "GET", in + "x", ""},
		{404, "Host 'x' under failover_segment '" + w.segment + "' could not be found.", "DELETE", in + "x", ""},
		{409, "Host " + w.busy + " can't be updated as it is in-use to process notifications.", "PUT", in + w.busy, `{"host": {"name": "missing-1"}}`},
		{409, "Host " + w.busy + " can't be updated as it is in-use to process notifications.", "PUT", in + w.busy, `{"host": {"type": "x"}}`},
		{409, "Host " + w.busy + " can't be deleted as it is in-use to process notifications.", "DELETE", in + w.busy, ""},
		// 1.9 notifications
		{400, "'vm' is not one of ('COMPUTE_HOST', 'VM', 'PROCESS')", "POST", "notifications", note("vm", "free", now(), died)},
		{400, "'a b' does not match '^[a-zA-Z0-9-._]*$'", "POST", "notifications", note("VM", "a b", now(), died)},
		{400, "is not a 'date-time'", "POST", "notifications", note("VM", "free", "2026-13-01", died)},
		{400, "is not of type 'object'", "POST", "notifications", note("VM", "free", now(), `[]`)},
		{400, "does not match any of the regexes", "POST", "notifications", note("VM", "free", now(), `{"a*": "x"}`)},
		{400, "is too long", "POST", "notifications", note("PROCESS", "free", now(), `{"event": "STOPPED", "process_name": "`+long+`"}`)},
		{400, "'instance_uuid' is a required property", "POST", "notifications", note("VM", "free", now(), `{}`)},
		{400, "is not a 'uuid'", "POST", "notifications", note("VM", "free", now(), strings.Replace(died, "0123abcd", "x", 1))},
		{400, "('foo' was unexpected)", "POST", "notifications", note("COMPUTE_HOST", "free", now(), `{"event": "STOPPED", "foo": "x"}`)},
		{400, "('salvor_confirmed_by' was unexpected)", "POST", "notifications", note("COMPUTE_HOST", "free", now(), `{"event": "STOPPED", "salvor_confirmed_by": "x"}`)},
		{400, "Host with name nobody could not be found.", "POST", "notifications", note("VM", "nobody", now(), died)},
		{409, "Notification received from host maintained of type 'VM' is ignored as the host is already under maintenance.", "POST", "notifications", note("VM", "maintained", now(), died)},
		{409, "Notification received from host busy of type VM is duplicate.", "POST", "notifications", note("VM", "busy", now(), died)},
		{409, "Notification received from host busy of type VM is duplicate.", "POST", "notifications", note("VM", "busy", now(), strings.Replace(died, "0123abcd-4567", "0123ABCD4567", 1))},
		{409, "Notification received from host busy of type COMPUTE_HOST is duplicate.", "POST", "notifications", note("COMPUTE_HOST", "busy", now(), `{"event": "STOPPED"}`)},
		{404, "No notification with id x.", "GET", "notifications/x", ""},
		{405, "action: 'update'", "PUT", "notifications/" + w.vmNote, "{}"},
		{405, "action: 'delete'", "DELETE", "notifications/" + w.vmNote, ""},
		// 1.10 vm moves
		{400, "This notification " + w.vmNote + " without vm moves.", "GET", "notifications/" + w.vmNote + "/vmoves", ""},
		{400, "This notification " + w.vmNote + " without vm moves.", "GET", "notifications/" + w.vmNote + "/vmoves/" + nowhere, ""},
		{404, "No notification with id " + nowhere + ".", "GET", "notifications/" + nowhere + "/vmoves", ""},
		{404, "No vm move with id " + nowhere + ".", "GET", "notifications/" + w.hostNote + "/vmoves/" + nowhere, ""},
		{404, "No vm move with id x.", "GET", "notifications/" + w.hostNote + "/vmoves/x", ""},
		// 1.6 lists
		{400, "limit must be >= 0", "GET", "segments?limit=-1", ""},
		{400, "limit must be an integer", "GET", one + "/hosts?limit=", ""},
		{400, "page_size must be an integer", "GET", "notifications?page_size=x", ""},
		{400, "limit must be an integer", "GET", "segments?limit=%zz", ""},
		{400, "Marker 1% could not be found.", "GET", "notifications?limit=1;marker=1%", ""},
		{400, "Marker 999999 could not be found.", "GET", "notifications?marker=999999", ""},
		{400, "Marker " + nowhere + " could not be found.", "GET", "segments?marker=" + nowhere, ""},
		{400, "Marker 99999999999999999999999999 could not be found.", "GET", "segments?marker=99999999999999999999999999", ""},
		{400, "Marker  could not be found.", "GET", one + "/hosts?marker=", ""},
		{400, "Sort key supplied is invalid: hosts", "GET", "segments?sort_key=hosts", ""},
		{400, "Sort direction size exceeds sort key size", "GET", "segments?sort_dir=asc&sort_dir=asc", ""},
		{400, "Unknown sort direction", "GET", "notifications/" + w.hostNote + "/vmoves?sort_dir=up", ""},
		{400, "Invalid value for enabled: Unrecognized value 'x'", "GET", "segments?enabled=x", ""},
		{400, "Invalid generated-since value", "GET", "notifications?generated-since=x", ""},
		// salvor's own
		{404, "No notification with id " + nowhere + ".", "POST", "ext/recoveries/" + nowhere + "/cancel", ""},
		{400, "'reason' is a required property", "POST", "ext/hosts/free/confirm-off", "{}"},
		{404, "Host with name nobody could not be found.", "POST", "ext/hosts/nobody/confirm-off", `{"reason": "x"}`},
		{409, "under maintenance", "POST", "ext/hosts/maintained/confirm-off", `{"reason": "x"}`},
	} {
		w.refused(c.status, c.message, c.method, c.path, c.body)
	}
}

// Each step of contract 1.1 wins over all later ones: every request here also breaks what comes after it.
func TestOrderOfChecks(t *testing.T) {
	w := newWorld(t)
	const elsewhere = "ffffffffffffffffffffffffffffffff"
	badVersion, badType := "OpenStack-API-Version: instance-ha 9.9", "Content-Type: text/csv"
	one := "/v1/segments/" + w.segment
	for _, c := range []struct {
		step                            string
		status                          int
		want, method, path, token, body string
		headers                         []string
	}{
		{"size", 413, "Request is too large.", "POST", "/v1/nothing", "none", strings.Repeat("x", 114689), []string{badVersion, badType}},
		{"auth", 401, "requires authentication", "POST", "/v1/nothing", "none", "{", []string{badVersion, badType}},
		{"route", 404, "404 Not Found", "PATCH", "/v1/" + elsewhere + "/segments", MemberToken, "{", []string{badVersion, badType}},
		{"microversion", 406, "Version 9.9", "PUT", "/v1/" + elsewhere + "/notifications/x", MemberToken, "{", []string{badVersion, badType}},
		{"content type", 415, "Unsupported Content-Type", "PUT", "/v1/" + elsewhere + "/notifications/x", MemberToken, "{", []string{badType}},
		{"action", 405, "action: 'update'", "PUT", "/v1/" + elsewhere + "/notifications/x", MemberToken, "{", nil},
		{"JSON", 400, "Malformed request body", "POST", "/v1/" + elsewhere + "/segments", MemberToken, "{", nil},
		{"project", 400, "Malformed request URL", "POST", "/v1/" + elsewhere + "/segments", MemberToken, "{}", nil},
		{"schema", 400, "'segment' is a required property", "POST", "/v1/segments", MemberToken, "{}", nil},
		{"payload", 400, "'event' is a required property", "POST", "/v1/notifications", MemberToken, note("COMPUTE_HOST", "nobody", now(), "{}"), nil},
		{"policy", 403, "os_masakari_api:os-hosts:index", "GET", "/v1/segments/x/hosts?limit=x", MemberToken, "", nil},
		{"limit", 400, "limit must be", "GET", "/v1/segments/x/hosts?limit=x&sort_dir=up&reserved=x", AdminToken, "", nil},
		{"sort", 400, "Unknown sort direction", "GET", "/v1/segments/x/hosts?sort_dir=up&reserved=x", AdminToken, "", nil},
		{"filter", 400, "Invalid value for reserved", "GET", "/v1/segments/x/hosts?reserved=x", AdminToken, "", nil},
		{"parent", 404, "No failover segment", "GET", "/v1/segments/x/hosts?marker=999999", AdminToken, "", nil},
		{"parent before Nova", 404, "No failover segment", "POST", "/v1/segments/" + nowhere + "/hosts", AdminToken, `{"host": {"name": "missing-1", "type": "", "control_attributes": ""}}`, nil},
		{"object before Nova", 404, "Host '" + nowhere, "PUT", one + "/hosts/" + nowhere, AdminToken, `{"host": {"name": "nova500-1"}}`, nil},
		{"in use before Nova", 409, "in-use", "PUT", one + "/hosts/" + w.busy, AdminToken, `{"host": {"name": "nova500-1"}}`, nil},
		{"Nova before names", 503, "Nova", "PUT", one + "/hosts/" + w.free, AdminToken, `{"host": {"name": "nova500-1"}}`, nil},
		{"names", 409, "already exists", "PUT", one + "/hosts/" + w.free, AdminToken, `{"host": {"name": "busy"}}`, nil},
		{"host before maintenance", 400, "Host with name nobody", "POST", "/v1/notifications", AdminToken, note("VM", "nobody", now(), died), nil},
		{"maintenance", 409, "maintenance", "POST", "/v1/notifications", AdminToken, note("VM", "maintained", now(), died), nil},
	} {
		status, text := w.ask(c.method, c.path, c.token, c.body, c.headers...)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s\nwant %d %s", c.step, status, text, c.status, c.want)
		}
	}
}

// A PUT that asks Nova about an unchanged name, and one that changes nothing, leave the row as it is (contract 1.4).
func TestPutThatChangesNothing(t *testing.T) {
	w := newWorld(t)
	before := w.dumpShown()
	for path, body := range map[string]string{
		"/v1/segments/" + w.empty:                        `{"segment": {"name": "rack-2"}}`,
		"/v1/segments/" + w.segment + "/hosts/" + w.free: `{"host": {"name": "free", "type": "COMPUTE", "reserved": "False"}}`,
	} {
		if status, text := w.ask("PUT", path, AdminToken, body); status != http.StatusOK || !strings.Contains(text, `"updated_at":null`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if diff := cmp.Diff(before, w.dumpShown()); diff != "" {
		t.Error(diff)
	}
}

// dumpShown is what the API shows of segments and hosts.
func (w *world) dumpShown() string {
	_, segments := w.ask("GET", "/v1/segments", AdminToken, "")
	_, hosts := w.ask("GET", "/v1/segments/"+w.segment+"/hosts", AdminToken, "")
	return segments + hosts
}
