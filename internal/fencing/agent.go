package fencing

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// agent is a fence_* program of ClusterLabs' fence-agents, or one that keeps their API: its options as NAME=VALUE lines on its
// standard input, the action among them; `status` ends with 0 for on and 2 for off.
type agent struct {
	path    string
	options []option
	clean   config.Cleaner
}

// option is one line of what an agent reads.
type option struct {
	name, value string
	secret      bool
}

// statusOff is the exit status by which an agent says off. It is also what Python and shells end with when they cannot read the
// script: alone it proves nothing.
const statusOff = 2

var statusLine = regexp.MustCompile(`(?mi)^\s*Status:\s*(\S+)\s*$`)

// agentPower reads what an agent's `status` came to. On and off need the exit status and the line that says the same.
func agentPower(e ended) ha.Power {
	said := statusLine.FindAllStringSubmatch(e.out, 2)
	if len(said) != 1 || e.cut {
		return ha.PowerUnknown
	}
	switch word := strings.ToLower(said[0][1]); {
	case e.status == 0 && word == "on":
		return ha.PowerOn
	case e.status == statusOff && word == "off":
		return ha.PowerOff
	}
	return ha.PowerUnknown
}

// deniedWords are how the agents' library says that the account is refused.
var deniedWords = regexp.MustCompile(`(?i)unable to connect/login|login denied|does not have the correct privileges|unauthorized|authentication fail|\b401\b|\b403\b`)

func (a agent) Look(ctx context.Context) (ha.Power, string, error) {
	c := a.child("status")
	e, err := c.run(ctx)
	if err != nil {
		return ha.PowerUnknown, "", err
	}
	power := agentPower(e)
	if power == ha.PowerUnknown {
		return power, "", a.failure("status", c.said(e))
	}
	return power, fmt.Sprintf("%s status: exit status %d, %s", a.name(), e.status, a.clean.Line(e.out)), nil
}

func (a agent) Off(ctx context.Context) (string, error) {
	c := a.child("off")
	e, err := c.run(ctx)
	if err != nil {
		return "", err
	}
	if e.status != 0 {
		return "", a.failure("off", c.said(e))
	}
	return fmt.Sprintf("%s off: %s", a.name(), a.clean.Line(lastLines(e.out, 1))), nil
}

func (a agent) Check(ctx context.Context) (ha.Power, string, error) { return a.Look(ctx) }

func (a agent) name() string { return filepath.Base(a.path) }

func (a agent) failure(action, said string) error {
	if deniedWords.MatchString(said) {
		return fmt.Errorf("%w, or no answer: %s %s: %s", ErrLogin, a.name(), action, said)
	}
	return fmt.Errorf("%s %s: %s", a.name(), action, said)
}

func (a agent) child(action string) child {
	var in strings.Builder
	for _, o := range slices.Concat(a.options, []option{{name: "action", value: action}}) {
		in.WriteString(o.name + "=" + o.value + "\n")
	}
	return child{path: a.path, stdin: in.String(), clean: a.clean}
}
