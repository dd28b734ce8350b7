package keystone

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"golang.org/x/sync/singleflight"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
)

// session is salvor's own login, with which tokens are validated. It logs in when it is first needed, and again when its
// token has expired.
type session struct {
	cfg    Config
	http   http.Client
	pause  time.Duration
	client atomic.Pointer[gophercloud.ServiceClient] // nil until the first login
	logins singleflight.Group
}

// identity returns a client of Keystone, logged in. Callers that come meanwhile share the login, and its failure.
func (s *session) identity(ctx context.Context) (*gophercloud.ServiceClient, error) {
	if client := s.client.Load(); client != nil {
		return client, nil
	}
	client, err, _ := s.logins.Do("", func() (any, error) { return s.logIn(ctx) })
	if err != nil {
		return nil, err
	}
	return client.(*gophercloud.ServiceClient), nil
}

func (s *session) logIn(ctx context.Context) (*gophercloud.ServiceClient, error) {
	provider, err := openstack.NewClient(s.cfg.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("auth_url %s: %w", s.cfg.AuthURL, err)
	}
	provider.HTTPClient = s.http
	provider.UserAgent.Prepend("salvor")
	if err := openstack.Authenticate(ctx, provider, *s.cfg.authOptions()); err != nil {
		return nil, fmt.Errorf("log in at %s: %w", s.cfg.AuthURL, err)
	}
	client, err := s.endpoint(provider)
	if err != nil {
		return nil, err
	}
	s.client.Store(client)
	return client, nil
}

// endpoint finds Keystone in the catalog, or takes the URL at which salvor logged in.
func (s *session) endpoint(provider *gophercloud.ProviderClient) (*gophercloud.ServiceClient, error) {
	if s.cfg.Interface == "" {
		return openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	}
	client, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{
		Region: s.cfg.Region, Availability: gophercloud.Availability(s.cfg.Interface),
	})
	if err != nil {
		return nil, fmt.Errorf("find Keystone's %s endpoint in the catalog: %w", s.cfg.Interface, err)
	}
	return client, nil
}

// document is what Keystone says of a token.
type document struct {
	Token struct {
		ExpiresAt time.Time `json:"expires_at"`
		User      struct {
			ID, Name string
			Domain   struct{ ID string }
		}
		Project struct {
			ID, Name string
			Domain   struct{ ID string }
		}
		Domain struct{ ID string }
		System struct{ All bool }
		Roles  []struct{ Name string }

		ApplicationCredential struct {
			AccessRules *[]accessRule `json:"access_rules"`
		} `json:"application_credential"`
	}
}

// whole reports whether the document says whose the token is, and until when.
func (d document) whole() bool { return d.Token.User.ID != "" && !d.Token.ExpiresAt.IsZero() }

func (d document) identity() policy.Identity {
	t := d.Token
	id := policy.Identity{
		UserID: t.User.ID, UserName: t.User.Name, UserDomainID: t.User.Domain.ID,
		ProjectID: t.Project.ID, ProjectName: t.Project.Name, ProjectDomainID: t.Project.Domain.ID,
		DomainID: t.Domain.ID,
	}
	if t.System.All {
		id.SystemScope = "all"
	}
	for _, r := range t.Roles {
		id.Roles = append(id.Roles, r.Name)
	}
	return id
}

// validate asks Keystone about a token. ok is false when Keystone does not know it; an error is a *ha.UnavailableError.
// allowExpired asks for one that has expired lately, which only a service may bring along. What gets no answer is asked
// again, as often as the configuration says: a Keystone that is restarted refuses connections for a moment.
func (s *session) validate(ctx context.Context, token string, allowExpired bool) (doc document, ok bool, err error) {
	for try, pause := 0, s.pause; ; try, pause = try+1, 2*pause {
		doc, ok, err = s.ask(ctx, token, allowExpired)
		if err == nil {
			return doc, ok, nil
		}
		if !passes(err) || try >= s.cfg.Retries {
			return doc, false, s.unavailable(err, token)
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return doc, false, s.unavailable(err, token)
		}
	}
}

// passes reports whether an error is that of a moment: no answer came. What TLS refuses, such as a certificate of an unknown CA or of
// another name, it refuses again; keystoneauth does not ask again either. Nor is a redirect over in a moment.
func passes(err error) bool {
	var none *url.Error // net/http's own
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	var alert *net.OpError
	switch {
	case !errors.As(err, &none), errors.As(err, &certificate), errors.As(err, &notTLS), errors.Is(err, http.ErrSchemeMismatch), errors.Is(err, errMoved):
		return false
	default: // alerts of TLS, theirs and ours, are operations by these names
		return !errors.As(err, &alert) || alert.Op != "remote error" && alert.Op != "local error"
	}
}

var errNotKeystone = errors.New("what answers is no Keystone: check auth_url, interface and what stands before Keystone")

// ask is one try of validate.
func (s *session) ask(ctx context.Context, token string, allowExpired bool) (doc document, ok bool, err error) {
	client, err := s.identity(ctx)
	if err != nil {
		return doc, false, err
	}
	address := client.ServiceURL("auth", "tokens") + "?nocatalog=1"
	if allowExpired {
		address += "&allow_expired=1"
	}
	headers := map[string]string{"X-Subject-Token": token}
	if s.cfg.ServiceType != "" { // without, Keystone itself refuses tokens with access rules
		headers["OpenStack-Identity-Access-Rules"] = "1.0"
	}
	//nolint:bodyclose // gophercloud reads and closes the body that goes into doc
	_, err = client.Get(ctx, address, &doc, &gophercloud.RequestOpts{MoreHeaders: headers, OkCodes: []int{http.StatusOK}})
	var code gophercloud.ErrUnexpectedResponseCode
	var long *http.MaxBytesError
	switch {
	case err == nil && doc.whole():
		return doc, allowExpired || time.Now().Before(doc.Token.ExpiresAt), nil
	case err == nil:
		err = errNotKeystone
	case errors.As(err, &long):
		err = fmt.Errorf("its answer is longer than %d MiB: %w", long.Limit>>20, errNotKeystone)
	case !errors.As(err, &code): // Keystone may have moved: the catalog is read anew
		s.client.CompareAndSwap(client, nil)
	case code.Actual == http.StatusNotFound && said(code.Body) != "":
		return doc, false, nil
	case code.Actual == http.StatusNotFound: // a proxy's, which knows no tokens
		s.client.CompareAndSwap(client, nil)
		err = fmt.Errorf("%w (%s)", errNotKeystone, s.plain(err, token).Error())
	}
	return document{}, false, err
}

// unavailable is an error of Keystone's as callers know it, bounded and without the token that it is about.
func (s *session) unavailable(err error, token string) error {
	return &ha.UnavailableError{What: "keystone", Err: s.plain(err, token)}
}

// told is an error in words that can be shown.
type told struct {
	text string
	err  error
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.err }

// plain puts Keystone's own words in the place of gophercloud's about codes that it expected. What answers may repeat what it was sent.
func (s *session) plain(err error, token string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		text = fmt.Sprintf("Keystone answered %s %s with %d: %s", code.Method, code.URL, code.Actual,
			cmp.Or(said(code.Body), http.StatusText(code.Actual)))
	}
	own := ""
	if client := s.client.Load(); client != nil {
		own = client.Token()
	}
	c := config.NewCleaner(s.cfg.Username, config.NewSecret(s.cfg.Password), config.NewSecret(s.cfg.ApplicationCredentialSecret),
		config.NewSecret(own), config.NewSecret(token))
	return told{c.Line(text), err}
}

// said is the message of a fault of Keystone's, "" of anything else.
func said(body []byte) string {
	var fault struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(body, &fault) != nil {
		return ""
	}
	return fault.Error.Message
}
