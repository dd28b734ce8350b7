package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/masakari"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// commonOf are the columns that Masakari's tables begin with, as they were there.
func commonOf[O any](o masakari.Row[O], s ha.Stamps) common {
	return common{CreatedAt: stamp{s.CreatedAt}, UpdatedAt: stampOf(s.UpdatedAt), DeletedAt: stampOf(o.DeletedAt), Deleted: o.Deleted, ID: o.ID}
}

func (im *importer) segmentTable() importTable[ha.Segment, segmentRow] {
	return importTable[ha.Segment, segmentRow]{
		name: masakari.TableSegments, uuid: "uuid", page: masakari.Segments,
		row: func(o masakari.Row[ha.Segment]) (row segmentRow, left, changed string) {
			row = rowOfSegment(o.Object)
			row.common = commonOf(o, o.Object.Stamps)
			return row, "", ""
		},
		key:   func(r segmentRow) string { return r.NameKey },
		known: func(o masakari.Row[ha.Segment], has, _ bool) { im.segments[o.UUID] = im.segments[o.UUID] || has },
	}
}

// hostTable takes hosts. A flag of maintenance, whoever set it, is the operator's from now on (RECOVERY section 7). What salvor still holds of
// a deleted host of the name is the new one's, as with CreateHost.
func (im *importer) hostTable() importTable[ha.Host, hostRow] {
	return importTable[ha.Host, hostRow]{
		name: masakari.TableHosts, uuid: "uuid", page: masakari.Hosts,
		row: func(o masakari.Row[ha.Host]) (row hostRow, left, changed string) {
			if !im.segments[o.Object.SegmentUUID] {
				return row, fmt.Sprintf("its segment %s is not there, or was left out", o.Object.SegmentUUID), ""
			}
			row = rowOfHost(o.Object)
			row.common = commonOf(o, o.Object.Stamps)
			return row, "", ""
		},
		key: func(r hostRow) string { return r.NameKey },
		also: func(ctx context.Context, tx bun.Tx, rows []hostRow) error {
			for _, r := range rows {
				if r.Deleted != 0 {
					continue
				}
				if r.OnMaintenance {
					if err := im.s.putClaim(ctx, tx, rules.OperatorClaim(r.UUID), im.now); err != nil {
						return err
					}
				}
				if err := im.s.inherit(ctx, tx, r.host(), im.now); err != nil {
					return err
				}
			}
			return nil
		},
		known: func(o masakari.Row[ha.Host], has, taken bool) {
			if taken && o.Deleted == 0 && o.Object.OnMaintenance { // as after any host or process failure: Masakari ends it never
				im.report.OnMaintenance++
				im.say("on maintenance: hosts id %d, %s, %q: nothing recovers it", o.ID, o.UUID, o.Object.Name)
			}
			if _, twice := im.hosts[o.UUID]; has || !twice {
				im.hosts[o.UUID] = importedHost{segment: o.Object.SegmentUUID, live: has && o.Deleted == 0}
			}
		},
	}
}

// Messages of notifications that are not as they were.
const (
	importedRunning = "imported from Masakari, which was at work on it: how far it came is not known. If it is still needed, report it again"
	importedOrphan  = "imported from Masakari, where it was open: its host is not registered any more"
	importedError   = "imported from Masakari, where it was in error: tried again"
)

// settle is what becomes of a notification that Masakari had not ended (contract section 7): what it was at work on is failed, what
// it would have tried again, salvor does.
func (im *importer) settle(n *ha.Notification) (changed string) {
	if !n.Status.Open() {
		return ""
	}
	was, message := n.Status, ""
	switch {
	case n.Status == ha.StatusRunning:
		n.Status, message = ha.StatusFailed, importedRunning
	case !im.hosts[n.SourceHostUUID].live:
		n.Status, message = ha.StatusFailed, importedOrphan
	case n.Status == ha.StatusError:
		n.Status, message = ha.StatusNew, importedError
	default:
		return ""
	}
	n.Message = &message
	at := rules.Second(im.now)
	n.UpdatedAt = &at
	return fmt.Sprintf("it was %s, and is %s: %s", was, n.Status, message)
}

func (im *importer) notificationTable() importTable[ha.Notification, notificationRow] {
	var runs map[string][]masakari.Run
	var unread map[string][]string
	return importTable[ha.Notification, notificationRow]{
		name: masakari.TableNotifications, uuid: "notification_uuid", page: masakari.Notifications,
		prepare: func(ctx context.Context, rows []masakari.Row[ha.Notification]) (err error) {
			runs, unread, err = im.readRuns(ctx, rows)
			return err
		},
		row: func(o masakari.Row[ha.Notification]) (row notificationRow, left, changed string) {
			n := o.Object
			if host, known := im.hosts[n.SourceHostUUID]; n.SegmentUUID == nil && known {
				n.SegmentUUID = &host.segment
			}
			if o.Deleted == 0 {
				changed = im.settle(&n)
			}
			row = rowOfNotification(n)
			row.common = commonOf(o, n.Stamps)
			return row, "", changed
		},
		also: func(ctx context.Context, tx bun.Tx, rows []notificationRow) error {
			for _, r := range rows {
				if err := im.s.append(ctx, tx, entriesOfRuns(r, runs[r.UUID])); err != nil {
					return err
				}
			}
			return nil
		},
		known: func(o masakari.Row[ha.Notification], _, taken bool) {
			if !taken {
				return
			}
			im.report.Runs += len(runs[o.UUID])
			im.report.Unread += len(unread[o.UUID])
			for _, what := range unread[o.UUID] {
				im.say("left out: atomdetails %s", what)
			}
		},
	}
}

// vmoveTable takes vmoves, each with its notification. Those of a notification that is tried again are left out: salvor makes its
// own, and a move of which it does not know how the instance was before would keep it from that.
func (im *importer) vmoveTable() importTable[ha.VMove, vmoveRow] {
	var of map[string]masakari.Row[ha.Notification]
	return importTable[ha.VMove, vmoveRow]{
		name: masakari.TableVMoves, uuid: "uuid", page: masakari.VMoves,
		prepare: func(ctx context.Context, rows []masakari.Row[ha.VMove]) (err error) {
			of, err = im.readNotifications(ctx, rows)
			return err
		},
		row: func(o masakari.Row[ha.VMove]) (row vmoveRow, left, changed string) {
			n, found := of[o.Object.NotificationUUID]
			if !found || n.Fault != "" {
				return row, fmt.Sprintf("its notification %s is not there, or was left out", o.Object.NotificationUUID), ""
			}
			was := n.Object.Status
			im.settle(&n.Object)
			if n.Deleted == 0 && n.Object.Status == ha.StatusNew {
				return row, fmt.Sprintf("its notification %s is tried again by salvor, which makes moves of its own", o.Object.NotificationUUID), ""
			}
			m := o.Object
			if !m.Status.Ended() {
				message := importedRunning
				changed = fmt.Sprintf("it was %s, and is failed, as its notification is %s", m.Status, was)
				m.Status, m.Message = ha.MoveFailed, &message
			}
			m.Stage, m.Outcome, m.Final = ha.StageDone, m.Status, true
			row = rowOfMove(m)
			row.common = commonOf(o, m.Stamps)
			return row, "", changed
		},
	}
}

func (im *importer) readNotifications(ctx context.Context, moves []masakari.Row[ha.VMove]) (map[string]masakari.Row[ha.Notification], error) {
	uuids := make([]string, len(moves))
	for i, m := range moves {
		uuids[i] = m.Object.NotificationUUID
	}
	of := map[string]masakari.Row[ha.Notification]{}
	err := im.src.read(ctx, "reading Masakari's notifications", func(ctx context.Context, db bun.IDB) error {
		rows, err := masakari.NotificationsOf(ctx, db, uuids, im.what.Deleted)
		for _, r := range rows {
			of[r.UUID] = r
		}
		return err
	})
	return of, err
}

func (im *importer) readRuns(ctx context.Context, rows []masakari.Row[ha.Notification]) (runs map[string][]masakari.Run, unread map[string][]string, err error) {
	if im.flows == nil {
		return nil, nil, nil
	}
	uuids := make([]string, len(rows))
	for i, r := range rows {
		uuids[i] = r.UUID
	}
	err = im.flows.read(ctx, "reading TaskFlow's tables", func(ctx context.Context, db bun.IDB) (err error) {
		runs, unread, err = masakari.Runs(ctx, db, uuids)
		return err
	})
	return runs, unread, err
}

// entriesOfRuns are the journal of a recovery that Masakari carried out. Each run has a number of its own below zero, where no unit
// of work is: in order, and before whatever salvor may add.
func entriesOfRuns(n notificationRow, runs []masakari.Run) []ha.Entry {
	var entries []ha.Entry
	for i, run := range runs {
		e := ha.Entry{WorkID: int64(i) - n.ID<<16, Epoch: 1, NotificationUUID: n.UUID, HostUUID: n.SourceHostUUID}
		add := func(kind ha.EntryKind, item masakari.Item, state string) {
			e.Seq++
			e.Kind, e.At, e.State, e.Progress, e.Text = kind, rules.Micro(item.At), state, item.Progress, item.Message
			entries = append(entries, e)
		}
		for _, t := range run {
			e.Task = t.Name
			last := t.Items[len(t.Items)-1]
			add(ha.EntryTask, masakari.Item{At: t.Items[0].At}, ha.TaskRunning)
			for _, item := range t.Items {
				add(ha.EntryProgress, item, "")
			}
			add(ha.EntryTask, masakari.Item{At: last.At, Progress: t.Progress}, t.State)
		}
	}
	return entries
}
