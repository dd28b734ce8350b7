package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type notificationRow struct {
	bun.BaseModel `bun:"table:notifications,alias:t"`
	common
	UUID           string  `bun:"notification_uuid"`
	GeneratedTime  stamp   `bun:"generated_time"`
	SourceHostUUID string  `bun:"source_host_uuid"`
	Type           string  `bun:"type"`
	Payload        string  `bun:"payload"`
	Status         string  `bun:"status"`
	SegmentUUID    *string `bun:"failover_segment_uuid"`
	Message        *string `bun:"message"`
	UnitKey        string  `bun:"unit_key"` // of the unit of work that handles it
	Event          string  `bun:"event"`    // STARTED or STOPPED, so that queries can ask for it
}

// openStatus is the condition of a notification that a recovery is still owed for (ha.Status.Open).
const openStatus = "deleted = 0 AND status IN ('new', 'running', 'error')"

func (r notificationRow) notification() ha.Notification {
	return ha.Notification{
		Stamps: r.stamps(), ID: r.ID, UUID: r.UUID, GeneratedTime: r.GeneratedTime.Time, SourceHostUUID: r.SourceHostUUID,
		SegmentUUID: r.SegmentUUID, Type: ha.Type(r.Type), Payload: rules.ReadPayload(r.Payload), Status: ha.Status(r.Status), Message: r.Message,
	}
}

func rowOfNotification(n ha.Notification) notificationRow {
	_, key := n.UnitKey()
	return notificationRow{
		common: common{CreatedAt: stamp{n.CreatedAt}, UpdatedAt: stampOf(n.UpdatedAt)},
		UUID:   n.UUID, GeneratedTime: stamp{n.GeneratedTime}, SourceHostUUID: n.SourceHostUUID, Type: string(n.Type),
		Payload: rules.PayloadText(n.Payload), Status: string(n.Status), SegmentUUID: n.SegmentUUID, Message: n.Message,
		UnitKey: key, Event: rules.Event(n),
	}
}

func readNotification(c *columns) ha.Notification {
	n := ha.Notification{}
	n.ID, n.Stamps = c.stamps()
	n.UUID, n.GeneratedTime, n.SourceHostUUID, n.Type = c.text(), c.time(), c.text(), ha.Type(c.text())
	n.Payload, n.Status, n.SegmentUUID, n.Message = rules.ReadPayload(c.text()), ha.Status(c.text()), c.textOrNull(), c.textOrNull()
	return n
}

var notificationList = list[ha.Notification]{
	table:  "notifications",
	names:  stampNames + ", notification_uuid, generated_time, source_host_uuid, type, payload, status, failover_segment_uuid, message",
	read:   readNotification,
	fields: rules.NotificationField,
	uuid:   "notification_uuid",
	byTime: []string{
		"notifications_list_idx", "notifications_status_idx", "notifications_type_idx", "notifications_type_status_idx", "notifications_host_idx",
	},
	columns: map[ha.Field]column{
		ha.FieldUUID:           {name: "notification_uuid", unique: true, index: "uniq_notification0uuid"},
		ha.FieldUpdatedAt:      {name: "updated_at", null: true, moment: true, index: "notifications_updated_idx"},
		ha.FieldGeneratedTime:  {name: "generated_time", index: "notifications_made_idx"},
		ha.FieldSourceHostUUID: {name: "source_host_uuid", index: "notifications_host_idx"},
		ha.FieldType:           {name: "type", index: "notifications_type_idx"},
		ha.FieldStatus:         {name: "status", index: "notifications_status_idx"},
		ha.FieldPayload:        {name: "payload", null: true},
		ha.FieldSegment:        {name: "failover_segment_uuid", null: true}, ha.FieldMessage: {name: "message", null: true},
	},
}

// Notifications lists notifications.
func (s *Store) Notifications(ctx context.Context, f ha.NotificationFilter, p ha.Page) ([]ha.Notification, error) {
	l := notificationList
	if f.GeneratedSince != nil {
		l.byTime = nil // what was generated lately is found by its own index
		if f == (ha.NotificationFilter{GeneratedSince: f.GeneratedSince}) {
			l.covered = []string{"generated_time", createdAt, "id"} // notifications_made_idx
		}
	}
	return l.page(ctx, s, "listing notifications", p, f != ha.NotificationFilter{}, func(q *question) {
		q.equal("source_host_uuid", f.SourceHostUUID)
		q.equal("type", f.Type)
		q.equal("status", f.Status)
		if f.GeneratedSince != nil {
			q.and("generated_time >= ?", moment(*f.GeneratedSince))
		}
	})
}

// Notification returns a notification.
func (s *Store) Notification(ctx context.Context, uuid string) (ha.Notification, error) {
	found, err := notificationList.show(ctx, s, "reading a notification", "notification_uuid = ? AND deleted = 0", uuid)
	switch {
	case err != nil:
		return ha.Notification{}, err
	case found == nil:
		return ha.Notification{}, &ha.NotFoundError{Kind: ha.KindNotification, ID: uuid}
	default:
		return *found, nil
	}
}

// Admit decides about a report and stores it, in one transaction whose first statement touches the host's row: whoever
// decides about the same host waits, or on another Galera node is refused and decides again (rule A1).
func (s *Store) Admit(ctx context.Context, r ha.Report, interval time.Duration) (ha.Notification, error) {
	var admitted ha.Notification
	own := func(ctx context.Context, tx bun.Tx) (bool, error) {
		row, err := one[notificationRow](ctx, tx, "notification_uuid = ?", r.UUID)
		if err == nil && row != nil {
			admitted = row.notification()
		}
		return row != nil, err
	}
	err := s.write(ctx, "admitting a report", func(ctx context.Context, tx bun.Tx) error {
		n, err := s.admit(ctx, tx, r, interval)
		if err == nil {
			admitted = n
		}
		return err
	}, func(ctx context.Context) (found bool, err error) {
		err = s.write(ctx, "looking for an admitted report", func(ctx context.Context, tx bun.Tx) error {
			if _, err := changed(ctx, tx, touchByName, rules.Fold(r.Hostname)); err != nil {
				return err
			}
			found, err = own(ctx, tx)
			return err
		}, nil)
		return found, err
	})
	if s.duplicate(err) { // of its uuid: the caller's own, whose host is another's by now
		var found bool
		if ferr := s.write(ctx, "looking for an admitted report", func(ctx context.Context, tx bun.Tx) (err error) {
			found, err = own(ctx, tx)
			return err
		}, nil); ferr == nil && found {
			return admitted, nil
		}
	}
	if s.told(err) != nil {
		return ha.Notification{}, err
	}
	return admitted, nil
}

const touchByName = "UPDATE hosts SET touch = touch + 1 WHERE name_key = ? AND deleted = 0"

func (s *Store) admit(ctx context.Context, tx bun.Tx, r ha.Report, interval time.Duration) (ha.Notification, error) {
	none := ha.Notification{}
	missing := &ha.NotFoundError{Kind: ha.KindHost, ID: r.Hostname}
	name := rules.Fold(r.Hostname)
	if !rules.Storable(name) {
		return none, missing
	}
	host, err := s.touchNamed(ctx, tx, name, r)
	if err != nil {
		return none, err
	}
	if host == nil {
		return none, missing
	}
	h := host.host()
	admitted := rules.Admitted(r, h, host.Now.Time)
	row := rowOfNotification(admitted)
	var recent []ha.Notification
	if !host.First {
		if recent, err = s.recentOf(ctx, tx, row, r, interval); err != nil {
			return none, err
		}
	}
	for _, have := range recent {
		if have.UUID == r.UUID {
			return have, nil
		}
	}
	if h.OnMaintenance {
		claims, err := claimsOf(ctx, tx, h.UUID)
		if err != nil {
			return none, err
		}
		if ha.OperatorMaintenance(h, claims) {
			return none, &ha.MaintenanceError{Host: r.Hostname, Type: r.Type}
		}
	}
	if verdict, twin := ha.Admission(r, recent, interval); verdict == ha.Duplicate {
		return none, &ha.DuplicateError{Host: r.Hostname, Type: r.Type, Twin: twin.UUID}
	}
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return none, err
	}
	if err := s.signal(ctx, tx, rules.Signals(admitted)...); err != nil {
		return none, err
	}
	admitted = row.notification()
	err = s.tell(ctx, tx, host.Now.Time, rules.Around(ha.Event{Action: ha.ActionCreate, Notification: &admitted})...)
	return admitted, err
}

// touchedHost is a host's row after its touch, and the database's clock.
type touchedHost struct {
	hostRow
	Now   stamp `bun:"now"`
	First bool  `bun:"first"` // nothing was ever reported about the report's unit
}

// touchNamed is how an admission begins: the host's row is moved, then read; nil when there is none of that name. Where a
// statement of its own reads the host, it looks as well whether there is anything to compare the report with, which there
// seldom is; within an UPDATE that had to wait for the row, it would not see what was committed meanwhile. Nothing in it is prepared: with
// statements kept prepared, Galera admitted two of twenty identical reports, once in some ten rounds.
func (s *Store) touchNamed(ctx context.Context, tx bun.Tx, name string, r ha.Report) (*touchedHost, error) {
	host := new(touchedHost)
	var err error
	var found int64
	if s.d.returning {
		err = tx.NewRaw(touchByName+" RETURNING *, ? AS now", name, s.d.now()).Scan(ctx, host)
	} else {
		if found, err = changed(ctx, tx, touchByName, name); err != nil || found == 0 { // one that is registered meanwhile would be decided on without its row
			return nil, err
		}
		err = tx.NewRaw("SELECT t.*, ? AS now, "+
			"NOT EXISTS (SELECT 1 FROM notifications AS n WHERE n.unit_key = ?) AS first FROM hosts AS t WHERE name_key = ? AND deleted = 0",
			s.d.now(), unitKeyOf(r), name).Scan(ctx, host)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return host, err
}

// unitKeyOf is the key of the unit that would handle a report about a host t, as an expression of MySQL.
func unitKeyOf(r ha.Report) schema.QueryAppender {
	_, key := ha.Notification{Type: r.Type, Payload: r.Payload}.UnitKey()
	if r.Type == ha.TypeVM {
		return bun.SafeQuery("?", key)
	}
	return bun.SafeQuery("CONCAT(?, t.uuid)", key)
}

// recentOf are the notifications that admission compares a report with: of the same unit key and host, all that are open
// and those generated since the interval began, the nearest first. Two selections, each by its own index and by nothing that
// could lead a database to another one; the host, which the key nearly always decides, is compared here. Where the
// database is a server they are one statement, for the sake of the way.
func (s *Store) recentOf(ctx context.Context, tx bun.Tx, row notificationRow, r ha.Report, interval time.Duration) ([]ha.Notification, error) {
	open := tx.NewSelect().Model((*notificationRow)(nil)).Where("unit_key = ? AND status IN ('new', 'running', 'error')", row.UnitKey).
		OrderExpr("id DESC").Limit(rules.AdmissionLimit)
	lately := tx.NewSelect().Model((*notificationRow)(nil)).Where("unit_key = ? AND generated_time >= ?", row.UnitKey, literal(rules.AdmissionFrom(r, interval))).
		OrderExpr("generated_time").Limit(rules.AdmissionLimit)
	var rows, more []notificationRow
	if s.d.name == sqlite {
		if err := open.Scan(ctx, &rows); err != nil {
			return nil, err
		}
		if err := lately.Scan(ctx, &more); err != nil {
			return nil, err
		}
	} else if err := tx.NewRaw("(?) UNION ALL (?)", open, lately).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	recent := make([]ha.Notification, 0, len(rows)+len(more))
	seen := make(map[int64]bool, cap(recent))
	for _, have := range append(rows, more...) {
		if have.Deleted == 0 && have.SourceHostUUID == row.SourceHostUUID && !seen[have.ID] {
			seen[have.ID] = true
			recent = append(recent, have.notification())
		}
	}
	if death := ha.OpenDeath(r, recent); death != nil { // by notifications_unit_idx
		back, err := one[notificationRow](ctx, tx, "unit_key = ? AND status IN ('finished', 'ignored', 'failed') AND id > ? AND event = ? AND deleted = 0",
			row.UnitKey, death.ID, ha.EventStarted)
		if err != nil {
			return nil, err
		}
		if back != nil && !seen[back.ID] {
			recent = append(recent, back.notification())
		}
	}
	return recent, nil
}
