package plan

import (
	"slices"

	"github.com/salvor-ha/salvor/internal/ha"
)

// scheduling takes the host out of scheduling, once per episode, and reports whether that is settled. A service that others have disabled
// is left as it is; one that others enable again meanwhile is theirs.
func (s *storage) scheduling(e *ha.Episode) bool {
	if s.Unit.HostUnit != 0 { // a host recovery has precedence
		s.park = storageSoon
		return false
	}
	if e.Service == ha.ServiceTheirs {
		return true
	}
	svc, ok := s.computeService()
	if !ok {
		if s.vanishedFor() {
			e.Service = ha.ServiceTheirs
			s.log("", "Nova has no compute service named %s: nothing to disable", s.Unit.Host.Name)
			return true
		}
		s.soon()
		return false
	}
	ours, claimed := s.claim(s.Unit.HostUUID, ha.WhatDisabled, ha.ReasonStorage)
	if e.Service == ha.ServiceDisabled {
		if svc.Enabled && claimed {
			s.dropClaim(ours)
			e.Service = ha.ServiceTheirs
			s.log("", "the compute service of %s was enabled by somebody else while episode %s is open: left as it is", svc.Host, e.UUID)
		}
		return true
	}
	if !svc.Enabled {
		switch {
		case claimed:
			e.Service = ha.ServiceDisabled
		case ha.Claimed(s.ownDisabled(), ha.WhatDisabled): // salvor's, for another reason: it stays disabled when that one ends
			s.putClaim(ha.Claim{HostUUID: s.Unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonStorage, Detail: StorageReason, Prior: "disabled"})
			e.Service = ha.ServiceDisabled
		default:
			e.Service = ha.ServiceTheirs
			s.log("", "the compute service of %s was disabled already", svc.Host)
		}
		return true
	}
	if s.Memory.Tries[serviceKey(svc.Host)] >= 3 {
		s.once(e, "service", ha.AlarmStorageStuck, "the compute service of %s cannot be disabled: Nova still schedules onto a host whose storage failed", svc.Host)
	}
	s.soon()
	if s.act(ha.Act{Key: serviceKey(svc.Host), Kind: ha.ActService, Host: svc.Host, ServiceID: svc.ID, Enable: ptr(false), Reason: StorageReason}) {
		s.putClaim(ha.Claim{HostUUID: s.Unit.HostUUID, What: ha.WhatDisabled, Reason: ha.ReasonStorage, Detail: StorageReason, Prior: "enabled"})
	}
	s.look(LookServices, "")
	return s.Memory.Tries[serviceKey(svc.Host)] >= 3 // the instances do not wait for a service that cannot be disabled
}

// ownDisabled are the claims that hold the host's service disabled for another reason than its storage.
func (s *storage) ownDisabled() []ha.Claim {
	var others []ha.Claim
	for _, c := range s.Unit.Claims {
		if c.HostUUID == s.Unit.HostUUID && c.What == ha.WhatDisabled && c.Reason != ha.ReasonStorage {
			others = append(others, c)
		}
	}
	return others
}

// computeService is the host's service as last seen; it asks for a look when that is old.
func (s *storage) computeService() (ha.Service, bool) {
	if !s.Facts.Services.After(s.Now.Add(-storageIdle)) || s.Facts.Services.Err != nil {
		s.look(LookServices, "")
		if s.Facts.Services.At.IsZero() {
			return ha.Service{}, false
		}
	}
	svc, ok := s.service(s.Unit.Host.Name)
	if ok {
		delete(s.Memory.Since, keyVanished)
	}
	return svc, ok
}

func (s *storage) vanishedFor() bool { return !s.Facts.Services.At.IsZero() && s.vanished() }

// whileOpen guards the commit of what begins for an episode, once in a turn.
func (s *storage) whileOpen(e *ha.Episode) {
	if c := (ha.WhileOpen{EpisodeUUID: e.UUID, Version: e.Version}); !slices.Contains(s.changes, ha.Change(c)) {
		s.change(c)
	}
}

// windUp ends a cleared episode: the service is given back if it still is as the episode left it, its instances are told apart and reset if
// that was asked, and its suspect copies are verified.
func (s *storage) windUp(e *ha.Episode) {
	if s.Unit.HostUnit != 0 {
		s.park = storageSoon
		return
	}
	given := s.giveBack(e)
	told := s.tell(e)
	if !given || !told {
		s.soon()
		return
	}
	if e.Has(ha.ObjectBlob) && !s.broken() {
		s.change(ha.VerifyLocations{HostUUID: e.HostUUID, EpisodeUUID: e.UUID, Limit: suspectBatch})
	}
	e.EndedAt, e.Waiting = ptr(s.Now), ""
}

// broken reports whether another episode of the host is open.
func (s *storage) broken() bool {
	for _, e := range s.st.Episodes {
		if e.Open() {
			return true
		}
	}
	return false
}

// giveBack enables the host's service if the episode has disabled it and nobody has touched it since. It reports whether that is settled.
func (s *storage) giveBack(e *ha.Episode) bool {
	c, claimed := s.claim(s.Unit.HostUUID, ha.WhatDisabled, ha.ReasonStorage)
	switch {
	case e.Service == ha.ServiceGivenBack:
		return true
	case !claimed:
		if e.Service == ha.ServiceDisabled {
			e.Service = ha.ServiceGivenBack
		}
		return true
	case s.broken(): // the next episode has it
		e.Service = ha.ServiceGivenBack
		return true
	}
	if !s.Facts.Services.After(*e.ClearedAt) {
		s.look(LookServices, "")
		return false
	}
	svc, ok := s.service(s.Unit.Host.Name)
	if !ok && !s.vanishedFor() {
		return false
	}
	if ok && svc.Enabled && e.Service != ha.ServiceDisabled && !s.Facts.Services.After(c.Since.Add(s.Rules.OrderInDoubt)) {
		s.look(LookServices, "") // a disable whose answer was lost may come late
		return false
	}
	if !ok || svc.Enabled || svc.DisabledReason != c.Detail {
		s.dropClaim(c)
		e.Service = ha.ServiceGivenBack
		if ok && !svc.Enabled {
			s.log("", "the compute service of %s is disabled for another reason by now (%s): left as it is", svc.Host, svc.DisabledReason)
		}
		return true
	}
	a := ha.Act{Key: serviceKey(svc.Host), Kind: ha.ActService, Host: svc.Host, ServiceID: svc.ID, Enable: ptr(true)}
	if others := s.ownDisabled(); len(others) > 0 {
		a.Enable, a.Reason = ptr(false), others[0].Detail
	}
	e.Service = ha.ServiceDisabled
	s.act(a)
	s.look(LookServices, "")
	return false
}
