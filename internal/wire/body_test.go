package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/ha"
)

const printableText = "An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."

// refusal parses a body and returns the text with which read refuses it, "" when it does not.
func refusal(t *testing.T, body string, read func(Body) error) string {
	t.Helper()
	b, err := ParseBody([]byte(body))
	if err == nil {
		err = read(b)
	}
	if err == nil {
		return ""
	}
	var invalid *ha.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("%s: %T %v, want an InvalidError", body, err, err)
	}
	return invalid.Text
}

type bodyCase struct{ body, want string }

func check(t *testing.T, cases []bodyCase, read func(Body) error) {
	t.Helper()
	for _, c := range cases {
		if got := refusal(t, c.body, read); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.body, got, c.want)
		}
	}
}

func TestParseBody(t *testing.T) {
	root := func(b Body) error { _, err := b.SegmentCreate(MaxVersion); return err }
	const malformed = "Malformed request body"
	check(t, []bodyCase{
		{"", "None is not of type 'object'"},
		{"null", "None is not of type 'object'"},
		{"[]", "[] is not of type 'object'"},
		{"5", "5 is not of type 'object'"},
		{"-0", "0 is not of type 'object'"},
		{"1e5", "100000.0 is not of type 'object'"},
		{"1E400", "inf is not of type 'object'"},
		{"1.50", "1.5 is not of type 'object'"},
		{"1e-5", "1e-05 is not of type 'object'"},
		{"true", "True is not of type 'object'"},
		{`"a'b"`, `"a'b" is not of type 'object'`},
		{`"a'\"\u0007\u00ad\n"`, `'a\'"\x07\xad\n' is not of type 'object'`},
		{`[{"b": null, "a": [1, "x"]}]`, "[{'b': None, 'a': [1, 'x']}] is not of type 'object'"},
		{"{", malformed},
		{"{}{}", malformed},
		{"{'a': 1}", malformed},
		{"[1 2]", malformed},
		{`{"a" 1}`, malformed},
		{"\xff\xfe{}", malformed},
		{"\ufeff{}", malformed},
		{strings.Repeat("[", 100) + strings.Repeat("]", 100), malformed},
		{strings.Repeat("[", 110000), malformed},
	}, root)
}

func TestDuplicateKeysTheLastWins(t *testing.T) {
	b, err := ParseBody([]byte(`{"segment": 1, "segment": {"name": "a", "name": "b", "recovery_method": "auto", "service_type": "x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := b.SegmentCreate(MinVersion); err != nil || s.Name != "b" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestLoneSurrogates(t *testing.T) {
	body := func(name string) string {
		return `{"segment": {"name": "` + name + `", "recovery_method": "auto", "service_type": "x"}}`
	}
	read := func(b Body) error { _, err := b.SegmentCreate(MinVersion); return err }
	check(t, []bodyCase{
		{body(`a\ud800`), printableText},
		{body(`a\udc00b`), printableText},
		{body(`\ud800\ud800`), printableText},
		{body(`a\uD83D\uDE00`), printableText}, // a pair: an emoji, outside of the BMP
		{body(`\\ud800`), ""},                  // a backslash and letters
		{body(`\u00e9`), ""},
		{body(`\ufffd`), ""},
	}, read)
}

func TestSegmentCreateRules(t *testing.T) {
	field := func(f, v string) string {
		values := map[string]string{"name": `"s"`, "recovery_method": `"auto"`, "service_type": `"COMPUTE"`}
		values[f] = v
		var parts []string
		for _, k := range []string{"name", "recovery_method", "service_type", "description", "enabled", "foo", "bar"} {
			if v := values[k]; v != "" {
				parts = append(parts, `"`+k+`": `+v)
			}
		}
		return `{"segment": {` + strings.Join(parts, ", ") + `}}`
	}
	long := strings.Repeat("é", 256)
	const booleans = "[True, 'True', 'TRUE', 'true', '1', 'ON', 'On', 'on', 'YES', 'Yes', 'yes', False, 'False', 'FALSE', 'false', '0', 'OFF', 'Off', 'off', 'NO', 'No', 'no']"
	check(t, []bodyCase{
		{field("name", `"s"`), ""},
		{field("name", `""`), "Invalid input for field/attribute name. Value: . '' is too short"},
		{field("name", `"`+long+`"`), "Invalid input for field/attribute name. Value: " + long + ". '" + long + "' is too long"},
		{field("name", `"`+long[:510]+`"`), ""},
		{field("name", "5"), "Invalid input for field/attribute name. Value: 5. 5 is not of type 'string'"},
		{field("name", "null"), "Invalid input for field/attribute name. Value: None. None is not of type 'string'"},
		{field("name", `" s"`), printableText},
		{field("name", `"s "`), printableText},
		{field("name", `"\u00a0s"`), printableText},
		{field("name", `"s\u3000"`), printableText},
		{field("name", `"a\tb"`), printableText},
		{field("name", `"a\n"`), printableText},
		{field("name", `"a\u0000b"`), printableText},
		{field("name", `"a\u00adb"`), printableText},
		{field("name", `"a\u200bb"`), printableText},
		{field("name", `"a\u2028b"`), printableText},
		{field("name", `"a\ue000b"`), printableText},
		{field("name", `"a\u0378b"`), printableText}, // unassigned
		{field("name", `"a\uffffb"`), printableText},
		{field("name", `"😀"`), printableText},
		{field("name", `"a\u00a0b é 漢 \u0301"`), ""},
		{field("service_type", `""`), "Invalid input for field/attribute service_type. Value: . '' is too short"},
		{field("service_type", `" x"`), printableText},
		{field("service_type", `"anything goes"`), ""},
		{field("description", `null`), ""},
		{field("description", `""`), ""},
		{field("description", `"a\nb"`), ""},
		{field("description", `" a "`), ""},
		{field("description", `"a\tb"`), "Invalid input for field/attribute description. Value: a\tb. 'a\\tb' does not match '^[printable characters and newlines]*$'"},
		{field("description", `"a\rb"`), "Invalid input for field/attribute description. Value: a\rb. 'a\\rb' does not match '^[printable characters and newlines]*$'"},
		{field("description", `5`), "Invalid input for field/attribute description. Value: 5. 5 is not of type 'string', 'null'"},
		{field("recovery_method", `"AUTO"`), "Invalid input for field/attribute recovery_method. Value: AUTO. 'AUTO' is not one of ['auto', 'reserved_host', 'auto_priority', 'rh_priority']"},
		{field("recovery_method", `null`), "Invalid input for field/attribute recovery_method. Value: None. None is not of type 'string'"},
		{field("enabled", `"yes"`), ""},
		{field("enabled", `1`), "Invalid input for field/attribute enabled. Value: 1. 1 is not of type 'boolean', 'string'"},
		{field("enabled", `null`), "Invalid input for field/attribute enabled. Value: None. None is not of type 'boolean', 'string'"},
		{field("enabled", `"tRue"`), "Invalid input for field/attribute enabled. Value: tRue. 'tRue' is not one of " + booleans},
		{field("foo", `1`), "Invalid input for field/attribute segment. Value: {'name': 's', 'recovery_method': 'auto', 'service_type': 'COMPUTE', 'foo': 1}. Additional properties are not allowed ('foo' was unexpected)"},
		{`{"segment": {"a": 1, "b": 2}}`, "Invalid input for field/attribute segment. Value: {'a': 1, 'b': 2}. Additional properties are not allowed ('a', 'b' were unexpected)"},
		{`{"segment": {"service_type": "x", "recovery_method": "auto"}}`, "Invalid input for field/attribute segment. Value: {'service_type': 'x', 'recovery_method': 'auto'}. 'name' is a required property"},
		{`{"segment": {}}`, "Invalid input for field/attribute segment. Value: {}. 'name' is a required property"},
		{`{"segment": []}`, "Invalid input for field/attribute segment. Value: []. [] is not of type 'object'"},
		{`{"segment": {"name": "s", "recovery_method": "auto", "service_type": "x"}, "x": 1}`, "Additional properties are not allowed ('x' was unexpected)"},
		{`{"x": 1}`, "'segment' is a required property"},
		// the first error wins: declared properties in order, then unknown keys, then required ones
		{`{"segment": {"foo": 1, "service_type": "", "recovery_method": 5}}`, "Invalid input for field/attribute recovery_method. Value: 5. 5 is not of type 'string'"},
	}, func(b Body) error { _, err := b.SegmentCreate(EnabledSince); return err })

	huge := field("description", `"`+strings.Repeat("x", maxText+1)+`"`)
	got := refusal(t, huge, func(b Body) error { _, err := b.SegmentCreate(MinVersion); return err })
	if !strings.HasSuffix(got, "is too long") && !strings.Contains(got, "...") || len(got) > 3*maxShown {
		t.Errorf("a description that MySQL cannot hold: %.200q", got)
	}
	check(t, []bodyCase{
		{field("enabled", "true"), "Invalid input for field/attribute segment. Value: {'name': 's', 'recovery_method': 'auto', 'service_type': 'COMPUTE', 'enabled': True}. Additional properties are not allowed ('enabled' was unexpected)"},
	}, func(b Body) error { _, err := b.SegmentCreate(DetailsSince); return err })
}

func TestSegmentUpdate(t *testing.T) {
	read := func(b Body) error { _, err := b.SegmentUpdate(EnabledSince); return err }
	check(t, []bodyCase{
		{`{"segment": {}}`, "Invalid input for field/attribute segment. Value: {}. {} is not valid under any of the given schemas"},
		{`{"segment": {"enabled": "off"}}`, ""},
		{`{"segment": {"description": null}}`, ""},
	}, read)
	b, err := ParseBody([]byte(`{"segment": {"description": null, "enabled": "False", "recovery_method": "rh_priority"}}`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := b.SegmentUpdate(EnabledSince)
	if err != nil || p.Name != nil || p.Description == nil || *p.Description != nil || p.Enabled == nil || *p.Enabled || *p.RecoveryMethod != ha.MethodRHPriority {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestHostRules(t *testing.T) {
	host := func(change string) string {
		return `{"host": {"name": "h", "type": "COMPUTE", "control_attributes": "SSH"` + change + `}}`
	}
	long := strings.Repeat("t", 256)
	check(t, []bodyCase{
		{host(""), ""},
		{host(`, "reserved": "on", "on_maintenance": false`), ""},
		{host(`, "type": ""`), ""},
		{host(`, "type": "a-b"`), "Invalid input for field/attribute type. Value: a-b. 'a-b' does not match '^[a-zA-Z0-9]*$'"},
		{host(`, "type": "a\n"`), "Invalid input for field/attribute type. Value: a\n. 'a\\n' does not match '^[a-zA-Z0-9]*$'"},
		{host(`, "type": "` + long + `"`), "Invalid input for field/attribute type. Value: " + long + ". '" + long + "' is too long"},
		{host(`, "type": 5`), "Invalid input for field/attribute type. Value: 5. 5 is not of type 'string', 'null'"},
		{host(`, "type": null`), "Invalid input for field/attribute type. Value: None. None is not of type 'string'"},
		{host(`, "control_attributes": null`), "Invalid input for field/attribute control_attributes. Value: None. None is not of type 'string'"},
		{host(`, "control_attributes": ""`), ""},
		{host(`, "reserved": 0`), "Invalid input for field/attribute reserved. Value: 0. 0 is not of type 'boolean', 'string'"},
		{host(`, "failover_segment_id": "x"`), "Invalid input for field/attribute host. Value: {'name': 'h', 'type': 'COMPUTE', 'control_attributes': 'SSH', 'failover_segment_id': 'x'}. Additional properties are not allowed ('failover_segment_id' was unexpected)"},
		{`{"host": {}}`, "Invalid input for field/attribute host. Value: {}. 'name' is a required property"},
	}, func(b Body) error { _, err := b.HostCreate(); return err })
	check(t, []bodyCase{
		{`{"host": {}}`, "Invalid input for field/attribute host. Value: {}. {} is not valid under any of the given schemas"},
		{`{"host": {"type": null}}`, "Invalid input for field/attribute type. Value: None. None is not of type 'string'"},
		{`{"host": {"reserved": "False"}}`, ""},
	}, func(b Body) error { _, err := b.HostUpdate(); return err })
}

func TestNotificationRules(t *testing.T) {
	const vm = `{"event": "LIFECYCLE", "instance_uuid": "0123456789abcdef0123456789abcdef", "vir_domain_event": "x"}`
	note := func(kind, host, at, payload string) string {
		return `{"notification": {"type": ` + kind + `, "hostname": ` + host + `, "generated_time": ` + at + `, "payload": ` + payload + `}}`
	}
	ofType := func(kind, payload string) string { return note(`"`+kind+`"`, `"h"`, `"2026-01-01"`, payload) }
	longText := strings.Repeat("x", 256)
	check(t, []bodyCase{
		{note(`"VM"`, `"h-1.x_y"`, `"2026-01-01T01:02:03.000456"`, vm), ""},
		{note(`"vm"`, `"h"`, `"2026-01-01"`, vm), "Invalid input for field/attribute type. Value: vm. 'vm' is not one of ('COMPUTE_HOST', 'VM', 'PROCESS')"},
		{note(`"VM"`, `"a b"`, `"2026-01-01"`, vm), "Invalid input for field/attribute hostname. Value: a b. 'a b' does not match '^[a-zA-Z0-9-._]*$'"},
		{note(`"VM"`, `"h\n"`, `"2026-01-01"`, vm), "Invalid input for field/attribute hostname. Value: h\n. 'h\\n' does not match '^[a-zA-Z0-9-._]*$'"},
		{note(`"VM"`, `""`, `"2026-01-01"`, vm), "Invalid input for field/attribute hostname. Value: . '' is too short"},
		{note(`"VM"`, `"h"`, `"now"`, vm), "Invalid input for field/attribute generated_time. Value: now. 'now' is not a 'date-time'"},
		{note(`"VM"`, `"h"`, `5`, vm), "Invalid input for field/attribute generated_time. Value: 5. 5 is not of type 'string'"},
		{note(`"VM"`, `"h"`, `"2026-01-01"`, `"x"`), "Invalid input for field/attribute payload. Value: x. 'x' is not of type 'object'"},
		{ofType("VM", `{"event": 5}`), "Invalid input for field/attribute event. Value: 5. 5 is not of type 'string'"},
		{ofType("VM", `{"event": "`+longText+`"}`), "Invalid input for field/attribute event. Value: " + longText + ". '" + longText + "' is too long"},
		{ofType("VM", `{"bad*key": "x"}`), "Invalid input for field/attribute payload. Value: {'bad*key': 'x'}. 'bad*key' does not match any of the regexes: '^[a-zA-Z0-9-_:. ]{1,255}$'"},
		{ofType("VM", `{"a*": "x", "b*": "y"}`), "Invalid input for field/attribute payload. Value: {'a*': 'x', 'b*': 'y'}. 'a*', 'b*' do not match any of the regexes: '^[a-zA-Z0-9-_:. ]{1,255}$'"},
		{ofType("VM", `{"a*": "x", "b": 1}`), "Invalid input for field/attribute b. Value: 1. 1 is not of type 'string'"},
		{ofType("VM", `{"event": "E", "vir_domain_event": "y"}`), "'instance_uuid' is a required property"},
		{ofType("VM", `{"event": "", "instance_uuid": "0123456789abcdef0123456789abcdef", "vir_domain_event": "y"}`), "Invalid input for field/attribute event. Value: . '' is too short"},
		{ofType("VM", `{"event": "E", "instance_uuid": "x", "vir_domain_event": "y"}`), "Invalid input for field/attribute instance_uuid. Value: x. 'x' is not a 'uuid'"},
		{ofType("PROCESS", `{"event": "STOPPED", "process_name": "x", "foo": "y"}`), "Additional properties are not allowed ('foo' was unexpected)"},
		{ofType("PROCESS", `{"event": "STOPPED"}`), "'process_name' is a required property"},
		{ofType("PROCESS", `{"event": "DOWN", "process_name": "x"}`), "Invalid input for field/attribute event. Value: DOWN. 'DOWN' is not one of ('STARTED', 'STOPPED')"},
		{ofType("COMPUTE_HOST", `{"event": "STOPPED"}`), ""},
		{ofType("COMPUTE_HOST", `{}`), "'event' is a required property"},
		// what is missing is told before what is too much, other than in segments and hosts
		{`{"notification": {"foo": 1}}`, "Invalid input for field/attribute notification. Value: {'foo': 1}. 'type' is a required property"},
		{ofType("VM", `{"event": "STOPPED", "host_status": "NORMAL"}`), "'instance_uuid' is a required property"},
		{ofType("PROCESS", `{"process_name": "x", "foo": "y"}`), "'event' is a required property"},
		{ofType("COMPUTE_HOST", `{"foo": "y"}`), "'event' is a required property"},
		{ofType("COMPUTE_HOST", `{"event": "STOPPED", "cluster_status": "x"}`), "Invalid input for field/attribute cluster_status. Value: x. 'x' is not one of ('ONLINE', 'OFFLINE')"},
		{ofType("COMPUTE_HOST", `{"event": "STOPPED", "host_status": "normal"}`), "Invalid input for field/attribute host_status. Value: normal. 'normal' is not one of ('NORMAL', 'UNKNOWN')"},
		{ofType("COMPUTE_HOST", `{"event": "STOPPED", "salvor_confirmed_by": "me"}`), "Additional properties are not allowed ('salvor_confirmed_by' was unexpected)"},
	}, func(b Body) error { _, err := b.NotificationCreate(); return err })
}

func TestInstanceUUIDIsMadeCanonical(t *testing.T) {
	b, err := ParseBody([]byte(`{"notification": {"type": "VM", "hostname": "h", "generated_time": "2026-01-01T09:00:00+09:00", "payload":
		{"event": "E", "instance_uuid": "{0123456789ABCDEF0123456789ABCDEF}", "vir_domain_event": "x"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.NotificationCreate()
	if err != nil || r.Payload[ha.KeyInstanceUUID] != "01234567-89ab-cdef-0123-456789abcdef" || r.GeneratedTime.Format(timeOut) != "2026-01-01T00:00:00.000000" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestOrders(t *testing.T) {
	order := func(action string) func(Body) error {
		return func(b Body) error { _, err := b.OrderOf(action); return err }
	}
	check(t, []bodyCase{
		{``, ""}, {`{}`, ""}, {`{"reason": "x"}`, ""}, {`[]`, "[] is not of type 'object'"},
		{`{"reason": ""}`, "Invalid input for field/attribute reason. Value: . '' is too short"},
		{`{"until": "2026-01-01"}`, "Additional properties are not allowed ('until' was unexpected)"},
	}, order("cancel"))
	check(t, []bodyCase{
		{``, "'reason' is a required property"}, {`{"reason": "x", "until": "2026-01-01T00:00:00Z"}`, ""},
		{`{"reason": "x", "until": "soon"}`, "Invalid input for field/attribute until. Value: soon. 'soon' is not a 'date-time'"},
	}, order("hold"))
	check(t, []bodyCase{{`{}`, "'reason' is a required property"}}, order("confirm-off"))
}
