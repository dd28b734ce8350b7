package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"golang.org/x/sync/singleflight"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
)

// session is salvor's own login, with which tokens are validated. It logs in when it is first needed, and again when its
// token has expired.
type session struct {
	cfg    Config
	http   http.Client
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
	}
}

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
// allowExpired asks for one that has expired lately, which only a service may bring along.
func (s *session) validate(ctx context.Context, token string, allowExpired bool) (doc document, ok bool, err error) {
	client, err := s.identity(ctx)
	if err != nil {
		return doc, false, unavailable(err)
	}
	url := client.ServiceURL("auth", "tokens") + "?nocatalog=1"
	if allowExpired {
		url += "&allow_expired=1"
	}
	//nolint:bodyclose // gophercloud reads and closes the body that goes into doc
	_, err = client.Get(ctx, url, &doc, &gophercloud.RequestOpts{
		MoreHeaders: map[string]string{"X-Subject-Token": token}, OkCodes: []int{http.StatusOK},
	})
	switch {
	case err == nil:
		return doc, allowExpired || time.Now().Before(doc.Token.ExpiresAt), nil
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return doc, false, nil
	default:
		return doc, false, unavailable(err)
	}
}

func unavailable(err error) error { return &ha.UnavailableError{What: "keystone", Err: plain(err)} }

// plain puts Keystone's own words in the place of gophercloud's about codes that it expected.
func plain(err error) error {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return err
	}
	var fault struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(code.Body, &fault) != nil || fault.Error.Message == "" {
		fault.Error.Message = http.StatusText(code.Actual)
	}
	return fmt.Errorf("Keystone answered %s %s with %d: %s", code.Method, code.URL, code.Actual, fault.Error.Message)
}
