package api

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Config are the options of the API. A zero field means its default.
type Config struct {
	Log *slog.Logger // default: slog.Default()

	MaxLimit        int    // osapi_max_limit; 1000
	MaxBody         int64  // max_request_body_size, bytes; 114688
	MaxHeader       int    // max_header_line, bytes of request line and headers; 16384
	LinkPrefix      string // osapi_masakari_link_prefix: replaces scheme, host and prefix of links
	ProjectIDRegex  string // project_id_regex; [0-9a-f-]+
	ParseProxy      bool   // enable_proxy_headers_parsing
	WWWAuthenticate string // www_authenticate_uri, else auth_url: shown with every 401
	// DelayAuthDecision is delay_auth_decision: a 401 then has the plain body of Masakari's own check.
	DelayAuthDecision bool
	HealthDisabled    string // while this file exists, /healthcheck answers 503; /etc/masakari/healthcheck_disable
	CORS              CORS

	RequestTimeout time.Duration // for one request as a whole; 60 s
	SilentClient   time.Duration // how long a request goes on when its client sends no more: it may wait for the answer; 5 s
	IdleTimeout    time.Duration // client_socket_timeout: of a connection between requests; 900 s
}

// CORS are the options of the group [cors]. Without AllowedOrigin there are no CORS headers at all.
type CORS struct {
	AllowedOrigin    []string
	AllowCredentials bool
	ExposeHeaders    []string
	MaxAge           time.Duration // 0: not sent
	AllowMethods     []string
	AllowHeaders     []string
}

// DefaultCORS are the defaults of the group [cors] as masakari sets them.
func DefaultCORS() CORS {
	return CORS{
		AllowCredentials: true,
		ExposeHeaders:    []string{"X-Auth-Token", "X-Openstack-Request-Id", "X-Subject-Token", "X-Service-Token"},
		MaxAge:           time.Hour,
		AllowMethods:     []string{"GET", "PUT", "POST", "DELETE", "PATCH"},
		AllowHeaders:     []string{"X-Auth-Token", "X-Openstack-Request-Id", "X-Identity-Status", "X-Roles", "X-Service-Catalog", "X-User-Id", "X-Tenant-Id"},
	}
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.MaxLimit == 0 {
		c.MaxLimit = 1000
	}
	if c.MaxBody == 0 {
		c.MaxBody = 114688
	}
	if c.MaxHeader == 0 {
		c.MaxHeader = 16384
	}
	if c.ProjectIDRegex == "" {
		c.ProjectIDRegex = "[0-9a-f-]+"
	}
	if c.HealthDisabled == "" {
		c.HealthDisabled = "/etc/masakari/healthcheck_disable"
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	if c.SilentClient == 0 {
		c.SilentClient = 5 * time.Second
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 15 * time.Minute
	}
	return c
}

// compile turns the texts of the configuration into what requests are matched by.
func (c Config) compile() (projectID *regexp.Regexp, prefix *url.URL, err error) {
	projectID, err = regexp.Compile("^(?:" + c.ProjectIDRegex + ")$")
	if err != nil {
		return nil, nil, fmt.Errorf("project_id_regex: %w", err)
	}
	if c.LinkPrefix == "" {
		return projectID, nil, nil
	}
	prefix, err = url.Parse(strings.TrimRight(c.LinkPrefix, "/"))
	if err != nil {
		return nil, nil, fmt.Errorf("osapi_masakari_link_prefix: %w", err)
	}
	return projectID, prefix, nil
}

// headerTimeout bounds how long a client may take to send its headers.
const headerTimeout = 10 * time.Second

// serverKey is where a request's context has its server's, which ends before the requests that are under way do.
type serverKey struct{}

// NewServer returns a server for the handler with the limits of the configuration. The caller listens and shuts it down. Requests
// that the end of BaseContext finds under way are cut off.
func NewServer(cfg Config, h http.Handler) *http.Server {
	cfg = cfg.withDefaults()
	return &http.Server{
		Handler: h,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, serverKey{}, ctx)
		},
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       cfg.RequestTimeout,
		WriteTimeout:      2 * cfg.RequestTimeout, // reading the body, then the work
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.MaxHeader,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
}
