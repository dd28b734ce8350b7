package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Fields read the value by which an object is sorted: nil, bool, int64, string or time.Time. They report false for a
// field that the object has not.
type Fields[T any] func(*T, ha.Field) (any, bool)

func stampField(s ha.Stamps, id int64, uuid string, f ha.Field) (any, bool) {
	switch f {
	case ha.FieldID:
		return id, true
	case ha.FieldUUID:
		return uuid, true
	case ha.FieldCreatedAt:
		return s.CreatedAt, true
	case ha.FieldUpdatedAt:
		return timeValue(s.UpdatedAt), true
	case ha.FieldDeletedAt:
		return nil, true // lists hold live objects only
	case ha.FieldDeleted:
		return int64(0), true
	default:
		return nil, false
	}
}

func timeValue(t *time.Time) any {
	if t == nil {
		return nil
	}
	return *t
}

func textValue(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// SegmentField reads a segment.
func SegmentField(s *ha.Segment, f ha.Field) (any, bool) {
	switch f {
	case ha.FieldName:
		return s.Name, true
	case ha.FieldServiceType:
		return s.ServiceType, true
	case ha.FieldDescription:
		return textValue(s.Description), true
	case ha.FieldRecoveryMethod:
		return string(s.RecoveryMethod), true
	case ha.FieldEnabled:
		return s.Enabled, true
	default:
		return stampField(s.Stamps, s.ID, s.UUID, f)
	}
}

// HostField reads a host.
func HostField(h *ha.Host, f ha.Field) (any, bool) {
	switch f {
	case ha.FieldName:
		return h.Name, true
	case ha.FieldSegment:
		return h.SegmentUUID, true
	case ha.FieldType:
		return h.Type, true
	case ha.FieldControl:
		return h.ControlAttributes, true
	case ha.FieldReserved:
		return h.Reserved, true
	case ha.FieldOnMaintenance:
		return h.OnMaintenance, true
	default:
		return stampField(h.Stamps, h.ID, h.UUID, f)
	}
}

// NotificationField reads a notification.
func NotificationField(n *ha.Notification, f ha.Field) (any, bool) {
	switch f {
	case ha.FieldGeneratedTime:
		return n.GeneratedTime, true
	case ha.FieldSourceHostUUID:
		return n.SourceHostUUID, true
	case ha.FieldSegment:
		return textValue(n.SegmentUUID), true
	case ha.FieldType:
		return string(n.Type), true
	case ha.FieldPayload:
		return PayloadText(n.Payload), true
	case ha.FieldStatus:
		return string(n.Status), true
	case ha.FieldMessage:
		return textValue(n.Message), true
	default:
		return stampField(n.Stamps, n.ID, n.UUID, f)
	}
}

// VMoveField reads a vmove.
func VMoveField(m *ha.VMove, f ha.Field) (any, bool) {
	switch f {
	case ha.FieldNotification:
		return m.NotificationUUID, true
	case ha.FieldInstance:
		return m.InstanceUUID, true
	case ha.FieldInstanceName:
		return m.InstanceName, true
	case ha.FieldSourceHost:
		return textValue(&m.SourceHost), true
	case ha.FieldDestHost:
		return textValue(m.DestHost), true
	case ha.FieldStartTime:
		return timeValue(m.StartTime), true
	case ha.FieldEndTime:
		return timeValue(m.EndTime), true
	case ha.FieldType:
		return m.Type, true
	case ha.FieldStatus:
		return string(m.Status), true
	case ha.FieldMessage:
		return textValue(m.Message), true
	default:
		return stampField(m.Stamps, m.ID, m.UUID, f)
	}
}

// Compare orders two values of one field: nil first, as MySQL orders NULL; false before true; text by its bytes.
func Compare(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(rank(a), rank(b))
	}
	switch x := a.(type) {
	case bool:
		return cmp.Compare(truth(x), truth(b.(bool)))
	case int64:
		return cmp.Compare(x, b.(int64))
	case time.Time:
		return x.Compare(b.(time.Time))
	default:
		return strings.Compare(a.(string), b.(string))
	}
}

func rank(v any) int {
	if v == nil {
		return 0
	}
	return 1
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// MarkerID reads a marker that is an integer id: of the last element already seen (contract 1.6). It reports false for
// one that must be a uuid.
func MarkerID(marker string) (int64, bool) {
	id, err := strconv.ParseInt(marker, 10, 64)
	return id, err == nil && id > 0 && marker[0] != '+'
}

// Cut sorts all and returns the elements of the page that follow marker; nil for the first page. all is reordered.
func Cut[T any](all []T, fields Fields[T], p ha.Page, marker *T) ([]T, error) {
	var none T
	for _, s := range p.Sort {
		if _, ok := fields(&none, s.Field); !ok {
			return nil, UnsortableError(s.Field)
		}
	}
	order := func(a, b T) int {
		for _, s := range p.Sort {
			x, _ := fields(&a, s.Field)
			y, _ := fields(&b, s.Field)
			if c := Compare(x, y); c != 0 {
				if s.Desc {
					return -c
				}
				return c
			}
		}
		return 0
	}
	slices.SortFunc(all, order)
	if marker != nil {
		from, _ := slices.BinarySearchFunc(all, *marker, func(e, m T) int {
			if order(e, m) <= 0 {
				return -1 // the marker itself belongs to the page before
			}
			return 1
		})
		all = all[from:]
	}
	return all[:min(p.Limit, len(all))], nil
}

// UnsortableError says that a kind of object has no such field to be sorted by.
func UnsortableError(f ha.Field) error {
	return &ha.InvalidError{Text: fmt.Sprintf("Sort key supplied is invalid: %s", f)}
}
