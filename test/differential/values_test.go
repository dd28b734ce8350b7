package differential

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// source makes everything that is random, of one seed.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 14))} }

// chance is true once in n times.
func (s source) chance(n int) bool { return s.IntN(n) == 0 }

func pick[T any](s source, of ...T) T { return of[s.IntN(len(of))] }

// mostly is one of good, and once in n times one of bad.
func (s source) mostly(n int, good, bad []string) string {
	if s.chance(n) {
		return pick(s, bad...)
	}
	return pick(s, good...)
}

func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return strings.TrimSpace(b.String())
}

func quotedAll(texts ...string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = quoted(t)
	}
	return out
}

func long(n int) string { return strings.Repeat("x", n) }

// The values are JSON, as they are written into a body. Of the good names only the first has other spellings, which sort before all
// others both by code point, as in salvor, and without regard to case, as in Masakari on MySQL (contract 12, row 33).
var (
	odd = []string{
		"null", "true", "false", "0", "1", "-1", "1.5", "1e3", "12345678901234567890", "[]", "{}", `""`, `"1"`, `["a"]`, `{"a": 1}`, `" "`,
		`[null, true, {"b": [1.0, "c"]}]`, "-0", "1E400", "1.0", "100000000000000000000000.5", "0.00001",
	}
	goodNames = quotedAll("aack-0", "AACK-0", "Aack-0", "rack-1", "rack-2", "rack-3", "rack-4", "rack 5", "rack.6", "zäck-7", "日本")
	badNames  = append(quotedAll(" rack", "rack ", "\u00a0rack", "rack\u00a0", "ra\tck", "ra\nck", "rack\n", "ra\u200bck", "ra\u00adck", "ra\u2028ck", "😀", "ra\ue000ck",
		"\ufeffrack", "ra\u0000ck", "ra\u007fck", "\u0378x", "ra\uffffck", "ra\u3000", long(256), long(300), "it's", `a"b`, `it's "b"`, `a\b`), `"\ud800"`, `"\ud83d\ude00"`, `"a\u002fb"`, `"\/"`)
	methods    = quotedAll("auto", "reserved_host", "auto_priority", "rh_priority")
	badMethods = quotedAll("Auto", "auto ", "", "none", "AUTO")
	services   = quotedAll("compute", "ha", "sérvice", "x")
	texts      = append(quotedAll("", "a rack", "second row\nof racks", "grün", "zwei\n\nZeilen", `quote " and \ and '`, long(300)), "null")
	badTexts   = append(quotedAll("a\tb", "a\rb", "😀", "\u0000", "a\u200bb", "\u2028", "tail\t"), `"\udc00"`)
	types      = quotedAll("COMPUTE", "SSH", "", "K8S", "42")
	badTypes   = append(quotedAll("a-b", "a b", "ä", "COMPUTE\n", long(256)), "null")
	booleans   = append(quotedAll("True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes", "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"), "true", "false", "true", "false")
	notBoolean = append(quotedAll("t", "f", "y", "n", "tRUE", " true", "true ", "", "oN", "2", "None"), "0", "1", "null", "1.0", "[]")
)

// member is one of an object in a body; value is JSON.
type member struct{ key, value string }

// body is an object in the making.
type body []member

func (b body) String() string {
	parts := make([]string, len(b))
	for i, m := range b {
		parts[i] = quoted(m.key) + ": " + m.value
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// spoilt makes, once in a while, something else of a body that may be good, also with two faults: which of them is told is an order, too.
func (s source) spoilt(b body) body {
	s.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
	if s.chance(6) {
		b = s.fault(b)
		if s.chance(3) {
			b = s.fault(b)
		}
	}
	return b
}

// fault has something of a body missing, doubled, unknown, or of another type.
func (s source) fault(b body) body {
	if len(b) == 0 {
		return b
	}
	at := s.IntN(len(b))
	switch s.IntN(7) {
	case 0: // one is missing
		return append(b[:at:at], b[at+1:]...)
	case 1: // one is there twice: the last counts
		return append(b, member{b[at].key, pick(s, append(odd, b[at].value)...)})
	case 2:
		return append(b, member{pick(s, "foo", "id", "uuid", "deleted", "name ", "Name", "failover_segment_id", "hostname", "", "ä"), pick(s, odd...)})
	case 3:
		return append(b, member{"foo", "1"}, member{"bar", "null"})
	case 4, 5:
		b[at].value = pick(s, odd...)
		return b
	default:
		return body{}
	}
}

// wrapped is a whole body, once in a while a wrong one.
func (s source) wrapped(key, inner string) []byte {
	text := "{" + quoted(key) + ": " + inner + "}"
	if !s.chance(12) {
		return []byte(text)
	}
	return []byte(pick(s,
		inner, "{}", "", "null", "[]", "0", `"x"`, "true", "["+text+"]", "{"+quoted(key)+": null}", "{"+quoted(key)+": []}", "{"+quoted(key)+": "+quoted(inner)+"}",
		"{"+quoted(key)+": "+text+"}", "{"+quoted(key)+": "+inner+`, "x": 1}`, `{"x": 1, `+quoted(key)+": "+inner+`, "y": 2}`, "{"+quoted(strings.ToUpper(key))+": "+inner+"}",
		"{"+quoted(key)+": 1, "+quoted(key)+": "+inner+"}", "{"+quoted(key)+": "+inner+", "+quoted(key)+": {}}",
		text[:len(text)-1], text+"x", "  \n"+text+"\n", "\ufeff"+text, strings.ReplaceAll(text, `"`, "'"), text[:len(text)/2], "{"+quoted(key)+": NaN}", text+text,
		text[:len(text)-1]+"\xff\xfe}", "\x00", " ", fmt.Sprintf("{%q: %s}", key, strings.Repeat("[", 50)+strings.Repeat("]", 50)),
		"{"+quoted(key)+": "+inner+", "+quoted("pad")+": "+quoted(long(120000))+"}"))
}

// The reports' parts.
var (
	events     = quotedAll("STARTED", "STOPPED")
	badEvents  = append(quotedAll("started", "DIED", "", "STOPPED "), "null", "1")
	hostStates = quotedAll("NORMAL", "UNKNOWN")
	instances  = quotedAll("3f0d1d5e-0000-4000-8000-000000000001", "3f0d1d5e-0000-4000-8000-000000000002", "3f0d1d5e-0000-4000-8000-000000000003")
	badUUIDs   = append(quotedAll("", "x", "3f0d1d5e-0000-4000-8000-00000000000", "3f0d1d5e000040008000000000000001g", "1"), "null", "7")
	vmEvents   = quotedAll("LIFECYCLE", "QEMU_GUEST_AGENT_ERROR", "IO_ERROR", "REBOOT", "anything", long(255))
	vmDetails  = quotedAll("STOPPED_FAILED", "IO_ERROR_REPORT", "UNKNOWN", "WATCHDOG_NONE", "ä")
	processes  = quotedAll("nova-compute", "libvirtd", "x", long(255))
)

// at is a moment of the tests' own calendar, in seconds from its start. Only those that end in 3 have a fraction, and always the same:
// Masakari on MySQL keeps none, so that only whole seconds may decide (contract 1.9).
func at(second int) string {
	text := fmt.Sprintf("2024-03-%02dT%02d:%02d:%02d", 1+second/86400, second/3600%24, second/60%60, second%60)
	if second%10 == 3 {
		text += ".559783"
	}
	return text
}

// moment is a good generated_time, in one of the forms that are taken.
func (s source) moment(second int) string {
	text := at(second)
	if !s.chance(4) {
		return text
	}
	date, clock, _ := strings.Cut(text, "T")
	return pick(s, text+"Z", text+"+00:00", date+" "+clock, text+"-00:00", strings.ReplaceAll(date, "-", "")+"T"+strings.ReplaceAll(clock, ":", ""), text+"+00", text+"+0000",
		fmt.Sprintf("%sT%02d%s+02:30", date, second/3600%24, clock[2:]), date, date+"T"+clock[:5], date+"T"+clock[:2], text+"+05", text+"-0130")
}

var badMoments = append(quotedAll("", "now", "2024-13-01T00:00:00", "2024-02-30T00:00:00", "2024-03-01T24:00:00", "1709251200", "2024-W10-1", "2024-03-01T00:60:00", "2024-03-01T00:00:60", "2024-060",
	"2024-03-01T00:00:00 UTC", "2024-03-01t00:00:00", "2024-03-01T00:00:00z", "2024-03", "2024", "24-03-01", "2024-3-1", "2024-03-01T1:2:3", "2024-03-01T00:00:00+25:00", "2024-03-01T00:00:00.", " 2024-03-01",
	"2024-03-01 ", "2024-03-01T00:00:00,5", "2024-03-01T00:00:00.1234567", "0001-01-01T00:00:00", "2024-03-01T", "2024-03-01T00:00:00+1", "2024-03-01T00:00:00+00:60", "2024-03-01\n", "20240301T0000", "202403010000",
	"2024-03-01T00:00:00Z+01:00", "2024-03-01T0000:00", "2024-0301", "٢٠٢٤-03-01"), "null", "1709251200", "1.5", "[]")
