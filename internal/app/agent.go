package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/internal/agent"
	"github.com/salvor-ha/salvor/internal/agent/copies"
	"github.com/salvor-ha/salvor/internal/agent/disks"
	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/wire"
)

// ProbeWords are the arguments that make this program a probe: it answers one question about one directory and ends.
var ProbeWords = []string{"agent", "probe"}

// Agent is what runs on a hypervisor. It needs no database and no Nova: only salvor's API, and that not always.
func Agent(ctx context.Context, o Options) (*App, error) {
	a := &App{log: o.Log}
	if err := buildAgent(ctx, o, a); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func buildAgent(ctx context.Context, o Options, a *App) error {
	c := o.Config.Agent
	conf, err := agentConfig(o.Config)
	if err != nil {
		return err
	}
	conf.Log = o.Log
	lock, err := lockState(ctx, c.StateDirectory)
	if err != nil {
		return err
	}
	a.closing(lock.Close)
	api, err := agentClient(c)
	if err != nil {
		return err
	}
	conf.API = api
	serving, fetching, err := agentTLS(c)
	if err != nil {
		return err
	}
	conf.Blobs.HTTP = &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, Control: copies.BoundUnread}).DialContext,
		TLSClientConfig:     fetching,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: time.Minute,
		MaxIdleConnsPerHost: c.CopiesIn, DisableCompression: true, ReadBufferSize: 256 << 10,
	}}
	listener, err := agentListener(ctx, c, serving)
	if err != nil {
		return err
	}
	if listener != nil {
		a.closing(func() error { return closeListener(listener) })
		a.url = scheme(serving) + "://" + listener.Addr().String()
		conf.URL = c.URL
		if conf.URL == "" {
			conf.URL = reachable(scheme(serving), listener.Addr().String(), conf.Host)
		}
	}
	ag, err := agent.New(conf)
	if err != nil {
		return err
	}
	a.name = conf.Host
	a.parts = append(a.parts, part{"agent", func(ctx context.Context) error { ag.Run(ctx); return nil }})
	if listener != nil {
		server := &http.Server{Handler: ag.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
			ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)}
		a.parts = append(a.parts, part{"blobs", func(ctx context.Context) error { return serveHTTP(ctx, server, listener, o.Log) }})
	}
	if every := watchdogEvery(); every > 0 {
		a.parts = append(a.parts, part{"watchdog", func(ctx context.Context) error { feedWatchdog(ctx, every, ag.Alive); return nil }})
	}
	return nil
}

// agentConfig is what the file says, checked; it touches none of the directories.
func agentConfig(conf *config.Config) (agent.Config, error) {
	c := conf.Agent
	resources, err := disks.ParseResources(c.Resources)
	if err != nil {
		return agent.Config{}, fmt.Errorf("[agent] %w", err)
	}
	host := c.Host
	if host == "" {
		host = conf.Engine.Host
	}
	switch {
	case len(resources) == 0:
		return agent.Config{}, errors.New("[agent] resource is not set: there is nothing to watch, such as resource = instances:/var/lib/nova/instances:instance")
	case len(resources) > wire.MaxResources:
		return agent.Config{}, fmt.Errorf("[agent] resource is set %d times: at most %d fit into a report", len(resources), wire.MaxResources)
	case !filepath.IsAbs(c.StateDirectory) || filepath.Clean(c.StateDirectory) != c.StateDirectory:
		return agent.Config{}, fmt.Errorf("[agent] state_directory %q is not a plain absolute path", c.StateDirectory)
	case c.BlobDirectory != "" && (!filepath.IsAbs(c.BlobDirectory) || filepath.Clean(c.BlobDirectory) != c.BlobDirectory):
		return agent.Config{}, fmt.Errorf("[agent] blob_directory %q is not a plain absolute path", c.BlobDirectory)
	case c.BlobDirectory != "" && c.Listen == "":
		return agent.Config{}, errors.New("[agent] listen is not set: nobody could fetch what is in blob_directory")
	case c.WriteInterval < c.ProbeInterval:
		return agent.Config{}, errors.New("[agent] write_interval is shorter than probe_interval: only a probe can write")
	}
	for _, r := range resources {
		if c.StateDirectory == r.Path || strings.HasPrefix(c.StateDirectory, r.Path+"/") {
			return agent.Config{}, fmt.Errorf("[agent] state_directory %s is in the resource %s: when that fails, the agent would forget it", c.StateDirectory, r.Name)
		}
	}
	return agent.Config{
		Host: host, StateDir: c.StateDirectory, Resources: resources, Probe: c.ProbeInterval, Write: c.WriteInterval, Deadline: c.ProbeTimeout,
		Report: c.ReportInterval, Domain: c.FailureDomain,
		Prober: disks.Children{Program: append([]string{"/proc/self/exe"}, ProbeWords...), Locks: locksOf(c.StateDirectory)},
		Blobs: copies.Config{
			Dir: c.BlobDirectory, Parallel: c.CopiesIn, Serving: c.CopiesOut, Interval: c.VerifyInterval, Rate: int64(c.VerifyRate) << 20,
			Pass: min(time.Hour, max(c.VerifyInterval/4, time.Second)), Patience: time.Minute, Stall: 20 * time.Second,
		},
	}, nil
}

// locksOf is where probes hold their locks.
func locksOf(stateDirectory string) string { return filepath.Join(stateDirectory, "locks") }

// earlierEnds is how long an agent waits for the one before it to end.
const earlierEnds = 5 * time.Second

// lockState makes the state directory, and keeps a second agent off it: each would overwrite the other's verdicts, and take its probes for hanging ones.
func lockState(ctx context.Context, dir string) (io.Closer, error) {
	if err := os.MkdirAll(locksOf(dir), 0o700); err != nil {
		return nil, fmt.Errorf("[agent] state_directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "agent.lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("[agent] state_directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, earlierEnds)
	defer cancel()
	if err := disks.Hold(ctx, lock); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another agent runs on [agent] state_directory %s: stop it, or give this one a directory of its own", dir)
		}
		return nil, fmt.Errorf("[agent] state_directory: %w", err)
	}
	return lock, nil
}

// agentClient is the way to the API: with the host's own key, or as a Keystone user.
func agentClient(c config.Agent) (*client.Client, error) {
	const limit = 90 * time.Second // longer than a long poll
	if c.KeyFile != "" {
		key := func() (string, error) { return readKey(c.KeyFile) }
		if _, err := key(); err != nil {
			return nil, err
		}
		if c.APIURL == "" {
			return nil, errors.New("[agent] api_url is not set: with key_file there is no Keystone whose catalog could be asked for it")
		}
		h, err := client.TLS{CAFile: c.CAFile}.HTTP(limit)
		if err != nil {
			return nil, fmt.Errorf("[agent] cafile: %w", err)
		}
		return client.New(client.Config{URL: c.APIURL, AgentKey: key, HTTP: h})
	}
	found, err := client.Find(os.Environ(), c.Cloud)
	if err != nil {
		return nil, fmt.Errorf("[agent] cloud: %w", err)
	}
	if c.CAFile != "" {
		found.TLS.CAFile = c.CAFile
	}
	conf := client.Config{URL: c.APIURL}
	if conf.URL == "" {
		conf.URL = found.Endpoint
	}
	if conf.HTTP, err = found.TLS.HTTP(limit); err != nil {
		return nil, err
	}
	switch {
	case found.HasLogin:
		if found.Login.HTTP, err = found.TLS.HTTP(30 * time.Second); err != nil {
			return nil, err
		}
		conf.Auth = client.NewKeystone(found.Login)
	case conf.URL == "":
		return nil, errors.New("nothing says where salvor's API is and as whom the agent speaks: set [agent] api_url and key_file, or cloud")
	}
	return client.New(conf)
}

// maxKey bounds a key file, in bytes.
const maxKey = 1024

// readKey reads an agent key. A file that others may read holds no secret.
func readKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("[agent] key_file: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular() || info.Size() > maxKey:
		return "", fmt.Errorf("[agent] key_file %s is not a plain file of at most %d bytes", path, maxKey)
	case mode.Perm()&0o077 != 0:
		return "", fmt.Errorf("[agent] key_file %s may be used by others than its owner (mode %04o): chmod 600", path, mode.Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("[agent] key_file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("[agent] key_file %s holds no key: expected one line, as salvor host agent-key prints it", path)
	}
	return key, nil
}

// agentTLS is how the agent serves, nil for plain HTTP, and how it speaks to other agents.
func agentTLS(c config.Agent) (serving, fetching *tls.Config, err error) {
	fetching = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CertFile != "" || c.SSLKeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.SSLKeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("[agent] ssl_cert_file and ssl_key_file: %w", err)
		}
		serving = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
		fetching.Certificates = serving.Certificates
	}
	if c.SSLCAFile == "" {
		return serving, fetching, nil
	}
	pem, err := os.ReadFile(c.SSLCAFile)
	if err != nil {
		return nil, nil, fmt.Errorf("[agent] ssl_ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("[agent] ssl_ca_file %s holds no certificate in PEM form", c.SSLCAFile)
	}
	fetching.RootCAs = pool
	if serving != nil {
		serving.ClientCAs, serving.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return serving, fetching, nil
}

func scheme(serving *tls.Config) string {
	if serving != nil {
		return "https"
	}
	return "http"
}

func agentListener(ctx context.Context, c config.Agent, serving *tls.Config) (net.Listener, error) {
	if c.Listen == "" {
		return nil, nil
	}
	l, err := openListener(ctx, c.Listen)
	if err != nil {
		return nil, fmt.Errorf("[agent] listen: %w", err)
	}
	if serving != nil {
		l = tls.NewListener(l, serving)
	}
	return l, nil
}

// reachable is the URL of a listener for other hosts: one that listens on every address is reached by the host's name.
func reachable(scheme, address, host string) string {
	ip, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	if a, err := netip.ParseAddr(ip); err == nil && a.IsUnspecified() {
		address = net.JoinHostPort(host, port)
	}
	return scheme + "://" + address
}

// watchdogEvery is how often systemd wants to hear that the process lives (WatchdogSec), twice as often as it must; 0: it does not.
func watchdogEvery() time.Duration {
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err != nil || usec <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond / 2
}

// feedWatchdog tells systemd that the process lives, as long as alive says so.
func feedWatchdog(ctx context.Context, every time.Duration, alive func() bool) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if alive() {
			notify("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ProbeDisk is the part of a child process: it answers the question on standard input. It may hang for ever.
var ProbeDisk = disks.Answer

// AdoptResource lets the agent take what is mounted at a resource's path for the right filesystem. It reports whether it had one.
func AdoptResource(c *config.Config, name string) (bool, error) {
	resources, err := disks.ParseResources(c.Agent.Resources)
	if err != nil {
		return false, fmt.Errorf("[agent] %w", err)
	}
	var names []string
	for _, r := range resources {
		if r.Name == name {
			return agent.Adopt(c.Agent.StateDirectory, name)
		}
		names = append(names, r.Name)
	}
	return false, fmt.Errorf("[agent] has no resource named %q; it has %s", name, strings.Join(names, ", "))
}
