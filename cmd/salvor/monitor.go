package main

import (
	"os"
	"strings"
	"syscall"
)

// awake has the monitor thread of Go's runtime stay out of its deep sleep. It goes there whenever the process has nothing to do for a
// moment, the next system call fetches it back, and it then looks around every 20 µs for some milliseconds: an api, which rests
// between any two of thousands of requests a second, spent a third of its processor time on that. Awake, it soon looks only every
// 10 ms. The runtime keeps it awake while it traces its scheduler, and traces at this many milliseconds at the most: one line on
// standard error whenever the machine has been up for 25 days more. Nothing else of it can be set.
const awake = "schedtrace=2147483647"

// keepMonitorAwake starts the program anew in its place, since the runtime reads its settings but once. Who traces the
// scheduler himself is left alone. On failure the program goes on as it is.
func keepMonitorAwake() {
	given := os.Getenv("GODEBUG")
	if before, ours := strings.CutSuffix(given, awake); ours { // the new start: what the program starts itself gets none of it
		if before = strings.TrimSuffix(before, ","); before == "" {
			_ = os.Unsetenv("GODEBUG")
		} else {
			_ = os.Setenv("GODEBUG", before)
		}
		return
	}
	if strings.Contains(given, "schedtrace=") {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	if given != "" {
		given += ","
	}
	if os.Setenv("GODEBUG", given+awake) == nil {
		_ = syscall.Exec(self, os.Args, os.Environ()) //nolint:gosec // this program, as it was called
		_ = os.Setenv("GODEBUG", strings.TrimSuffix(given, ","))
	}
}
