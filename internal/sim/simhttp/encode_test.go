package simhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/sim"
)

// TestAppendJSON: the fast way writes the very bytes of the encoder of the standard library.
func TestAppendJSON(t *testing.T) {
	for _, v := range []any{
		nil, true, false, 0, -7, int64(1) << 40, 1.5, "", "plain", "quote \" slash \\ tab \t", "<a & b>", "über\u2028\x00\xff", "\x7f",
		object{}, object(nil), []object{}, []object(nil), []string{}, []string(nil), map[string]string(nil),
		object{"b": 1, "a": nil, "c": object{"z": []object{{"y": "x"}, nil}, "w": []string{"1", "2"}}, "ü": map[string]string{"k": "<v>"}},
		[]any{1, "two", object{"three": 3}}, struct{ Name string }{"other"}, json.RawMessage(`{"raw":1}`),
	} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		got, err := appendJSON([]byte("before "), v)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff("before "+want.String(), string(got)+"\n"); d != "" {
			t.Errorf("%#v: %s", v, d)
		}
	}
	got, err := appendJSON(nil, object{"list": []record{{{"b", 1}, {"a", []record(nil)}}, {}}, "one": record{{"x", "y"}}})
	if d := cmp.Diff(`{"list":[{"b":1,"a":null},{}],"one":{"x":"y"}}`, string(got)); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := appendJSON(nil, object{"a": []object{{"b": func() {}}}}); err == nil {
		t.Error("what is no JSON was written")
	}
}

// BenchmarkListServers is a page of 50 servers, which each engine asks for once a second and host.
func BenchmarkListServers(b *testing.B) {
	cloud := sim.New(sim.Options{Hosts: 2})
	defer cloud.Close()
	if _, err := cloud.AddInstances("host-1", 50, sim.InstanceSpec{}); err != nil {
		b.Fatal(err)
	}
	s := New(cloud, Options{})
	defer s.Close()
	admin := s.tokens.issue(token{user: users[0], roles: adminRoles})
	r := &request{method: "GET", query: map[string][]string{"all_tenants": {"1"}, "host": {"host-1"}}, token: admin, minor: maxMinor, base: "http://x"}
	for b.Loop() {
		body, err := appendJSON(nil, s.listServers(r, true).body)
		if err != nil || len(body) < 50*500 {
			b.Fatal(fmt.Sprint(len(body), err))
		}
	}
}
