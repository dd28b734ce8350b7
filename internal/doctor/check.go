package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// State is how a check ended.
type State string

const (
	OK   State = "ok"
	Warn State = "warn" // a recovery will work, but not as well as it could, or something will fail later
	Fail State = "fail" // a recovery will fail, or not begin
)

// States are all of them, best first.
var States = []State{OK, Warn, Fail}

// Names of checks: few, since metrics bear them.
const (
	CheckKeystone  = "keystone"
	CheckClock     = "clock"
	CheckCatalog   = "catalog"
	CheckNova      = "nova"
	CheckRights    = "rights"
	CheckPlacement = "placement"
	CheckSegments  = "segments"
	CheckHosts     = "hosts"
	CheckReserved  = "reserved"
	CheckFencing   = "fencing"
	CheckDatabase  = "database"
	CheckEngines   = "engines"
	CheckTLS       = "tls"
	CheckAPI       = "api"
)

// Check is one finding.
type Check struct {
	Name    string // one of the names above, or of Patient.More's
	Subject string // what of it: a host, an act; "" for all
	State   State
	Text    string // what was seen
	Do      string // how to mend it; "" where nothing is to be done
}

// Key tells findings apart from one examination to the next.
func (c Check) Key() string { return c.Name + " " + c.Subject }

// Worst is the worst state among them.
func Worst(checks []Check) State {
	worst := OK
	for _, c := range checks {
		if slices.Index(States, c.State) > slices.Index(States, worst) {
			worst = c.State
		}
	}
	return worst
}

// subject begins a finding.
type subject struct{ name, of string }

func (s subject) ok(format string, args ...any) Check {
	return Check{Name: s.name, Subject: s.of, State: OK, Text: fmt.Sprintf(format, args...)}
}

func (s subject) warn(do, format string, args ...any) Check {
	return Check{Name: s.name, Subject: s.of, State: Warn, Text: fmt.Sprintf(format, args...), Do: do}
}

func (s subject) fail(do, format string, args ...any) Check {
	return Check{Name: s.name, Subject: s.of, State: Fail, Text: fmt.Sprintf(format, args...), Do: do}
}

// maxNamed bounds how many names stand in a line.
const maxNamed = 10

func named(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}
