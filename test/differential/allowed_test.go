package differential

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// difference is one way in which salvor deliberately answers otherwise than Debian's Masakari 14. want makes Masakari's answer the one
// that salvor owes, so that what is allowed is exact.
type difference struct {
	name    string
	section string // of the contract
	when    func(x *exchange) bool
	want    func(x *exchange)
}

// original is what Masakari is asked in a request's place:
//
//   - a marker is the integer only, where salvor takes the uuid as well (contract 12.1)
//   - 14 ends at 1.2, where 1.3 adds nothing to what it has (contract 14)
//   - its filter `enabled` knows numbers only (contract 12.3)
//   - its other filters are exact only where the database's comparison is (contract 1.6), which MySQL's is not: what is written in another
//     case than everything here finds nothing
func (p *pair) original(r request) request {
	headers := make([]string, len(r.headers))
	for i, line := range r.headers {
		if name, value, _ := strings.Cut(line, ": "); strings.EqualFold(name, "OpenStack-API-Version") {
			line = name + ": " + newest.ReplaceAllString(value, "instance-ha 1.2")
		}
		headers[i] = line
	}
	r.headers = headers
	if path, query, ok := strings.Cut(r.path, "?"); ok {
		parts := strings.Split(query, "&")
		for i, part := range parts {
			name, value, _ := strings.Cut(part, "=")
			switch lower, upper := value == strings.ToLower(value), value == strings.ToUpper(value); {
			case name == "type" && !upper, slices.Contains([]string{"service_type", "recovery_method", "status"}, name) && !lower && !strings.Contains(value, "%"):
				parts[i] = name + "=nothing"
			case name == "marker" && p.ids[0][value] != "":
				parts[i] = "marker=‹" + value + "›"
			case name == "enabled":
				if text, err := url.QueryUnescape(value); err == nil && isFlag(text) {
					parts[i] = "enabled=" + map[bool]string{true: "1", false: "0"}[slices.Contains(trueFlags, strings.ToLower(strings.TrimSpace(text)))]
				}
			}
		}
		r.path = path + "?" + strings.Join(parts, "&")
	}
	return r
}

var (
	newest     = regexp.MustCompile(`(?i)instance-ha\s+1\.3`)
	trueFlags  = []string{"1", "t", "true", "on", "y", "yes"}
	falseFlags = []string{"0", "f", "false", "off", "n", "no"}
)

func isFlag(text string) bool {
	return slices.Contains(append(falseFlags, trueFlags...), strings.ToLower(strings.TrimSpace(text)))
}

// differences is the table. Section 12 of the contract is its list of the original's oddities: 12.8 is the eighth.
var differences = []difference{
	{
		"OpenStack-API-Version names instance-ha, never masakari", "12.13", always,
		func(x *exchange) { x.editHeader("Openstack-Api-Version", "masakari ", "instance-ha ") },
	},
	{
		"1.3 is the newest version", "14", always,
		func(x *exchange) {
			if asked := strings.Join(x.headers, "\n"); x.got.headers["Openstack-Api-Version"] == "instance-ha 1.3" && (newest.MatchString(asked) || strings.Contains(asked, "instance-ha latest")) {
				x.editHeader("Openstack-Api-Version", "instance-ha 1.2", "instance-ha 1.3")
			}
			x.editMessage("maximum is 1.2", "maximum is 1.3")
			x.edit(func(o map[string]any) {
				if _, ok := o["min_version"]; ok {
					o["version"] = "1.3"
				}
			})
		},
	},
	{
		"a notification shows its segment and a message", "14", always,
		func(x *exchange) {
			x.edit(func(o map[string]any) {
				if _, ok := o["notification_uuid"]; ok {
					o["message"] = nil
					for _, h := range x.world.hosts {
						if h.uuid == o["source_host_uuid"] {
							o["failover_segment_uuid"] = h.segment
						}
					}
				}
			})
		},
	},
	{
		"there are vmoves", "14; 1.10, 1.11", // asked of rows, they are compared with the contract in test/conformance
		func(x *exchange) bool { return vmoves.MatchString(x.route()) || x.what == "extensions" },
		func(x *exchange) {
			if vmoves.MatchString(x.route()) && x.want.status == 404 {
				x.want = x.got
				return
			}
			moves := map[string]any{"name": "vmoves", "alias": "vmoves", "description": "vmoves controller", "namespace": "", "updated": "", "links": []any{}}
			if key, list := x.want.object(); key == "extensions" {
				x.want.value = map[string]any{key: append(list.([]any), moves)}
			} else if strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(x.route(), ".json"), ".xml"), "/extensions/vmoves") && x.want.status == 404 && x.method == "GET" {
				x.want.succeed(200, map[string]any{"extension": moves})
			}
		},
	},
	{
		"a marker that is a uuid is told as one", "12.1",
		func(x *exchange) bool { return !strings.Contains(x.got.fault(), "‹") },
		func(x *exchange) {
			x.editMessage("‹", "")
			x.editMessage("›", "")
		},
	},
	{
		"an Accept that cannot be read allows nothing", "1.3", // WebOb takes it for any
		func(x *exchange) bool {
			return slices.Contains([]string{"x", ",", "application/json;q=x"}, x.header("Accept"))
		},
		func(x *exchange) {
			if x.want.status == x.got.status && x.want.headers["Content-Type"] == "text/html; charset=UTF-8" {
				x.want = x.got
			}
		},
	},
	{
		"an answer to OPTIONS has a request id", "1.3",
		func(x *exchange) bool {
			path, _ := url.PathUnescape(x.route())
			return x.method == "OPTIONS" && (path == "/v1" || strings.HasPrefix(path, "/v1/"))
		},
		func(x *exchange) { x.want.headers["X-Openstack-Request-Id"] = "req-UUID" },
	},
	{
		"repeated slashes are not taken for one", "1.1",
		func(x *exchange) bool {
			return strings.Contains(x.route(), "//") && (x.got.status == 404 || x.got.status == 300 && !strings.HasPrefix(x.route(), "/v1/"))
		},
		func(x *exchange) { x.want, x.follow = x.got, true },
	},
	{
		"what is wrong with a query is told in one order", "1.1, step 11; 12.3, 12.6, 12.7",
		func(x *exchange) bool {
			return x.isList() && !strings.Contains(x.path, "%FF") && !vmoves.MatchString(x.route()) && (x.want.status == 200 || x.want.status == 400 || x.want.status == 404 || x.want.status == 500) && x.got.status == 400
		},
		func(x *exchange) {
			if all := x.complaints(); len(all) > 0 {
				x.want.setFault(400, "badRequest", all[0])
			}
		},
	},
	{
		"half a surrogate pair is shown as a character that is none", "1.5", always,
		func(x *exchange) {
			if strings.Contains(x.got.text, "\uffff") {
				x.editMessage("\ufffd", "\uffff")
				x.editMessage(`'\ud800'`, `'\uffff'`)
				x.editMessage(`'\udc00'`, `'\uffff'`)
			}
		},
	},
	{
		"NaN is no JSON", "1.2",
		func(x *exchange) bool { return strings.Contains(string(x.body), "NaN") && x.want.status == 400 },
		func(x *exchange) { x.want.setFault(400, "badRequest", "Malformed request body") },
	},
	{
		"text that is not UTF-8 is no failure", "12.37",
		func(x *exchange) bool {
			return x.want.status == 500 && (strings.Contains(x.path, "%FF") || !utf8.Valid(x.body))
		},
		func(x *exchange) {
			if x.body != nil && !utf8.Valid(x.body) {
				x.want.setFault(400, "badRequest", "Malformed request body")
			} else if x.got.status == 200 || x.got.status == 400 {
				x.want = x.got
			}
		},
	},
	{
		"Nova's failure is not ours", "12.22; 1.8",
		func(x *exchange) bool {
			return novaFails.Match(x.body) && (x.want.status == 500 || x.want.status == 409)
		},
		func(x *exchange) {
			x.want.setFault(503, "serviceUnavailable", "Nova cannot be asked now. Try again later.")
		},
	},
	{
		"null for a host's type or control_attributes is refused", "12.5",
		func(x *exchange) bool {
			return strings.HasSuffix(x.got.fault(), "Value: None. None is not of type 'string'") && strings.Contains(string(x.body), "null")
		},
		func(x *exchange) {
			for _, name := range []string{"type", "control_attributes"} {
				if text := "Invalid input for field/attribute " + name + ". Value: None. None is not of type 'string'"; x.got.fault() == text {
					x.want.setFault(400, "badRequest", text)
				}
			}
		},
	},
	{
		"a time is of a form that the contract lists", "1.9",
		func(x *exchange) bool {
			return x.got.status == 400 && slices.ContainsFunc(oddMoments, func(text string) bool { return strings.HasSuffix(x.got.fault(), "'"+text+"' is not a 'date-time'") })
		},
		func(x *exchange) { x.want.setFault(400, "badRequest", x.got.fault()); x.follow = true },
	},
	{
		"a page goes on after a marker that has nothing in the column of the order", "1.6", // Masakari loses the rest of the list
		func(x *exchange) bool {
			return x.isList() && x.query().Has("marker") && x.want.status == 200 && slices.ContainsFunc(x.query()["sort_key"], func(key string) bool {
				return slices.Contains([]string{"updated_at", "description", "deleted_at", "message"}, strings.TrimSpace(key))
			})
		},
		func(x *exchange) { x.want = x.got },
	},
	{
		"the pattern of printable texts is not spelled out", "1.4", always,
		func(x *exchange) {
			x.edit(func(o map[string]any) {
				if text, ok := o["message"].(string); ok {
					if before, _, ok := strings.Cut(text, " does not match '^[\\n\\\\ -"); ok {
						o["message"] = before + " does not match '^[printable characters and newlines]*$'"
					}
				}
			})
		},
	},
	{
		"an id outside of ASCII is shown as it was sent", "1.2", always,
		func(x *exchange) { x.editMessage("Ã¤", "ä") },
	},
	{
		"enabled in a PUT is parsed", "12.4",
		func(x *exchange) bool { return x.method == "PUT" && x.want.status == 200 },
		func(x *exchange) {
			var asked struct{ Segment struct{ Enabled any } }
			if json.Unmarshal(x.body, &asked) != nil {
				return
			}
			if word, ok := asked.Segment.Enabled.(string); ok {
				x.edit(func(o map[string]any) {
					if _, ok := o["enabled"]; ok {
						o["enabled"] = slices.Contains([]string{"True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"}, word)
						_, got := x.got.object()
						o["updated_at"] = got.(map[string]any)["updated_at"] // Masakari may have changed nothing, or alone something
						x.follow = true
					}
				})
			}
		},
	},
	{
		"hosts are in use by their own notifications only", "12.18",
		func(x *exchange) bool {
			return x.want.status == 409 && strings.Contains(x.want.fault(), "Host ") && strings.Contains(x.want.fault(), "in-use")
		},
		func(x *exchange) {
			path, _ := url.PathUnescape(x.route())
			if m := aMember.FindStringSubmatch(path); len(m) > 4 && !x.world.inUse(strings.ToLower(m[4])) {
				x.want, x.follow = x.got, x.got.status < 300
			}
		},
	},
	{
		"a newline at the end matches no pattern", "12.11",
		func(x *exchange) bool {
			return endsInNewline.Match(x.body) && x.got.status == 400 && (strings.Contains(x.got.fault(), `\n' does not match`) || strings.Contains(x.got.fault(), `\n' is not a`) || strings.HasPrefix(x.got.fault(), "An invalid 'name'"))
		},
		func(x *exchange) { x.want.setFault(400, "badRequest", x.got.fault()); x.follow = true },
	},
	{
		"a duplicate is what the rules of recovery say", "12.15; RECOVERY A2, A3",
		func(x *exchange) bool {
			return x.method == "POST" && strings.HasSuffix(x.route(), "/notifications") && x.want.status != x.got.status
		},
		func(x *exchange) {
			r := reportOf(x.body)
			switch {
			case x.want.status == 202 && x.got.status == 409 && x.world.openDeath(r):
				x.want.setFault(409, "conflictingRequest", "Notification received from host "+r.hostname+" of type COMPUTE_HOST is duplicate.")
				x.follow = true
			case x.want.status == 409 && x.got.status == 202 && strings.HasSuffix(x.want.fault(), "is duplicate.") && x.world.anew(r):
				x.want, x.follow = x.got, true
			}
		},
	},
	{
		"documents outside of /v1 do not mind the request's type", "1.1", // nor a version within it, by which Masakari asks /v1 instead
		func(x *exchange) bool {
			return !strings.HasPrefix(x.route(), "/v1/") && x.route() != "/v1" && (x.want.status == 415 || strings.Contains(strings.Join(x.headers, " "), ";version="))
		},
		func(x *exchange) { x.want = x.got },
	},
}

// oddMoments are times that Masakari takes as well.
var oddMoments = []string{"2024-03-01T00:00:00+00:60", "2024", "2024-03", "2024-3-1"}

var (
	novaFails     = regexp.MustCompile(`"nova\d{3}`)
	endsInNewline = regexp.MustCompile(`\\n"`)
	vmoves        = regexp.MustCompile(`^/v1/+(?:[0-9a-f-]+/)?notifications/[^/]+/vmoves`)
	aMember       = regexp.MustCompile(`^/v1(?:/[0-9a-f-]+)?/(?:segments/[^/]+/(host)s|(segment)s|(notification)s)/([^/.]+)`)
)

// inUse reports whether a notification of the host is unfinished.
func (w *world) inUse(host string) bool {
	return slices.ContainsFunc(w.notifications, func(n *thing) bool { return n.host == host && n.open })
}

// succeed makes the answer this success.
func (a *answer) succeed(status int, value any) {
	a.status, a.value = status, value
	a.headers["Content-Type"] = "application/json"
}

func always(*exchange) bool { return true }

// edit changes every object in the body.
func (x *exchange) edit(change func(o map[string]any)) { x.want.value = edited(x.want.value, change) }

func edited(v any, change func(o map[string]any)) any {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			v[key] = edited(e, change)
		}
		change(v)
	case []any:
		for i := range v {
			v[i] = edited(v[i], change)
		}
	}
	return v
}

func (x *exchange) editHeader(name, from, to string) {
	if value, ok := x.want.headers[name]; ok {
		x.want.headers[name] = strings.Replace(value, from, to, 1)
	}
}

func (x *exchange) editMessage(from, to string) {
	x.edit(func(o map[string]any) {
		if text, ok := o["message"].(string); ok {
			o["message"] = strings.Replace(text, from, to, 1)
		}
	})
}
