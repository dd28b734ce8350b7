package nova

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// Config says which cloud, and as whom. AuthURL, User, Password and a Project or SystemScope are needed.
type Config struct {
	AuthURL       string // Keystone's, with or without /v3
	User          string
	Password      config.Secret
	Project       string
	UserDomain    string // name; "" is default
	ProjectDomain string // name; "" is default
	SystemScope   string // "all": a token of system scope instead of the project's
	Region        string // "": the first in the catalog

	// CatalogInfo is where Nova stands in the catalog, <service_type>:<service_name>:<interface>; "" is
	// compute:nova:publicURL. Placement is looked up with the same interface and region.
	CatalogInfo string

	CAFile   string // "": the system's
	Insecure bool   // certificates are not checked

	Timeout        time.Duration // of one call, authentication included; 0 is 30 s
	MaxConnections int           // per endpoint; 0 is 64
	UserAgent      string        // put before gophercloud's

	// RequestID returns the global request id (req-…) that a context bears, "" if none; nil: none ever.
	RequestID func(context.Context) string
	// Observe, if not nil, is told of every call when it has ended: its name ("servers", "evacuate"), its class ("" for
	// success) and how long it took.
	Observe func(op string, class ha.Class, took time.Duration)
	// Trace, if not nil, begins a span of each call; end takes its class.
	Trace func(ctx context.Context, op string) (_ context.Context, end func(class ha.Class))
}

// Client is safe for concurrent use.
type Client struct {
	cfg       Config
	service   catalogService
	keystone  string // ends in /v3/
	provider  *gophercloud.ProviderClient
	transport *http.Transport
	once      *http.Transport // for orders: a connection for each

	turn chan struct{} // held while endpoints are found out

	mu        sync.Mutex
	endpoints *endpoints
	providers map[string]string // resource provider's uuid to its host
	// hypervisors are their hosts by uuid, "" for a provider that is none. It is replaced, never changed.
	hypervisors map[string]string
}

// New checks cfg and returns a client that has not talked to anybody yet: a Keystone that is away now is an error of the
// first call, and of each further one until it is back.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, turn: make(chan struct{}, 1), providers: map[string]string{}}
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	tlsConfig, err := tlsOf(cfg)
	if err != nil {
		return nil, err
	}
	c.transport = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns:        4 * c.cfg.MaxConnections,
		MaxIdleConnsPerHost: c.cfg.MaxConnections,
		MaxConnsPerHost:     c.cfg.MaxConnections,
		IdleConnTimeout:     3 * time.Second, // shorter than any server's own
		Protocols:           http1(),
	}
	// An order on a connection that its server has just closed would be in doubt: it could not be told from one that Nova
	// took before it went away. On a new connection there is no such moment.
	c.once = c.transport.Clone()
	c.once.DisableKeepAlives = true
	c.provider = &gophercloud.ProviderClient{
		HTTPClient: http.Client{
			Transport:     guard{kept: c.transport, once: c.once},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		ReauthFunc:                  c.authenticate,
		ReauthBeforeTokenExpiration: 30 * time.Second,
	}
	c.provider.UseTokenLock()
	if cfg.UserAgent != "" {
		c.provider.UserAgent.Prepend(cfg.UserAgent)
	}
	return c, nil
}

// Close drops idle connections.
func (c *Client) Close() {
	c.transport.CloseIdleConnections()
	c.once.CloseIdleConnections()
}

func (c *Client) setDefaults() error {
	if c.cfg.Timeout <= 0 {
		c.cfg.Timeout = 30 * time.Second
	}
	if c.cfg.MaxConnections <= 0 {
		c.cfg.MaxConnections = 64
	}
	if c.cfg.UserDomain == "" {
		c.cfg.UserDomain = "default"
	}
	if c.cfg.ProjectDomain == "" {
		c.cfg.ProjectDomain = "default"
	}
	if c.cfg.CatalogInfo == "" {
		c.cfg.CatalogInfo = "compute:nova:publicURL"
	}
	var err error
	if c.service, err = parseCatalogInfo(c.cfg.CatalogInfo); err != nil {
		return err
	}
	c.keystone, err = keystoneV3(c.cfg.AuthURL)
	return err
}

// keystoneV3 returns the version 3 root of a Keystone named with any or no version.
func keystoneV3(authURL string) (string, error) {
	u, err := url.Parse(strings.TrimRight(authURL, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", errors.New("Keystone's URL must start with http:// or https://, and name a host")
	}
	for _, version := range []string{"/v3", "/v2.0"} {
		u.Path = strings.TrimSuffix(u.Path, version)
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String() + "/v3/", nil
}

func tlsOf(cfg Config) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cfg.Insecure}
	if cfg.CAFile == "" {
		return out, nil
	}
	pem, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the CA certificates for Nova: %w", err)
	}
	out.RootCAs = x509.NewCertPool()
	if !out.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no CA certificate in PEM form", cfg.CAFile)
	}
	return out, nil
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}
