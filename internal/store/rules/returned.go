package rules

import (
	"fmt"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Renamable and Deletable say why a host keeps its name and its place while salvor holds what it changed in Nova under that name:
// what to take back is found by them (RECOVERY section 7, invariant I9).
func Renamable(h ha.Host, claims []ha.Claim) error {
	for _, c := range claims {
		if c.Reason != ha.ReasonOperator && (c.What == ha.WhatForcedDown || c.What == ha.WhatDisabled) {
			return notReturned(h, c.What, "renamed")
		}
	}
	return nil
}

func Deletable(h ha.Host, claims []ha.Claim) error {
	for _, c := range claims {
		if c.Reason != ha.ReasonOperator && c.What == ha.WhatForcedDown {
			return notReturned(h, c.What, "deleted")
		}
	}
	return nil
}

func notReturned(h ha.Host, w ha.What, verb string) error {
	way := "clear forced_down in Nova"
	if w == ha.WhatDisabled {
		way = "enable its compute service in Nova"
	}
	return &ha.ConflictError{Text: fmt.Sprintf("Host %s can't be %s: salvor holds its compute service %s. It ends when the host is back in service; "+
		"or %s, and try again a minute later.", h.UUID, verb, words[w], way)}
}

var words = map[ha.What]string{ha.WhatForcedDown: "forced down", ha.WhatDisabled: "disabled"}
