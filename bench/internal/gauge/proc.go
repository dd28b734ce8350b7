package gauge

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tick is the unit of times in /proc, the same on all of Linux' usual architectures.
const tick = 10 * time.Millisecond

// CPU is the time, of user and system, that the processes of a group have used. Who is not on Linux skips.
func CPU(tb testing.TB, group int) time.Duration {
	tb.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var used time.Duration
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name in brackets may hold anything. The group is the 3rd field after it, utime and stime are the 12th and 13th.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[2] != strconv.Itoa(group) {
			continue
		}
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				tb.Fatal(err)
			}
			used += time.Duration(n) * tick
		}
	}
	if used == 0 && len(stats) == 0 {
		tb.Skipf("SKIPPED: the time of processes cannot be read here")
	}
	return used
}

// OwnCPU is what this process has used.
func OwnCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

var peak = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB`)

// PeakMemory is the most that a process ever had in memory, in MB.
func PeakMemory(tb testing.TB, pid int) float64 {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	m := peak.FindSubmatch(status)
	if m == nil {
		tb.Fatalf("no VmHWM in %s", status)
	}
	kb, _ := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024
}
