package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The answers that are asked for most write themselves: encoding/json would look at each field by reflection, and call each
// time's MarshalJSON through a check of what it returns. What they write is what encoding/json would write, byte for byte
// (TestAppendedAsMarshaled).

// Encode is v as compact JSON, <, > and & as they are. All bodies are types of this package, which always can be written.
func Encode(v any) []byte { return EncodeInto(nil, v) }

// EncodeInto is Encode with a buffer whose space may be used.
func EncodeInto(buffer []byte, v any) []byte {
	if a, ok := v.(appender); ok {
		return a.appendTo(slices.Grow(buffer[:0], a.size()))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("body of %T: %v", v, err))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// appender writes itself; size is about how long it will be.
type appender interface {
	appendTo(b []byte) []byte
	size() int
}

const (
	segmentSize      = 400
	hostSize         = 800
	notificationSize = 700
	moveSize         = 700
)

func (l SegmentList) size() int      { return 32 + segmentSize*len(l.Segments) }
func (l HostList) size() int         { return 32 + hostSize*len(l.Hosts) }
func (l NotificationList) size() int { return 32 + notificationSize*len(l.Notifications) }
func (l VMoveList) size() int        { return 32 + moveSize*len(l.VMoves) }
func (n NotificationBody) size() int { return notificationSize }

func (l SegmentList) appendTo(b []byte) []byte {
	return appendList(b, "segments", l.Segments, Segment.appendTo)
}

func (l HostList) appendTo(b []byte) []byte { return appendList(b, "hosts", l.Hosts, Host.appendTo) }

func (l NotificationList) appendTo(b []byte) []byte {
	return appendList(b, "notifications", l.Notifications, Notification.appendTo)
}

func (l VMoveList) appendTo(b []byte) []byte {
	return appendList(b, "vmoves", l.VMoves, VMove.appendTo)
}

func (n NotificationBody) appendTo(b []byte) []byte {
	return append(n.Notification.appendTo(append(b, `{"notification":`...)), '}')
}

func appendList[T any](b []byte, name string, list []T, one func(T, []byte) []byte) []byte {
	b = append(append(append(b, `{"`...), name...), `":`...)
	if list == nil {
		return append(b, "null}"...)
	}
	b = append(b, '[')
	for i, t := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(t, b)
	}
	return append(b, "]}"...)
}

func (s Segment) appendTo(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), s.ID, 10)
	b = appendText(append(b, `,"uuid":`...), s.UUID)
	b = appendText(append(b, `,"name":`...), s.Name)
	b = appendText(append(b, `,"service_type":`...), s.ServiceType)
	b = strconv.AppendBool(append(b, `,"enabled":`...), s.Enabled)
	b = appendTextOrNull(append(b, `,"description":`...), s.Description)
	b = appendText(append(b, `,"recovery_method":`...), s.RecoveryMethod)
	return append(s.Stamps.appendTo(b), '}')
}

func (h Host) appendTo(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), h.ID, 10)
	b = appendText(append(b, `,"uuid":`...), h.UUID)
	b = appendText(append(b, `,"name":`...), h.Name)
	b = appendText(append(b, `,"failover_segment_id":`...), h.FailoverSegmentID)
	b = h.FailoverSegment.appendTo(append(b, `,"failover_segment":`...))
	b = appendText(append(b, `,"type":`...), h.Type)
	b = strconv.AppendBool(append(b, `,"reserved":`...), h.Reserved)
	b = appendText(append(b, `,"control_attributes":`...), h.ControlAttributes)
	b = strconv.AppendBool(append(b, `,"on_maintenance":`...), h.OnMaintenance)
	return append(h.Stamps.appendTo(b), '}')
}

func (n Notification) appendTo(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), n.ID, 10)
	b = appendText(append(b, `,"notification_uuid":`...), n.NotificationUUID)
	b = n.GeneratedTime.appendTo(append(b, `,"generated_time":`...))
	b = appendText(append(b, `,"source_host_uuid":`...), n.SourceHostUUID)
	b = appendText(append(b, `,"type":`...), n.Type)
	b = appendMap(append(b, `,"payload":`...), n.Payload)
	b = appendText(append(b, `,"status":`...), n.Status)
	b = appendTextOrNull(append(b, `,"failover_segment_uuid":`...), n.FailoverSegmentUUID)
	b = appendTextOrNull(append(b, `,"message":`...), n.Message)
	b = n.Stamps.appendTo(b)
	if n.Details != nil {
		b = append(append(b, `,"recovery_workflow_details":`...), Encode(*n.Details)...)
	}
	return append(b, '}')
}

func (m VMove) appendTo(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), m.ID, 10)
	b = appendText(append(b, `,"uuid":`...), m.UUID)
	b = appendText(append(b, `,"notification_uuid":`...), m.NotificationUUID)
	b = appendText(append(b, `,"instance_uuid":`...), m.InstanceUUID)
	b = appendText(append(b, `,"instance_name":`...), m.InstanceName)
	b = appendText(append(b, `,"source_host":`...), m.SourceHost)
	b = appendTextOrNull(append(b, `,"dest_host":`...), m.DestHost)
	b = appendTime(append(b, `,"start_time":`...), m.StartTime)
	b = appendTime(append(b, `,"end_time":`...), m.EndTime)
	b = appendText(append(b, `,"type":`...), m.Type)
	b = appendText(append(b, `,"status":`...), m.Status)
	b = appendTextOrNull(append(b, `,"message":`...), m.Message)
	return append(m.Stamps.appendTo(b), '}')
}

func (s Stamps) appendTo(b []byte) []byte {
	b = s.CreatedAt.appendTo(append(b, `,"created_at":`...))
	b = appendTime(append(b, `,"updated_at":`...), s.UpdatedAt)
	b = appendTime(append(b, `,"deleted_at":`...), s.DeletedAt)
	return strconv.AppendBool(append(b, `,"deleted":`...), s.Deleted)
}

func (t Timestamp) appendTo(b []byte) []byte {
	at := t.UTC()
	year, month, day := at.Date()
	hour, minute, second := at.Clock()
	if year < 0 || year > 9999 {
		return append(at.AppendFormat(append(b, '"'), timeOut), '"')
	}
	b = appendDigits(append(b, '"'), year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), second, 2)
	b = appendDigits(append(b, '.'), at.Nanosecond()/1000, 6)
	return append(b, '"')
}

// appendDigits writes a number with leading zeros.
func appendDigits(b []byte, n, digits int) []byte {
	b = append(b, "000000"[:digits]...)
	for i := len(b) - 1; n > 0; i-- {
		b[i] += byte(n % 10)
		n /= 10
	}
	return b
}

func appendTime(b []byte, t *Timestamp) []byte {
	if t == nil {
		return append(b, "null"...)
	}
	return t.appendTo(b)
}

// appendMap writes a map as encoding/json does: by its keys' order.
func appendMap(b []byte, m map[string]string) []byte {
	if m == nil {
		return append(b, "null"...)
	}
	var few [8]string
	keys := slices.AppendSeq(few[:0], maps.Keys(m))
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(appendText(b, k), ':'), m[k])
	}
	return append(b, '}')
}

func appendTextOrNull(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return appendText(b, *s)
}

// appendText writes a text as it is when nothing in it needs an escape; all else is encoding/json's.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return append(b, Encode(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
