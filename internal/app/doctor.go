package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/announce"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/doctor"
	"github.com/salvor-ha/salvor/internal/fencing"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/store"
)

// Examined is one finding of Examine.
type Examined = doctor.Check

// How findings end.
const (
	ExaminedOK   = doctor.OK
	ExaminedWarn = doctor.Warn
	ExaminedFail = doctor.Fail
)

// WorstOf is the worst of the findings.
func WorstOf(found []Examined) doctor.State { return doctor.Worst(found) }

// questionTime is how long the doctor waits for one answer at most.
const questionTime = 10 * time.Second

// Examine makes every call that a recovery will make, as the configuration has it, and changes nothing. It ends soon after limit.
func Examine(ctx context.Context, c *config.Config, environ []string, limit time.Duration) []Examined {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p, done := patient(c)
	defer done()
	opened := make(chan *store.Store, 1)
	defer func() {
		select {
		case s := <-opened:
			_ = s.Close() // nothing was written
		default:
		}
	}()
	p.Store = func(ctx context.Context) (doctor.Store, error) {
		if u, err := config.ParseDatabaseURL(c.Database.Connection); err == nil && u.Dialect == dialectSQLite && u.Path != "" && !exists(u.Path) {
			return nil, fmt.Errorf("there is no database yet at %s: salvor db sync, or salvor serve, makes it", u.Path)
		}
		s, err := store.Open(ctx, storeConfig(c, syncReadsWrites))
		if err != nil {
			return nil, err // a typed nil would be a Store
		}
		opened <- s
		return s, nil
	}
	switch f, err := OpenFencing(c, environ); {
	case err != nil:
		p.More = append(p.More, func(context.Context) []doctor.Check {
			return []doctor.Check{{Name: doctor.CheckFencing, Subject: "file", State: doctor.Fail, Text: err.Error(), Do: "mend [salvor] fencing_file; until then neither engine nor api starts"}}
		})
	case f != nil:
		p.Fencing = liveFencing{f}
	}
	return doctor.Examine(ctx, p, min(questionTime, limit))
}

// patient is what the configuration alone tells; done closes what was opened.
func patient(c *config.Config) (p doctor.Patient, done func()) {
	done = func() {}
	p = doctor.Patient{Web: web{roots: rootsOf(c.Nova.CertificateFile)}, Rules: doctor.Rules{
		BrakePercent: c.Salvor.BrakePercent, AddToAggregate: c.HostFailure.AddToAggregate, DisableReason: c.HostFailure.DisableReason,
		WaitEvacuation: c.Engine.WaitAfterEvacuation, SkipAPI: c.API.AuthStrategy == "noauth2",
	}}
	conf := novaConfig(c)
	conf.Timeout = min(conf.Timeout, questionTime)
	if missing := c.MissingNova(); len(missing) > 0 {
		p.NoCloud = noCloud{missing}.text()
	} else if client, err := nova.New(conf); err != nil {
		p.NoCloud = err.Error()
	} else {
		p.Cloud, done = client, client.Close
	}
	tried := func(try func(context.Context, *config.Config) []Finding, name string, bad doctor.State) func(context.Context) []doctor.Check {
		return func(ctx context.Context) []doctor.Check {
			var out []doctor.Check
			for i, f := range try(ctx, c) {
				check := doctor.Check{Name: name, State: doctor.OK, Text: f.Text, Do: f.Do}
				if i > 0 {
					check.Subject = fmt.Sprint(i + 1)
				}
				if !f.OK {
					check.State = bad
				}
				out = append(out, check)
			}
			return out
		}
	}
	p.More = []func(context.Context) []doctor.Check{
		tried(checkKeystone, "auth", doctor.Fail), tried(checkListen, "listen", doctor.Warn), tried(checkPolicy, "policy", doctor.Warn),
		tried(checkTLS, "certificate", doctor.Fail), tried(checkRabbitLogin, "rabbitmq", doctor.Warn), tried(checkWebhooks, "webhook", doctor.Warn),
	}
	return p, done
}

// checkRabbitLogin logs in to each node and declares nothing.
func checkRabbitLogin(ctx context.Context, c *config.Config) []Finding {
	const what = "rabbitmq"
	found := checkRabbit(ctx, c)
	if slices.ContainsFunc(found, func(f Finding) bool { return !f.OK }) || !usesRabbit(c) {
		return found
	}
	conf, err := rabbitConfig(c, true)
	if err != nil {
		return bad(what, "mend transport_url and [oslo_messaging_rabbit]", err)
	}
	found = nil
	for _, n := range conf.Nodes {
		if err := announce.TryRabbit(ctx, conf, n); err != nil {
			found = append(found, bad(what, "check account, virtual host and TLS in transport_url and [oslo_messaging_rabbit]", err)...)
			continue
		}
		found = append(found, good(what, "%s takes the account", n.Address)...)
	}
	return found
}

func usesRabbit(c *config.Config) bool {
	return slices.ContainsFunc(c.Notifications.Drivers, func(d string) bool { return d == "messagingv2" || d == "messaging" })
}

// checkWebhooks connects to each, with TLS where it has it, and posts nothing. A URL may hold a secret: only its host is told.
func checkWebhooks(ctx context.Context, c *config.Config) []Finding {
	const what = "webhook"
	var found []Finding
	for _, text := range c.Salvor.WebhookURLs {
		u, err := url.Parse(text)
		if err != nil {
			found = append(found, bad(what, "mend [salvor] webhook_url", errors.New("webhook_url is no URL"))...)
			continue
		}
		if err := connect(ctx, u); err != nil {
			found = append(found, bad(what, "check [salvor] webhook_url, and that it runs: events wait there meanwhile", fmt.Errorf("%s: %w", u.Host, err))...)
			continue
		}
		found = append(found, good(what, "%s takes connections", u.Host)...)
	}
	return found
}

func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func connect(ctx context.Context, u *url.URL) error {
	var conn net.Conn
	var err error
	if u.Scheme == "https" {
		conn, err = (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address(u))
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address(u))
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

// liveFencing rehearses when it is asked.
type liveFencing struct {
	fencing interface {
		Rehearse(ctx context.Context, host string) ([]fencing.Rehearsal, error)
	}
}

func (l liveFencing) Methods(ctx context.Context, host string) ([]doctor.Method, error) {
	tried, err := l.fencing.Rehearse(ctx, host)
	if errors.Is(err, fencing.ErrNotConfigured) {
		return nil, nil
	}
	return methodsOf(tried), err
}

func methodsOf(tried []fencing.Rehearsal) []doctor.Method {
	out := make([]doctor.Method, len(tried))
	for i, t := range tried {
		out[i] = doctor.Method{Name: t.Method, OK: t.OK, Text: t.Text, At: t.At}
	}
	return out
}

// web looks at addresses of the catalog.
type web struct{ roots *x509.CertPool } // nil: the machine's

// rootsOf reads a CA file; what is wrong with it, nova.New says.
func rootsOf(file string) *x509.CertPool {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
}

// Certificate is also told of one that nobody trusts: that is another finding.
func (w web) Certificate(ctx context.Context, text string) (time.Time, error) {
	u, err := url.Parse(text)
	if err != nil {
		return time.Time{}, err
	}
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}} //nolint:gosec // only its end is read
	conn, err := d.DialContext(ctx, "tcp", address(u))
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = conn.Close() }()
	var until time.Time
	for _, c := range conn.(*tls.Conn).ConnectionState().PeerCertificates {
		if until.IsZero() || c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return until, nil
}

// maxVersions bounds the document that an API answers at its root.
const maxVersions = 64 << 10

// API asks for the versions, which everybody may.
func (w web) API(ctx context.Context, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	path, _, _ := strings.Cut(u.Path, "/v1")
	u.Path, u.RawPath, u.RawQuery = strings.TrimRight(path, "/")+"/", "", ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: w.roots, MinVersion: tls.VersionTLS12}}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var doc struct {
		Versions []struct {
			ID string `json:"id"`
		} `json:"versions"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxVersions)).Decode(&doc)
	if err != nil || !slices.ContainsFunc(doc.Versions, func(v struct {
		ID string `json:"id"`
	}) bool {
		return v.ID == "v1.0"
	}) {
		return fmt.Errorf("what answers there is no instance HA api (HTTP %d)", resp.StatusCode)
	}
	return nil
}
