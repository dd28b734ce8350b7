package conformance

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A host is reached through its own segment only: read, changed and deleted through another it is not there, and stays as it
// is (field report F127).
func TestAHostBelongsToItsSegment(t *testing.T) {
	w := newWorld(t)
	through := "segments/" + w.empty + "/hosts/" + w.free
	missing := "Host '" + w.free + "' under failover_segment '" + w.empty + "' could not be found."
	w.refused(404, missing, "GET", through, "")
	w.refused(404, missing, "PUT", through, `{"host": {"reserved": true}}`)
	w.refused(404, missing, "DELETE", through, "")
	w.refused(404, "No failover segment with id "+nowhere, "GET", "segments/"+nowhere+"/hosts", "")
	if status, text := w.ask("GET", "/v1/segments/"+w.segment+"/hosts/"+w.free, AdminToken, ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// Times are the same text whichever way an object is seen, and a description comes back as it was given (field reports F129 and
// F131).
func TestTheSameByEveryWay(t *testing.T) {
	forEachDatabase(t, func(t *testing.T, database string) {
		c := newClient(t, start(t, database, noAuth))
		const words = `"line one\nline two, é, 漢字\n"`
		rack := c.make("/v1/segments", "segment", `{"segment": {"name": "rack", "recovery_method": "auto", "service_type": "x", "description": `+words+`}}`)
		if rack["description"] != "line one\nline two, é, 漢字\n" {
			t.Errorf("%q", rack["description"])
		}
		one := "/v1/segments/" + rack["uuid"].(string)
		host := c.make(one+"/hosts", "host", `{"host": {"name": "cmp-1", "type": "", "control_attributes": `+words+`}}`)
		for _, generated := range []string{"2026-01-02T03:04:05.678901", "2026-01-03T03:04:05", "2026-01-04"} {
			n := c.make("/v1/notifications", "notification", note("PROCESS", "cmp-1", generated, fmt.Sprintf(`{"event": "STARTED", "process_name": "at %s"}`, generated)))
			c.sameAs(n, "/v1/notifications/"+n["notification_uuid"].(string), "notification")
			if listed := c.list("/v1/notifications", url.Values{"limit": {"1"}}); !cmp.Equal(listed[0], n) {
				t.Errorf("listed and made differ: %s", cmp.Diff(listed[0], n))
			}
		}
		c.sameAs(rack, one, "segment")
		c.sameAs(host, one+"/hosts/"+host["uuid"].(string), "host")
		free := c.make("/v1/segments", "segment", `{"segment": {"name": "other", "recovery_method": "auto", "service_type": "x"}}`)
		path := "/v1/segments/" + free["uuid"].(string)
		_, _, data := c.ask("PUT", path, `{"segment": {"description": `+words+`}}`)
		var changed map[string]map[string]any
		if err := decode(data, &changed); err != nil {
			t.Fatal(err)
		}
		c.sameAs(changed["segment"], path, "segment")
		if changed["segment"]["created_at"] != free["created_at"] || changed["segment"]["updated_at"] == nil {
			t.Errorf("made %v, changed %v", free, changed)
		}
	})
}

// sameAs wants GET to show the object as it is known.
func (c client) sameAs(known map[string]any, path, wrapper string) {
	c.t.Helper()
	_, _, data := c.ask("GET", path, "")
	var got map[string]map[string]any
	if err := decode(data, &got); err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(known, got[wrapper]); diff != "" {
		c.t.Errorf("%s (-known +shown):\n%s", path, diff)
	}
}
