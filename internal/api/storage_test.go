package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store/memstore"
	"github.com/salvor-ha/salvor/internal/testkit"
)

// segmentID has the hosts of these tests, cmp-1 and cmp-2.
const segmentID = "aaaaaaaa-4567-49ab-8def-0123456789ab"

// nova is what the preview asks.
type nova struct {
	service.Cloud
	servers []ha.Server
	err     error
}

func (n *nova) Servers(context.Context, string) ([]ha.Server, error) { return n.servers, n.err }

// storageAPI is the API over rows in memory, every answer of which is checked against openapi.yaml.
func storageAPI(t *testing.T, cloud service.Cloud, with ...func(*service.Config)) http.Handler {
	t.Helper()
	db := memstore.New(memstore.Config{})
	_, err := db.CreateSegment(t.Context(), ha.Segment{UUID: segmentID, Name: "s", RecoveryMethod: ha.MethodAuto, ServiceType: "COMPUTE", Enabled: true})
	for i := 1; err == nil && i <= 2; i++ {
		_, err = db.CreateHost(t.Context(), ha.Host{UUID: fmt.Sprintf("bbbbbbbb-4567-49ab-8def-%012d", i), Name: fmt.Sprint("cmp-", i), SegmentUUID: segmentID,
			Type: "COMPUTE", ControlAttributes: "SSH"})
	}
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Config{}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	cfg := service.Config{Cloud: cloud, Rules: plan.Rules{StorageAction: "error"}}
	for _, set := range with {
		set(&cfg)
	}
	h, err := New(Config{Log: quiet, HealthDisabled: filepath.Join(t.TempDir(), "disable"), RequestTimeout: 30 * time.Second}, service.New(db, nil, cfg), tokens{}, rules)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Document(t).Handler(t, h)
}

// said is a report of an agent; its resource is in this status.
func said(seq int, status string) string {
	return fmt.Sprintf(`{"report": {"epoch": 7, "seq": %d, "url": "https://cmp-1:15869", "total_bytes": 10, "free_bytes": 5, "resources": [{"name": "disk",
		"path": "/srv", "kinds": ["instance", "blob"], "status": "%s", "detail": "d", "filesystem_id": "f", "checked_at": "2026-11-29T12:00:00.000000"}]}}`, seq, status)
}

const (
	asMember = "X-Auth-Token: member"
	one      = "/v1/ext/agents/cmp-1/"
	two      = "/v1/ext/agents/cmp-2/"
	health   = "/v1/ext/hosts/cmp-1/health"
)

// keyOf makes a host's key, and returns the header that shows it, without a token.
func keyOf(t *testing.T, h http.Handler, host string) []string {
	t.Helper()
	w := ask(h, "POST", "/v1/ext/hosts/"+host+"/agent-key", "")
	expect(t, w, 201, `"host":"`+host+`"`)
	var body struct {
		Key struct{ Key string } `json:"agent_key"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Key.Key == "" {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return []string{"X-Agent-Key: " + body.Key.Key, "X-Auth-Token: "}
}

// episodeOf is the uuid of the host's open episode.
func episodeOf(t *testing.T, h http.Handler, host string) string {
	t.Helper()
	var body struct{ Episodes []struct{ UUID string } }
	w := ask(h, "GET", "/v1/ext/episodes?open=true&host="+host, "")
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || len(body.Episodes) != 1 {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return body.Episodes[0].UUID
}

// TestAgentsSpeakForThemselves: a host's key, or the Keystone user that is bound to it, opens its own report and orders; another host's, a
// former one, a stranger's, and one elsewhere than below /agents do not.
func TestAgentsSpeakForThemselves(t *testing.T) {
	h := storageAPI(t, nil)
	const refused, void = "This caller may not speak for this host", "The agent key that was sent is not that of this host, or a newer one has made it void"
	former, key, other := keyOf(t, h, "cmp-1"), keyOf(t, h, "cmp-1"), keyOf(t, h, "cmp-2")
	for seq, c := range []struct {
		who    string
		at     string
		status int
		header []string
	}{
		{"its key", one, 200, key},
		{"its key, by the host's uuid", "/v1/ext/agents/bbbbbbbb-4567-49ab-8def-000000000001/", 200, key},
		{"its key, with a project", "/v1/ab12/ext/agents/cmp-1/", 401, key},
		{"its former key", one, 403, former},
		{"another host's key", one, 403, other},
		{"its key for another host", two, 403, key},
		{"its key for none", "/v1/ext/agents/nobody/", 403, key},
		{"no key at all", one, 403, []string{"X-Agent-Key: x", "X-Auth-Token: "}},
		{"a wrong key in an admin's hand", one, 403, []string{"X-Agent-Key: x"}},
		{"whom the policy allows", one, 200, nil},
		{"whom the policy allows, of no host", "/v1/ext/agents/nobody/", 404, nil},
		{"somebody", one, 403, []string{asMember}},
		{"nobody", one, 401, []string{"X-Auth-Token: "}},
	} {
		want := ""
		if c.status == 403 {
			want = refused
			if strings.HasPrefix(c.header[0], "X-Agent-Key") {
				want = void
			}
		}
		expectOf(t, c.who+" reports", ask(h, "POST", c.at+"report", said(seq+1, "ok"), c.header...), c.status, want)
		expectOf(t, c.who+" asks for orders", ask(h, "GET", c.at+"orders", "", c.header...), c.status, want)
	}
	expect(t, ask(h, "GET", "/v1/ext/hosts/cmp-1/health", "", key...), 401, "")
	expect(t, ask(h, "GET", "/v1/segments", "", key...), 401, "")

	bind := "/v1/ext/hosts/cmp-1/agent-user"
	expect(t, ask(h, "POST", bind, `{"user_id": "member-id"}`), 202, `"user_id":"member-id"`)
	expect(t, ask(h, "POST", one+"report", said(100, "ok"), asMember), 200, `"health":"ok"`)
	expect(t, ask(h, "GET", one+"orders", "", asMember), 200, `"orders":[]`)
	expect(t, ask(h, "POST", two+"report", said(1, "ok"), asMember), 403, refused)
	expect(t, ask(h, "GET", two+"orders", "", asMember), 403, refused)
	expect(t, ask(h, "POST", bind, `{"user_id": ""}`), 202, `"user_id":null`)
	expect(t, ask(h, "POST", one+"report", said(101, "ok"), asMember), 403, refused)
	expect(t, ask(h, "GET", "/v1/ext/hosts/cmp-2/health", ""), 200, `"state":"unknown"`) // nothing that was refused is kept
}

func expectOf(t *testing.T, what string, w interface {
	Result() *http.Response
}, status int, body string,
) {
	t.Helper()
	resp := w.Result()
	var text strings.Builder
	_ = resp.Write(&text)
	if resp.StatusCode != status || !strings.Contains(text.String(), body) {
		t.Errorf("%s: %s\nwant %d %s", what, text.String(), status, body)
	}
}

// TestAgentsReports: what is taken, what is passed over, and what is of a former start.
func TestAgentsReports(t *testing.T) {
	h := storageAPI(t, nil)
	key := keyOf(t, h, "cmp-1")
	w := ask(h, "POST", one+"report", said(2, "ok"), key...)
	expect(t, w, 200, `"host":"bbbbbbbb-4567-49ab-8def-000000000001","health":"ok"`)
	expect(t, ask(h, "GET", health, ""), 200, `"agent_url":"https://cmp-1:15869"`)
	expect(t, ask(h, "POST", one+"report", said(1, "io_error"), key...), 200, `"health":"ok"`) // it is older than what is known
	expect(t, ask(h, "POST", one+"report", strings.Replace(said(3, "io_error"), `"epoch": 7`, `"epoch": 6`, 1), key...), 409, "two agents speak for it")
	expect(t, ask(h, "POST", one+"report", said(3, "io_error"), key...), 200, `"health":"error"`)
	expect(t, ask(h, "GET", health, ""), 200, `"status":"io_error"`)
	expect(t, ask(h, "POST", one+"report", strings.Replace(said(4, "io_error"), `"epoch": 7`, `"epoch": 7, "of_a_newer_agent": []`, 1), key...), 200, `"health":"error"`)

	orders := ask(h, "GET", one+"orders", "", key...)
	var known struct{ Version string }
	if err := json.Unmarshal(orders.Body.Bytes(), &known); err != nil || known.Version == "" {
		t.Fatalf("%s: %v", orders.Body, err)
	}
	expect(t, ask(h, "GET", one+"orders?wait=1&version="+known.Version, "", key...), 200, known.Version) // nothing has come in that time
	expect(t, ask(h, "GET", one+"orders?wait=20&version=other", "", key...), 200, known.Version)         // at once

	// The way back from a second agent: a new key shuts it out, and the first one goes on though its epoch is the lower one.
	fresh := keyOf(t, h, "cmp-1")
	expect(t, ask(h, "POST", one+"report", said(5, "ok"), key...), 403, "")
	expect(t, ask(h, "POST", one+"report", strings.Replace(said(1, "io_error"), `"epoch": 7`, `"epoch": 6`, 1), fresh...), 200, `"health":"error"`)
}

// TestOperatorsOfStorage: an episode is opened, held, resumed, shown, listed, and cleared.
func TestOperatorsOfStorage(t *testing.T) {
	h := storageAPI(t, nil)
	expect(t, ask(h, "GET", "/v1/ext/episodes", ""), 200, `{"episodes":[]}`)
	expect(t, ask(h, "POST", health+"/clear", ""), 409, "no open episode")
	expect(t, ask(h, "POST", health+"/hold", `{"reason": "disks are swapped"}`), 202, `"held":{"by":"admin","reason":"disks are swapped"`)
	expect(t, ask(h, "POST", health+"/error", `{"radius": [], "reason": "smoke"}`), 202, `"state":"held","radius":[],"version":1`)
	expect(t, ask(h, "POST", health+"/error", `{"radius": ["blob", "instance"], "reason": "it is the array"}`), 202, `"radius":["instance","blob"],"version":2`)
	expect(t, ask(h, "POST", health+"/resume", ""), 202, `"held":null`)
	id := episodeOf(t, h, "cmp-1")
	episode := "/v1/ext/episodes/" + id
	expect(t, ask(h, "GET", episode, ""), 200, `"opened_by":"admin"`)
	expect(t, ask(h, "GET", "/v1/ext/episodes/"+strings.ToUpper(id), ""), 200, `"opened_by":"admin"`)
	expect(t, ask(h, "POST", episode+"/hold", `{"reason": "wait"}`), 202, `"held":{"by":"admin","reason":"wait"`)
	expect(t, ask(h, "POST", episode+"/resume", `{"reason": "go on"}`), 202, `"held":null,"braked":null,"waived_by":null`)
	expect(t, ask(h, "POST", episode+"/resume", ""), 409, "is not held")
	expect(t, ask(h, "GET", health, ""), 200, `"uuid":"`+id+`"`)
	expect(t, ask(h, "GET", "/v1/ext/episodes?limit=1&open=true", ""), 200, id)
	expect(t, ask(h, "GET", "/v1/ext/episodes?marker="+id, ""), 200, `{"episodes":[]}`)
	expect(t, ask(h, "GET", "/v1/ext/episodes?open=false", ""), 200, `{"episodes":[]}`)
	expect(t, ask(h, "GET", "/v1/ext/episodes?host=cmp-2", ""), 200, `{"episodes":[]}`)

	expect(t, ask(h, "POST", one+"report", said(1, "timeout")), 200, `"health":"error"`)
	expect(t, ask(h, "POST", health+"/clear", `{"reason": "new disk"}`), 409, "")
	expect(t, ask(h, "POST", one+"report", said(2, "ok")), 200, "")
	expect(t, ask(h, "POST", health+"/clear", `{"reason": "new disk", "reset_instances": true}`), 202, `"clear_reason":"new disk","reset_instances":true`)
	expect(t, ask(h, "POST", episode+"/hold", `{"reason": "late"}`), 409, "")
	expect(t, ask(h, "POST", health+"/clear", `{"force": true}`), 409, "no open episode")

	action := "/v1/ext/segments/" + segmentID + "/storage-failure-action"
	for word, own := range map[string]string{"evacuate": `{"uuid":"` + segmentID + `","storage_failure_action":"evacuate"}`,
		"error": `{"uuid":"` + segmentID + `","storage_failure_action":"error"}`, "": ""} {
		expect(t, ask(h, "POST", action, `{"action": "`+word+`"}`), 204, "")
		for _, query := range []string{"", "?segment=" + segmentID, "?limit=1"} {
			expect(t, ask(h, "GET", "/v1/ext/segments"+query, ""), 200, `{"default":"error","segments":[`+own+`]}`)
		}
		expect(t, ask(h, "GET", "/v1/ext/segments?marker="+segmentID, ""), 200, `"segments":[]`)
	}
}

// TestCascadePreview looks at what a radius would reach, and says what cannot be asked.
func TestCascadePreview(t *testing.T) {
	cloud := &nova{servers: []ha.Server{
		{ID: noteID, Name: "db", Host: "cmp-1", VMState: ha.VMActive}, {ID: segmentID, Name: "old", Host: "cmp-1", VMState: ha.VMError},
		{ID: noteID, Name: "new", Host: "cmp-1", VMState: ha.VMBuilding},
	}}
	h := storageAPI(t, cloud)
	const preview = "/v1/ext/hosts/cmp-1/cascade-preview"
	w := ask(h, "GET", preview+"?radius=instance,blob", "")
	for _, want := range []string{`"action":"error","held":null`, `"vm_state":"active","what":"error"`, `"what":"skip","why":"in error already"`, `"what":"wait"`, `"blobs":0`} {
		expect(t, w, 200, want)
	}
	expect(t, ask(h, "POST", "/v1/ext/segments/"+segmentID+"/storage-failure-action", `{"action": "evacuate"}`), 204, "")
	expect(t, ask(h, "POST", health+"/hold", `{"reason": "x"}`), 202, "")
	expect(t, ask(h, "GET", preview+"?radius=instance", ""), 200, `"action":"evacuate","held":"the host's cascades are held by admin"`)
	expect(t, ask(h, "GET", preview+"?radius=upload", ""), 200, `"instances":[]`)
	expect(t, ask(h, "GET", preview, ""), 200, `"radius":[]`)
	expect(t, ask(h, "GET", preview+"?radius=disk", ""), 400, "is none of instance, blob, upload")
	expect(t, ask(h, "GET", "/v1/ext/hosts/nobody/cascade-preview", ""), 404, "nobody")
	cloud.err = &ha.CloudError{Class: ha.ClassNotSent, Op: "servers", Text: "no route"}
	expect(t, ask(h, "GET", preview+"?radius=instance", ""), 503, `"serviceUnavailable"`)
	expect(t, ask(storageAPI(t, nil), "GET", preview+"?radius=instance", ""), 503, "no Nova is configured")
}

// TestCascadePreviewKnowsFencing: an evacuation that would be held, as nothing can fence the host, is not promised.
func TestCascadePreviewKnowsFencing(t *testing.T) {
	cloud := &nova{servers: []ha.Server{{ID: noteID, Name: "db", Host: "cmp-1", VMState: ha.VMActive}, {ID: segmentID, Name: "old", Host: "cmp-1", VMState: ha.VMError}}}
	const held = "storage_failure_action is evacuate, which needs fencing, and none is configured for cmp-1"
	for _, tt := range []struct {
		name   string
		fenced func(string) bool
		want   []string
	}{
		{"it can be fenced", func(host string) bool { return host == "cmp-1" }, []string{`"held":null`, `"what":"evacuate","why":""`}},
		{"nothing can fence it", func(string) bool { return false }, []string{`"held":"` + held + `"`, `"what":"wait","why":"` + held + `"`, `"what":"skip"`}},
		{"nobody knows here", nil, []string{`"held":null`, `"what":"evacuate","why":"if the host can be fenced, which is not known here: set [salvor] fencing_file for the api, too"`}},
	} {
		h := storageAPI(t, cloud, func(c *service.Config) { c.Rules.StorageAction, c.Fenced = "evacuate", tt.fenced })
		for _, want := range tt.want {
			expectOf(t, tt.name, ask(h, "GET", "/v1/ext/hosts/cmp-1/cascade-preview?radius=instance", ""), 200, want)
		}
		if tt.name == "nothing can fence it" {
			expectOf(t, "copies of blobs need no fencing", ask(h, "GET", "/v1/ext/hosts/cmp-1/cascade-preview?radius=blob", ""), 200, `"held":null`)
		}
	}
}

// TestStorageIsTheAdministrators: each route of storage health asks the policy by its own rule.
func TestStorageIsTheAdministrators(t *testing.T) {
	h := storageAPI(t, nil)
	for line, rule := range map[string]string{
		"GET " + health:                                                  "health:detail",
		"POST " + health + "/clear":                                      "health:clear",
		"POST " + health + "/hold":                                       "health:hold",
		"POST " + health + "/resume":                                     "health:resume",
		"POST " + health + "/error":                                      "health:fail",
		"GET /v1/ext/hosts/cmp-1/cascade-preview":                        "health:preview",
		"POST /v1/ext/hosts/cmp-1/agent-key":                             "agents:agent-key",
		"POST /v1/ext/hosts/cmp-1/agent-user":                            "agents:agent-user",
		"GET /v1/ext/episodes":                                           "episodes:index",
		"GET /v1/ext/episodes/" + noteID:                                 "episodes:detail",
		"POST /v1/ext/episodes/" + noteID + "/hold":                      "episodes:hold",
		"POST /v1/ext/episodes/" + noteID + "/resume":                    "episodes:resume",
		"GET /v1/ext/blobs":                                              "blobs:index",
		"POST /v1/ext/blobs":                                             "blobs:create",
		"GET /v1/ext/blobs/" + noteID:                                    "blobs:detail",
		"POST /v1/ext/blobs/" + noteID + "/rescue":                       "blobs:rescue",
		"POST /v1/ext/blobs/" + noteID + "/lost":                         "blobs:lost",
		"POST /v1/ext/blobs/" + noteID + "/drop-location":                "blobs:drop-location",
		"GET /v1/ext/transfers":                                          "transfers:index",
		"POST /v1/ext/segments/" + segmentID + "/storage-failure-action": "segments:storage-failure-action",
		"GET /v1/ext/segments":                                           "segments:index",
	} {
		method, path, _ := strings.Cut(line, " ")
		body := map[string]string{
			"health:hold": `{"reason": "x"}`, "health:fail": `{"radius": [], "reason": "x"}`, "agents:agent-user": `{"user_id": "x"}`,
			"episodes:hold": `{"reason": "x"}`, "segments:storage-failure-action": `{"action": "error"}`, "blobs:lost": `{"reason": "x"}`,
			"blobs:create": `{"blob": {"size": 1, "sha256": "` + strings.Repeat("a", 64) + `"}}`, "blobs:drop-location": `{"host": "cmp-1", "reason": "x"}`,
		}[rule]
		expectOf(t, line, ask(h, method, path, body, asMember), 403, "Policy doesn't allow salvor_api:"+rule+" to be performed.")
	}
}

// TestStorageRefusesWhatCannotBe: whatever is sent is answered with what is wrong with it, and never with a defect.
func TestStorageRefusesWhatCannotBe(t *testing.T) {
	h := storageAPI(t, nil)
	for _, c := range []struct {
		line, body string
		status     int
		text       string
	}{
		{"POST " + one + "report", `{}`, 400, "'report' is a required property"},
		{"POST " + one + "report", `{"report": {"epoch": 1, "seq": 1}}`, 400, "'resources' is a required property"},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `"epoch": 7`, `"epoch": -1`, 1), 400, "is not an integer of at least 0"},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `"epoch": 7`, `"epoch": 1e400`, 1), 400, ""},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `"epoch": 7`, `"epoch": 9223372036854775808`, 1), 400, ""},
		{"POST " + one + "report", said(1, "sick"), 400, "status"},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), "https://", "file://", 1), 400, "is not an http:// or https:// URL"},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `["instance", "blob"]`, `["volume"]`, 1), 400, ""},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `2026-11-29T12:00:00.000000`, "yesterday", 1), 400, "yesterday"},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `"resources"`, `"copies": [{"blob": "../../etc/passwd", "state": "present"}], "resources"`, 1), 400, ""},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `"resources"`, `"copies": [{"blob": "`+noteID+`", "state": "present", "sha256": "x"}], "resources"`, 1), 400, "is not a sha256"},
		{"POST " + one + "report", strings.Replace(said(1, "ok"), `"resources"`, `"transfers": [{"id": "", "state": "done"}], "resources"`, 1), 400, ""},
		{"GET " + one + "orders?wait=soon", "", 400, "wait"},
		{"GET " + one + "orders?wait=-1", "", 400, "wait"},
		{"GET /v1/ext/hosts/nobody/health", "", 404, "nobody"},
		{"POST " + health + "/error", `{"reason": "x"}`, 400, "'radius' is a required property"},
		{"POST " + health + "/error", `{"radius": "blob", "reason": "x"}`, 400, "is not of type 'array'"},
		{"POST " + health + "/error", `{"radius": ["disk"], "reason": "x"}`, 400, ""},
		{"POST " + health + "/error", `{"radius": [], "reason": ""}`, 400, ""},
		{"POST /v1/ext/hosts/nobody/health/error", `{"radius": [], "reason": "x"}`, 404, "nobody"},
		{"POST " + health + "/hold", ``, 400, "'reason' is a required property"},
		{"POST " + health + "/clear", `{"force": "yes"}`, 400, "is not of type 'boolean'"},
		{"POST " + health + "/clear", `{"everything": true}`, 400, "everything"},
		{"POST /v1/ext/hosts/cmp-1/agent-user", ``, 400, "'user_id' is a required property"},
		{"POST /v1/ext/hosts/cmp-1/agent-user", `{"user_id": "` + strings.Repeat("x", 65) + `"}`, 400, "user_id: expected the id of a Keystone user"},
		{"POST /v1/ext/hosts/cmp-1/agent-user", `{"user_id": "nova agent"}`, 400, "user_id: expected the id of a Keystone user"},
		{"POST /v1/ext/hosts/cmp-1/agent-user", `{"user_id": "http://keystone/users/1"}`, 400, "(openstack user show NAME -f value -c id), not a name"},
		{"POST /v1/ext/hosts/nobody/agent-user", `{"user_id": "x"}`, 404, "nobody"},
		{"POST /v1/ext/hosts/nobody/agent-key", ``, 404, "nobody"},
		{"GET /v1/ext/episodes?open=maybe", "", 400, "open"},
		{"GET /v1/ext/episodes?limit=x", "", 400, "limit must be an integer"},
		{"GET /v1/ext/episodes?marker=" + noteID, "", 400, "Marker " + noteID + " could not be found."},
		{"GET /v1/ext/episodes?host=nobody", "", 404, "nobody"},
		{"GET /v1/ext/episodes/x", "", 404, "x"},
		{"GET /v1/ext/episodes/" + noteID, "", 404, noteID},
		{"POST /v1/ext/episodes/" + noteID + "/hold", `{"reason": "x"}`, 404, noteID},
		{"POST /v1/ext/episodes/" + noteID + "/hold", ``, 400, "'reason' is a required property"},
		{"POST /v1/ext/episodes/" + noteID + "/resume", ``, 404, noteID},
		{"POST /v1/ext/segments/" + segmentID + "/storage-failure-action", `{"action": "delete"}`, 400, "'delete' is not one of ('error', 'evacuate', '')"},
		{"POST /v1/ext/segments/" + segmentID + "/storage-failure-action", ``, 400, "'action' is a required property"},
		{"POST /v1/ext/segments/" + noteID + "/storage-failure-action", `{"action": "error"}`, 404, noteID},
		{"POST /v1/ext/segments/x/storage-failure-action", `{"action": "error"}`, 404, "x"},
		{"GET /v1/ext/segments?segment=" + noteID, "", 404, noteID},
		{"GET /v1/ext/segments?marker=x", "", 400, "Marker x could not be found"},
		{"GET /v1/ext/blobs/x", "", 404, "x"},
		{"GET /v1/ext/blobs?durability=good", "", 400, "durability"},
		{"GET /v1/ext/blobs?host=nobody", "", 404, "nobody"},
		{"GET /v1/ext/transfers?state=x", "", 400, "state"},
		{"POST /v1/ext/blobs", `{"blob": {"size": -1, "sha256": "` + strings.Repeat("a", 64) + `"}}`, 400, ""},
		{"POST /v1/ext/blobs", `{"blob": {"size": 1, "sha256": "A"}}`, 400, ""},
		{"POST /v1/ext/blobs/" + noteID + "/drop-location", `{"host": "cmp-1", "reason": "x"}`, 404, noteID},
		{"POST /v1/ext/blobs/" + noteID + "/rescue", ``, 404, noteID},
	} {
		method, path, _ := strings.Cut(c.line, " ")
		expectOf(t, c.line+" "+c.body, ask(h, method, path, c.body), c.status, c.text)
	}
	for _, rt := range append(storageRoutes(func(method, path, _ string, status int, do action) route {
		return route{method: method, path: strings.Split("ext/"+path, "/"), status: status, do: do}
	}), blobRoutes()...) {
		for _, id := range []string{"cmp-1", noteID, "..%2F..", "%00", "%ff", strings.Repeat("x", 300), "%F0%9F%98%80"} {
			path := "/v1/" + parameter.ReplaceAllString(strings.Join(rt.path, "/"), id)
			for _, body := range []string{"", "null", "[]", "{", `"x"`, "7", `{"report": 1}`, `{"report": {}}`, `{"blob": []}`, `{"reason": 1, "radius": {}, "user_id": null, "action": 3}`,
				`{"reason": "\u0000", "radius": [null]}`, strings.Repeat("[", 10000), "\xff\xfe"} {
				if w := ask(h, rt.method, path, body); w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
					t.Errorf("%s %s %.60q: %d %s", rt.method, path, body, w.Code, w.Body)
				}
			}
		}
	}
}
