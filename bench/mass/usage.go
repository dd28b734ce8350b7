package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// usage is what a process has spent.
type usage struct {
	cpu  time.Duration // user and system
	peak int64         // most resident memory ever, bytes
}

// ticks are the kernel's clock ticks a second in /proc, the same on all of Linux' usual architectures.
const ticks = 100

// usageOf reads /proc.
func usageOf(tb testing.TB, pid int) usage {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	// The name in brackets may hold anything; utime and stime are the 12th and 13th fields after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var u usage
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		u.cpu += time.Duration(n) * time.Second / ticks
	}
	u.peak = int64(statusLine(tb, pid, "VmHWM:")) << 10
	return u
}

// statusLine reads a number of /proc/PID/status.
func statusLine(tb testing.TB, pid int, name string) int {
	tb.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				tb.Fatal(err)
			}
			return n
		}
	}
	tb.Fatalf("/proc/%d/status has no %s", pid, name)
	return 0
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// until polls until f says yes.
func until(tb testing.TB, within time.Duration, what string, f func() bool) {
	tb.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for !f() {
		select {
		case <-poll.C:
		case <-limit.C:
			tb.Fatalf("not within %s: %s", within, what)
		case <-tb.Context().Done():
			tb.Fatal("interrupted")
		}
	}
}
