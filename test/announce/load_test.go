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
	t     *testing.T
	api   string
	hosts map[string]string // uuids of those in the rack
	mu    sync.Mutex
	want  map[string][]string // types of events, by priority and object
	// doubtful are objects of which an answer was 503: whether that change was made, its client does not know.
	doubtful map[string]bool
}

func newLoad(t *testing.T, api string) *load {
	return &load{t: t, api: api, hosts: map[string]string{}, want: map[string][]string{}, doubtful: map[string]bool{}}
}

// call sends a request about an object. On a machine that is too busy for its database the answer may be 503: then the object is
// in doubt, and not compared. Any other answer than the wanted one fails the test.
func (l *load) call(object string, want int, method, path string, body any) (answer map[string]any, ok bool) {
	status, answer := testkit.Call(l.t, method, l.api+path, body)
	switch status {
	case want:
		return answer, true
	case 503:
		l.t.Logf("%s %s: 503: %s is not compared", method, path, object)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.doubtful[object] = true
	default:
		l.t.Errorf("%s %s: %d, want %d: %v", method, path, status, want, answer)
	}
	return nil, false
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

// step is a request about an object, and what is told of it: action "" for nothing.
type step struct {
	want         int
	method, path string
	body         any
	action       string
	failed       bool
}

// steps carries them out one after another, up to the first that is in doubt.
func (l *load) steps(object string, all ...step) bool {
	for _, s := range all {
		if _, ok := l.call(object, s.want, s.method, s.path, s.body); !ok {
			return false
		}
		if s.action != "" {
			l.told(object, s.action, s.failed)
		}
	}
	return true
}

// segment makes, changes and deletes a segment, and in between makes one of the same name, which is refused.
func (l *load) segment(i int) bool {
	name := fmt.Sprintf("row-%d", i)
	object := "segment " + name
	body := map[string]any{"segment": map[string]any{"name": name, "recovery_method": "auto", "service_type": "COMPUTE"}}
	made, ok := l.call(object, 201, "POST", "/v1/segments", body)
	if !ok {
		return true // the next one has another name
	}
	l.told(object, "segment.create", false)
	own := "/v1/segments/" + uuidOf(made, "segment")
	change := map[string]any{"segment": map[string]any{"description": fmt.Sprint("of ", i)}}
	l.steps(object, step{409, "POST", "/v1/segments", body, "segment.create", true}, step{200, "PUT", own, change, "segment.update", false},
		step{404, "PUT", "/v1/segments/00000000-0000-4000-8000-000000000000", change, "", false}, step{204, "DELETE", own, nil, "segment.delete", false})
	return true
}

// host makes, changes and deletes the same host again and again.
func (l *load) host(segment, name string) bool {
	object, hosts := "host "+name, "/v1/segments/"+segment+"/hosts"
	made, ok := l.call(object, 201, "POST", hosts, map[string]any{"host": map[string]any{"name": name, "type": "COMPUTE", "control_attributes": "SSH"}})
	if !ok {
		return false
	}
	l.told(object, "host.create", false)
	own := hosts + "/" + uuidOf(made, "host")
	set := func(on bool) map[string]any { return map[string]any{"host": map[string]any{"on_maintenance": on}} }
	return l.steps(object, step{200, "PUT", own, set(true), "host.update", false}, step{200, "PUT", own, set(false), "host.update", false},
		step{204, "DELETE", own, nil, "host.delete", false})
}

// crash reports a crashed instance that Nova does not know: it is admitted, taken up and ended at once.
func (l *load) crash(host string, i int) bool {
	l.report(host, "VM", map[string]any{"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED", "instance_uuid": fmt.Sprintf("00000000-0000-4000-8000-%012d", i)})
	return true
}

// report admits a report of a host that is registered and writes down its whole life, which must end well. It returns its uuid.
func (l *load) report(host, typ string, payload map[string]any) string {
	at := time.Now().UTC()
	p, _ := json.Marshal(payload)
	object := fmt.Sprint("notification ", l.hosts[host], at.Format("2006-01-02T15:04:05Z"), string(p))
	answer, ok := l.call(object, 202, "POST", "/v1/notifications", map[string]any{"notification": map[string]any{"type": typ, "hostname": host,
		"generated_time": at.Format("2006-01-02T15:04:05.000000"), "payload": payload}})
	if !ok {
		return ""
	}
	l.told(object, "notification.create", false)
	l.told(object, "notification.process", false)
	return answer["notification"].(map[string]any)["notification_uuid"].(string)
}

// run keeps three clients busy, each some actions a second, until stop is closed.
func (l *load) run(stop chan struct{}, segment, free, crashing string) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, act := range []func(i int) bool{
		l.segment, func(int) bool { return l.host(segment, free) }, func(i int) bool { return l.crash(crashing, i) },
	} {
		all.Go(func() {
			ticker := time.NewTicker(150 * time.Millisecond)
			defer ticker.Stop()
			for i, more := 0, true; more; i++ {
				select {
				case <-stop:
					return
				case <-ticker.C:
					more = act(i)
				}
			}
		})
	}
	return &all
}

// missing counts the events that have not arrived yet.
func (l *load) missing(g *got) int {
	have := g.byObject()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for object, want := range l.want {
		if !l.doubted(object) {
			n += max(0, len(want)-len(have[object]))
		}
	}
	return n
}

// doubted says so of a priority and an object.
func (l *load) doubted(key string) bool {
	_, object, _ := strings.Cut(key, " ")
	return l.doubtful[object]
}

// check compares what arrived with what had to: none missing, none too many, each object's in order.
func (l *load) check(who string, g *got) {
	l.t.Helper()
	have := g.byObject()
	l.mu.Lock()
	defer l.mu.Unlock()
	missing, wrong := 0, 0
	for object, want := range l.want {
		if l.doubted(object) {
			continue
		}
		if got := strings.Join(have[object], " "); got != strings.Join(want, " ") {
			if wrong++; wrong <= 5 {
				l.t.Errorf("%s: of %s came\n%s\nwant\n%s", who, object, got, strings.Join(want, " "))
			}
			missing += max(0, len(want)-len(have[object]))
		}
	}
	for object, types := range have {
		if l.want[object] == nil && !l.doubted(object) {
			l.t.Errorf("%s: nobody caused %s: %v", who, object, types)
		}
	}
	l.t.Logf("%s: %d events of %d objects, %d came again, %d missing, %d objects in doubt", who, len(g.all), len(l.want), g.again, missing, len(l.doubtful))
}
