package testkit

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProcessesEndWithAKilledTest: nothing that a test has started runs on when the test is killed, or has panicked.
func TestProcessesEndWithAKilledTest(t *testing.T) {
	if os.Getenv("TESTKIT_KILLED") != "" {
		p := StartProgram(t, "sleep", "sleep", "600")
		fmt.Println("started", p.PID())
		<-p.done // or the test is killed before
		return
	}
	killed := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	killed.Env = append(os.Environ(), "TESTKIT_KILLED=yes")
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "started "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it says that it was killed
	if pid == 0 {
		t.Fatal("nothing was started")
	}
	Eventually(t, time.Minute, func() (bool, string) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // gone, or waited for by nobody
		return err != nil || bytes.Contains(stat, []byte(") Z ")), fmt.Sprintf("it runs on: %s", stat)
	})
}

// TestNoLineIsPassedOver by who waits for it while those before it are forgotten.
func TestNoLineIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Process{done: make(chan struct{}), more: make(chan struct{})}
		for range 5000 {
			p.add("noise")
		}
		found := make(chan string, 1)
		go func() { found <- p.Await(t, "this (.*)", time.Minute) }()
		synctest.Wait()
		p.add("this one")
		if got := <-found; got != "one" {
			t.Errorf("%q", got)
		}
	})
}

// TestDirectoriesOfEndedProcessesAreRemoved, and no others.
func TestDirectoriesOfEndedProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	left := fmt.Sprintf("kind-%d-1", ended.Process.Pid)
	kept := []string{fmt.Sprintf("kind-%d-2", os.Getppid()), "kind-of-others", "other-1-1"}
	for _, name := range append(kept, left) {
		if err := os.Mkdir(filepath.Join(os.TempDir(), name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	own, err := ownDir("kind")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(os.TempDir(), left)); err == nil {
		t.Error(left + " is still there")
	}
	for _, name := range append(kept, filepath.Base(own)) {
		if _, err := os.Stat(filepath.Join(os.TempDir(), name)); err != nil {
			t.Error(err)
		}
	}
}
