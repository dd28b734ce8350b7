package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type vmoveRow struct {
	bun.BaseModel `bun:"table:vmoves,alias:t"`
	common
	UUID             string  `bun:"uuid"`
	NotificationUUID string  `bun:"notification_uuid"`
	InstanceUUID     string  `bun:"instance_uuid"`
	InstanceName     string  `bun:"instance_name"`
	SourceHost       string  `bun:"source_host"`
	DestHost         *string `bun:"dest_host"`
	StartTime        stamp   `bun:"start_time"`
	EndTime          stamp   `bun:"end_time"`
	Type             string  `bun:"type"`
	Status           string  `bun:"status"`
	Message          *string `bun:"message"`

	Stage         string `bun:"stage"`
	Attempts      int    `bun:"attempts"`
	Pass          int    `bun:"pass"`
	HA            bool   `bun:"ha"`
	Priority      int    `bun:"priority"`
	Born          stamp  `bun:"born"`
	PriorVM       string `bun:"prior_vm"`
	PriorOn       bool   `bun:"prior_on"`
	Want          string `bun:"want"`
	WasLocked     bool   `bun:"was_locked"`
	Locked        bool   `bun:"locked"`
	OrderAt       stamp  `bun:"order_at"`
	OrderBase     int64  `bun:"order_base"`
	OrderRecord   int64  `bun:"order_record"`
	OrderTarget   string `bun:"order_target"`
	OrderAnswered bool   `bun:"order_answered"`
	LostAct       string `bun:"lost_act"`
	LostAt        stamp  `bun:"lost_at"`
	RefusedBy     string `bun:"refused_by"`
	Final         bool   `bun:"final"`
	NotBefore     stamp  `bun:"not_before"`
	Waits         int    `bun:"waits"`
	Outcome       string `bun:"outcome"`
	RetryWish     int    `bun:"retry_wish"` // the api's; all others are the owner's
	RetryDone     int    `bun:"retry_done"`
}

func (r vmoveRow) move() ha.VMove {
	return ha.VMove{
		Stamps: r.stamps(), ID: r.ID, UUID: r.UUID, NotificationUUID: r.NotificationUUID, InstanceUUID: r.InstanceUUID,
		InstanceName: r.InstanceName, SourceHost: r.SourceHost, DestHost: r.DestHost, StartTime: r.StartTime.ptr(), EndTime: r.EndTime.ptr(),
		Type: r.Type, Status: ha.MoveStatus(r.Status), Message: r.Message,
		Stage: ha.Stage(r.Stage), Attempts: r.Attempts, Pass: r.Pass, HA: r.HA, Priority: r.Priority, Born: r.Born.Time,
		PriorVM: r.PriorVM, PriorOn: r.PriorOn, Want: ha.Want(r.Want), WasLocked: r.WasLocked, Locked: r.Locked,
		Order: ha.Order{At: r.OrderAt.Time, Base: r.OrderBase, Record: r.OrderRecord, Target: r.OrderTarget, Answered: r.OrderAnswered},
		Lost:  ha.Lost{Act: ha.ActKind(r.LostAct), At: r.LostAt.Time},

		RefusedBy: r.RefusedBy, Final: r.Final, NotBefore: r.NotBefore.ptr(), Waits: r.Waits,
		Outcome: ha.MoveStatus(r.Outcome), RetryWish: r.RetryWish, RetryDone: r.RetryDone,
	}
}

// rowOfMove is the row of the owner's fields of m; what is not the owner's is left zero.
func rowOfMove(m ha.VMove) vmoveRow {
	m = rules.OwnedMove(m)
	return vmoveRow{
		UUID: m.UUID, NotificationUUID: m.NotificationUUID, InstanceUUID: m.InstanceUUID, InstanceName: m.InstanceName,
		SourceHost: m.SourceHost, DestHost: m.DestHost, StartTime: stampOf(m.StartTime), EndTime: stampOf(m.EndTime),
		Type: m.Type, Status: string(m.Status), Message: m.Message,
		Stage: string(m.Stage), Attempts: m.Attempts, Pass: m.Pass, HA: m.HA, Priority: m.Priority, Born: stamp{m.Born},
		PriorVM: m.PriorVM, PriorOn: m.PriorOn, Want: string(m.Want), WasLocked: m.WasLocked, Locked: m.Locked,
		OrderAt: stamp{m.Order.At}, OrderBase: m.Order.Base, OrderRecord: m.Order.Record, OrderTarget: m.Order.Target, OrderAnswered: m.Order.Answered,
		LostAct: string(m.Lost.Act), LostAt: stamp{m.Lost.At}, RefusedBy: m.RefusedBy, Final: m.Final, NotBefore: stampOf(m.NotBefore), Waits: m.Waits,
		Outcome: string(m.Outcome), RetryDone: m.RetryDone,
	}
}

func readMove(c *columns) ha.VMove {
	m := ha.VMove{}
	m.ID, m.Stamps = c.stamps()
	m.UUID, m.NotificationUUID, m.InstanceUUID, m.InstanceName, m.SourceHost, m.DestHost = c.text(), c.text(), c.text(), c.text(), c.text(), c.textOrNull()
	m.StartTime, m.EndTime, m.Type, m.Status, m.Message = c.timeOrNull(), c.timeOrNull(), c.text(), ha.MoveStatus(c.text()), c.textOrNull()
	m.Stage, m.Attempts, m.Pass, m.HA, m.Priority = ha.Stage(c.text()), int(c.number()), int(c.number()), c.flag(), int(c.number())
	m.Born, m.PriorVM, m.PriorOn, m.Want, m.WasLocked, m.Locked = c.time(), c.text(), c.flag(), ha.Want(c.text()), c.flag(), c.flag()
	m.Order = ha.Order{At: c.time(), Base: c.number(), Record: c.number(), Target: c.text(), Answered: c.flag()}
	m.Lost = ha.Lost{Act: ha.ActKind(c.text()), At: c.time()}
	m.RefusedBy, m.Final, m.NotBefore, m.Waits = c.text(), c.flag(), c.timeOrNull(), int(c.number())
	m.Outcome, m.RetryWish, m.RetryDone = ha.MoveStatus(c.text()), int(c.number()), int(c.number())
	return m
}

var vmoveList = list[ha.VMove]{
	table: "vmoves",
	names: stampNames + ", uuid, notification_uuid, instance_uuid, instance_name, source_host, dest_host, start_time, end_time, type, status, message, " +
		"stage, attempts, pass, ha, priority, born, prior_vm, prior_on, want, was_locked, locked, " +
		"order_at, order_base, order_record, order_target, order_answered, lost_act, lost_at, refused_by, final, not_before, waits, " +
		"outcome, retry_wish, retry_done",
	read:   readMove,
	fields: rules.VMoveField,
	uuid:   "uuid",
	byTime: []string{"vmoves_list_idx"},
	columns: map[ha.Field]column{
		ha.FieldNotification: {name: "notification_uuid"}, ha.FieldInstance: {name: "instance_uuid"}, ha.FieldInstanceName: {name: "instance_name"},
		ha.FieldSourceHost: {name: "COALESCE(source_host, '')"}, ha.FieldDestHost: {name: "dest_host", null: true},
		ha.FieldStartTime: {name: "start_time", null: true}, ha.FieldEndTime: {name: "end_time", null: true},
		ha.FieldType: {name: "COALESCE(type, '')"}, ha.FieldStatus: {name: "COALESCE(status, '')"}, ha.FieldMessage: {name: "message", null: true},
	},
}

// VMoves lists the moves of a notification.
func (s *Store) VMoves(ctx context.Context, f ha.VMoveFilter, p ha.Page) ([]ha.VMove, error) {
	return vmoveList.page(ctx, s, "listing vmoves", p, true, func(q *question) {
		q.equal("notification_uuid", &f.NotificationUUID)
		q.equal("type", f.Type)
		q.equal("status", f.Status)
	})
}

// VMove returns a move of a notification.
func (s *Store) VMove(ctx context.Context, notification, uuid string) (ha.VMove, error) {
	found, err := vmoveList.show(ctx, s, "reading a vmove", "uuid = ? AND notification_uuid = ? AND deleted = 0", uuid, notification)
	switch {
	case err != nil:
		return ha.VMove{}, err
	case found == nil:
		return ha.VMove{}, &ha.NotFoundError{Kind: ha.KindVMove, ID: uuid, Under: notification}
	default:
		return *found, nil
	}
}
