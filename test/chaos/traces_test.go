package chaos

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// span is what a collector of traces was told.
type span struct {
	trace, id, parent, name, owner, outcome string
}

// collect is a collector of traces, by OTLP over HTTP.
func collect(t *testing.T) (url string, spans func() []span) {
	t.Helper()
	var mu sync.Mutex
	var all []span
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var told collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &told)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, from := range told.GetResourceSpans() {
			for _, scope := range from.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					got := span{trace: string(s.GetTraceId()), id: string(s.GetSpanId()), parent: string(s.GetParentSpanId()), name: s.GetName()}
					for _, a := range s.GetAttributes() {
						switch a.GetKey() {
						case "owner":
							got.owner = a.GetValue().GetStringValue()
						case "outcome":
							got.outcome = a.GetValue().GetStringValue()
						}
					}
					all = append(all, got)
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1/traces", func() []span {
		mu.Lock()
		defer mu.Unlock()
		return append([]span(nil), all...)
	}
}

// TestTracesOfARecovery: what two owners did for one report stands in one trace, whose id is the notification's uuid: a span of
// each owner, and within it its acts and its calls to Nova.
func TestTracesOfARecovery(t *testing.T) {
	url, spans := collect(t)
	w := newWorld(t, testkit.MariaDB(t), 1, "trace_url = "+url)
	d := w.doom(t)[0]
	defer w.story(t, d)
	ended := w.strike(moment{step: steps[5], nth: instances / 2, answered: true}, func(e *worker) bool {
		w.ended(e)
		e.Signal(syscall.SIGTERM)
		return true
	})
	w.report(t, d)
	w.finished(t, d, time.Minute)
	<-ended
	for _, e := range w.working() {
		w.ended(e)
		e.Signal(syscall.SIGTERM) // it sends what it has
	}
	trace := strings.ReplaceAll(d.note, "-", "")
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		owners, orders, calls := map[string]string{}, 0, 0
		known := map[string]string{}
		of := spans()
		for _, s := range of {
			known[s.id] = s.name
		}
		for _, s := range of {
			if fmt.Sprintf("%x", s.trace) != trace {
				continue
			}
			switch {
			case s.owner != "":
				owners[s.owner] = s.outcome
			case s.name == "evacuate" && known[s.parent] == "host":
				orders++
			case s.name == "cloud evacuate" && known[s.parent] == "evacuate":
				calls++
			}
		}
		finished := 0
		for _, outcome := range owners {
			if outcome == "finished" {
				finished++
			}
		}
		return len(owners) == 2 && finished == 1 && orders == instances && calls == instances, fmt.Sprintf(
			"owners %v, %d orders, %d calls, %d spans", owners, orders, calls, len(of))
	})
}
