package differential

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// report is what a monitor says, as far as duplicates are recognized by it.
type report struct {
	hostname string
	kind     string
	payload  map[string]string
}

func reportOf(raw []byte) report {
	var body struct {
		Notification struct {
			Hostname, Type string
			Payload        map[string]string
		}
	}
	_ = json.Unmarshal(raw, &body)
	return report{body.Notification.Hostname, body.Notification.Type, body.Notification.Payload}
}

// of are the notifications of the report's host and type.
func (w *world) of(r report) (all []*thing) {
	for _, h := range w.hosts {
		for _, n := range w.notifications {
			if !h.gone && strings.EqualFold(h.name, r.hostname) && n.host == h.uuid && n.report.kind == r.kind {
				all = append(all, n)
			}
		}
	}
	return all
}

func (r report) death() bool { return r.kind == "COMPUTE_HOST" && r.payload["event"] == "STOPPED" }

// openDeath is rule A2: a death of the host is under way already, whatever else the reports say.
func (w *world) openDeath(r report) bool {
	return r.death() && slices.ContainsFunc(w.of(r), func(n *thing) bool { return n.open && n.report.death() })
}

// anew is what Masakari calls a duplicate and salvor admits: there is no unfinished twin (rule A3), or the opposite has been reported as well
// (A2, A3).
func (w *world) anew(r report) bool {
	twin, opposite := false, false
	for _, n := range w.of(r) {
		twin = twin || n.open && maps.Equal(n.report.payload, r.payload)
		opposite = opposite || n.report.payload["event"] != r.payload["event"]
	}
	return !twin || r.kind != "VM" && opposite
}
