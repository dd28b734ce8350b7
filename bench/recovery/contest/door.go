package contest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/test/openstack/lab"
)

// door stands in front of a cloud's APIs and writes down every call: all contestants go through it, so what is measured is
// what reached Nova, and when. It costs each call the same fraction of a millisecond.
type door struct {
	novaURL string
	authURL string

	servers []*http.Server
	mu      sync.Mutex
	calls   []call
}

// call is one request as it passed the door. What had not been answered yet has a zero End.
type call struct {
	Start, End time.Time
	Method     string
	Path       string
	Action     string // of a POST …/action: evacuate, lock, …
	Status     int
}

// openDoor puts a door in front of a Keystone and a Nova. Tokens' catalogs lead through it, too.
func openDoor(authURL, novaURL string) (*door, error) {
	d := &door{}
	nova, err := forward(novaURL, nil)
	if err != nil {
		return nil, err
	}
	if d.novaURL, err = d.serve(nova); err != nil {
		return nil, err
	}
	base := authURL[:strings.LastIndex(authURL, "/")]
	keystone, err := forward(base, func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(novaURL), []byte(d.novaURL))
	})
	if err == nil {
		d.authURL, err = d.serve(keystone)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	d.authURL += authURL[len(base):]
	return d, nil
}

// serve lets calls through to a handler, on a port of its own.
func (d *door) serve(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: d.recording(h), ReadHeaderTimeout: time.Minute}
	d.servers = append(d.servers, server)
	go func() { _ = server.Serve(l) }() // ends by close
	return "http://" + l.Addr().String(), nil
}

// forward hands calls on to target. edit may change the bodies of answers.
func forward(target string, edit func([]byte) []byte) (http.Handler, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 128},
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		// A contestant that stops in the middle of a call is no news.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	if edit != nil {
		proxy.ModifyResponse = func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			body = edit(body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			r.ContentLength = int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		}
	}
	return proxy, nil
}

func (d *door) close() {
	for _, s := range d.servers {
		_ = s.Close()
	}
}

func (d *door) recording(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := call{Start: time.Now(), Method: r.Method, Path: r.URL.Path}
		if strings.HasSuffix(c.Path, "/action") {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			c.Action = firstKey(body)
		}
		at := d.note(c)
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		d.answered(at, seen.status)
	})
}

func firstKey(body []byte) string {
	var action map[string]json.RawMessage
	if json.Unmarshal(body, &action) != nil {
		return ""
	}
	for key := range action {
		return key
	}
	return ""
}

func (d *door) note(c call) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	return len(d.calls) - 1
}

func (d *door) answered(at, status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[at].End, d.calls[at].Status = time.Now(), status
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// since returns the calls from t on, in order of their arrival.
func (d *door) since(t time.Time) []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []call
	for _, c := range d.calls {
		if !c.Start.Before(t) {
			out = append(out, c)
		}
	}
	return out
}

// firstOrder is when the first evacuate order came through after t.
func (d *door) firstOrder(t time.Time) (time.Time, bool) {
	for _, c := range d.since(t) {
		if c.Action == "evacuate" {
			return c.Start, true
		}
	}
	return time.Time{}, false
}

// waited is for how much of the time between from and to at least one call was waiting for the cloud's answer.
func (d *door) waited(from, to time.Time) time.Duration {
	d.mu.Lock()
	calls := slices.Clone(d.calls)
	d.mu.Unlock()
	var sum time.Duration
	upTo := from
	for _, c := range calls { // in order of Start
		end := c.End
		if end.IsZero() || end.After(to) {
			end = to
		}
		start := c.Start
		if start.Before(upTo) {
			start = upTo
		}
		if end.After(start) {
			sum += end.Sub(start)
			upTo = end
		}
	}
	return sum
}

// write puts the calls from t on into a file, with times relative to t: to find out where time went.
func (d *door) write(file string, t time.Time) error {
	var b strings.Builder
	for _, c := range d.since(t) {
		took := c.End.Sub(c.Start)
		if c.End.IsZero() {
			took = 0 // with status 0: not answered yet
		}
		fmt.Fprintf(&b, "%8.3f %6.3f %d %-6s %s %s\n", c.Start.Sub(t).Seconds(), took.Seconds(), c.Status, c.Method, c.Path, c.Action)
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// login logs in through the door.
func (d *door) login(ctx context.Context, a lab.Account) (lab.Token, error) {
	return lab.Login(ctx, d.authURL, a)
}
