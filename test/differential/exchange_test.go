package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is what both servers are asked. In its path and query ‹uuid› stands for the integer id that a server gave the object.
type request struct {
	what    string // in words
	method  string
	path    string // with the query, as it is sent
	headers []string
	body    []byte // nil: none
}

func (r request) header(name string) string {
	value := ""
	for _, line := range r.headers {
		if n, v, _ := strings.Cut(line, ": "); strings.EqualFold(n, name) {
			value = v
		}
	}
	return value
}

// route is the path without the query.
func (r request) route() string {
	path, _, _ := strings.Cut(r.path, "?")
	return path
}

func (r request) query() url.Values {
	_, query, _ := strings.Cut(r.path, "?")
	values, _ := url.ParseQuery(query)
	return values
}

func (r request) String() string {
	return fmt.Sprintf("%s\n  %s %s\n  %s\n  %s", r.what, r.method, r.path, strings.Join(r.headers, "\n  "), short(r.body))
}

func short(text []byte) string {
	if len(text) > 1500 {
		return fmt.Sprintf("%q…%q (%d bytes)", text[:700], text[len(text)-200:], len(text))
	}
	return string(text)
}

// answer is a response; value is its body, if that is JSON, with whole numbers as json.Number.
type answer struct {
	status  int
	headers map[string]string
	text    string
	value   any
}

func (a answer) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	names := []string{}
	for name := range a.headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s: %s\n", name, a.headers[name])
	}
	b.WriteString("  " + short([]byte(a.text)))
	return b.String()
}

// object returns what is under the one key of a body, and the key.
func (a answer) object() (key string, value any) {
	if m, ok := a.value.(map[string]any); ok && len(m) == 1 {
		for key, value = range m {
			return key, value
		}
	}
	return "", nil
}

// fault returns the message of a fault, "" when it is none.
func (a answer) fault() string {
	_, inner := a.object()
	m, _ := inner.(map[string]any)
	text, _ := m["message"].(string)
	return text
}

// setFault makes the answer this fault.
func (a *answer) setFault(status int, key, message string) {
	a.status = status
	a.headers["Content-Type"] = "application/json; charset=UTF-8"
	a.value = map[string]any{key: map[string]any{"code": json.Number(strconv.Itoa(status)), "message": message}}
}

// ignored headers are the HTTP server's, not the API's.
var ignored = []string{"Date", "Server", "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length"}

var requestID = regexp.MustCompile(`^req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// send asks a server, whose ids of objects are given.
func send(ctx context.Context, client *http.Client, s server, r request, ids map[string]string) (answer, error) {
	path := r.path
	for uuid, id := range ids {
		path = strings.ReplaceAll(path, "‹"+uuid+"›", id)
	}
	link, err := url.Parse(s.url + path)
	if err != nil {
		return answer{}, err
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.url, body)
	if err != nil {
		return answer{}, err
	}
	req.URL, req.Host = link, "ha.example.com:15868"
	req.Header.Set("User-Agent", "differential")
	for _, line := range r.headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header[name] = append(req.Header[name], value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, headers: map[string]string{}, text: string(raw)}
	for name, values := range resp.Header {
		if !slices.Contains(ignored, name) {
			a.headers[name] = strings.Join(values, ", ")
		}
	}
	if id, ok := a.headers["X-Openstack-Request-Id"]; ok && requestID.MatchString(id) {
		a.headers["X-Openstack-Request-Id"] = "req-UUID"
	}
	for uuid, id := range ids { // a refusal shows what was asked
		if strings.Contains(r.path, "‹"+uuid+"›") {
			raw = bytes.ReplaceAll(raw, []byte("Marker "+id+" "), []byte("Marker ‹"+uuid+"› "))
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&a.value); err != nil {
		a.value = nil
	}
	return a, nil
}

// uuidOf is the key that identifies an object.
func uuidOf(object map[string]any) string {
	for _, key := range []string{"uuid", "notification_uuid"} {
		if uuid, ok := object[key].(string); ok {
			return uuid
		}
	}
	return ""
}

// learn notes the ids of all objects in a JSON value, and reports one that has changed.
func learn(v any, ids map[string]string) (err error) {
	switch v := v.(type) {
	case map[string]any:
		if id, ok := v["id"].(json.Number); ok && uuidOf(v) != "" {
			if before, known := ids[uuidOf(v)]; known && before != id.String() {
				return fmt.Errorf("%s had the id %s, and has %s", uuidOf(v), before, id)
			}
			ids[uuidOf(v)] = id.String()
		}
		for _, e := range v {
			if err := learn(e, ids); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := learn(e, ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// plain replaces ids by what they stand for, and the time of now.
func plain(v any, now time.Time) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, e := range v {
			out[key] = plain(e, now)
			text, isText := e.(string)
			switch {
			case key == "id" && uuidOf(v) != "":
				if _, ok := e.(json.Number); ok {
					out[key] = "the integer of " + uuidOf(v)
				}
			case (key == "created_at" || key == "updated_at") && isText:
				if at, err := time.Parse("2006-01-02T15:04:05.000000", text); err == nil && now.Sub(at).Abs() < time.Minute {
					out[key] = "now"
				}
			case key == "generated_time" && isText:
				// The answer to a POST may show the fraction that MySQL then drops (contract 1.9).
				out[key] = strings.Split(text, ".")[0] + "." + strings.Repeat("0", 6)
				if len(text) != len("2006-01-02T15:04:05.000000") {
					out[key] = text
				}
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i], now)
		}
		return out
	}
	return v
}
