//go:build linux

package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/testkit"
	"github.com/salvor-ha/salvor/internal/wire"
)

// mount mounts a filesystem of 2 MiB that is memory; it is gone after the test.
func mount(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: not root: nothing can be mounted, so real disks that fail are not seen")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("SKIPPED: this machine lets nobody mount: real disks that fail are not seen")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(dir) })
}

func unmount(dir string) { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }

// onDisk runs an agent that watches a mounted directory and one that stays well, and waits until both are known.
func onDisk(t *testing.T) (d *desk, dir, conf string, agent *testkit.Process) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "disk")
	mount(t, dir)
	well := filepath.Join(root, "well")
	if err := os.Mkdir(well, 0o700); err != nil {
		t.Fatal(err)
	}
	d = newDesk(t)
	conf = agentConf(t, d.URL, "cmp-01", "resource = disk:"+dir+":instance", "resource = well:"+well+":upload", "listen = 127.0.0.1:0")
	agent = startAgent(t, "cmp-01", conf)
	d.status(t, "cmp-01", "disk", ha.CheckOK, 20*time.Second)
	d.status(t, "cmp-01", "well", ha.CheckOK, 20*time.Second)
	return d, dir, conf, agent
}

// TestADiskThatTurnsReadOnly is one failure, at once; the verdict outlives the agent, and ends when the disk can be written again.
func TestADiskThatTurnsReadOnly(t *testing.T) {
	d, dir, conf, agent := onDisk(t)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if s := d.status(t, "cmp-01", "disk", ha.CheckReadOnly, 5*time.Second); s.FilesystemID == "" || len(s.Kinds) != 1 || s.Kinds[0] != "instance" {
		t.Errorf("%+v", s)
	}
	agent.Kill()
	d.mu.Lock()
	before := d.reports["cmp-01"][len(d.reports["cmp-01"])-1]
	d.reports["cmp-01"] = nil
	d.mu.Unlock()
	startAgent(t, "cmp-01", conf)
	d.status(t, "cmp-01", "disk", ha.CheckReadOnly, 20*time.Second)
	d.mu.Lock()
	after := d.reports["cmp-01"][0]
	d.mu.Unlock()
	if after.Epoch <= before.Epoch || len(after.Resources) != 2 {
		t.Errorf("the first report after kill -9: %+v; the last one before was of epoch %d", after, before.Epoch)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	d.status(t, "cmp-01", "disk", ha.CheckOK, 5*time.Second)
}

// TestAFullDiskIsFullNotFailed.
func TestAFullDiskIsFullNotFailed(t *testing.T) {
	d, dir, _, _ := onDisk(t)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if s := d.status(t, "cmp-01", "disk", ha.CheckFull, 5*time.Second); !strings.Contains(s.Detail, "left") {
		t.Errorf("%+v", s)
	}
	time.Sleep(time.Second) // several probes that write
	d.mu.Lock()
	for _, r := range d.reports["cmp-01"] {
		for _, s := range r.Resources {
			if ha.CheckStatus(s.Status).Failed() {
				t.Errorf("a full disk is reported as %+v", s)
			}
		}
	}
	d.mu.Unlock()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.status(t, "cmp-01", "disk", ha.CheckOK, 5*time.Second)
}

// TestHostReturnsWithAnEmptyDisk: an unmounted directory is not healthy, nor is another filesystem, until an operator says that it is the new one.
func TestHostReturnsWithAnEmptyDisk(t *testing.T) {
	d, dir, conf, _ := onDisk(t)
	unmount(dir)
	if s := d.status(t, "cmp-01", "disk", ha.CheckWrongFilesystem, 5*time.Second); !strings.Contains(s.Detail, "marker") {
		t.Errorf("%+v", s)
	}
	mount(t, dir)
	time.Sleep(time.Second)
	d.mu.Lock()
	d.reports["cmp-01"] = nil
	d.mu.Unlock()
	d.status(t, "cmp-01", "disk", ha.CheckWrongFilesystem, 5*time.Second)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("something was left on a filesystem that is not the resource's: %v, %v", left, err)
	}
	adopt := testkit.Start(t, "adopt", "agent", "adopt", "disk", "--config-file", conf)
	if code := adopt.Ended(t, 20*time.Second); code != 0 {
		t.Errorf("adopt: exit status %d", code)
	}
	d.status(t, "cmp-01", "disk", ha.CheckOK, 5*time.Second)
	if err := os.RemoveAll(filepath.Join(dir, ".salvor-agent-cmp-01")); err != nil {
		t.Fatal(err)
	}
	d.status(t, "cmp-01", "disk", ha.CheckWrongFilesystem, 5*time.Second)
}

// TestHungMount: a filesystem that never answers is a timeout within its deadline; meanwhile the agent answers, and reports the others.
func TestHungMount(t *testing.T) {
	d, dir, _, agent := onDisk(t)
	url := agent.URL(t)
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("SKIPPED: no FUSE here, so no mount that hangs is seen: %v", err)
	}
	closed := false
	answer := func() {
		if !closed {
			closed = true
			unmount(dir)
			_ = fuse.Close() // who waits for it gets an error
		}
	}
	t.Cleanup(answer)
	began := time.Now()
	if err := syscall.Mount("salvor-test", dir, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())); err != nil {
		t.Skipf("SKIPPED: no FUSE can be mounted, so no mount that hangs is seen: %v", err)
	}
	d.status(t, "cmp-01", "disk", ha.CheckTimeout, 10*time.Second)
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("the verdict came after %s: interval and deadline are 3.3 s together", took)
	}
	d.mu.Lock()
	d.reports["cmp-01"] = nil
	d.mu.Unlock()
	for range 12 { // over a deadline and the next probe
		began := time.Now()
		if status, _, _ := health(t, url); status != string(ha.CheckTimeout) {
			t.Errorf("the health check says %s", status)
		}
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("the health check took %s", took)
		}
		if n := probes(t, agent.PID()); n > 1+1 {
			t.Errorf("%d probes at a time: one per path", n)
		}
		time.Sleep(300 * time.Millisecond)
	}
	now := time.Now()
	d.await(t, "cmp-01", "both resources, fresh", 5*time.Second, func(r wire.AgentReport) bool {
		for _, s := range r.Resources {
			if s.Name == "well" && s.Status != "ok" || s.Name == "disk" && s.Status != "timeout" || s.CheckedAt.Before(now.Add(-5*time.Second).UTC()) {
				return false
			}
		}
		return len(r.Resources) == 2
	})
	answer()
	d.status(t, "cmp-01", "disk", ha.CheckOK, 10*time.Second)
	if code := agent.Stop(t, 10*time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// probes counts the children of a process.
func probes(t *testing.T, pid int) int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		text, _ := os.ReadFile(f)
		n += len(strings.Fields(string(text)))
	}
	return n
}
