package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type hostRow struct {
	bun.BaseModel `bun:"table:hosts,alias:t"`
	common
	UUID              string `bun:"uuid"`
	Name              string `bun:"name"`
	Reserved          bool   `bun:"reserved"`
	Type              string `bun:"type"`
	ControlAttributes string `bun:"control_attributes"`
	SegmentUUID       string `bun:"failover_segment_id"`
	OnMaintenance     bool   `bun:"on_maintenance"`
	NameKey           string `bun:"name_key"`
	ReservedFor       int64  `bun:"reserved_for"`
	LastStartedAt     stamp  `bun:"last_started_at"`
	Touch             int64  `bun:"touch"`
}

func (r hostRow) host() ha.Host {
	return ha.Host{
		Stamps: r.stamps(), ID: r.ID, UUID: r.UUID, Name: r.Name, SegmentUUID: r.SegmentUUID, Type: r.Type,
		ControlAttributes: r.ControlAttributes, Reserved: r.Reserved, OnMaintenance: r.OnMaintenance,
		ReservedFor: r.ReservedFor, StartedAt: r.LastStartedAt.ptr(),
	}
}

func rowOfHost(h ha.Host) hostRow {
	return hostRow{
		UUID: h.UUID, Name: h.Name, Reserved: h.Reserved, Type: h.Type, ControlAttributes: h.ControlAttributes, SegmentUUID: h.SegmentUUID,
		OnMaintenance: h.OnMaintenance, NameKey: rules.Fold(h.Name), ReservedFor: h.ReservedFor, LastStartedAt: stampOf(h.StartedAt),
	}
}

func readHost(c *columns) ha.Host {
	h := ha.Host{}
	h.ID, h.Stamps = c.stamps()
	h.UUID, h.Name, h.SegmentUUID, h.Type, h.ControlAttributes = c.text(), c.text(), c.text(), c.text(), c.text()
	h.Reserved, h.OnMaintenance, h.ReservedFor, h.StartedAt = c.flag(), c.flag(), c.number(), c.timeOrNull()
	return h
}

var hostList = list[ha.Host]{
	table:  "hosts",
	names:  stampNames + ", uuid, name, failover_segment_id, type, control_attributes, reserved, on_maintenance, reserved_for, last_started_at",
	read:   readHost,
	fields: rules.HostField,
	uuid:   "uuid",
	byTime: []string{"hosts_list_idx"},
	columns: map[ha.Field]column{
		ha.FieldName: {name: "name"}, ha.FieldType: {name: "type"}, ha.FieldControl: {name: "control_attributes"},
		ha.FieldReserved: {name: "reserved"}, ha.FieldOnMaintenance: {name: "on_maintenance"}, ha.FieldSegment: {name: "failover_segment_id"},
	},
}

// Hosts lists live hosts.
func (s *Store) Hosts(ctx context.Context, f ha.HostFilter, p ha.Page) ([]ha.Host, error) {
	return hostList.page(ctx, s, "listing hosts", p, true, func(q *question) {
		if f.SegmentUUID != "" {
			q.equal("failover_segment_id", &f.SegmentUUID)
		}
		q.equal("type", f.Type)
		if f.OnMaintenance != nil {
			q.and("on_maintenance = ?", *f.OnMaintenance)
		}
		if f.Reserved != nil {
			q.and("reserved = ?", *f.Reserved)
		}
	})
}

// Host returns a live host of a segment.
func (s *Store) Host(ctx context.Context, segment, uuid string) (ha.Host, error) {
	return s.findHost(ctx, &ha.NotFoundError{Kind: ha.KindHost, ID: uuid, Under: segment},
		"uuid = ? AND failover_segment_id = ? AND deleted = 0", uuid, segment)
}

// HostByName returns the live host of that name, whatever its case.
func (s *Store) HostByName(ctx context.Context, name string) (ha.Host, error) {
	return s.findHost(ctx, &ha.NotFoundError{Kind: ha.KindHost, ID: name}, "name_key = ? AND deleted = 0", rules.Fold(name))
}

func (s *Store) findHost(ctx context.Context, missing error, where string, args ...any) (ha.Host, error) {
	found, err := hostList.show(ctx, s, "reading a host", where, args...)
	switch {
	case err != nil:
		return ha.Host{}, err
	case found == nil:
		return ha.Host{}, missing
	default:
		return *found, nil
	}
}

// CreateHost stores h in a live segment; what salvor still holds of a deleted host of its name is its own from then on. One with its uuid that is already there is the caller's own, whose answer was lost.
func (s *Store) CreateHost(ctx context.Context, h ha.Host) (ha.Host, error) {
	var row hostRow
	err := s.write(ctx, "creating a host", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.touchSegment(ctx, tx, h.SegmentUUID); err != nil {
			return err
		}
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		row = rowOfHost(h)
		row.CreatedAt = stamp{rules.Second(now)}
		if _, err = tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if h.OnMaintenance {
			if err := s.putClaim(ctx, tx, rules.OperatorClaim(h.UUID), now); err != nil {
				return err
			}
		}
		if err := s.inherit(ctx, tx, h, now); err != nil {
			return err
		}
		return s.tellOfHost(ctx, tx, now, ha.ActionCreate, row.host())
	}, func(ctx context.Context) (bool, error) {
		_, err := s.Host(ctx, h.SegmentUUID, h.UUID)
		return err == nil, err
	})
	if s.duplicate(err) {
		if own, oerr := s.Host(ctx, h.SegmentUUID, h.UUID); oerr == nil {
			return own, nil
		}
		err = &ha.ExistsError{Kind: ha.KindHost, Name: h.Name}
	}
	if s.told(err) != nil {
		return ha.Host{}, s.tellFailed(ctx, ha.Event{Action: ha.ActionCreate, Host: &h}, err)
	}
	return row.host(), nil
}

// UpdateHost changes a live host that is not in use (contract 1.8; section 12, row 18). A change of on_maintenance changes
// claims (RECOVERY section 7): set, it is the operator's; cleared, nobody's, and what else salvor changed is taken back.
func (s *Store) UpdateHost(ctx context.Context, segment, uuid string, p ha.HostPatch) (ha.Host, error) {
	var h ha.Host
	err := s.write(ctx, "updating a host", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.touchHost(ctx, tx, segment, uuid)
		if err != nil {
			return err
		}
		if err := s.hostUnused(ctx, tx, row); err != nil {
			return err
		}
		before := row.host()
		h = before
		written := rules.PatchHost(&h, p)
		if !written && s.announce == nil {
			return nil
		}
		if h.Name != before.Name {
			claims, err := claimsOf(ctx, tx, uuid)
			if err == nil {
				err = rules.Renamable(before, claims)
			}
			if err != nil {
				return err
			}
		}
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		if !written { // told of all the same, as Masakari does
			return s.tellOfHost(ctx, tx, now, ha.ActionUpdate, h)
		}
		second := rules.Second(now)
		h.UpdatedAt = &second
		if _, err = changed(ctx, tx, "UPDATE hosts SET name = ?, name_key = ?, type = ?, control_attributes = ?, reserved = ?, "+
			"on_maintenance = ?, updated_at = ? WHERE id = ?", h.Name, rules.Fold(h.Name), h.Type, h.ControlAttributes,
			h.Reserved, h.OnMaintenance, literal(second), row.ID); err != nil {
			return err
		}
		if h.Name != before.Name {
			if err := s.inherit(ctx, tx, h, now); err != nil {
				return err
			}
		}
		switch {
		case h.OnMaintenance == before.OnMaintenance:
		case h.OnMaintenance:
			err = s.putClaim(ctx, tx, rules.OperatorClaim(uuid), now)
		default:
			err = s.clearMaintenance(ctx, tx, h)
		}
		if err != nil {
			return err
		}
		return s.tellOfHost(ctx, tx, now, ha.ActionUpdate, h)
	}, nil)
	if s.duplicate(err) {
		err = &ha.ExistsError{Kind: ha.KindHost, Name: h.Name}
	}
	if s.told(err) != nil {
		return ha.Host{}, s.tellFailed(ctx, ha.Event{Action: ha.ActionUpdate, Host: &h}, err)
	}
	return h, nil
}

// clearMaintenance drops every claim to the flag, and has the rest of what salvor changed on the host taken back.
func (s *Store) clearMaintenance(ctx context.Context, tx bun.Tx, h ha.Host) error {
	if _, err := changed(ctx, tx, "DELETE FROM claims WHERE host_uuid = ? AND what = ?", h.UUID, ha.WhatMaintenance); err != nil {
		return err
	}
	rest, err := one[claimRow](ctx, tx, "host_uuid = ? AND reason <> ?", h.UUID, ha.ReasonOperator)
	if err != nil {
		return err
	}
	if rest != nil {
		if err := s.startUnit(ctx, tx, ha.Work{Kind: ha.UnitTakeBack, Key: ha.UnitTakeBack.Key(h.UUID), HostUUID: h.UUID, SegmentUUID: h.SegmentUUID}); err != nil {
			return err
		}
	}
	return s.signal(ctx, tx, ha.UnitTakeBack.Key(h.UUID))
}

// DeleteHost soft-deletes a live host that is not in use. What salvor holds of it in Nova is taken back all the same.
func (s *Store) DeleteHost(ctx context.Context, segment, uuid string) error {
	err := s.write(ctx, "deleting a host", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.touchHost(ctx, tx, segment, uuid)
		if err != nil {
			return err
		}
		if err := s.hostUnused(ctx, tx, row); err != nil {
			return err
		}
		if err := s.leaveBehind(ctx, tx, segment, "uuid = ?", uuid); err != nil {
			return err
		}
		now, err := s.clock(ctx, tx)
		if err != nil {
			return err
		}
		if _, err = changed(ctx, tx, "UPDATE hosts SET deleted = id, deleted_at = ? WHERE id = ?", literal(rules.Second(now)), row.ID); err != nil {
			return err
		}
		return s.tellOfHost(ctx, tx, now, ha.ActionDelete, row.host())
	}, nil)
	return s.told(err)
}

// touchHost is how a change of a host begins: its segment's row is moved, since the brake counts hosts and their
// maintenance, then its own, which admission moves too; then it is read.
func (s *Store) touchHost(ctx context.Context, tx bun.Tx, segment, uuid string) (*hostRow, error) {
	missing := &ha.NotFoundError{Kind: ha.KindHost, ID: uuid, Under: segment}
	if !rules.Storable(segment) || !rules.Storable(uuid) {
		return nil, missing
	}
	if _, err := changed(ctx, tx, "UPDATE failover_segments SET touch = touch + 1 WHERE uuid = ?", segment); err != nil {
		return nil, err
	}
	n, err := changed(ctx, tx, "UPDATE hosts SET touch = touch + 1 WHERE uuid = ? AND failover_segment_id = ? AND deleted = 0", uuid, segment)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, missing
	}
	return one[hostRow](ctx, tx, "uuid = ? AND deleted = 0", uuid)
}

// hostUnused refuses a change of a host with an open notification, and of a reserved host that a recovery uses.
func (s *Store) hostUnused(ctx context.Context, tx bun.Tx, row *hostRow) error {
	by, err := one[notificationRow](ctx, tx, openStatus+" AND source_host_uuid = ?", row.UUID)
	if err != nil {
		return err
	}
	if by != nil {
		return &ha.InUseError{Kind: ha.KindHost, ID: row.UUID, By: by.UUID}
	}
	if row.ReservedFor == 0 {
		return nil
	}
	user, err := one[workRow](ctx, tx, "id = ?", row.ReservedFor)
	if err != nil {
		return err
	}
	inUse := &ha.InUseError{Kind: ha.KindHost, ID: row.UUID}
	if user != nil {
		inUse.By = user.NotificationUUID
	}
	return inUse
}
