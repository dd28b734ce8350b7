package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Runner runs cases against a server.
type Runner struct {
	URL         string
	Have        []string // tags of what the environment offers
	Token       string
	MemberToken string
	BadToken    string
	Project     string
	ProjectURLs bool     // call every resource below /v1/{project_id}
	Groups      []string // run these groups only; none: all

	client *http.Client
}

// NewRunner returns a runner with the tokens and the project of the Stub.
func NewRunner(url string, have ...string) *Runner {
	return &Runner{
		URL: url, Have: have, Token: AdminToken, MemberToken: MemberToken, BadToken: "not-a-token", Project: Project,
		client: &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: 30 * time.Second},
	}
}

// Missing returns what a case needs that the environment does not offer, "" when it can run.
func (r *Runner) Missing(c Case) string {
	if len(r.Groups) > 0 && !slices.Contains(r.Groups, c.Group) {
		return "group " + c.Group
	}
	for _, tag := range c.Requires {
		if !slices.Contains(r.Have, tag) {
			return tag
		}
	}
	return c.SkipOn["salvor"]
}

// Run runs one case; the error says what differs.
func (r *Runner) Run(ctx context.Context, c Case) error {
	now := time.Now().UTC()
	const micro, second = "2006-01-02T15:04:05.000000", "2006-01-02T15:04:05"
	v := vars{
		"uniq": strings.ReplaceAll(uuid.NewString(), "-", "")[:12], "project_id": r.Project,
		"member_token": r.MemberToken, "bad_token": r.BadToken,
		"now": now.Format(micro), "now_sec": now.Format(second), "now_tz": now.Format(second) + "Z",
		"past": now.AddDate(0, 0, -2).Format(micro), "future": now.AddDate(0, 0, 2).Format(micro),
	}
	for i := range 9 {
		v["uuid"+strconv.Itoa(i+1)] = uuid.NewString()
	}
	for i, s := range c.Setup {
		if err := r.step(ctx, s, v); err != nil {
			return fmt.Errorf("setup[%d] %s %s: %w", i, s.Method, v.text(s.Path), err)
		}
	}
	a, err := r.call(ctx, c.Request, v)
	if err != nil {
		return err
	}
	if err := check(c.Expect, a, v); err != nil {
		return err
	}
	if err := capture(c.Request, a, v); err != nil {
		return err
	}
	for i, s := range c.Then {
		if err := r.step(ctx, s, v); err != nil {
			return fmt.Errorf("then[%d] %s %s: %w", i, s.Method, v.text(s.Path), err)
		}
	}
	return nil
}

// step is one request before or after the case's own.
func (r *Runner) step(ctx context.Context, s Step, v vars) error {
	a, err := r.call(ctx, s, v)
	if err != nil {
		return err
	}
	if s.Poll != nil {
		if a, err = r.poll(ctx, s, v, a); err != nil {
			return err
		}
	}
	if s.Expect != nil {
		err = check(*s.Expect, a, v)
	} else {
		want := s.ExpectStatus
		if want == nil {
			want = json.RawMessage(`[200, 201, 202, 204]`)
		}
		err = checkStatus(want, a)
	}
	if err != nil {
		return err
	}
	return capture(s, a, v)
}

func (r *Runner) poll(ctx context.Context, s Step, v vars, a answer) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Poll.Timeout*float64(time.Second)))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if got, err := a.json(); err == nil && match(v.value(s.Poll.Until), got, "$") == nil {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("it did not come to %s within %v s: %s", short(s.Poll.Until), s.Poll.Timeout, short(string(a.body)))
		case <-tick.C:
		}
		next, err := r.call(ctx, s, v)
		if err != nil && ctx.Err() == nil {
			return a, err
		}
		if err == nil {
			a = next
		}
	}
}

func capture(s Step, a answer, v vars) error {
	if len(s.Capture) == 0 {
		return nil
	}
	got, err := a.json()
	if err != nil {
		return err
	}
	for name, path := range s.Capture {
		value := got
		for element := range strings.SplitSeq(path, ".") {
			switch in := value.(type) {
			case map[string]any:
				value = in[element]
			case []any:
				i, err := strconv.Atoi(element)
				if err != nil || i >= len(in) {
					return fmt.Errorf("nothing at %s of %s", path, short(got))
				}
				value = in[i]
			default:
				return fmt.Errorf("nothing at %s of %s", path, short(got))
			}
		}
		v[name] = value
	}
	return nil
}

func checkStatus(want json.RawMessage, a answer) error {
	var one int
	var list []int
	if json.Unmarshal(want, &one) == nil {
		list = []int{one}
	} else if err := json.Unmarshal(want, &list); err != nil {
		return err
	}
	if !slices.Contains(list, a.status) {
		return fmt.Errorf("status: want %v, got %d %s", list, a.status, short(string(a.body)))
	}
	return nil
}

// check compares an answer with what is expected.
func check(e Expect, a answer, v vars) error {
	if e.Status != nil {
		if err := checkStatus(e.Status, a); err != nil {
			return err
		}
	}
	if err := checkHeaders(e.Headers, a, v); err != nil {
		return err
	}
	if e.NoBody && len(a.body) > 0 {
		return fmt.Errorf("body: want none, got %s", short(string(a.body)))
	}
	if e.RawRE != "" && !regexp.MustCompile("(?s)"+v.text(e.RawRE)).Match(a.body) {
		return fmt.Errorf("body: want /%s/, got %s", e.RawRE, short(string(a.body)))
	}
	if e.ErrorKey == "" && e.Message == nil && e.MessageRE == "" && e.Subset == nil {
		return nil
	}
	got, err := a.json()
	if err != nil {
		return err
	}
	if err := checkFault(e, a.status, got, v); err != nil {
		return err
	}
	if e.Subset == nil {
		return nil
	}
	return match(v.value(e.Subset), got, "$")
}

func checkHeaders(want map[string]any, a answer, v vars) error {
	for name, w := range want {
		values := a.header.Values(name)
		got := strings.Join(values, ", ")
		m, isMatcher := w.(map[string]any)
		switch {
		case isMatcher && m["$absent"] == true:
			if len(values) > 0 {
				return fmt.Errorf("header %s: must be absent, got %q", name, got)
			}
			continue
		case len(values) == 0:
			return fmt.Errorf("header %s: missing", name)
		}
		if err := match(v.value(w), got, "header "+name); err != nil {
			return err
		}
	}
	return nil
}

// checkFault looks at the one inner object of an error, or at the body itself when it is none.
func checkFault(e Expect, status int, got any, v vars) error {
	inner := got
	if object, ok := got.(map[string]any); ok && len(object) == 1 {
		for key, value := range object {
			if e.ErrorKey != "" && key != e.ErrorKey {
				return fmt.Errorf("error: want only the key %q, got %s", e.ErrorKey, short(got))
			}
			inner = value
		}
	} else if e.ErrorKey != "" {
		return fmt.Errorf("error: want only the key %q, got %s", e.ErrorKey, short(got))
	}
	if e.ErrorKey != "" {
		want := map[string]any{"code": json.Number(strconv.Itoa(status)), "message": map[string]any{"$type": "str"}}
		if err := match(want, inner, "$."+e.ErrorKey); err != nil {
			return err
		}
	}
	fault, _ := inner.(map[string]any)
	message, _ := fault["message"].(string)
	if e.Message != nil && message != v.text(*e.Message) {
		return fmt.Errorf("message: want %q, got %q", v.text(*e.Message), message)
	}
	if e.MessageRE != "" && !regexp.MustCompile("(?s)"+v.text(e.MessageRE)).MatchString(message) {
		return fmt.Errorf("message: want /%s/, got %q", v.text(e.MessageRE), message)
	}
	return nil
}
