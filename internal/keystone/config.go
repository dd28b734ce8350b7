package keystone

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Config are the options of [keystone_authtoken]. Zero durations and sizes mean the defaults.
type Config struct {
	AuthURL string

	// The account that validates tokens: by name or id with a password, or an application credential.
	Username, UserID                   string
	UserDomainName, UserDomainID       string
	Password                           string
	ProjectName, ProjectID             string
	ProjectDomainName, ProjectDomainID string
	DomainName, DomainID               string // scope of a domain instead of a project
	SystemScope                        string // "all"
	TrustID                            string
	ApplicationCredentialID            string
	ApplicationCredentialName          string
	ApplicationCredentialSecret        string
	DefaultDomainName, DefaultDomainID string // where user and project name none
	Interface                          string // of Keystone in the catalog; "" asks AuthURL itself
	Region                             string
	CAFile, CertFile, KeyFile          string
	Insecure                           bool
	Timeout                            time.Duration // of one call; 30 s
	CacheTime                          time.Duration // token_cache_time; 300 s, below zero: no cache
	CacheSize                          int           // tokens kept at most; 10,000
	ServiceTokenRoles                  []string      // service_token_roles
	ServiceTokenRolesRequired          bool
	ServiceType                        string // of the API in the catalog, for access rules; "" refuses credentials that have some
	Retries                            int    // http_request_max_retries: of a call that got no answer
}

const (
	defaultTimeout   = 30 * time.Second
	defaultCacheTime = 300 * time.Second
	defaultCacheSize = 10000
	// retryPause is before the first try again, and doubled each time, as in keystoneauth.
	retryPause = 500 * time.Millisecond
	// refusedFor is how long a token stays refused without asking again. A token does not become valid later; this only
	// keeps a client that goes on trying off Keystone, and bounds the harm of a Keystone that answered too early.
	refusedFor = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.CacheTime == 0 {
		c.CacheTime = defaultCacheTime
	}
	if c.CacheSize <= 0 {
		c.CacheSize = defaultCacheSize
	}
	return c
}

// check finds what would make every validation fail.
func (c Config) check() error {
	switch {
	case c.AuthURL == "":
		return errors.New("[keystone_authtoken] auth_url is not set: salvor cannot validate tokens without it")
	case c.ApplicationCredentialID == "" && c.ApplicationCredentialName == "" && c.Username == "" && c.UserID == "":
		return errors.New("[keystone_authtoken] names no account: set username and password, or an application credential")
	}
	return nil
}

// authOptions are the credentials as gophercloud wants them.
func (c Config) authOptions() *gophercloud.AuthOptions {
	o := &gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, AllowReauth: true,
		Username: c.Username, UserID: c.UserID, Password: c.Password,
		ApplicationCredentialID:     c.ApplicationCredentialID,
		ApplicationCredentialName:   c.ApplicationCredentialName,
		ApplicationCredentialSecret: c.ApplicationCredentialSecret,
	}
	if c.UserID == "" && c.ApplicationCredentialID == "" {
		o.DomainID, o.DomainName = domain(c.UserDomainID, c.UserDomainName, c)
	}
	if c.ApplicationCredentialID != "" || c.ApplicationCredentialName != "" {
		return o // its scope is its own
	}
	scope := &gophercloud.AuthScope{TrustID: c.TrustID}
	switch {
	case c.TrustID != "":
	case c.SystemScope != "":
		scope.System = true
	case c.ProjectID != "":
		scope.ProjectID = c.ProjectID
	case c.ProjectName != "":
		scope.ProjectName = c.ProjectName
		scope.DomainID, scope.DomainName = domain(c.ProjectDomainID, c.ProjectDomainName, c)
	default:
		scope.DomainID, scope.DomainName = c.DomainID, c.DomainName
	}
	o.Scope = scope
	return o
}

// domain picks the id, else the name, else what the configuration has as default.
func domain(id, name string, c Config) (string, string) {
	switch {
	case id != "":
		return id, ""
	case name != "":
		return "", name
	case c.DefaultDomainID != "":
		return c.DefaultDomainID, ""
	default:
		return "", c.DefaultDomainName
	}
}

// httpClient builds the client with the configured TLS.
func (c Config) httpClient() (http.Client, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure} //nolint:gosec // the operator's choice
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return http.Client{}, fmt.Errorf("[keystone_authtoken] cafile: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return http.Client{}, fmt.Errorf("[keystone_authtoken] cafile %s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		key := c.KeyFile
		if key == "" {
			key = c.CertFile
		}
		pair, err := tls.LoadX509KeyPair(c.CertFile, key)
		if err != nil {
			return http.Client{}, fmt.Errorf("[keystone_authtoken] certfile: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = settings
	transport.MaxIdleConnsPerHost = 16
	return http.Client{Transport: guard{transport, c.Interface}, Timeout: c.Timeout}, nil
}

// maxAnswer bounds an answer; one with a large catalog has some 100 kB.
const maxAnswer = 8 << 20

// errMoved is said instead of following a redirect: whom it names would get the account's password, or the caller's token, and be
// believed what it says of that, in plain HTTP too.
var errMoved = errors.New("which is not followed")

// guard keeps what is no Keystone from filling the memory, and from sending a request elsewhere.
type guard struct {
	next    http.RoundTripper
	catalog string // the interface of Keystone's at which tokens are validated; "": auth_url
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode > http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest && resp.Header.Get("Location") != "" {
		_ = resp.Body.Close()
		return nil, g.moved(r, resp)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	return resp, nil
}

// moved says where a redirect leads, and what to set. Its path and query are left out: they may repeat what was sent.
func (g guard) moved(r *http.Request, resp *http.Response) error {
	set := "[keystone_authtoken] auth_url"
	if g.catalog != "" && r.Header.Get("X-Subject-Token") != "" {
		set = "Keystone's " + g.catalog + " endpoint in the catalog"
	}
	to, err := resp.Location()
	switch {
	case err != nil:
		return fmt.Errorf("it redirects (%d) to what is no URL, %w: check %s", resp.StatusCode, errMoved, set)
	case to.Scheme == r.URL.Scheme && to.Host == r.URL.Host:
		return fmt.Errorf("it redirects (%d) to another path there, %w: put the right path into %s", resp.StatusCode, errMoved, set)
	default:
		return fmt.Errorf("it redirects (%d) to %s://%s, %w: if that is your Keystone, let %s begin with that", resp.StatusCode, to.Scheme, to.Host, errMoved, set)
	}
}
