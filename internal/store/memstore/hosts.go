package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Hosts lists live hosts.
func (s *Store) Hosts(ctx context.Context, f ha.HostFilter, p ha.Page) (page []ha.Host, err error) {
	err = s.run(ctx, "Hosts", func(*tx) error {
		var all []ha.Host
		var mark *ha.Host
		for _, h := range s.hostNames {
			if marks(p.Marker, h.ID, h.UUID) {
				m := h.Host
				mark = &m
			}
			if (f.SegmentUUID == "" || f.SegmentUUID == h.SegmentUUID) && is(f.Type, h.Type) &&
				is(f.OnMaintenance, h.OnMaintenance) && is(f.Reserved, h.Reserved) {
				all = append(all, h.Host)
			}
		}
		page, err = cut(all, rules.HostField, p, mark)
		return err
	})
	return page, err
}

func (t *tx) host(segment, uuid string) (*host, error) {
	if h := t.hosts[uuid]; h != nil && h.deletedAt == nil && h.SegmentUUID == segment {
		return h, nil
	}
	return nil, &ha.NotFoundError{Kind: ha.KindHost, ID: uuid, Under: segment}
}

// Host returns a live host of a segment.
func (s *Store) Host(ctx context.Context, segment, uuid string) (found ha.Host, err error) {
	err = s.run(ctx, "Host", func(t *tx) error {
		h, err := t.host(segment, uuid)
		if err == nil {
			found = h.Host
		}
		return err
	})
	return found, err
}

// HostByName returns the live host of that name, whatever its case.
func (s *Store) HostByName(ctx context.Context, name string) (found ha.Host, err error) {
	err = s.run(ctx, "HostByName", func(t *tx) error {
		h := t.hostNames[rules.Fold(name)]
		if h == nil {
			return &ha.NotFoundError{Kind: ha.KindHost, ID: name}
		}
		found = h.Host
		return nil
	})
	return found, err
}

// CreateHost stores h in a live segment.
func (s *Store) CreateHost(ctx context.Context, h ha.Host) (made ha.Host, err error) {
	err = s.run(ctx, "CreateHost", func(t *tx) error {
		if _, err := t.segment(h.SegmentUUID); err != nil {
			return err
		}
		if own := t.hosts[h.UUID]; own != nil && own.deletedAt == nil {
			made = own.Host
			return nil
		}
		name := rules.Fold(h.Name)
		if t.hostNames[name] != nil {
			return &ha.ExistsError{Kind: ha.KindHost, Name: h.Name}
		}
		t.touchSegment(h.SegmentUUID)
		h.ID, h.Stamps = t.id(), ha.Stamps{CreatedAt: rules.Second(t.now)}
		row := &host{Host: h}
		t.hosts[h.UUID], t.hostNames[name] = row, row
		t.hostsOf[h.SegmentUUID] = append(t.hostsOf[h.SegmentUUID], row)
		if h.OnMaintenance {
			t.putClaim(rules.OperatorClaim(h.UUID))
		}
		t.inherit(h)
		made = h
		t.tellOfHost(ha.ActionCreate, h)
		return nil
	})
	if err != nil {
		return ha.Host{}, s.tellFailed(ha.Event{Action: ha.ActionCreate, Host: &h}, err)
	}
	return made, s.told(nil)
}

// held is what recoveries and process failures hold in Nova of some hosts.
func (t *tx) held(of func(*host) bool) (held []ha.Claim) {
	for _, c := range t.claims {
		if h := t.hosts[c.HostUUID]; h != nil && of(h) && (c.Reason == ha.ReasonRecovery || c.Reason == ha.ReasonProcess) &&
			(c.What == ha.WhatForcedDown || c.What == ha.WhatDisabled || c.What == ha.WhatOrder) {
			held = append(held, *c)
		}
	}
	slices.SortFunc(held, func(a, b ha.Claim) int { return cmp.Compare(a.ID, b.ID) })
	return held
}

func (t *tx) startTakeBack(h ha.Host) {
	t.startUnit(ha.Work{Kind: ha.UnitTakeBack, Key: ha.UnitTakeBack.Key(h.UUID), HostUUID: h.UUID, SegmentUUID: h.SegmentUUID})
}

// inherit hands what recoveries and process failures still hold of deleted hosts of that name on to h.
func (t *tx) inherit(h ha.Host) {
	takeBack := false
	for _, c := range t.held(func(of *host) bool { return of.deletedAt != nil && of.Name == h.Name }) {
		t.signal(ha.UnitTakeBack.Key(c.HostUUID))
		t.dropClaim(ha.DropClaim{HostUUID: c.HostUUID, What: c.What, Reason: c.Reason, Detail: c.Detail})
		c.HostUUID = h.UUID
		t.putClaim(c)
		takeBack = takeBack || c.Reason == ha.ReasonRecovery
	}
	if takeBack {
		t.startTakeBack(h)
	}
}

// UpdateHost changes a live host that is not in use, and the claims to its maintenance.
func (s *Store) UpdateHost(ctx context.Context, segment, uuid string, p ha.HostPatch) (h ha.Host, err error) {
	err = s.run(ctx, "UpdateHost", func(t *tx) error {
		row, err := t.host(segment, uuid)
		if err != nil {
			return err
		}
		if err := t.hostUnused(row); err != nil {
			return err
		}
		t.touchSegment(segment)
		before := row.Host
		h = before
		if !rules.PatchHost(&h, p) {
			t.tellOfHost(ha.ActionUpdate, h)
			return nil
		}
		if h.Name != before.Name {
			if err := rules.Renamable(before, t.claimsOf(uuid)); err != nil {
				return err
			}
		}
		name := rules.Fold(h.Name)
		if other := t.hostNames[name]; other != nil && other != row {
			return &ha.ExistsError{Kind: ha.KindHost, Name: h.Name}
		}
		h.UpdatedAt = second(t.now)
		delete(t.hostNames, rules.Fold(before.Name))
		t.hostNames[name] = row
		row.Host = h
		if h.Name != before.Name {
			t.inherit(h)
		}
		switch {
		case h.OnMaintenance == before.OnMaintenance:
		case h.OnMaintenance:
			t.putClaim(rules.OperatorClaim(uuid))
		default:
			t.clearMaintenance(h)
		}
		t.tellOfHost(ha.ActionUpdate, h)
		return nil
	})
	if err != nil {
		return ha.Host{}, s.tellFailed(ha.Event{Action: ha.ActionUpdate, Host: &h}, err)
	}
	return h, s.told(nil)
}

// claimsOf are the claims on a host.
func (t *tx) claimsOf(host string) []ha.Claim {
	on := make([]ha.Claim, len(t.claimsOn[host]))
	for i, c := range t.claimsOn[host] {
		on[i] = *c
	}
	return on
}

// clearMaintenance drops every claim to the flag, and has the rest of what salvor changed on the host taken back.
func (t *tx) clearMaintenance(h ha.Host) {
	rest := false
	for _, c := range append([]*ha.Claim(nil), t.claimsOn[h.UUID]...) {
		if c.What == ha.WhatMaintenance {
			t.dropClaim(ha.DropClaim{HostUUID: c.HostUUID, What: c.What, Reason: c.Reason, Detail: c.Detail})
		} else if c.Reason != ha.ReasonOperator {
			rest = true
		}
	}
	if rest {
		t.startTakeBack(h)
	}
	t.signal(ha.UnitTakeBack.Key(h.UUID))
}

// DeleteHost soft-deletes a live host that is not in use.
func (s *Store) DeleteHost(ctx context.Context, segment, uuid string) error {
	err := s.run(ctx, "DeleteHost", func(t *tx) error {
		row, err := t.host(segment, uuid)
		if err != nil {
			return err
		}
		if err := t.hostUnused(row); err != nil {
			return err
		}
		t.touchSegment(segment)
		t.deleteHost(row)
		t.tellOfHost(ha.ActionDelete, row.Host)
		return nil
	})
	return s.told(err)
}

func (t *tx) hostUnused(row *host) error {
	for _, n := range t.open {
		if n.SourceHostUUID == row.UUID {
			return &ha.InUseError{Kind: ha.KindHost, ID: row.UUID, By: n.UUID}
		}
	}
	if row.ReservedFor == 0 {
		return nil
	}
	inUse := &ha.InUseError{Kind: ha.KindHost, ID: row.UUID}
	if user := t.works[row.ReservedFor]; user != nil {
		inUse.By = user.NotificationUUID
	}
	return inUse
}
