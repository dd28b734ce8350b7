package wire

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAppendedAsMarshaled: what writes itself writes what encoding/json would, whatever texts are in it.
func TestAppendedAsMarshaled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9 <>&"\\/-]*`),
			rapid.SampledFrom([]string{"", "\u2028", "a\xffb", "\x00\x7f", "straße", "\b\f\n\r\t", "😀"}), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		textOrNull := rapid.Ptr(text, true)
		at := rapid.Custom(func(t *rapid.T) Timestamp {
			return Timestamp{time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "µs")).In(time.FixedZone("x", 3600))}
		})
		atOrNull := rapid.Ptr(at, true)
		ends := rapid.Custom(func(t *rapid.T) Stamps {
			return Stamps{at.Draw(t, "created"), atOrNull.Draw(t, "updated"), atOrNull.Draw(t, "deleted at"), rapid.Bool().Draw(t, "deleted")}
		})
		id := rapid.Int64()
		segment := rapid.Custom(func(t *rapid.T) Segment {
			return Segment{id.Draw(t, "id"), text.Draw(t, "uuid"), text.Draw(t, "name"), text.Draw(t, "service type"), rapid.Bool().Draw(t, "enabled"),
				textOrNull.Draw(t, "description"), text.Draw(t, "method"), ends.Draw(t, "stamps")}
		})
		host := rapid.Custom(func(t *rapid.T) Host {
			return Host{id.Draw(t, "id"), text.Draw(t, "uuid"), text.Draw(t, "name"), text.Draw(t, "segment id"), segment.Draw(t, "segment"), text.Draw(t, "type"),
				rapid.Bool().Draw(t, "reserved"), text.Draw(t, "control"), rapid.Bool().Draw(t, "maintenance"), ends.Draw(t, "stamps")}
		})
		task := rapid.Custom(func(t *rapid.T) WorkflowTask {
			return WorkflowTask{text.Draw(t, "name"), Progress(rapid.Float64Range(0, 1).Draw(t, "progress")), []ProgressItem{{text.Draw(t, "at"), "0.0", text.Draw(t, "message")}}, "SUCCESS"}
		})
		notification := rapid.Custom(func(t *rapid.T) Notification {
			return Notification{id.Draw(t, "id"), text.Draw(t, "uuid"), at.Draw(t, "generated"), text.Draw(t, "host"), text.Draw(t, "type"),
				rapid.MapOf(text, text).Draw(t, "payload"), text.Draw(t, "status"), textOrNull.Draw(t, "segment"), textOrNull.Draw(t, "message"),
				ends.Draw(t, "stamps"), rapid.Ptr(rapid.SliceOf(task), true).Draw(t, "details")}
		})
		move := rapid.Custom(func(t *rapid.T) VMove {
			return VMove{id.Draw(t, "id"), text.Draw(t, "uuid"), text.Draw(t, "notification"), text.Draw(t, "instance"), text.Draw(t, "name"), text.Draw(t, "source"),
				textOrNull.Draw(t, "destination"), atOrNull.Draw(t, "start"), atOrNull.Draw(t, "end"), text.Draw(t, "type"), text.Draw(t, "status"),
				textOrNull.Draw(t, "message"), ends.Draw(t, "stamps")}
		})
		for _, body := range []any{
			SegmentList{}, SegmentList{rapid.SliceOfN(segment, 0, 2).Draw(t, "segments")}, HostList{rapid.SliceOfN(host, 0, 2).Draw(t, "hosts")},
			NotificationList{rapid.SliceOfN(notification, 0, 2).Draw(t, "notifications")}, NotificationBody{notification.Draw(t, "notification")},
			VMoveList{rapid.SliceOfN(move, 0, 2).Draw(t, "moves")},
		} {
			var want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(body); err != nil {
				t.Fatal(err)
			}
			if _, itself := body.(appender); !itself {
				t.Fatalf("%T does not write itself", body)
			}
			if got := Encode(body); string(got) != string(bytes.TrimRight(want.Bytes(), "\n")) {
				t.Fatalf("%T:\n%s\nwant\n%s", body, got, want.Bytes())
			}
		}
	})
}
