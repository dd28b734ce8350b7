package rules

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/salvor-ha/salvor/internal/ha"
)

func TestFold(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"Rack-1", "rACK-1", true}, {"Größe", "GRÖßE", true}, {"Σ", "ς", true}, {"K", "\u212a", true}, {"räck", "rack", false}, {"a", "b", false}, {"", "", true},
	} {
		if got := Fold(c.a) == Fold(c.b); got != c.same {
			t.Errorf("%q and %q: same key %v, want %v", c.a, c.b, got, c.same)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringN(0, 4, -1).Draw(t, "a"), rapid.StringN(0, 4, -1).Draw(t, "b")
		if (Fold(a) == Fold(b)) != strings.EqualFold(a, b) {
			t.Fatalf("Fold and EqualFold differ on %q and %q", a, b)
		}
		if Fold(Fold(a)) != Fold(a) || utf8.RuneCountInString(Fold(a)) != utf8.RuneCountInString(a) {
			t.Fatalf("Fold(%q) is %q", a, Fold(a))
		}
	})
}

func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, most := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s")), rapid.IntRange(3, 40).Draw(t, "max")
		got := Text(s, most)
		if len(got) > most || !Storable(got) {
			t.Fatalf("Text(%q, %d) is %q", s, most, got)
		}
		if Storable(s) && len(s) <= most && got != s {
			t.Fatalf("Text(%q, %d) changed what could be kept: %q", s, most, got)
		}
	})
	if got := Name(strings.Repeat("長", 300)); utf8.RuneCountInString(got) != MaxName {
		t.Errorf("a name came back with %d characters", utf8.RuneCountInString(got))
	}
}

func TestReadPayload(t *testing.T) {
	for text, want := range map[string]ha.Payload{
		`{"event": "STOPPED", "n": 5, "o": {"x":1}, "z": null}`: {"event": "STOPPED", "n": "5", "o": `{"x":1}`, "z": ""},
		"": {}, "[]": {}, "{": {}, `{"a":"b",}`: {}, `{"a":"b"} x`: {}, `{"a":"b"`: {}, `{"a" "b"}`: {}, `{"":""}`: {"": ""},
		`{ "a" : "b" , "a":"c" }`: {"a": "c"}, `{"a":"b\u0041\"","c":"d"}`: {"a": `bA"`, "c": "d"}, "{\"a\":\"b\u00e9\"}\n": {"a": "b\u00e9"}, "{\"a\":\"\x01\"}": {},
	} {
		if got := ReadPayload(text); !got.Equal(want) {
			t.Errorf("%s is read as %v, want %v", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := ha.Payload(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "payload"))
		if got := ReadPayload(PayloadText(p)); !got.Equal(p) {
			t.Fatalf("%v came back as %v", p, got)
		}
	})
}

func TestMarkerID(t *testing.T) {
	for marker, want := range map[string]int64{"7": 7, "0": 0, "-1": 0, "+1": 0, "7x": 0, "": 0, "99999999999999999999": 0, " 7": 0} {
		id, ok := MarkerID(marker)
		if ok != (want > 0) || ok && id != want {
			t.Errorf("marker %q is read as %d, %v", marker, id, ok)
		}
	}
}

func TestAdmissionFrom(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for interval, want := range map[time.Duration]time.Duration{0: 6 * time.Second, time.Minute: 61 * time.Second} {
		if got := at.Sub(AdmissionFrom(ha.Report{GeneratedTime: at}, interval)); got != want {
			t.Errorf("with interval %v twins are looked for %v back, want %v", interval, got, want)
		}
	}
}

// TestWishOfEndedLeadsSomewhere: no refusal advises an order that is refused, too.
func TestWishOfEndedLeadsSomewhere(t *testing.T) {
	for _, tt := range []struct {
		status ha.Status
		kind   ha.WishKind
		want   string
	}{
		{ha.StatusFailed, ha.WishRetry, ""},
		{ha.StatusFailed, ha.WishRetryMove, "retry the whole recovery instead"},
		{ha.StatusFinished, ha.WishRetryMove, "has ended finished: only a failed one can be retried. If it is needed again, report it again."},
		{ha.StatusIgnored, ha.WishRetry, "has ended ignored: only a failed one can be retried. If it is needed again, report it again."},
		{ha.StatusFinished, ha.WishCancel, "has ended (finished): there is nothing to cancel."},
	} {
		err := WishOfEnded(ha.Notification{UUID: "n", Status: tt.status}, ha.Wish{Kind: tt.kind})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s of one that %s: %v", tt.kind, tt.status, err)
		}
	}
}
