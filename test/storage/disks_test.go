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

// onDisk runs an agent that watches a mounted directory and one that stays well, and waits until both are known; lines are further ones of its
// configuration.
func onDisk(t *testing.T, lines ...string) (d *desk, dir, conf string, agent *testkit.Process) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "disk")
	mount(t, dir)
	well := filepath.Join(root, "well")
	if err := os.Mkdir(well, 0o700); err != nil {
		t.Fatal(err)
	}
	d = newDesk(t)
	conf = agentConf(t, d.URL, "cmp-01", append(lines, "resource = disk:"+dir+":instance", "resource = well:"+well+":upload", "listen = 127.0.0.1:0")...)
	agent = startAgent(t, "cmp-01", conf)
	d.status(t, "cmp-01", "disk", ha.CheckOK)
	d.status(t, "cmp-01", "well", ha.CheckOK)
	return d, dir, conf, agent
}

// TestADiskThatTurnsReadOnly is one failure, at once; the verdict outlives the agent, and ends when the disk can be written again.
func TestADiskThatTurnsReadOnly(t *testing.T) {
	d, dir, conf, agent := onDisk(t)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if s := d.status(t, "cmp-01", "disk", ha.CheckReadOnly); s.FilesystemID == "" || len(s.Kinds) != 1 || s.Kinds[0] != "instance" {
		t.Errorf("%+v", s)
	}
	agent.Kill()
	d.mu.Lock()
	before := d.reports["cmp-01"][len(d.reports["cmp-01"])-1]
	d.reports["cmp-01"] = nil
	d.mu.Unlock()
	startAgent(t, "cmp-01", conf)
	d.status(t, "cmp-01", "disk", ha.CheckReadOnly)
	d.mu.Lock()
	after := d.reports["cmp-01"][0]
	d.mu.Unlock()
	if after.Epoch <= before.Epoch || len(after.Resources) != 2 {
		t.Errorf("the first report after kill -9: %+v; the last one before was of epoch %d", after, before.Epoch)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	d.status(t, "cmp-01", "disk", ha.CheckOK)
}

// TestAFullDiskIsFullNotFailed.
func TestAFullDiskIsFullNotFailed(t *testing.T) {
	d, dir, _, _ := onDisk(t)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if s := d.status(t, "cmp-01", "disk", ha.CheckFull); !strings.Contains(s.Detail, "left") {
		t.Errorf("%+v", s)
	}
	for range 3 { // probes that write
		written(t, filepath.Join(dir, ".salvor-agent-cmp-01"))
	}
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
	d.status(t, "cmp-01", "disk", ha.CheckOK)
}

// written waits until a file has been written again.
func written(t *testing.T, path string) {
	t.Helper()
	var before time.Time
	testkit.Eventually(t, patience, func() (bool, string) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if before.IsZero() {
			before = info.ModTime()
		}
		return info.ModTime().After(before), path + " is not written"
	})
}

// TestHostReturnsWithAnEmptyDisk: an unmounted directory is not healthy, nor is another filesystem, until an operator says that it is the new one.
func TestHostReturnsWithAnEmptyDisk(t *testing.T) {
	d, dir, conf, _ := onDisk(t)
	unmount(dir)
	if s := d.status(t, "cmp-01", "disk", ha.CheckWrongFilesystem); !strings.Contains(s.Detail, "marker") {
		t.Errorf("%+v", s)
	}
	mount(t, dir)
	seen := d.statusAfter(t, "cmp-01", "disk", ha.CheckWrongFilesystem, time.Now())
	d.statusAfter(t, "cmp-01", "disk", ha.CheckWrongFilesystem, seen.CheckedAt.Time) // the first probe may have begun before
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("something was left on a filesystem that is not the resource's: %v, %v", left, err)
	}
	adopt := testkit.Start(t, "adopt", "agent", "adopt", "disk", "--config-file", conf)
	if code := adopt.Ended(t, patience); code != 0 {
		t.Errorf("adopt: exit status %d", code)
	}
	d.status(t, "cmp-01", "disk", ha.CheckOK)
	if err := os.RemoveAll(filepath.Join(dir, ".salvor-agent-cmp-01")); err != nil {
		t.Fatal(err)
	}
	d.status(t, "cmp-01", "disk", ha.CheckWrongFilesystem)
}

// TestHungMount: a filesystem that never answers is a timeout within its deadline; meanwhile the agent answers, and reports the others.
func TestHungMount(t *testing.T) {
	d, dir, _, agent := onDisk(t, "probe_timeout = 3")
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
	d.status(t, "cmp-01", "disk", ha.CheckTimeout)
	if took := time.Since(began); took > 15*time.Second && !strings.Contains(strings.Join(agent.Last(5000), "\n"), "got no CPU") {
		t.Errorf("the verdict came after %s: interval and deadline are 3.3 s together, and the rest is for a busy machine", took)
	}
	d.mu.Lock()
	d.reports["cmp-01"] = nil
	d.mu.Unlock()
	late := 0
	for range 12 { // over a deadline and the next probe
		began := time.Now()
		if status, _ := health(t, url); status != string(ha.CheckTimeout) {
			t.Errorf("the health check says %s", status)
		}
		if time.Since(began) > 500*time.Millisecond {
			late++
		}
		if n := probes(t, agent.PID()); n > 1+1 {
			t.Errorf("%d probes at a time: one per path", n)
		}
		time.Sleep(300 * time.Millisecond)
	}
	if late > 6 { // a busy machine makes it late now and then, a disk that is waited for each time
		t.Errorf("the health check took more than half a second %d times of 12", late)
	}
	now := time.Now()
	d.await(t, "cmp-01", "both resources, fresh", func(r wire.AgentReport) bool {
		for _, s := range r.Resources {
			if s.Name == "well" && s.Status != "ok" || s.Name == "disk" && s.Status != "timeout" || s.CheckedAt.Before(now.Add(-5*time.Second).UTC()) {
				return false
			}
		}
		return len(r.Resources) == 2
	})
	answer()
	d.status(t, "cmp-01", "disk", ha.CheckOK)
	if code := agent.Stop(t, patience); code != 0 {
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
