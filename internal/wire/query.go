package wire

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Query is the query string of a list request (contract 1.6). Max is osapi_max_limit.
type Query struct {
	Values url.Values
	Max    int
}

// ParseQuery reads a query string as WebOb does: a semicolon separates as & does, and an escape that is none is text. By net/url such a
// parameter would be lost without a word, and a page be longer than was asked for.
func ParseQuery(raw string) url.Values {
	values := url.Values{}
	for pair := range strings.SplitSeq(strings.ReplaceAll(raw, ";", "&"), "&") {
		if name, value, _ := strings.Cut(pair, "="); pair != "" {
			name = unescaped(name)
			values[name] = append(values[name], unescaped(value))
		}
	}
	return values
}

var percent = regexp.MustCompile(`%([0-9A-Fa-f]{2})?`)

func unescaped(s string) string {
	text, err := url.QueryUnescape(s)
	if err != nil {
		text, _ = url.QueryUnescape(percent.ReplaceAllStringFunc(s, func(escape string) string {
			if escape == "%" {
				return "%25"
			}
			return escape
		}))
	}
	return text
}

// SegmentList reads the query of GET segments.
func (q Query) SegmentList() (ha.SegmentFilter, ha.Page, error) {
	r := reader{q: q}
	p := r.page(segmentSorts)
	f := ha.SegmentFilter{RecoveryMethod: r.text("recovery_method"), ServiceType: r.text("service_type"), Enabled: r.flag("enabled")}
	return f, p, r.err
}

// HostList reads the query of GET hosts. The segment is the URL's.
func (q Query) HostList() (ha.HostFilter, ha.Page, error) {
	r := reader{q: q}
	p := r.page(hostSorts)
	f := ha.HostFilter{Type: r.text("type"), OnMaintenance: r.flag("on_maintenance"), Reserved: r.flag("reserved")}
	return f, p, r.err
}

// NotificationList reads the query of GET notifications.
func (q Query) NotificationList() (ha.NotificationFilter, ha.Page, error) {
	r := reader{q: q}
	p := r.page(notificationSorts)
	f := ha.NotificationFilter{SourceHostUUID: r.text("source_host_uuid"), Type: r.text("type"), Status: r.text("status")}
	if since, ok := r.last("generated-since"); ok {
		t, ok := parseTime(since)
		if !ok {
			r.fail("Invalid generated-since value")
		}
		f.GeneratedSince = &t
	}
	return f, p, r.err
}

// VMoveList reads the query of GET vmoves. The notification is the URL's.
func (q Query) VMoveList() (ha.VMoveFilter, ha.Page, error) {
	r := reader{q: q}
	p := r.page(vmoveSorts)
	return ha.VMoveFilter{Type: r.text("type"), Status: r.text("status")}, p, r.err
}

// Timeline reads the query of GET ext/recoveries/{notification_id}: at most limit entries before the one whose id is before, 0
// for the newest ones.
func (q Query) Timeline() (before int64, limit int, err error) {
	r := reader{q: q}
	limit = r.limit()
	if marker, given := r.last("marker"); given && r.err == nil {
		before, err = strconv.ParseInt(marker, 10, 64)
		if err != nil || before <= 0 {
			r.err = &ha.MarkerError{Marker: marker}
		}
	}
	return before, limit, r.err
}

// reader reads parameters and keeps the first error.
type reader struct {
	q   Query
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &ha.InvalidError{Text: fmt.Sprintf(format, args...)}
	}
}

// last returns a parameter's last value, and whether it was given at all.
func (r *reader) last(name string) (string, bool) {
	values := r.q.Values[name]
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

// inNoRow is a text that nothing is called: every rule of texts refuses it.
const inNoRow = "\uffff"

// text returns a filter's value, nil when it was not given. What no column can hold never reaches a database.
func (r *reader) text(name string) *string {
	s, ok := r.last(name)
	if !ok {
		return nil
	}
	switch {
	case !utf8.ValidString(s):
		r.fail("Invalid value for %s: it is not UTF-8 text", name)
	case strings.ContainsRune(s, 0): // PostgreSQL refuses it, and no row has it
		s = inNoRow
	}
	return &s
}

const flagWords = "'0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"

// flag returns a boolean filter, nil when it was not given. Its words are more than those of bodies, in any case.
func (r *reader) flag(name string) *bool {
	s, ok := r.last(name)
	if !ok {
		return nil
	}
	on := false
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "t", "true", "on", "y", "yes":
		on = true
	case "0", "f", "false", "off", "n", "no":
	default:
		r.fail("Invalid value for %s: Unrecognized value '%s', acceptable values are: %s", name, cut(s), flagWords)
	}
	return &on
}

// page reads limit, page_size, marker and sort, in the original's order.
func (r *reader) page(sorts map[string]ha.Field) ha.Page {
	p := ha.Page{Limit: r.limit()}
	r.count("page_size") // validated, otherwise unused: salvor sends no links
	p.Marker = r.marker()
	p.Sort = r.sort(sorts)
	if p.Limit == 0 {
		p.Marker = "" // nothing comes after it, whether it is there or not
	}
	return p
}

// limit is how many elements a page has at most.
func (r *reader) limit() int {
	if limit, ok := r.count("limit"); ok {
		return min(limit, r.q.Max)
	}
	return r.q.Max
}

// count reads an integer that is not negative. One that no int holds is as good as the greatest.
func (r *reader) count(name string) (int, bool) {
	s, ok := r.last(name)
	if !ok {
		return 0, false
	}
	s = strings.TrimSpace(s)
	negative := strings.HasPrefix(s, "-")
	digits := strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if !isDigits(digits) || len(s)-len(digits) > 1 {
		r.fail("Invalid input received: %s must be an integer", name)
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		n = math.MaxInt
	}
	if negative && n > 0 {
		r.fail("Invalid input received: %s must be >= 0", name)
		return 0, false
	}
	return n, true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// marker reads the integer id or the uuid of the last element already seen. Anything else names no row.
func (r *reader) marker() string {
	s, ok := r.last("marker")
	if !ok {
		return ""
	}
	if isDigits(s) {
		return s
	}
	if id, ok := ha.CanonicalUUID(s); ok {
		return id
	}
	if r.err == nil {
		r.err = &ha.MarkerError{Marker: s}
	}
	return ""
}

// sort pairs sort_key and sort_dir by position and makes the order total.
func (r *reader) sort(sorts map[string]ha.Field) []ha.Sort {
	keys, dirs := trimmed(r.q.Values["sort_key"]), trimmed(r.q.Values["sort_dir"])
	if len(keys) == 0 {
		keys = []string{string(ha.FieldCreatedAt)}
	}
	if len(dirs) == 0 {
		dirs = []string{"desc"}
	}
	for _, d := range dirs {
		if d != "asc" && d != "desc" {
			r.fail("Invalid input received: Unknown sort direction, must be 'asc' or 'desc'")
			return nil
		}
	}
	if len(dirs) > len(keys) {
		r.fail("Invalid input received: Sort direction size exceeds sort key size")
		return nil
	}
	order := make([]ha.Sort, 0, len(keys)+2)
	add := func(f ha.Field, dir string) {
		// Behind a unique key nothing counts.
		if !slices.ContainsFunc(order, func(s ha.Sort) bool { return s.Field == f || s.Field == ha.FieldID }) {
			order = append(order, ha.Sort{Field: f, Desc: dir == "desc"})
		}
	}
	for i, k := range keys {
		field, ok := sorts[k]
		if !ok {
			r.fail("Sort key supplied is invalid: %s", cut(k))
			return nil
		}
		dir := dirs[0]
		if i < len(dirs) {
			dir = dirs[i]
		}
		add(field, dir)
	}
	add(ha.FieldCreatedAt, dirs[0])
	add(ha.FieldID, dirs[0])
	return order
}

func trimmed(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.TrimSpace(v)
	}
	return out
}
