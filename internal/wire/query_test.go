package wire

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
)

func query(raw string) Query { return Query{Values: ParseQuery(raw), Max: 1000} }

func TestPages(t *testing.T) {
	newest := []ha.Sort{{Field: ha.FieldCreatedAt, Desc: true}, {Field: ha.FieldID, Desc: true}}
	const id = "0123abcd-4567-89ab-cdef-0123456789ab"
	for raw, want := range map[string]ha.Page{
		"":                               {Limit: 1000, Sort: newest},
		"limit=2":                        {Limit: 2, Sort: newest},
		"limit=%203%20":                  {Limit: 3, Sort: newest},
		"limit=%2B3":                     {Limit: 3, Sort: newest},
		"limit=0":                        {Limit: 0, Sort: newest},
		"limit=-0":                       {Limit: 0, Sort: newest},
		"limit=0&marker=7":               {Limit: 0, Sort: newest},
		"limit=7&limit=8":                {Limit: 8, Sort: newest},
		"limit=1001":                     {Limit: 1000, Sort: newest},
		"limit=999999999999999999999999": {Limit: 1000, Sort: newest},
		"page_size=5":                    {Limit: 1000, Sort: newest},
		"marker=7":                       {Limit: 1000, Marker: "7", Sort: newest},
		"marker=" + strings.ToUpper(id):  {Limit: 1000, Marker: id, Sort: newest},
		"sort_dir=asc":                   {Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldCreatedAt}, {Field: ha.FieldID}}},
		"sort_key=%20name%20":            {Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldName, Desc: true}, {Field: ha.FieldCreatedAt, Desc: true}, {Field: ha.FieldID, Desc: true}}},
		"sort_key=name&sort_key=type&sort_dir=asc":               {Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldName}, {Field: ha.FieldType}, {Field: ha.FieldCreatedAt}, {Field: ha.FieldID}}},
		"sort_key=name&sort_key=type&sort_dir=asc&sort_dir=desc": {Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldName}, {Field: ha.FieldType, Desc: true}, {Field: ha.FieldCreatedAt}, {Field: ha.FieldID}}},
		"sort_key=id&sort_key=name":                              {Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldID, Desc: true}}},
		"sort_key=name&sort_key=name":                            {Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldName, Desc: true}, {Field: ha.FieldCreatedAt, Desc: true}, {Field: ha.FieldID, Desc: true}}},
		"sort_key=failover_segment_id&sort_dir=asc":              {Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldSegment}, {Field: ha.FieldCreatedAt}, {Field: ha.FieldID}}},
		"name=x&unknown=y":                                       {Limit: 1000, Sort: newest},
	} {
		_, got, err := query(raw).HostList()
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", raw, diff)
		}
	}
}

func TestBadQueries(t *testing.T) {
	const words = "acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"
	for raw, want := range map[string]string{
		"limit=abc":                   "Invalid input received: limit must be an integer",
		"limit=":                      "Invalid input received: limit must be an integer",
		"limit=1.5":                   "Invalid input received: limit must be an integer",
		"limit=%2B-1":                 "Invalid input received: limit must be an integer",
		"limit=-":                     "Invalid input received: limit must be an integer",
		"limit=-1":                    "Invalid input received: limit must be >= 0",
		"limit=-99999999999999999999": "Invalid input received: limit must be >= 0",
		"page_size=x":                 "Invalid input received: page_size must be an integer",
		"limit=1&page_size=-1":        "Invalid input received: page_size must be >= 0",
		"marker=":                     "marker  could not be found",
		"marker=zz":                   "marker zz could not be found",
		"sort_key=bogus":              "Sort key supplied is invalid: bogus",
		"sort_key=name,id":            "Sort key supplied is invalid: name,id",
		"sort_key=failover_segment":   "Sort key supplied is invalid: failover_segment",
		"sort_dir=ASC":                "Invalid input received: Unknown sort direction, must be 'asc' or 'desc'",
		"sort_dir=asc&sort_dir=asc":   "Invalid input received: Sort direction size exceeds sort key size",
		"sort_dir=asc&sort_dir=x":     "Invalid input received: Unknown sort direction, must be 'asc' or 'desc'",
		"reserved=x":                  "Invalid value for reserved: Unrecognized value 'x', " + words,
		"on_maintenance=":             "Invalid value for on_maintenance: Unrecognized value '', " + words,
		"limit=x&reserved=x":          "Invalid input received: limit must be an integer",
		"type=%ff":                    "Invalid value for type: it is not UTF-8 text",
		"limit=%zz":                   "Invalid input received: limit must be an integer",
		"limit=1%":                    "Invalid input received: limit must be an integer",
		"limit=2;page_size=x":         "Invalid input received: page_size must be an integer",
		"marker=%zz%20%":              "marker %zz % could not be found",
	} {
		_, _, err := query(raw).HostList()
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", raw, err, want)
		}
	}
	if f, _, err := query("type=a%00").HostList(); err != nil || *f.Type != inNoRow {
		t.Errorf("a text with NUL: %q, %v; nothing is called so, and that is no error", *f.Type, err)
	}
	if _, _, err := query("generated-since=xyz").NotificationList(); err == nil || err.Error() != "Invalid generated-since value" {
		t.Error(err)
	}
}

func TestFilters(t *testing.T) {
	f, _, err := query("type=a&type=b&on_maintenance=%20YES%20&reserved=f").HostList()
	if err != nil || *f.Type != "b" || !*f.OnMaintenance || *f.Reserved {
		t.Errorf("%+v, %v", f, err)
	}
	s, _, err := query("enabled=True&recovery_method=bogus&service_type=").SegmentList()
	if err != nil || !*s.Enabled || *s.RecoveryMethod != "bogus" || *s.ServiceType != "" {
		t.Errorf("%+v, %v", s, err)
	}
	n, _, err := query("generated-since=2026-01-01T09:00:00%2B09:00&status=new&source_host_uuid=zz&generated_since=x").NotificationList()
	if err != nil || n.GeneratedSince.Format(timeOut) != "2026-01-01T00:00:00.000000" || *n.Status != "new" || *n.SourceHostUUID != "zz" || n.Type != nil {
		t.Errorf("%+v, %v", n, err)
	}
	v, _, err := query("status=failed").VMoveList()
	if err != nil || *v.Status != "failed" || v.Type != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// Every response key is a sort key, and nothing else is (contract 1.6).
func TestSortKeysAreTheColumns(t *testing.T) {
	for name, c := range map[string]struct {
		sorts map[string]ha.Field
		shown any
		more  []string // sort keys that are shown under another name, or not
		less  []string // shown, but no columns
	}{
		"segments":      {segmentSorts, NewSegment(ha.Segment{}), nil, nil},
		"hosts":         {hostSorts, NewHost(ha.Host{}, ha.Segment{}), nil, []string{"failover_segment"}},
		"notifications": {notificationSorts, NewNotification(ha.Notification{}), nil, nil},
		"vmoves":        {vmoveSorts, NewVMove(ha.VMove{}), nil, nil},
	} {
		keys := map[string]bool{}
		for _, k := range jsonKeys(t, c.shown) {
			keys[k] = true
		}
		for _, k := range c.less {
			delete(keys, k)
		}
		sortable := map[string]bool{}
		for k := range c.sorts {
			sortable[k] = true
		}
		if diff := cmp.Diff(keys, sortable); diff != "" {
			t.Errorf("%s: (-shown +sortable)\n%s", name, diff)
		}
	}
}

func TestTimes(t *testing.T) {
	for in, want := range map[string]string{
		"2026-01-01":                       "2026-01-01T00:00:00.000000",
		"20260101":                         "2026-01-01T00:00:00.000000",
		"2026-01-01T01:02":                 "2026-01-01T01:02:00.000000",
		"2026-01-01 01:02:03":              "2026-01-01T01:02:03.000000",
		"2026-01-01T01:02:03.5":            "2026-01-01T01:02:03.500000",
		"2026-01-01T01:02:03,000456":       "2026-01-01T01:02:03.000456",
		"2026-01-01T01:02:03.0004567":      "2026-01-01T01:02:03.000456",
		"20260101T010203":                  "2026-01-01T01:02:03.000000",
		"2026-01-01T01:02:03Z":             "2026-01-01T01:02:03.000000",
		"2026-01-01T00:00:00+09:00":        "2025-12-31T15:00:00.000000",
		"2026-01-01T00:00:00-0930":         "2026-01-01T09:30:00.000000",
		"2026-01-01T00:00:00+02":           "2025-12-31T22:00:00.000000",
		"2024-02-29":                       "2024-02-29T00:00:00.000000",
		"9999-12-31T23:59:59.999999+01:00": "9999-12-31T22:59:59.999999",
		"1000-01-01":                       "1000-01-01T00:00:00.000000",
	} {
		got, ok := parseTime(in)
		if !ok || got.Format(timeOut) != want {
			t.Errorf("%s: %v %v, want %s", in, got.Format(timeOut), ok, want)
		}
	}
	for _, in := range []string{
		"", "now", "2026", "2026-01", "2026-13-01", "2026-00-01", "2026-01-00", "2026-02-30", "2026-01-01T24:00:00",
		"2026-01-01T23:60:00", "2026-01-01T23:59:60", "1700000000", "2026-W01-1", "2026-001", "2026-01-01T", "2026-01-01Z",
		"2026-01-01T01:02:03+25:00", "2026-01-01T01:02:03+01:60", "2026-01-01T01:02:03 ", "0001-01-01", "9999-12-31T23:59:59-01:00",
		"2026-01-01T01:02:03\n", "２０２６-01-01",
	} {
		if got, ok := parseTime(in); ok {
			t.Errorf("%q is read as %v", in, got)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for header, want := range map[string]string{
		"":                                   "1.0",
		"instance-ha 1.2":                    "1.2",
		"Instance-HA 1.2":                    "1.2",
		"instance-ha latest":                 "1.3",
		"compute 2.53, instance-ha 1.1":      "1.1",
		"instance-ha 1.1, instance-ha 1.2":   "1.2",
		"masakari 1.2":                       "1.0",
		"1.2":                                "1.0",
		"instance-ha":                        "1.0",
		"instance-ha ":                       "1.0",
		"instance-ha  1.3":                   "1.3",
		"instance-ha 1.4":                    "range",
		"instance-ha 2.0":                    "range",
		"instance-ha 1.99999999999999999999": "range",
		"instance-ha x":                      "bad",
		"instance-ha Latest":                 "bad",
		"instance-ha 0.9":                    "bad",
		"instance-ha 1.01":                   "bad",
		"instance-ha -1.0":                   "bad",
		"instance-ha 1.2 3":                  "bad",
		"instance-ha 1":                      "bad",
	} {
		v, err := ParseVersion([]string{header})
		got := v.String()
		var outside *VersionRangeError
		switch {
		case errors.As(err, &outside):
			got = "range"
		case err != nil:
			got = "bad"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", header, got, err, want)
		}
	}
	if _, err := ParseVersion([]string{"instance-ha 1.99"}); err.Error() != "Version 1.99 is not supported by the API. Minimum is 1.0 and maximum is 1.3." {
		t.Error(err)
	}
	if _, err := ParseVersion([]string{"instance-ha 1.01"}); err.Error() != "API Version String 1.01 is of invalid format. Must be of format MajorNum.MinorNum." {
		t.Error(err)
	}
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{"limit=1&marker=7&sort_key=name&sort_dir=asc", "reserved=on&type=%ff", "generated-since=2026-01-01T00:00:00Z&enabled=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		values, _ := url.ParseQuery(raw)
		q := Query{Values: values, Max: 50}
		_, p1, err1 := q.SegmentList()
		_, p2, err2 := q.HostList()
		_, p3, err3 := q.NotificationList()
		_, p4, err4 := q.VMoveList()
		for i, p := range []ha.Page{p1, p2, p3, p4} {
			if err := []error{err1, err2, err3, err4}[i]; err != nil {
				if _, known := FaultOf(Op{}, err); !known {
					t.Errorf("%q: %v is no error of the client's", raw, err)
				}
				continue
			}
			if p.Limit < 0 || p.Limit > 50 || len(p.Sort) == 0 || p.Sort[len(p.Sort)-1].Field != ha.FieldID {
				t.Errorf("%q: page %+v", raw, p)
			}
			if _, err := strconv.ParseUint(p.Marker, 10, 64); err != nil && p.Marker != "" && len(p.Marker) != 36 && !isDigits(p.Marker) {
				t.Errorf("%q: marker %q", raw, p.Marker)
			}
		}
	})
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{
		`{"segment": {"name": "a", "recovery_method": "auto", "service_type": "x", "enabled": "on"}}`,
		`{"host": {"name": "a", "type": null, "control_attributes": "\ud800"}}`,
		`{"notification": {"type": "VM", "hostname": "h", "generated_time": "2026-01-01", "payload": {"event": "x"}}}`,
		`{"reason": "x", "until": "2026-01-01"}`, `[[[1e400, "\\ud83d"]]]`, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ParseBody(raw)
		if err != nil {
			return
		}
		_, e1 := b.SegmentCreate(MaxVersion)
		_, e2 := b.SegmentUpdate(MinVersion)
		_, e3 := b.HostCreate()
		_, e4 := b.HostUpdate()
		_, e5 := b.NotificationCreate()
		_, e6 := b.OrderOf("hold")
		for _, err := range []error{e1, e2, e3, e4, e5, e6} {
			var invalid *ha.InvalidError
			if err != nil && !errors.As(err, &invalid) {
				t.Errorf("%q: %T", raw, err)
			}
			if err != nil && len(err.Error()) > 20*maxShown {
				t.Errorf("%q: an error of %d bytes", raw, len(err.Error()))
			}
		}
	})
}
