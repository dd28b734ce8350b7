package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares v, as JSON, with a file.
func golden(t *testing.T, name string, v any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", path, diff)
	}
}

func jsonKeys(t *testing.T, v any) []string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

var (
	created = time.Date(2026, 11, 29, 11, 14, 52, 987654321, time.UTC)
	later   = created.Add(90 * time.Second)
	text    = func(s string) *string { return &s }
	segment = ha.Segment{
		Stamps: ha.Stamps{CreatedAt: created}, ID: 7, UUID: "0d7a0000-0000-4000-8000-000000000007", Name: "räck <1>",
		ServiceType: "COMPUTE", RecoveryMethod: ha.MethodAuto, Enabled: true,
	}
	host = ha.Host{
		Stamps: ha.Stamps{CreatedAt: created, UpdatedAt: &later}, ID: 3, UUID: "00000000-0000-4000-8000-000000000003",
		Name: "cmp-01", SegmentUUID: segment.UUID, Type: "COMPUTE", ControlAttributes: "SSH", OnMaintenance: true,
	}
	notification = ha.Notification{
		Stamps: ha.Stamps{CreatedAt: created}, ID: 1, UUID: "00000000-0000-4000-8000-000000000001",
		GeneratedTime: created.In(time.FixedZone("", 3600)), SourceHostUUID: host.UUID, SegmentUUID: &segment.UUID, Type: ha.TypeVM,
		Payload: ha.Payload{"event": "LIFECYCLE", "instance_uuid": "00000000-0000-4000-8000-0000000000aa", "vir_domain_event": "STOPPED_FAILED"},
		Status:  ha.StatusNew,
	}
	move = ha.VMove{
		Stamps: ha.Stamps{CreatedAt: created, UpdatedAt: &later}, ID: 2, UUID: "00000000-0000-4000-8000-000000000002",
		NotificationUUID: notification.UUID, InstanceUUID: "00000000-0000-4000-8000-0000000000aa", InstanceName: "vm-1",
		SourceHost: "cmp-01", DestHost: text("cmp-02"), StartTime: &created, EndTime: &later, Type: ha.MoveEvacuation, Status: ha.MoveSucceeded,
	}
)

func TestResponses(t *testing.T) {
	golden(t, "segments", NewSegmentList([]ha.Segment{segment}))
	golden(t, "segments_none", NewSegmentList(nil))
	golden(t, "host", HostBody{NewHost(host, segment)})
	golden(t, "hosts_none", NewHostList(nil, segment))
	golden(t, "notification", NotificationBody{NewNotification(notification)})
	golden(t, "notifications_none", NewNotificationList(nil))
	old := NewNotification(ha.Notification{Stamps: ha.Stamps{CreatedAt: created}, GeneratedTime: created, Message: text("m")})
	none := NewWorkflow(nil)
	old.Details = &none
	golden(t, "notification_imported", old)
	golden(t, "vmove", VMoveBody{NewVMove(move)})
	golden(t, "vmoves_none", NewVMoveList(nil))
	golden(t, "versions", Versions("http://HOST:15868"))
	golden(t, "version", VersionDocument("http://HOST:15868"))
	golden(t, "choices", Choices("http://HOST:15868", "/foo/bar"))
	golden(t, "extensions", ExtensionList{Extensions()})
	golden(t, "unauthorized", Unauthorized())
}

// What we write, a client of ours reads.
func TestResponsesReadBack(t *testing.T) {
	b, err := json.Marshal(HostBody{NewHost(host, segment)})
	if err != nil {
		t.Fatal(err)
	}
	var got HostBody
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(HostBody{NewHost(host, segment)}, got); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
}

func entry(work int64, second int, kind ha.EntryKind, task, state string, progress float64, text string) ha.Entry {
	return ha.Entry{
		WorkID: work, At: created.Truncate(time.Second).Add(time.Duration(second)*time.Second + 940955*time.Microsecond),
		Kind: kind, Task: task, State: state, Progress: progress, Text: text,
	}
}

func TestWorkflow(t *testing.T) {
	const running, progress = ha.TaskRunning, ha.EntryProgress
	golden(t, "workflow", NewWorkflow([]ha.Entry{
		entry(1, 0, ha.EntryGate, "", "", 0, "brake: 1 of 4 down"),
		entry(1, 1, ha.EntryTask, ha.TaskDisableService, running, 0, ""),
		entry(1, 1, progress, ha.TaskDisableService, "", 0, "Disabling compute service on host: 'cmp-01'"),
		entry(1, 2, progress, ha.TaskDisableService, "", 1, "Disabled compute service on host: 'cmp-01'"),
		entry(1, 2, ha.EntryTask, ha.TaskDisableService, ha.TaskSuccess, 0, ""),
		entry(1, 3, ha.EntryTask, ha.TaskPrepare, running, 0, ""),
		entry(1, 3, progress, ha.TaskPrepare, "", 0.3, "Total instances running on failed host 'cmp-01' is 1"),
		entry(1, 3, ha.EntryTask, ha.TaskPrepare, ha.TaskSuccess, 0, ""),
		entry(1, 4, ha.EntryTask, ha.TaskEvacuate, running, 0, ""),
		entry(1, 4, progress, ha.TaskEvacuate, "", 0.5, "Evacuation of instance started: 'i'"),
		entry(1, 5, ha.EntryTask, ha.TaskEvacuate, running, 0, ""), // another engine took over
		entry(1, 6, progress, ha.TaskEvacuate, "", 0.7, "Failed to evacuate instances 'i' from host 'cmp-01'"),
		entry(1, 6, ha.EntryTask, ha.TaskEvacuate, ha.TaskReverted, 0, ""),
		entry(1, 6, ha.EntryTask, ha.TaskPrepare, ha.TaskReverted, 0, ""),
		entry(1, 6, ha.EntryTask, ha.TaskDisableService, ha.TaskReverted, 0, ""),
		entry(1, 8, ha.EntryTask, ha.TaskDisableService, running, 0, ""), // a second attempt that reports nothing yet
		entry(1, 9, ha.EntryTask, ha.TaskEvacuate, running, 0, ""),
		entry(1, 9, progress, ha.TaskEvacuate, "", 0.25, "again"),
		entry(2, 20, progress, ha.TaskEvacuate, "", 1, "Evacuation process completed!"), // an operator's retry: a new unit
		entry(2, 20, ha.EntryTask, ha.TaskEvacuate, ha.TaskSuccess, 0, ""),
		entry(2, 21, progress, ha.TaskEvacuate, "", 1, "a late line"),
	}))
}

func TestRecovery(t *testing.T) {
	golden(t, "recovery_none", NewRecovery(notification, nil, nil, false))
	golden(t, "recovery", NewRecovery(notification, &ha.Work{
		Kind: ha.UnitHost, HostUUID: host.UUID, SegmentUUID: segment.UUID, Owner: "engine-1", CreatedAt: created,
		Wishes: ha.Wishes{HoldBy: "alice", HoldReason: "power works", HoldUntil: &later},
		Recovery: ha.Recovery{
			Step: ha.StepGates, Attempt: 1, HeldAt: ha.GateBrake, HeldWhy: "3 of 4 hosts are down", HeldSince: &created,
			Proof: ha.ProofNovaDown, ProofAt: later, ProofText: "Nova saw it down", Waived: []ha.Gate{ha.GateRate},
		},
	}, []ha.Entry{
		{ID: 7, At: created, Kind: ha.EntryGate, Text: "brake: 3 of 4 are down"},
		{ID: 9, At: later, Kind: ha.EntryIntent, InstanceUUID: move.InstanceUUID, Act: ha.ActEvacuate, Text: "evacuate", Open: true},
	}, true))
}

func TestFaults(t *testing.T) {
	up, down := Op{"segments", "update"}, Op{"segments", "delete"}
	for _, c := range []struct {
		op   Op
		err  error
		want string
	}{
		{up, &ha.InvalidError{Text: "x"}, `{"badRequest":{"code":400,"message":"x"}}`},
		{up, &ha.MarkerError{Marker: "m"}, `{"badRequest":{"code":400,"message":"Marker m could not be found."}}`},
		{up, &ha.NotFoundError{Kind: ha.KindSegment, ID: "i"}, `{"itemNotFound":{"code":404,"message":"No failover segment with id i."}}`},
		{up, &ha.NotFoundError{Kind: ha.KindHost, ID: "i"}, `{"itemNotFound":{"code":404,"message":"No host with id i."}}`},
		{up, &ha.NotFoundError{Kind: ha.KindHost, ID: "i", Under: "s"}, `{"itemNotFound":{"code":404,"message":"Host 'i' under failover_segment 's' could not be found."}}`},
		{ReportOp, &ha.NotFoundError{Kind: ha.KindHost, ID: "cmp"}, `{"badRequest":{"code":400,"message":"Host with name cmp could not be found."}}`},
		{Op{"ext", "confirm-off"}, &ha.NotFoundError{Kind: ha.KindHost, ID: "cmp"}, `{"itemNotFound":{"code":404,"message":"Host with name cmp could not be found."}}`},
		{up, &ha.NotFoundError{Kind: ha.KindNotification, ID: "i"}, `{"itemNotFound":{"code":404,"message":"No notification with id i."}}`},
		{up, &ha.NotFoundError{Kind: ha.KindVMove, ID: "i"}, `{"itemNotFound":{"code":404,"message":"No vm move with id i."}}`},
		{up, &ha.NotFoundError{Kind: ha.KindCompute, ID: "h"}, `{"badRequest":{"code":400,"message":"Compute service with name h could not be found."}}`},
		{up, &ha.ExistsError{Kind: ha.KindSegment, Name: "n"}, `{"conflictingRequest":{"code":409,"message":"Failover segment with name n already exists."}}`},
		{up, &ha.ExistsError{Kind: ha.KindHost, Name: "n"}, `{"conflictingRequest":{"code":409,"message":"Host with name n already exists."}}`},
		{up, &ha.InUseError{Kind: ha.KindSegment, ID: "i"}, `{"conflictingRequest":{"code":409,"message":"Failover segment i can't be updated as it is in-use to process notifications."}}`},
		{down, &ha.InUseError{Kind: ha.KindSegment, ID: "i"}, `{"conflictingRequest":{"code":409,"message":"Failover segment (i) can't be deleted as it is in-use to process notifications."}}`},
		{Op{"hosts", "update"}, &ha.InUseError{Kind: ha.KindHost, ID: "i"}, `{"conflictingRequest":{"code":409,"message":"Host i can't be updated as it is in-use to process notifications."}}`},
		{Op{"hosts", "delete"}, &ha.InUseError{Kind: ha.KindHost, ID: "i"}, `{"conflictingRequest":{"code":409,"message":"Host i can't be deleted as it is in-use to process notifications."}}`},
		{ReportOp, &ha.MaintenanceError{Host: "h", Type: ha.TypeVM}, `{"conflictingRequest":{"code":409,"message":"Notification received from host h of type 'VM' is ignored as the host is already under maintenance."}}`},
		{ReportOp, &ha.DuplicateError{Host: "h", Type: ha.TypeVM}, `{"conflictingRequest":{"code":409,"message":"Notification received from host h of type VM is duplicate."}}`},
		{up, &ha.ConflictError{Text: "ended"}, `{"conflictingRequest":{"code":409,"message":"ended"}}`},
		{up, &ha.CloudError{Status: 403, Class: ha.ClassRefused, Text: "Policy"}, `{"forbidden":{"code":403,"message":"Policy"}}`},
		{up, &ha.CloudError{Status: 409, Class: ha.ClassRefused, Text: "x"}, `{"serviceUnavailable":{"code":503,"message":"Nova cannot be asked now. Try again later."}}`},
		{up, &ha.CloudError{Class: ha.ClassBroken, Text: "dial"}, `{"serviceUnavailable":{"code":503,"message":"Nova cannot be asked now. Try again later."}}`},
		{up, &ha.UnavailableError{What: "database", Err: errors.New("password is x")}, `{"serviceUnavailable":{"code":503,"message":"The service cannot reach its database now. Try again later."}}`},
		{up, &Fault{Status: http.StatusNotAcceptable, Message: "m"}, `{"masakariFault":{"code":406,"message":"m"}}`},
		{up, &Fault{Status: http.StatusTooManyRequests, Message: "m", RetryAfter: "5"}, `{"overLimit":{"code":429,"message":"m","retryAfter":"5"}}`},
		{up, &Fault{Status: http.StatusMethodNotAllowed, Message: "m"}, `{"badMethod":{"code":405,"message":"m"}}`},
		{up, &Fault{Status: http.StatusUnsupportedMediaType, Message: "m"}, `{"badMediaType":{"code":415,"message":"m"}}`},
	} {
		f, known := FaultOf(c.op, c.err)
		if !known {
			t.Errorf("%T %v is not known", c.err, c.err)
			continue
		}
		got, err := json.Marshal(f)
		if err != nil || string(got) != c.want {
			t.Errorf("%v:\n got %s\nwant %s", c.err, got, c.want)
		}
		var back Fault
		if err := json.Unmarshal(got, &back); err != nil || back != *f {
			t.Errorf("%s is read back as %+v, %v", got, back, err)
		}
	}
	if _, known := FaultOf(up, errors.New("anything")); known {
		t.Error("an unforeseen error is taken for a known one")
	}
}

func TestPlainBodies(t *testing.T) {
	for _, c := range []struct {
		p                       Plain
		accept, wantType, wants string
	}{
		{NotFound(), "", "text/plain; charset=UTF-8", "404 Not Found\n\nThe resource could not be found.\n\n   "},
		{NotFound(), "application/json", "application/json", `{"message":"The resource could not be found.<br /><br />\n\n\n","code":"404 Not Found","title":"Not Found"}`},
		{NotFound(), "*/*", "text/html; charset=UTF-8", "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  The resource could not be found.<br /><br />\n\n\n\n </body>\n</html>"},
		{TooLarge(114688), "image/png", "text/plain; charset=UTF-8", "413 Request Entity Too Large\n\nRequest is too large. Larger than max_request_body_size (114688).\n\n   "},
		{KeystoneAway(), "", "text/plain; charset=UTF-8", "503 Service Unavailable\n\nThe server is currently unavailable. Please try again at a later time.\n\n The Keystone service is temporarily unavailable.  "},
	} {
		contentType, body := c.p.Render(c.accept)
		if contentType != c.wantType || string(body) != c.wants {
			t.Errorf("%d for %q:\n got %s %q\nwant %s %q", c.p.Status, c.accept, contentType, body, c.wantType, c.wants)
		}
	}
	_, body := NotFound().Render(MediaJSON)
	var f Fault
	if err := json.Unmarshal(body, &f); err != nil || f.Message == "" {
		t.Errorf("a client reads %s as %+v, %v", body, f, err)
	}
}

func TestAccepted(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "application/json": MediaJSON, MediaVendor: MediaVendor, "application/*": MediaJSON, "*/*": MediaJSON,
		"application/json;q=0.5, " + MediaVendor: MediaVendor, "application/json, " + MediaVendor: MediaJSON,
		"text/html": "", "*/*;q=0.1, " + MediaVendor + ";q=0.2": MediaVendor, "application/json;q=0": "",
		"APPLICATION/JSON": MediaJSON, ";;,,=": "", "application/json;version=1": "", "application/json;;q=0.3": MediaJSON, "application/json;version=1, */*;q=0.1": MediaJSON, "application/json;q=x": MediaJSON,
	} {
		if got := Accepted(header, MediaJSON, MediaVendor); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}
