package rules

import (
	"fmt"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Renamable says why a host keeps its name while salvor holds what it changed in Nova under that name: what to take back is found by it
// (RECOVERY section 7, invariant I9).
func Renamable(h ha.Host, claims []ha.Claim) error {
	for _, c := range claims {
		if held, way := heldAs(c.What); held != "" && c.Reason != ha.ReasonOperator {
			return &ha.ConflictError{Text: fmt.Sprintf("Host %s can't be renamed: salvor holds its compute service %s. It ends when the host is back in service; "+
				"or %s, and try again a minute later.", h.UUID, held, way)}
		}
	}
	return nil
}

func heldAs(w ha.What) (held, way string) {
	switch w {
	case ha.WhatForcedDown:
		return "forced down", "clear forced_down in Nova"
	case ha.WhatDisabled:
		return "disabled", "enable its compute service in Nova"
	}
	return "", ""
}
