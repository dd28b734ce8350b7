package testkit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// OpenAPI is openapi.yaml, by which requests and answers are judged.
type OpenAPI struct {
	Doc *openapi3.T

	paths    []pathTemplate
	unlisted *openapi3.Operation // what any path may answer that has no operation
}

// pathTemplate is a path of the document, element by element.
type pathTemplate struct {
	text     string
	elements []string
}

var document struct {
	once sync.Once
	spec *OpenAPI
	err  error
}

// Document reads and validates openapi.yaml, once.
func Document(tb testing.TB) *OpenAPI {
	tb.Helper()
	document.once.Do(func() { document.spec, document.err = readDocument() })
	if document.err != nil {
		tb.Fatal(document.err)
	}
	return document.spec
}

func readDocument() (*OpenAPI, error) {
	_, self, _, _ := runtime.Caller(0)
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(self), "..", "..", "openapi.yaml"))
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/vnd.openstack.masakari+json", openapi3filter.JSONBodyDecoder)
	o := &OpenAPI{Doc: doc, unlisted: &openapi3.Operation{Responses: openapi3.NewResponses()}}
	o.unlisted.Responses.Delete("default")
	for status, name := range map[string]string{
		"300": "Choices", "400": "BadRequest", "401": "Unauthorized", "404": "NotFound", "405": "BadMethod", "406": "NotAcceptable",
		"413": "TooLarge", "415": "BadMediaType", "503": "Unavailable",
	} {
		o.unlisted.Responses.Set(status, doc.Components.Responses[name])
	}
	for text := range doc.Paths.Map() {
		o.paths = append(o.paths, pathTemplate{text, strings.Split(text, "/")})
	}
	return o, nil
}

// Exchange is one request and its answer. Body is what of the request's body is known; Sent says that this is all of it.
type Exchange struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
	Sent   bool

	Status         int
	ResponseHeader http.Header
	ResponseBody   []byte
}

// Check says what in an answer is not as openapi.yaml has it, and, when the request was taken, what in the request is not.
func (o *OpenAPI) Check(x Exchange) error {
	route, params := o.route(x.Method, x.URL.Path)
	if x.Status == http.StatusMethodNotAllowed && strings.HasPrefix(path.Base(x.URL.Path), "new") {
		route.Operation = o.unlisted // a word of Masakari's routes, and no id
	}
	header := http.Header{}
	for name, values := range x.ResponseHeader { // salvor sends some with capitals of their own
		header[http.CanonicalHeaderKey(name)] = values
	}
	in := &openapi3filter.RequestValidationInput{
		Request: &http.Request{Method: x.Method, URL: x.URL, Header: x.Header.Clone(), Body: io.NopCloser(bytes.NewReader(x.Body)), ContentLength: int64(len(x.Body))},
		Route:   route, PathParams: params, QueryParams: x.URL.Query(),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, MultiError: true, SkipSettingDefaults: true,
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	}
	if len(x.Body) > 0 {
		in.Request.Header.Set("Content-Type", "application/json") // others are taken, and read as this
	}
	if route.Operation != o.unlisted && x.Status < http.StatusBadRequest && x.Sent {
		// Nobody looks at the body of a GET, nor at any outside of /v1.
		in.Options.ExcludeRequestBody = x.Method == http.MethodGet || !belowV1(x.URL.Path)
		in.Options.RejectWhenRequestBodyNotSpecified = !in.Options.ExcludeRequestBody
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			return fmt.Errorf("%s %s %s was taken (%d), but is not a request of openapi.yaml: %w", x.Method, x.URL, x.Body, x.Status, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: x.Status, Header: header, Options: in.Options,
	}
	out.SetBodyBytes(x.ResponseBody)
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		return fmt.Errorf("%s %s answers %d %s, which is not as in openapi.yaml: %w", x.Method, x.URL, x.Status, x.ResponseBody, err)
	}
	if response := route.Operation.Responses.Status(x.Status); response != nil && len(response.Value.Content) == 0 && len(x.ResponseBody) > 0 {
		return fmt.Errorf("%s %s answers %d with a body that openapi.yaml does not have: %s", x.Method, x.URL, x.Status, x.ResponseBody)
	}
	return nil
}

var suffix = regexp.MustCompile(`([^/])\.(json|xml)$`)

// route finds the operation of a request, or stands in for one that the document does not list.
func (o *OpenAPI) route(method, path string) (*routers.Route, map[string]string) {
	elements := strings.Split(suffix.ReplaceAllString(path, "$1"), "/")
	var best *pathTemplate
	var bestParams map[string]string
	for i := range o.paths {
		if params, ok := o.paths[i].fit(elements); ok && (best == nil || o.paths[i].before(best)) {
			best, bestParams = &o.paths[i], params
		}
	}
	route := &routers.Route{Spec: o.Doc, Path: path, PathItem: &openapi3.PathItem{}, Method: method, Operation: o.unlisted}
	below := belowV1(path)
	switch {
	case below && method == http.MethodOptions:
		route.PathItem = o.Doc.Paths.Value("/v1")
	case best == nil:
		return route, nil
	default:
		route.PathItem = o.Doc.Paths.Value(best.text)
		if !below && method != http.MethodHead {
			route.Method = http.MethodGet // whatever the method is
		}
	}
	if op := route.PathItem.GetOperation(route.Method); op != nil {
		route.Operation = op
	}
	return route, bestParams
}

func belowV1(path string) bool { return path == "/v1" || strings.HasPrefix(path, "/v1/") }

var projectID = regexp.MustCompile(`^[0-9a-f-]+$`)

func (p *pathTemplate) fit(elements []string) (map[string]string, bool) {
	if len(p.elements) != len(elements) {
		return nil, false
	}
	params := map[string]string{}
	for i, e := range p.elements {
		name, isParam := strings.CutPrefix(e, "{")
		name = strings.TrimSuffix(name, "}")
		switch {
		case !isParam && e != elements[i], isParam && elements[i] == "", name == "project_id" && !projectID.MatchString(elements[i]):
			return nil, false
		case isParam:
			params[name] = elements[i]
		}
	}
	return params, true
}

// before reports whether p names more than q, at the first place where they differ.
func (p *pathTemplate) before(q *pathTemplate) bool {
	for i := range p.elements {
		if a, b := strings.HasPrefix(p.elements[i], "{"), strings.HasPrefix(q.elements[i], "{"); a != b {
			return b
		}
	}
	return false
}

// Transport is a round tripper that checks every exchange, and fails the test by those that are not as openapi.yaml has them.
func (o *OpenAPI) Transport(tb testing.TB, next http.RoundTripper) http.RoundTripper {
	return &checked{tb, o, next}
}

type checked struct {
	tb   testing.TB
	spec *OpenAPI
	next http.RoundTripper
}

func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	if err := c.spec.Check(Exchange{r.Method, r.URL, r.Header, body, true, resp.StatusCode, resp.Header, answer}); err != nil {
		c.tb.Error(err)
	}
	return resp, nil
}

// Handler wraps a handler so that every exchange is checked.
func (o *OpenAPI) Handler(tb testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &readBody{ReadCloser: r.Body}
		x := Exchange{Method: r.Method, URL: r.URL, Header: r.Header.Clone()}
		r.Body = seen
		kept := &keptAnswer{ResponseWriter: w}
		next.ServeHTTP(kept, r)
		x.Body, x.Sent = seen.got.Bytes(), seen.whole || r.ContentLength == 0
		x.Status, x.ResponseHeader, x.ResponseBody = kept.status, w.Header(), kept.body.Bytes()
		if err := o.Check(x); err != nil {
			tb.Error(err)
		}
	})
}

// readBody keeps what is read of a body.
type readBody struct {
	io.ReadCloser
	got   bytes.Buffer
	whole bool
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.got.Write(p[:n])
	b.whole = b.whole || err == io.EOF
	return n, err
}

// keptAnswer keeps what is answered.
type keptAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

func (k *keptAnswer) Write(p []byte) (int, error) {
	k.body.Write(p)
	return k.ResponseWriter.Write(p)
}
