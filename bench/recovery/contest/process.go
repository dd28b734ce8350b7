package contest

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
	"syscall"
	"time"
)

// buildSalvor builds cmd/salvor into dir and returns the file's path.
func buildSalvor(ctx context.Context, dir string) (string, error) {
	file := filepath.Join(dir, "salvor")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", file, "github.com/salvor-ha/salvor/cmd/salvor")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building salvor: %w\n%s", err, out)
	}
	return file, nil
}

// process is a running "salvor serve".
type process struct {
	url string // of the API, without a path
	log string // file

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how; read after done
}

// startSalvor writes conf and the address to listen on to a file in dir, makes the tables, starts "salvor serve" and waits until
// the API answers.
func startSalvor(ctx context.Context, binary, dir, conf string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	if binary, err = filepath.Abs(binary); err != nil { // it runs in dir
		return nil, err
	}
	conf += fmt.Sprintf("\n[DEFAULT]\nmasakari_api_listen = 127.0.0.1\nmasakari_api_listen_port = %d\n", port)
	file := filepath.Join(dir, "masakari.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	sync := exec.CommandContext(ctx, binary, "db", "sync", "--config-file", file)
	sync.Env = withoutProxies(os.Environ())
	if out, err := sync.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("salvor db sync: %w\n%s", err, out)
	}
	p := &process{
		url:  fmt.Sprintf("http://127.0.0.1:%d", port),
		log:  filepath.Join(dir, "salvor.log"),
		cmd:  exec.Command(binary, "serve", "--config-file", file),
		done: make(chan struct{}),
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = withoutProxies(os.Environ())
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := p.awaitAnswer(ctx, 60*time.Second); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) awaitAnswer(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/healthcheck", nil)
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
			return fmt.Errorf("salvor ended at once, %s\n%s", p.cmd.ProcessState, p.logTail(4000))
		case <-ctx.Done():
			return fmt.Errorf("salvor does not answer on %s after %s\n%s", p.url, bound, p.logTail(4000))
		case <-tick.C:
		}
	}
}

// stop ends the process as systemd does, with SIGTERM, and after 20 s with SIGKILL, which is an error. Stopping twice is fine.
func (p *process) stop() error {
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
			return fmt.Errorf("salvor, stopped: %w\n%s", p.err, p.logTail(4000))
		}
		return nil
	case <-time.After(20 * time.Second):
		err := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("salvor did not stop within 20 s\n%s", p.logTail(4000)), err)
	}
}

// logTail returns the last n bytes of the log.
func (p *process) logTail(n int) string {
	text, err := os.ReadFile(p.log)
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
