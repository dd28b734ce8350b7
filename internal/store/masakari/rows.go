package masakari

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// maxKey is the length of the column that keeps a unit's key.
const maxKey = 100

// page reads the rows of a table with ids greater than after, the smallest first.
func page[O any](ctx context.Context, db bun.IDB, table string, read func(*record) Row[O], after int64, limit int) ([]Row[O], error) {
	all, err := records(ctx, db, "SELECT * FROM ? WHERE id > ? ORDER BY id LIMIT ?", bun.Ident(table), after, limit)
	return each(all, read), err
}

func each[O any](all []*record, read func(*record) Row[O]) []Row[O] {
	rows := make([]Row[O], len(all))
	for i, r := range all {
		rows[i] = read(r)
		rows[i].Size, rows[i].Fault = r.size, r.fault
		var not []string
		if r.cut != "" {
			not = append(not, "what no database keeps (NUL, no valid UTF-8, too many characters) was taken from its "+r.cut[len(", "):])
		}
		if r.spelt != "" {
			not = append(not, "lower case with dashes, as salvor spells uuids, is now its "+r.spelt[len(", "):])
		}
		rows[i].Cut = strings.Join(not, "; ")
	}
	return rows
}

// Segments reads segments, live and deleted, with ids greater than after, the smallest first.
func Segments(ctx context.Context, db bun.IDB, after int64, limit int) ([]Row[ha.Segment], error) {
	return page(ctx, db, TableSegments, readSegment, after, limit)
}

func readSegment(r *record) Row[ha.Segment] {
	row, stamps := head[ha.Segment](r, "uuid")
	row.Object = ha.Segment{
		Stamps: stamps, ID: row.ID, UUID: row.UUID, Name: r.name("name", rules.MaxName), ServiceType: r.name("service_type", rules.MaxName),
		Description: r.text("description"), RecoveryMethod: ha.Method(r.words("recovery_method")),
		Enabled: r.flag("enabled", true), // NULL, in rows from before the column, is true (contract section 7)
	}
	if !slices.Contains([]ha.Method{ha.MethodAuto, ha.MethodReservedHost, ha.MethodAutoPriority, ha.MethodRHPriority}, row.Object.RecoveryMethod) {
		r.bad("recovery_method %q is unknown", row.Object.RecoveryMethod)
	}
	return row
}

// Hosts reads hosts as Segments does segments.
func Hosts(ctx context.Context, db bun.IDB, after int64, limit int) ([]Row[ha.Host], error) {
	return page(ctx, db, TableHosts, readHost, after, limit)
}

func readHost(r *record) Row[ha.Host] {
	row, stamps := head[ha.Host](r, "uuid")
	row.Object = ha.Host{
		Stamps: stamps, ID: row.ID, UUID: row.UUID, Name: r.name("name", rules.MaxName), SegmentUUID: r.uuid("failover_segment_id"),
		Type: orEmpty(r.title("type")), ControlAttributes: r.words("control_attributes"),
		Reserved: r.flag("reserved", false), OnMaintenance: r.flag("on_maintenance", false),
	}
	return row
}

// Notifications reads notifications as Segments does segments.
func Notifications(ctx context.Context, db bun.IDB, after int64, limit int) ([]Row[ha.Notification], error) {
	return page(ctx, db, TableNotifications, readNotification, after, limit)
}

// NotificationsOf reads the notifications with these uuids; of several with one uuid the first, as Firsts has it.
func NotificationsOf(ctx context.Context, db bun.IDB, uuids []string, deleted bool) ([]Row[ha.Notification], error) {
	firsts, err := Firsts(ctx, db, TableNotifications, "notification_uuid", uuids, deleted)
	if err != nil || len(firsts) == 0 {
		return nil, err
	}
	all, err := records(ctx, db, "SELECT * FROM ? WHERE id IN (?)", bun.Ident(TableNotifications), bun.List(slices.Collect(maps.Values(firsts))))
	return each(all, readNotification), err
}

// Firsts returns, by uuid, the smallest id that a row with this uuid has. Masakari's uuids are unique, but a copy of its tables may
// have lost the keys. Deleted rows count only with deleted; ids that salvor cannot have do not.
func Firsts(ctx context.Context, db bun.IDB, table, column string, uuids []string, deleted bool) (map[string]int64, error) {
	if uuids = slices.DeleteFunc(uuids, func(u string) bool { return u == "" }); len(uuids) == 0 {
		return nil, nil
	}
	live := bun.Safe("AND COALESCE(deleted, 0) = 0")
	if deleted {
		live = ""
	}
	all, err := records(ctx, db, "SELECT MIN(id) AS id, ? AS uuid FROM ? WHERE ? IN (?) AND id BETWEEN 1 AND ? ? GROUP BY ?",
		bun.Ident(column), bun.Ident(table), bun.Ident(column), bun.List(spellings(uuids)), math.MaxInt32, live, bun.Ident(column))
	firsts := make(map[string]int64, len(all))
	for _, r := range all {
		id, is := r.number("id"), spelt(r.words("uuid"))
		if first, found := firsts[is]; !found || id < first {
			firsts[is] = id
		}
	}
	return firsts, err
}

func readNotification(r *record) Row[ha.Notification] {
	row, stamps := head[ha.Notification](r, "notification_uuid")
	n := ha.Notification{
		Stamps: stamps, ID: row.ID, UUID: row.UUID, SourceHostUUID: r.uuid("source_host_uuid"), Type: ha.Type(r.words("type")),
		Status: ha.Status(r.words("status")), SegmentUUID: r.text("failover_segment_uuid"), Message: r.text("message"),
	}
	if at := r.time("generated_time"); at != nil {
		n.GeneratedTime = *at
	} else {
		r.bad("generated_time is missing")
	}
	if !slices.Contains([]ha.Type{ha.TypeComputeHost, ha.TypeVM, ha.TypeProcess}, n.Type) {
		r.bad("type %q is unknown", n.Type)
	}
	if !slices.Contains([]ha.Status{ha.StatusNew, ha.StatusRunning, ha.StatusError, ha.StatusFailed, ha.StatusFinished, ha.StatusIgnored}, n.Status) {
		r.bad("status %q is unknown", n.Status)
	}
	if n.SegmentUUID != nil && *n.SegmentUUID == "" {
		n.SegmentUUID = nil
	} else if n.SegmentUUID != nil {
		*n.SegmentUUID = r.uuid("failover_segment_uuid")
	}
	payload := orEmpty(r.raw("payload"))
	if !object(payload) {
		r.bad("payload is no JSON object: %.40q", payload)
	}
	n.Payload = rules.ReadPayload(payload)
	if size := len(rules.PayloadText(n.Payload)); size > rules.MaxText {
		r.bad("payload has %d bytes as salvor writes it, more than %d", size, rules.MaxText)
	}
	if _, key := n.UnitKey(); len(key) > maxKey || !rules.Storable(key) {
		r.bad("payload names an instance that cannot be: %.40q", n.Payload[ha.KeyInstanceUUID])
	}
	row.Object = n
	return row
}

func object(text string) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}

// VMoves reads vmoves as Segments does segments.
func VMoves(ctx context.Context, db bun.IDB, after int64, limit int) ([]Row[ha.VMove], error) {
	return page(ctx, db, TableVMoves, readVMove, after, limit)
}

func readVMove(r *record) Row[ha.VMove] {
	row, stamps := head[ha.VMove](r, "uuid")
	m := ha.VMove{
		Stamps: stamps, ID: row.ID, UUID: row.UUID, NotificationUUID: r.uuid("notification_uuid"), InstanceUUID: r.name("instance_uuid", 36),
		InstanceName: orEmpty(r.title("instance_name")), SourceHost: orEmpty(r.title("source_host")), DestHost: r.title("dest_host"),
		StartTime: r.time("start_time"), EndTime: r.time("end_time"), Type: r.words("type"), Status: ha.MoveStatus(r.words("status")),
		Message: r.text("message"),
	}
	if len(m.Type) > 36 {
		r.bad("type has more than 36 characters")
	}
	if !m.Status.Ended() && m.Status != ha.MovePending && m.Status != ha.MoveOngoing {
		r.bad("status %q is unknown", m.Status)
	}
	row.Object = m
	return row
}
