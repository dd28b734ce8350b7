package rules

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// PayloadText is a payload as Masakari's column keeps it: a JSON object as text, its keys sorted.
func PayloadText(p ha.Payload) string {
	if p == nil {
		p = ha.Payload{}
	}
	text, err := json.Marshal(p)
	if err != nil { // strings as keys and values always marshal
		return "{}"
	}
	return string(text)
}

// ReadPayload reads the column again. Values that are no strings, which an imported row may have, are kept as their JSON.
func ReadPayload(text string) ha.Payload {
	if p := readFlat(text); p != nil {
		return p
	}
	var plain ha.Payload
	if json.Unmarshal([]byte(text), &plain) == nil && plain != nil {
		return plain
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &raw) != nil {
		return ha.Payload{}
	}
	p := make(ha.Payload, len(raw))
	for k, v := range raw {
		var s string
		if json.Unmarshal(v, &s) != nil {
			s = string(v)
		}
		p[k] = s
	}
	return p
}

// readFlat reads an object of plain texts, which nearly every payload is, at a tenth of the cost; nil when it is anything
// else, or has an escape, a control character or a letter beyond ASCII in it.
func readFlat(text string) ha.Payload {
	rest, ok := strings.CutPrefix(text, "{")
	if !ok || len(text) < 3 {
		return nil
	}
	p := make(ha.Payload, 4)
	for {
		key, after, ok := plainText(rest)
		if !ok {
			return nil
		}
		if after, ok = strings.CutPrefix(strings.TrimLeft(after, " "), ":"); !ok {
			return nil
		}
		if p[key], after, ok = plainText(after); !ok {
			return nil
		}
		switch after = strings.TrimLeft(after, " "); {
		case after == "}":
			return p
		case len(after) == 0 || after[0] != ',':
			return nil
		}
		rest = after[1:]
	}
}

// plainText reads a quoted text without any escape, and returns what follows it.
func plainText(s string) (text, after string, ok bool) {
	s = strings.TrimLeft(s, " ")
	if len(s) < 2 || s[0] != '"' {
		return "", "", false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[1:i], s[i+1:], true
		case c < ' ' || c == '\\' || c >= 0x7f:
			return "", "", false
		}
	}
	return "", "", false
}

// Event is the part of a payload that queries ask for: STARTED or STOPPED of a host or process.
func Event(n ha.Notification) string {
	if n.Type == ha.TypeVM {
		return ""
	}
	return Text(n.Payload[ha.KeyEvent], 32)
}

// AdmissionSlack is added to the interval of rule A3 when the rows that could be twins are looked for: imported rows have
// a generated_time in whole seconds.
const AdmissionSlack = time.Second

// AdmissionLimit bounds how many notifications of one unit key a report is compared with: the open ones, and as many
// again of the ended ones, the nearest in time first.
const AdmissionLimit = 500

// AdmissionFrom is the earliest generated_time of an ended notification that can matter to a report (rule A3).
func AdmissionFrom(r ha.Report, interval time.Duration) time.Time {
	return Micro(r.GeneratedTime.Add(-max(interval, ha.ResendWindow) - AdmissionSlack))
}

// Admitted is the notification that a report becomes. now is the database's clock.
func Admitted(r ha.Report, h ha.Host, now time.Time) ha.Notification {
	segment := h.SegmentUUID
	return ha.Notification{
		Stamps:         ha.Stamps{CreatedAt: Second(now)},
		UUID:           r.UUID,
		GeneratedTime:  Micro(r.GeneratedTime),
		SourceHostUUID: h.UUID,
		SegmentUUID:    &segment,
		Type:           r.Type,
		Payload:        r.Payload,
		Status:         ha.StatusNew,
	}
}

// Signals are the unit keys whose owners must know of a notification that was just admitted: its own, and for a STARTED
// of a host the host's take-back.
func Signals(n ha.Notification) []string {
	_, key := n.UnitKey()
	keys := []string{key}
	if n.Type == ha.TypeComputeHost && n.Payload.Started() {
		keys = append(keys, ha.UnitTakeBack.Key(n.SourceHostUUID))
	}
	return keys
}
