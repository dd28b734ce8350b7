package disks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ofItsOwn gives a probe a process group of its own, so that a signal to the agent's does not make a verdict. It is killed when the agent is.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// A process that waits for a disk runs for a moment now and then, as its runtime does its chores: it must be seen to want the CPU each time.
const (
	sights       = 5
	betweenLooks = 10 * time.Millisecond
)

// runnable reports whether a process has a thread that wants to run, at each of some looks, or until it has ended. What waits for a disk
// sleeps, whichever way its filesystem sleeps (D, or S where a signal may end it); what gets no CPU does not.
func runnable(pid int, ended <-chan struct{}) bool {
	for range sights {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		wants := false
		for _, file := range stats {
			text, _ := os.ReadFile(file)
			_, state, _ := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(" "))
			wants = wants || bytes.HasPrefix(state, []byte("R"))
		}
		if !wants {
			return false
		}
		select {
		case <-ended:
			return true
		case <-time.After(betweenLooks):
		}
	}
	return true
}
