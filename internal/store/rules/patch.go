package rules

import "github.com/salvor-ha/salvor/internal/ha"

// set writes *v into *field and reports whether that changed anything.
func set[T comparable](field *T, v *T) bool {
	if v == nil || *field == *v {
		return false
	}
	*field = *v
	return true
}

// PatchSegment applies p and reports whether anything changed: a PUT that changes nothing leaves updated_at (contract 1.4).
func PatchSegment(s *ha.Segment, p ha.SegmentPatch) bool {
	changed := set(&s.Name, p.Name)
	changed = set(&s.ServiceType, p.ServiceType) || changed
	changed = set(&s.RecoveryMethod, p.RecoveryMethod) || changed
	changed = set(&s.Enabled, p.Enabled) || changed
	if p.Description != nil && Compare(textValue(s.Description), textValue(*p.Description)) != 0 {
		s.Description, changed = *p.Description, true
	}
	return changed
}

// PatchHost applies p and reports whether anything changed.
func PatchHost(h *ha.Host, p ha.HostPatch) bool {
	changed := set(&h.Name, p.Name)
	changed = set(&h.Type, p.Type) || changed
	changed = set(&h.ControlAttributes, p.ControlAttributes) || changed
	changed = set(&h.Reserved, p.Reserved) || changed
	changed = set(&h.OnMaintenance, p.OnMaintenance) || changed
	return changed
}

// OperatorClaim is the claim that an operator's PUT on_maintenance=true makes (rule A4, RECOVERY section 7).
func OperatorClaim(host string) ha.Claim {
	return ha.Claim{HostUUID: host, What: ha.WhatMaintenance, Reason: ha.ReasonOperator, Prior: "false"}
}

// Peers are the hosts of a segment as the brake sees them. claims are those of all these hosts, down the hosts with an
// open COMPUTE_HOST STOPPED notification, failed those whose storage is in error.
func Peers(hosts []ha.Host, claims []ha.Claim, down, failed map[string]bool) []ha.Peer {
	byHost := make(map[string][]ha.Claim)
	for _, c := range claims {
		byHost[c.HostUUID] = append(byHost[c.HostUUID], c)
	}
	peers := make([]ha.Peer, 0, len(hosts))
	for _, h := range hosts {
		peers = append(peers, ha.Peer{
			Host:         h,
			OpenIncident: down[h.UUID],
			Claimed:      claimedByRecovery(byHost[h.UUID]),
			Operator:     ha.OperatorMaintenance(h, byHost[h.UUID]),
			StorageError: failed[h.UUID],
		})
	}
	return peers
}

// claimedByRecovery reports whether the host has not returned since its recovery: forced_down goes when it is back, while the
// disabled service stays for the operator.
func claimedByRecovery(claims []ha.Claim) bool {
	for _, c := range claims {
		if c.Reason == ha.ReasonRecovery && c.What == ha.WhatForcedDown {
			return true
		}
	}
	return false
}
