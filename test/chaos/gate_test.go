package chaos

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// gate stands between one engine and the cloud. It tells of each call when it arrives and when it was answered, before
// anybody else learns of it, so that a test strikes exactly there.
type gate struct {
	URL string

	mu   sync.Mutex
	hook func(call) bool
}

// call is a call to the cloud, on its way there or back.
type call struct {
	kind     string // GET or PUT and the resource, or the action on a server
	body     string
	answered bool
}

func newGate(t *testing.T, cloud string) *gate {
	t.Helper()
	target, err := url.Parse(cloud)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the catalog leads back here
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c := call{kind: kindOf(r, body), body: string(body)}
		if !g.tell(c) {
			panic(http.ErrAbortHandler)
		}
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		c.answered = true
		if !g.tell(c) {
			panic(http.ErrAbortHandler)
		}
		for k, v := range answer.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	server.Start()
	g.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return g
}

// kindOf names a call: evacuate, lock, …; PUT os-services, GET servers, GET os-migrations.
func kindOf(r *http.Request, body []byte) string {
	if strings.HasSuffix(r.URL.Path, "/action") {
		var action map[string]any
		if json.Unmarshal(body, &action) == nil {
			for name := range action {
				return name
			}
		}
	}
	for _, resource := range []string{"os-services", "os-migrations", "servers", "tokens"} {
		if strings.Contains(r.URL.Path, "/"+resource) {
			return r.Method + " " + resource
		}
	}
	return r.Method + " " + r.URL.Path
}

// tell asks the hook; false: the call, or its answer, is dropped.
func (g *gate) tell(c call) bool {
	g.mu.Lock()
	hook := g.hook
	g.mu.Unlock()
	return hook == nil || hook(c)
}

func (g *gate) set(hook func(call) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hook = hook
}
