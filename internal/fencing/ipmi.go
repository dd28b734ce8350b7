package fencing

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// ipmi is a BMC by ipmitool. The password is in the environment of the child; fence_ipmilan would put it on ipmitool's command
// line.
type ipmi struct {
	tool     string
	args     []string // all but the command
	password config.Secret
	clean    config.Cleaner
}

var (
	chassisPower = regexp.MustCompile(`(?mi)^\s*Chassis Power is (on|off)\s*$`)
	ipmiDenied   = regexp.MustCompile(`(?i)RAKP \d message indicates an error|insufficient privilege|unauthorized name|privilege level|unable to establish`)
)

func (i ipmi) Look(ctx context.Context) (ha.Power, string, error) {
	e, said, err := i.run(ctx, "status")
	if err != nil {
		return ha.PowerUnknown, "", err
	}
	found := chassisPower.FindAllStringSubmatch(e.out, 2)
	if e.status != 0 || len(found) != 1 || e.cut {
		return ha.PowerUnknown, "", i.failure("status", said)
	}
	if strings.EqualFold(found[0][1], "off") {
		return ha.PowerOff, "ipmitool: Chassis Power is off", nil
	}
	return ha.PowerOn, "ipmitool: Chassis Power is on", nil
}

func (i ipmi) Off(ctx context.Context) (string, error) {
	e, said, err := i.run(ctx, "off")
	if err != nil {
		return "", err
	}
	if e.status != 0 {
		return "", i.failure("off", said)
	}
	return "ipmitool: " + i.clean.Line(lastLines(e.out, 1)), nil
}

func (i ipmi) Check(ctx context.Context) (ha.Power, string, error) { return i.Look(ctx) }

func (i ipmi) run(ctx context.Context, action string) (ended, string, error) {
	c := child{path: i.tool, args: append(append([]string{}, i.args...), "chassis", "power", action), clean: i.clean}
	if !i.password.IsZero() {
		c.env = []string{"IPMI_PASSWORD=" + i.password.Reveal(), "IPMITOOL_PASSWORD=" + i.password.Reveal()}
	}
	e, err := c.run(ctx)
	if err != nil {
		return e, "", err
	}
	return e, c.said(e), nil
}

// failure: to ipmitool, which has tried several times, a wrong password and no answer at all look the same.
func (i ipmi) failure(action, said string) error {
	if ipmiDenied.MatchString(said) {
		return fmt.Errorf("%w, or no answer: ipmitool chassis power %s: %s", ErrLogin, action, said)
	}
	return fmt.Errorf("ipmitool chassis power %s: %s", action, said)
}
