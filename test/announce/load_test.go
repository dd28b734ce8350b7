package announce

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// load is clients of an api, and what they must cause: written down from its answers, never from its rows.
type load struct {
	t    *testing.T
	api  string
	mu   sync.Mutex
	want map[string][]string // types of events, by priority and object
}

func newLoad(t *testing.T, api string) *load {
	return &load{t: t, api: api, want: map[string][]string{}}
}

// told writes down the events of an action that succeeded, or failed.
func (l *load) told(object, action string, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want["INFO "+object] = append(l.want["INFO "+object], action+".start")
	if failed {
		l.want["ERROR "+object] = append(l.want["ERROR "+object], action+".error")
	} else {
		l.want["INFO "+object] = append(l.want["INFO "+object], action+".end")
	}
}

func (l *load) counted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, types := range l.want {
		n += len(types)
	}
	return n
}

func uuidOf(answer map[string]any, kind string) string {
	return answer[kind].(map[string]any)["uuid"].(string)
}

// segment makes, changes and deletes a segment, and in between makes one of the same name, which is refused.
func (l *load) segment(i int) {
	name := fmt.Sprintf("row-%d", i)
	body := map[string]any{"segment": map[string]any{"name": name, "recovery_method": "auto", "service_type": "COMPUTE"}}
	uuid := uuidOf(testkit.Must(l.t, 201, "POST", l.api+"/v1/segments", body), "segment")
	l.told("segment "+name, "segment.create", false)
	testkit.Must(l.t, 409, "POST", l.api+"/v1/segments", body)
	l.told("segment "+name, "segment.create", true)
	testkit.Must(l.t, 200, "PUT", l.api+"/v1/segments/"+uuid, map[string]any{"segment": map[string]any{"description": fmt.Sprint("of ", i)}})
	l.told("segment "+name, "segment.update", false)
	testkit.Must(l.t, 404, "PUT", l.api+"/v1/segments/00000000-0000-4000-8000-000000000000", map[string]any{"segment": map[string]any{"description": "x"}})
	testkit.Must(l.t, 204, "DELETE", l.api+"/v1/segments/"+uuid, nil)
	l.told("segment "+name, "segment.delete", false)
}

// host makes, changes and deletes the same host again and again.
func (l *load) host(segment, name string) {
	hosts := l.api + "/v1/segments/" + segment + "/hosts"
	uuid := uuidOf(testkit.Must(l.t, 201, "POST", hosts, map[string]any{"host": map[string]any{"name": name, "type": "COMPUTE", "control_attributes": "SSH"}}), "host")
	l.told("host "+name, "host.create", false)
	for _, on := range []bool{true, false} {
		testkit.Must(l.t, 200, "PUT", hosts+"/"+uuid, map[string]any{"host": map[string]any{"on_maintenance": on}})
		l.told("host "+name, "host.update", false)
	}
	testkit.Must(l.t, 204, "DELETE", hosts+"/"+uuid, nil)
	l.told("host "+name, "host.delete", false)
}

// crash reports a crashed instance that Nova does not know: it is admitted, taken up and ended at once.
func (l *load) crash(host string, i int) {
	l.report(host, "VM", map[string]any{"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED", "instance_uuid": fmt.Sprintf("00000000-0000-4000-8000-%012d", i)})
}

// report admits a report and writes down its whole life, which must end well.
func (l *load) report(host, typ string, payload map[string]any) string {
	at := time.Now().UTC()
	answer := testkit.Must(l.t, 202, "POST", l.api+"/v1/notifications", map[string]any{"notification": map[string]any{"type": typ, "hostname": host,
		"generated_time": at.Format("2006-01-02T15:04:05.000000"), "payload": payload}})["notification"].(map[string]any)
	p, _ := json.Marshal(payload)
	object := fmt.Sprint("notification ", answer["source_host_uuid"], at.Format("2006-01-02T15:04:05Z"), string(p))
	l.told(object, "notification.create", false)
	l.told(object, "notification.process", false)
	return answer["notification_uuid"].(string)
}

// run keeps three clients busy, each some actions a second, until stop is closed.
func (l *load) run(stop chan struct{}, segment, free, crashing string) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, act := range []func(i int){
		l.segment, func(int) { l.host(segment, free) }, func(i int) { l.crash(crashing, i) },
	} {
		all.Go(func() {
			ticker := time.NewTicker(150 * time.Millisecond)
			defer ticker.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-ticker.C:
					act(i)
				}
			}
		})
	}
	return &all
}

// check compares what arrived with what had to: none missing, none too many, each object's in order.
func (l *load) check(who string, g *got) {
	l.t.Helper()
	have := g.byObject()
	l.mu.Lock()
	defer l.mu.Unlock()
	missing, wrong := 0, 0
	for object, want := range l.want {
		if got := strings.Join(have[object], " "); got != strings.Join(want, " ") {
			if wrong++; wrong <= 5 {
				l.t.Errorf("%s: of %s came\n%s\nwant\n%s", who, object, got, strings.Join(want, " "))
			}
			missing += max(0, len(want)-len(have[object]))
		}
	}
	for object, types := range have {
		if l.want[object] == nil {
			l.t.Errorf("%s: nobody caused %s: %v", who, object, types)
		}
	}
	l.t.Logf("%s: %d events of %d objects, %d came again, %d missing", who, len(g.all), len(l.want), g.again, missing)
}
