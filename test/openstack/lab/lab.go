// Package lab is a real OpenStack on this machine, for tests and benchmarks: Keystone, Nova, Placement, Glance and Neutron from
// Debian's packages, and four hypervisors, each a real nova-compute with Nova's fake driver. The scripts in this folder
// make it; they also work by hand (README.md). All of it listens on 127.0.0.1 and writes under one state directory.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The lab's fixed points, as lib.sh and seed have them.
const (
	AuthURL      = "http://127.0.0.1:5000/v3"
	NovaURL      = "http://127.0.0.1:8774"
	PlacementURL = "http://127.0.0.1:8778"
	Region       = "RegionOne"
	MasakariURL  = "http://127.0.0.1:25868/v1"
)

// Hosts are the lab's hypervisors.
var Hosts = []string{"compute-1", "compute-2", "compute-3", "compute-4"}

// statusUnavailable is the scripts' exit status for "cannot be had on this machine".
const statusUnavailable = 69

// UnavailableError says why this machine cannot have a lab.
type UnavailableError struct{ Why string }

func (e *UnavailableError) Error() string { return "no OpenStack lab on this machine: " + e.Why }

// Lab is the running OpenStack, seen with the eyes of an administrator.
type Lab struct {
	*Nova
	State  string // directory of configuration, logs and pid files
	HAPort int    // of the catalog's instance-ha endpoint: a free one, since salvor's usual port may be taken

	scripts string
	lock    *os.File
}

// Up brings the lab up, installing the packages when they are missing (4 minutes), or takes the one that runs. It belongs
// to the caller alone until Close. An *UnavailableError says that this machine cannot have one.
func Up(ctx context.Context) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, &UnavailableError{"it needs root"}
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		return nil, &UnavailableError{"it needs Debian's packages"}
	}
	l := &Lab{State: "/var/tmp/oslab", scripts: folder()}
	if dir := os.Getenv("OSLAB_STATE"); dir != "" {
		l.State = dir
	}
	if err := l.acquire(ctx); err != nil {
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l.HAPort = free.Addr().(*net.TCPAddr).Port
	free.Close()
	if out, err := l.ScriptEnv(ctx, []string{fmt.Sprintf("OSLAB_HA_PORT=%d", l.HAPort)}, "up"); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == statusUnavailable {
			return &UnavailableError{strings.TrimSpace(out)}
		}
		return err
	}
	token, err := Login(ctx, AuthURL, Account{Name: "admin", Project: "admin"})
	if err != nil {
		return err
	}
	l.Nova = NewNova(NovaURL+"/v2.1", token.ID)
	return nil
}

// Close gives the lab up to the next user. It stays up.
func (l *Lab) Close() {
	l.lock.Close()
}

// acquire waits until no other test or benchmark uses the lab.
func (l *Lab) acquire(ctx context.Context) error {
	if err := os.MkdirAll(l.State, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(l.State, "in-use"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	err = Until(ctx, "the lab, which another test or benchmark uses", time.Hour, func() (bool, error) {
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil, nil
	})
	if err != nil {
		f.Close()
		return err
	}
	l.lock = f
	return nil
}

// Script runs one of the scripts of this folder and returns what it printed. Further environment is NAME=VALUE.
func (l *Lab) Script(ctx context.Context, name string, args ...string) (string, error) {
	return l.ScriptEnv(ctx, nil, name, args...)
}

// ScriptEnv is Script with additions to the environment.
func (l *Lab) ScriptEnv(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.scripts, name), args...)
	cmd.Env = append(append(os.Environ(), "OSLAB_STATE="+l.State), env...)
	// The daemons that a script starts must not hold its output open: it goes to a file.
	out, err := os.CreateTemp("", "lab-"+name)
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	runErr := cmd.Run()
	text, err := os.ReadFile(out.Name())
	if runErr != nil {
		return string(text), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), runErr, text)
	}
	return string(text), err
}

// folder is where this file, and with it the scripts, lies.
func folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Until asks done about five times a second until it says yes, at most for bound.
func Until(ctx context.Context, what string, bound time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		ok, err := done()
		if ok && err == nil {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("waited %s for %s; last: %w", bound, what, last)
			}
			return fmt.Errorf("waited %s for %s", bound, what)
		case <-tick.C:
		}
	}
}
