// Package serve runs the built salvor as its users do: a process of its own with a masakari.conf, for tests and benchmarks.
package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

var build struct {
	sync.Mutex
	binary string
}

// Binary builds cmd/salvor into dir, once per process, and returns the file's path.
func Binary(ctx context.Context, dir string) (string, error) {
	build.Lock()
	defer build.Unlock()
	if build.binary != "" {
		return build.binary, nil
	}
	file := filepath.Join(dir, "salvor")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", file, "github.com/salvor-ha/salvor/cmd/salvor")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building salvor: %w\n%s", err, out)
	}
	build.binary = file
	return file, nil
}

// Process is a running "salvor serve".
type Process struct {
	URL     string // of the API, without a path
	LogFile string

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how; read after done
}

// Start writes conf, to which the address to listen on is added in a [DEFAULT] of its own, to a file in dir, starts "salvor
// serve" with it and waits until the API answers. Port 0: any free one.
func Start(ctx context.Context, binary, dir, conf string, port int) (*Process, error) {
	if port == 0 {
		free, err := freePort()
		if err != nil {
			return nil, err
		}
		port = free
	}
	conf += fmt.Sprintf("\n[DEFAULT]\nmasakari_api_listen = 127.0.0.1\nmasakari_api_listen_port = %d\n", port)
	file := filepath.Join(dir, "masakari.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	p := &Process{
		URL:     fmt.Sprintf("http://127.0.0.1:%d", port),
		LogFile: filepath.Join(dir, "salvor.log"),
		cmd:     exec.Command(binary, "serve", "--config-file", file),
		done:    make(chan struct{}),
	}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = withoutProxies(os.Environ())
	// A test that is killed takes its salvor along.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := p.awaitAnswer(ctx, 60*time.Second); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Process) awaitAnswer(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/healthcheck", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("salvor ended at once: %v\n%s", p.err, p.LogTail(4000))
		case <-ctx.Done():
			return fmt.Errorf("salvor does not answer on %s after %s\n%s", p.URL, bound, p.LogTail(4000))
		case <-tick.C:
		}
	}
}

// Stop ends the process as systemd does, with SIGTERM, and after 20 s with SIGKILL, which is an error. Stopping twice is fine.
func (p *Process) Stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("salvor, stopped: %w\n%s", p.err, p.LogTail(4000))
		}
		return nil
	case <-time.After(20 * time.Second):
		err := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("salvor did not stop within 20 s\n%s", p.LogTail(4000)), err)
	}
}

// LogTail returns the last n bytes of the log.
func (p *Process) LogTail(n int) string {
	text, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	if len(text) > n {
		text = text[len(text)-n:]
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	return string(text)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// withoutProxies drops what would lead calls to this machine elsewhere, and salvor's own overrides.
func withoutProxies(env []string) []string {
	var out []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if lower := strings.ToLower(name); strings.HasSuffix(lower, "_proxy") || strings.HasPrefix(name, "OS_") {
			continue
		}
		out = append(out, v)
	}
	return out
}
