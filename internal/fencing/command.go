package fencing

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// command is an operator's own program. Action and host are in its environment (SALVOR_FENCE_ACTION: off or status;
// SALVOR_FENCE_HOST) and, with the options, as NAME=VALUE lines on its standard input. `status` says what it saw in its last
// line, on or off, and ends with 0; a word is asked for because programs also fail by an exit status.
type command struct {
	host    string
	argv    []string
	options []option
	clean   config.Cleaner
}

func (c command) Look(ctx context.Context) (ha.Power, string, error) {
	ch := c.child("status")
	e, err := ch.run(ctx)
	if err != nil {
		return ha.PowerUnknown, "", err
	}
	power := ha.Power(strings.ToLower(strings.TrimSpace(lastLines(e.out, 1))))
	switch {
	case e.status != 0:
		return ha.PowerUnknown, "", fmt.Errorf("%s status: %s", c.name(), ch.said(e))
	case e.cut: // its last line is not known
		return ha.PowerUnknown, "", fmt.Errorf("%s status: more than %d bytes of output, so that nothing was seen", c.name(), maxOutput)
	case power != ha.PowerOn && power != ha.PowerOff:
		return ha.PowerUnknown, "", fmt.Errorf("%s status: the last line is %q, not on or off", c.name(), c.clean.Line(lastLines(e.out, 1)))
	}
	return power, c.name() + " status: " + string(power), nil
}

func (c command) Off(ctx context.Context) (string, error) {
	ch := c.child("off")
	e, err := ch.run(ctx)
	if err != nil {
		return "", err
	}
	if e.status != 0 {
		return "", fmt.Errorf("%s off: %s", c.name(), ch.said(e))
	}
	return strings.TrimSpace(c.name() + " off: exit status 0 " + c.clean.Line(lastLines(e.out, 1))), nil
}

func (c command) Check(ctx context.Context) (ha.Power, string, error) { return c.Look(ctx) }

func (c command) name() string { return filepath.Base(c.argv[0]) }

func (c command) child(action string) child {
	var in strings.Builder
	for _, o := range append([]option{{name: "action", value: action}, {name: "host", value: c.host}}, c.options...) {
		in.WriteString(o.name + "=" + o.value + "\n")
	}
	return child{path: c.argv[0], args: c.argv[1:], stdin: in.String(), clean: c.clean,
		env: []string{"SALVOR_FENCE_ACTION=" + action, "SALVOR_FENCE_HOST=" + c.host}}
}
