package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// vars are what {name} in a case stands for.
type vars map[string]any

var varName = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// text replaces every known {name} in s.
func (v vars) text(s string) string {
	return varName.ReplaceAllStringFunc(s, func(m string) string {
		if value, ok := v[m[1:len(m)-1]]; ok {
			return fmt.Sprint(value)
		}
		return m
	})
}

// value replaces {name} in all strings of a JSON value; one that is exactly "{name}" becomes the variable, type and all.
func (v vars) value(x any) any {
	switch x := x.(type) {
	case string:
		if m := varName.FindString(x); m == x && m != "" {
			if value, ok := v[m[1:len(m)-1]]; ok {
				return value
			}
		}
		return v.text(x)
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = v.value(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[v.text(k)] = v.value(e)
		}
		return out
	default:
		return x
	}
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// json reads the body; it fails when it is none.
func (a answer) json() (any, error) {
	var v any
	if err := decode(a.body, &v); err != nil {
		return nil, fmt.Errorf("body is not JSON: %s", short(string(a.body)))
	}
	return v, nil
}

var resourcePath = regexp.MustCompile(`^/v1/(segments|notifications|extensions)`)

// patience is how long the database may be out of reach: a disk that stands still for seconds makes it so.
const patience = time.Minute

// call sends one step. It is sent again where the answer is that the database cannot be reached, as clients do.
func (r *Runner) call(ctx context.Context, s Step, v vars) (a answer, err error) {
	for end := time.Now().Add(patience); ; {
		a, err = r.send(ctx, s, v)
		if err != nil || a.status != http.StatusServiceUnavailable || !bytes.Contains(a.body, []byte("cannot reach its database")) || time.Now().After(end) {
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *Runner) send(ctx context.Context, s Step, v vars) (answer, error) {
	path := v.text(s.Path)
	if r.ProjectURLs {
		path = resourcePath.ReplaceAllString(path, "/v1/"+r.Project+"/$1")
	}
	headers := map[string]string{"X-Auth-Token": r.Token, "Accept": "application/json"}
	body, err := s.body(v)
	if err != nil {
		return answer{}, err
	}
	if body != nil {
		headers["Content-Type"] = "application/json"
	}
	for name, value := range s.Headers {
		for known := range headers {
			if strings.EqualFold(known, name) {
				delete(headers, known)
			}
		}
		if value != nil {
			headers[name] = v.text(*value)
		}
	}
	req, err := http.NewRequestWithContext(ctx, s.Method, r.URL+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for name, value := range headers {
		req.Header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, data}, err
}

// body is what a step sends, nil for nothing.
func (s Step) body(v vars) ([]byte, error) {
	if s.Body != nil {
		var value any
		if err := decode(s.Body, &value); err != nil {
			return nil, err
		}
		return json.Marshal(v.value(value))
	}
	if s.Raw == nil {
		return nil, nil
	}
	var text string
	var repeated struct {
		Pre, Repeat, Post string
		N                 int
	}
	if err := json.Unmarshal(s.Raw, &text); err != nil {
		if err := json.Unmarshal(s.Raw, &repeated); err != nil {
			return nil, err
		}
		text = repeated.Pre + strings.Repeat(repeated.Repeat, repeated.N) + repeated.Post
	}
	text = v.text(text)
	if !s.Latin1 {
		return []byte(text), nil
	}
	var out []byte
	for _, c := range text {
		out = append(out, byte(c))
	}
	return out, nil
}
