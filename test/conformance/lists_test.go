package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// client calls an API without authentication; every exchange is checked against openapi.yaml.
type client struct {
	t    *testing.T
	base string
	http *http.Client
}

func newClient(t *testing.T, base string) client {
	return client{t, base, &http.Client{Transport: testkit.Document(t).Transport(t, http.DefaultTransport)}}
}

// ask sends a request; headers are "Name: value".
func (c client) ask(method, path, body string, headers ...string) (int, http.Header, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, data
}

// make creates an object and returns it.
func (c client) make(path, wrapper, body string) map[string]any {
	c.t.Helper()
	status, _, data := c.ask("POST", path, body, "OpenStack-API-Version: instance-ha 1.2")
	var got map[string]map[string]any
	if err := decode(data, &got); err != nil || status >= 300 {
		c.t.Fatalf("%s %s: %d %s", path, body, status, data)
	}
	return got[wrapper]
}

// list reads one page of a list.
func (c client) list(path string, query url.Values) []map[string]any {
	c.t.Helper()
	status, _, data := c.ask("GET", path+"?"+query.Encode(), "")
	var got map[string][]map[string]any
	if err := decode(data, &got); err != nil || status != http.StatusOK || len(got) != 1 {
		c.t.Fatalf("%s?%s: %d %s", path, query.Encode(), status, data)
	}
	for _, list := range got {
		return list
	}
	return nil
}

// ids are the integer ids of a list, in its order.
func ids(list []map[string]any) []string {
	found := []string{}
	for _, o := range list {
		found = append(found, fmt.Sprint(o["id"]))
	}
	return found
}

// filled makes five segments, five hosts of one of them, eight notifications. It returns
// the paths of the lists.
func filled(c client) map[string]string {
	c.t.Helper()
	methods := []string{"auto", "reserved_host", "auto_priority", "rh_priority", "auto"}
	var rack string
	for i, m := range methods {
		s := c.make("/v1/segments", "segment", fmt.Sprintf(`{"segment": {"name": "rack-%d", "recovery_method": %q, "service_type": "S%d", "enabled": %v, "description": %s}}`,
			9-i, m, i%2, i%2 == 0, []string{"null", `"b"`, `"a"`}[i%3]))
		rack = s["uuid"].(string)
	}
	hosts := "/v1/segments/" + rack + "/hosts"
	for i := range 5 {
		c.make(hosts, "host", fmt.Sprintf(`{"host": {"name": "cmp-%d", "type": "T%d", "control_attributes": "c%d", "on_maintenance": false, "reserved": %v}}`, i*7%5, i%2, i%3, i < 2))
	}
	for i := range 8 {
		payload := stopped
		kind := []string{"COMPUTE_HOST", "VM", "PROCESS"}[i%3]
		switch kind {
		case "VM":
			payload = strings.Replace(died, "0123abcd", fmt.Sprintf("0123abc%d", i), 1)
		case "PROCESS":
			payload = fmt.Sprintf(`{"event": "STOPPED", "process_name": "p%d"}`, i)
		}
		c.make("/v1/notifications", "notification", note(kind, fmt.Sprintf("cmp-%d", i%5), fmt.Sprintf("2026-01-0%dT00:00:00", 1+i*5%8), payload))
	}
	for i, h := range c.list(hosts, url.Values{"sort_key": {"id"}, "sort_dir": {"asc"}}) {
		if i%2 == 1 {
			c.ask("PUT", hosts+"/"+h["uuid"].(string), `{"host": {"on_maintenance": true}}`)
		}
	}
	return map[string]string{"segments": "/v1/segments", "hosts": hosts, "notifications": "/v1/notifications"}
}

// compare orders two values of a key as the contract has it: null first, false before true, numbers as numbers, payloads not at all.
func compare(a, b any) int {
	switch x := a.(type) {
	case nil:
		if b == nil {
			return 0
		}
		return -1
	case bool:
		y, _ := b.(bool)
		return strings.Compare(strconv.FormatBool(x), strconv.FormatBool(y))
	case json.Number:
		p, _ := x.Int64()
		q, _ := b.(json.Number).Int64()
		return int(p - q)
	case string:
		y, ok := b.(string)
		if !ok {
			return 1
		}
		return strings.Compare(x, y)
	default:
		return 0
	}
}

// Each list can be sorted by each key that it shows, both ways, with ties by created_at and id in the same direction; and
// pages of every length, by integer marker and by uuid, are that order cut up (contract 1.6).
func TestSortsAndMarkers(t *testing.T) {
	forEachDatabase(t, func(t *testing.T, database string) {
		c := newClient(t, start(t, database, noAuth))
		for kind, path := range filled(c) {
			all := c.list(path, nil)
			keys := slices.DeleteFunc(slices.Sorted(maps.Keys(all[0])), func(k string) bool {
				return k == "failover_segment" || k == "payload" // shown, but no column or no order
			})
			if diff := cmp.Diff(ids(sorted(all, "created_at", "desc")), ids(all)); diff != "" {
				t.Errorf("%s: the default order (-want +got):\n%s", kind, diff)
			}
			for _, key := range keys {
				for _, dir := range []string{"asc", "desc"} {
					order := url.Values{"sort_key": {key}, "sort_dir": {dir}}
					want := ids(sorted(all, key, dir))
					if diff := cmp.Diff(want, ids(c.list(path, order))); diff != "" {
						t.Errorf("%s by %s %s (-want +got):\n%s", kind, key, dir, diff)
					}
					for limit, marker := range map[int]string{1: "id", 2: uuidKey(kind), 3: "id"} {
						if diff := cmp.Diff(want, ids(c.pages(path, order, limit, marker))); diff != "" {
							t.Errorf("%s by %s %s, pages of %d by %s (-want +got):\n%s", kind, key, dir, limit, marker, diff)
						}
					}
				}
			}
		}
		for _, bad := range []string{"/v1/segments?sort_key=hosts", "/v1/notifications?sort_key=host", "/v1/segments?sort_key=", "/v1/segments?sort_key=name:asc", "/v1/segments?sort_key=name,id"} {
			if status, _, data := c.ask("GET", bad, ""); status != http.StatusBadRequest || !bytes.Contains(data, []byte("Sort key supplied is invalid: ")) {
				t.Errorf("%s: %d %s", bad, status, data)
			}
		}
	})
}

func uuidKey(kind string) string {
	if kind == "notifications" {
		return "notification_uuid"
	}
	return "uuid"
}

// sorted is what a list in that order must be.
func sorted(list []map[string]any, key, dir string) []map[string]any {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b map[string]any) int {
		for _, k := range []string{key, "created_at", "id"} {
			if d := compare(a[k], b[k]); d != 0 && dir == "desc" {
				return -d
			} else if d != 0 {
				return d
			}
		}
		return 0
	})
	return out
}

// pages reads a list page by page, until one is empty, as openstacksdk does.
func (c client) pages(path string, order url.Values, limit int, marker string) []map[string]any {
	c.t.Helper()
	query := maps.Clone(order)
	query.Set("limit", strconv.Itoa(limit))
	var all []map[string]any
	for {
		page := c.list(path, query)
		if len(page) == 0 {
			return all
		}
		if all = append(all, page...); len(all) > 100 {
			c.t.Fatalf("%s?%s never ends", path, query.Encode())
		}
		query.Set("marker", fmt.Sprint(page[len(page)-1][marker]))
	}
}

// Each filter gives what a look at all elements gives, alone, with a sort, and page by page; a value that cannot be one is 400,
// and one that matches nothing gives nothing (contract 1.6, field report F141).
func TestFilters(t *testing.T) {
	yes := []string{"True", "true", "1", " on ", "YES", "t", "y"}
	no := []string{"False", "false", "0", "off", "No", "f", "n"}
	flags := func(key string) (cases []filterCase) {
		for _, v := range yes {
			cases = append(cases, filterCase{key, v, func(o map[string]any) bool { return o[key] == true }})
		}
		for _, v := range no {
			cases = append(cases, filterCase{key, v, func(o map[string]any) bool { return o[key] == false }})
		}
		return cases
	}
	texts := func(key string, values ...string) (cases []filterCase) {
		for _, v := range values {
			cases = append(cases, filterCase{key, v, func(o map[string]any) bool { return o[key] == v }})
		}
		return cases
	}
	since := func(v, from string) filterCase {
		return filterCase{"generated-since", v, func(o map[string]any) bool { return o["generated_time"].(string) >= from }}
	}
	ignored := func(key, v string) filterCase { return filterCase{key, v, func(map[string]any) bool { return true }} }
	cases := map[string][]filterCase{
		"segments":      slices.Concat(flags("enabled"), texts("recovery_method", "auto", "rh_priority", "none", ""), texts("service_type", "S0", "S1", "S2"), []filterCase{ignored("name", "rack-9"), ignored("x", "y")}),
		"hosts":         slices.Concat(flags("on_maintenance"), flags("reserved"), texts("type", "T0", "T1", "T"), []filterCase{ignored("name", "cmp-1"), ignored("control_attributes", "c1")}),
		"notifications": slices.Concat(texts("type", "VM", "COMPUTE_HOST", "vm"), texts("status", "new", "finished", "odd"), []filterCase{since("2026-01-05", "2026-01-05"), since("20260105T000000Z", "2026-01-05"), since("2026-01-05T01:00:00+02:00", "2026-01-04T23"), since("2036-01-01", "2036")}),
	}
	forEachDatabase(t, func(t *testing.T, database string) {
		c := newClient(t, start(t, database, noAuth))
		paths := filled(c)
		for kind, list := range cases {
			all := c.list(paths[kind], nil)
			for _, f := range list {
				order := url.Values{f.key: {f.value}, "sort_key": {"id"}, "sort_dir": {"asc"}}
				want := ids(sorted(slices.DeleteFunc(slices.Clone(all), func(o map[string]any) bool { return !f.has(o) }), "id", "asc"))
				if diff := cmp.Diff(want, ids(c.list(paths[kind], order))); diff != "" {
					t.Errorf("%s with %s=%q (-want +got):\n%s", kind, f.key, f.value, diff)
				}
				if diff := cmp.Diff(want, ids(c.pages(paths[kind], order, 2, "id"))); diff != "" {
					t.Errorf("%s with %s=%q in pages (-want +got):\n%s", kind, f.key, f.value, diff)
				}
			}
		}
		hosts := c.list(paths["hosts"], nil)
		query := url.Values{"source_host_uuid": {hosts[0]["uuid"].(string)}, "type": {"VM"}}
		for _, n := range c.list("/v1/notifications", query) {
			if n["source_host_uuid"] != hosts[0]["uuid"] || n["type"] != "VM" {
				t.Errorf("%v among %v", n, query)
			}
		}
		for _, bad := range []string{
			paths["hosts"] + "?reserved=x", paths["hosts"] + "?on_maintenance=", paths["segments"] + "?enabled=2", "/v1/notifications?generated-since=1767225600",
			"/v1/notifications?generated-since=2026-13-01", "/v1/segments?limit=1.5", "/v1/segments?limit=1e3", "/v1/segments?page_size=-1", "/v1/segments?marker=-1",
		} {
			if status, _, data := c.ask("GET", bad, ""); status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, status, data)
			}
		}
		// The last of a repeated parameter counts.
		if n := len(c.list("/v1/segments", url.Values{"limit": {"1", "2"}})); n != 2 {
			t.Errorf("limit=1&limit=2 gives %d", n)
		}
	})
}

// filterCase is a filter and what it lets through.
type filterCase struct {
	key, value string
	has        func(o map[string]any) bool
}

// Every routed request obeys the microversion header alike, and what it shows does not depend on it but for
// recovery_workflow_details (contract 2).
func TestMicroversionsEverywhere(t *testing.T) {
	c := newClient(t, start(t, "sqlite://", noAuth))
	paths := filled(c)
	one := func(kind, key string) string { return paths[kind] + "/" + c.list(paths[kind], nil)[0][key].(string) }
	all := []string{
		"/v1", "/v1/", "/v1/versions/v1.0", "/v1/extensions", "/v1/extensions/vmoves", paths["segments"], paths["hosts"], paths["notifications"],
		one("segments", "uuid"), one("hosts", "uuid"), one("notifications", "notification_uuid"), "/v1/segments/new", "/v1/segments/" + nowhere,
	}
	for _, path := range all {
		_, _, plain := c.ask("GET", path, "")
		for header, want := range map[string]string{
			"": "1.0", "instance-ha 1.1": "1.1", "instance-ha 1.2": "1.2", "instance-ha latest": "1.3", "compute 2.53, INSTANCE-HA 1.3": "1.3",
			"masakari 1.3": "1.0", "instance-ha LATEST": "", "instance-ha 1": "", "instance-ha 1.4": "406", "instance-ha 2.0": "406",
		} {
			status, got, body := c.ask("GET", path, "", "OpenStack-API-Version: "+header)
			version := got.Get("OpenStack-API-Version")
			switch {
			case want == "" && (status != http.StatusBadRequest || version != ""), want == "406" && (status != http.StatusNotAcceptable || "instance-ha "+refused(header) != version):
				t.Errorf("%s with %q: %d, version %q: %s", path, header, status, version, body)
			case want == "" || want == "406":
			case version != "instance-ha "+want || got.Get("Vary") != "OpenStack-API-Version":
				t.Errorf("%s with %q: version %q, vary %q", path, header, version, got.Get("Vary"))
			case strings.HasPrefix(path, "/v1/notifications/") && want != "1.0":
				if !bytes.Contains(body, []byte(`"recovery_workflow_details":[]`)) {
					t.Errorf("%s with %q: %s", path, header, body)
				}
			case !bytes.Equal(plain, body):
				t.Errorf("%s with %q: %s\nwithout: %s", path, header, body, plain)
			}
		}
	}
}

func refused(header string) string { return strings.TrimPrefix(header, "instance-ha ") }
