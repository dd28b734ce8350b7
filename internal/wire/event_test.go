package wire

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// eventOfContract is the example of contract section 8.
const eventOfContract = `{"message_id": "0b6f5f0e-0000-4000-8000-000000000001", "publisher_id": "masakari-api:ctl-1",
 "event_type": "host.update.end", "priority": "INFO", "timestamp": "2026-11-29 11:15:57.104211",
 "payload": {"masakari_object.name": "HostApiPayload", "masakari_object.namespace": "masakari",
  "masakari_object.version": "1.0", "masakari_object.data": {
   "fault": null, "id": 4, "uuid": "0b6f5f0e-0000-4000-8000-000000000002", "name": "cmp-04",
   "failover_segment": {"masakari_object.name": "FailoverSegment", "masakari_object.namespace": "masakari",
    "masakari_object.version": "1.1", "masakari_object.data": {"id": 2,
     "uuid": "0b6f5f0e-0000-4000-8000-000000000003", "name": "rack-2", "service_type": "COMPUTE",
     "enabled": true, "description": null, "recovery_method": "auto", "created_at": "2026-11-20T08:00:00Z",
     "updated_at": null, "deleted_at": null, "deleted": false}},
   "type": "COMPUTE", "reserved": false, "control_attributes": "SSH", "on_maintenance": true}}}`

func TestEventOfTheContract(t *testing.T) {
	e := ha.Event{
		UUID: "0b6f5f0e-0000-4000-8000-000000000001", At: time.Date(2026, 11, 29, 11, 15, 57, 104211000, time.UTC), Action: ha.ActionUpdate, Phase: ha.PhaseEnd,
		Host: &ha.Host{ID: 4, UUID: "0b6f5f0e-0000-4000-8000-000000000002", Name: "cmp-04", Type: "COMPUTE", ControlAttributes: "SSH", OnMaintenance: true},
		Segment: &ha.Segment{Stamps: ha.Stamps{CreatedAt: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}, ID: 2, UUID: "0b6f5f0e-0000-4000-8000-000000000003",
			Name: "rack-2", ServiceType: "COMPUTE", Enabled: true, RecoveryMethod: ha.MethodAuto},
	}
	if diff := cmp.Diff(decoded(t, eventOfContract), decoded(t, NewEvent(e, "ctl-1"))); diff != "" {
		t.Error(diff)
	}
}

func TestEvents(t *testing.T) {
	at := time.Date(2026, 11, 29, 11, 15, 57, 0, time.UTC)
	for name, e := range map[string]ha.Event{
		"event_segment_create_start":      {Action: ha.ActionCreate, Phase: ha.PhaseStart, Segment: &segment},
		"event_segment_create_end":        {Action: ha.ActionCreate, Phase: ha.PhaseEnd, Segment: &segment},
		"event_host_create_error":         {Action: ha.ActionCreate, Phase: ha.PhaseError, Host: &host, Segment: &segment, Err: &ha.ExistsError{Kind: ha.KindHost, Name: "cmp-04"}},
		"event_notification_create_end":   {Action: ha.ActionCreate, Phase: ha.PhaseEnd, Notification: &notification},
		"event_notification_process_err":  {Action: ha.ActionProcess, Phase: ha.PhaseError, Notification: &notification, Err: errors.New("2 of 5 instances were not moved")},
		"event_segment_update_error_else": {Action: ha.ActionUpdate, Phase: ha.PhaseError, Segment: &segment, Err: errors.New("disk full")},
	} {
		e.UUID, e.At = "0b6f5f0e-0000-4000-8000-000000000001", at
		golden(t, name, json.RawMessage(NewEvent(e, "ctl-1")))
	}
}

func TestEventEnvelopes(t *testing.T) {
	m := ha.Message{UUID: "0b6f5f0e-0000-4000-8000-000000000001", Type: "host.update.end", Body: eventOfContract}
	want := decoded(t, eventOfContract)
	want["_unique_id"] = "0b6f5f0e000040008000000000000001"
	if diff := cmp.Diff(want, decoded(t, string(EventV1(m)))); diff != "" {
		t.Error(diff)
	}
	v2 := decoded(t, string(EventV2(m)))
	if v2["oslo.version"] != "2.0" || len(v2) != 2 {
		t.Errorf("the envelope is %v", v2)
	}
	if diff := cmp.Diff(want, decoded(t, v2["oslo.message"].(string))); diff != "" {
		t.Error(diff)
	}
}
