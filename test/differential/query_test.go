package differential

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

var lists = regexp.MustCompile(`^/v1(?:/[0-9a-f-]+)?/(segments|notifications|segments/[^/]+/hosts)(?:\.json|\.xml)?$`)

func (x *exchange) isList() bool { return x.method == http.MethodGet && lists.MatchString(x.route()) }

// sortKeys are the columns (contract 1.6 and 7).
var sortKeys = map[string][]string{
	"segments":      {"uuid", "name", "service_type", "enabled", "description", "recovery_method"},
	"hosts":         {"uuid", "name", "failover_segment_id", "type", "reserved", "control_attributes", "on_maintenance"},
	"notifications": {"notification_uuid", "generated_time", "source_host_uuid", "type", "payload", "status", "failover_segment_uuid", "message"},
}

var (
	integer = regexp.MustCompile(`^\s*([+-]?)(\d+)\s*$`)
	digits  = regexp.MustCompile(`^\d+$`)
)

// complaints are what is wrong with a list's query, in the contract's order: limit, page_size, marker, sort, boolean filters, since.
func (x *exchange) complaints() (all []string) {
	query := x.query()
	last := func(name string) (string, bool) {
		values := query[name]
		if len(values) == 0 {
			return "", false
		}
		return values[len(values)-1], true
	}
	for _, name := range []string{"limit", "page_size"} {
		value, ok := last(name)
		m := integer.FindStringSubmatch(value)
		switch {
		case !ok:
		case m == nil:
			all = append(all, "Invalid input received: "+name+" must be an integer")
		case m[1] == "-" && strings.Trim(m[2], "0") != "":
			all = append(all, "Invalid input received: "+name+" must be >= 0")
		}
	}
	kind := lists.FindStringSubmatch(x.route())[1]
	kind = kind[strings.LastIndex(kind, "/")+1:]
	if marker, ok := last("marker"); ok && !digits.MatchString(marker) && !strings.HasPrefix(marker, "‹") && !someID.MatchString(marker) {
		all = append(all, "Marker "+strings.ToValidUTF8(marker, "\ufffd")+" could not be found.")
	}
	keys, dirs := query["sort_key"], query["sort_dir"]
	for _, d := range dirs {
		if d = strings.TrimSpace(d); d != "asc" && d != "desc" {
			all = append(all, "Invalid input received: Unknown sort direction, must be 'asc' or 'desc'")
			break
		}
	}
	if len(dirs) > max(len(keys), 1) {
		all = append(all, "Invalid input received: Sort direction size exceeds sort key size")
	}
	for _, key := range keys {
		if key = strings.TrimSpace(key); !slices.Contains(append(sortKeys[kind], "id", "created_at", "updated_at", "deleted_at", "deleted"), key) {
			all = append(all, "Sort key supplied is invalid: "+key)
			break
		}
	}
	flags := map[string][]string{"segments": {"enabled"}, "hosts": {"on_maintenance", "reserved"}}[kind]
	for _, name := range flags {
		if value, ok := last(name); ok && !isFlag(value) {
			all = append(all, "Invalid value for "+name+": Unrecognized value '"+value+"', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'")
		}
	}
	if value, ok := last("generated-since"); ok && kind == "notifications" && x.got.fault() == "Invalid generated-since value" {
		all = append(all, "Invalid generated-since value"+value[:0])
	}
	return all
}
