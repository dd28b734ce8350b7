package nova

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Microversions. At 2.95 and up an evacuated server stays stopped on its destination; below 2.53 services have no uuid
// and cannot be forced down and disabled in one call.
const (
	minMinor        = 53
	maxMinor        = 94
	minorLockReason = 73
	minorDownCells  = 69
	maxServersMinor = 98 // of reading servers: from 2.98 on they show their images' properties
)

// placementVersion is the first that names a provider's root.
const placementVersion = "1.14"

// endpoints are where the services are, and how Nova is spoken to.
type endpoints struct {
	compute   string // ends in /
	placement string // ends in /; "" when the catalog has none
	minor     int    // of Nova's microversion 2.x
	servers   int    // the same, of reading servers
}

// catalogService is what nova_catalog_admin_info says.
type catalogService struct{ kind, name, face string }

func parseCatalogInfo(info string) (catalogService, error) {
	p := strings.Split(info, ":")
	if len(p) != 3 || p[0] == "" {
		return catalogService{}, fmt.Errorf("catalog info %q: expected type:name:interface, such as compute:nova:publicURL", info)
	}
	s := catalogService{kind: p[0], name: p[1], face: strings.TrimSuffix(p[2], "URL")}
	switch s.face {
	case "public", "internal", "admin":
		return s, nil
	}
	return catalogService{}, fmt.Errorf("catalog info %q: the interface is public, internal or admin", info)
}

// setupError is a failure before the call itself: no token, no endpoint, no version. A status in it is none of the call's.
type setupError struct{ cause error }

func (e *setupError) Error() string { return e.cause.Error() }
func (e *setupError) Unwrap() error { return e.cause }

// ready returns the endpoints; the first call authenticates and asks Nova for its versions. Its errors are setupErrors.
func (c *Client) ready(ctx context.Context) (*endpoints, error) {
	if e := c.known(); e != nil {
		return e, nil
	}
	e, err := c.setUp(ctx)
	if err != nil {
		return nil, &setupError{cause: err}
	}
	return e, nil
}

func (c *Client) setUp(ctx context.Context) (*endpoints, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e := c.known(); e != nil {
		return e, nil
	}
	ctx = context.WithValue(ctx, flightKey{}, nil) // what follows is no act
	if err := c.provider.Reauthenticate(ctx, ""); err != nil {
		return nil, err
	}
	result, ok := c.provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return nil, errors.New("Keystone gave no token")
	}
	found, err := c.locate(result)
	if err != nil {
		return nil, err
	}
	if err := c.negotiate(ctx, found); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoints = found
	return found, nil
}

func (c *Client) known() *endpoints {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoints
}

// forget makes the next call find the endpoints anew: Nova was moved, or its versions have changed.
func (c *Client) forget(old *endpoints) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endpoints == old {
		c.endpoints = nil
	}
}

// authenticate asks Keystone for a token. gophercloud calls it, one at a time, before a token expires and after a 401.
func (c *Client) authenticate(ctx context.Context) error {
	ctx = context.WithValue(ctx, flightKey{}, nil) // also when an act is what waits for it
	bare := &gophercloud.ProviderClient{HTTPClient: c.provider.HTTPClient, UserAgent: c.provider.UserAgent}
	keystone := &gophercloud.ServiceClient{ProviderClient: bare, Endpoint: c.keystone, Type: "identity"}
	opts := &tokens.AuthOptions{
		Username: c.cfg.User, Password: c.cfg.Password.Reveal(), DomainName: c.cfg.UserDomain,
		Scope: tokens.Scope{ProjectName: c.cfg.Project, DomainName: c.cfg.ProjectDomain},
	}
	if c.cfg.SystemScope != "" {
		opts.Scope = tokens.Scope{System: true}
	}
	result := tokens.Create(ctx, keystone, opts)
	if result.Err != nil {
		return &authError{cause: result.Err}
	}
	if err := c.provider.SetTokenAndAuthResult(result); err != nil {
		return &authError{cause: err}
	}
	return nil
}

// authError is a failure to get a token.
type authError struct{ cause error }

func (e *authError) Error() string { return "Keystone gives no token: " + e.cause.Error() }
func (e *authError) Unwrap() error { return e.cause }

// locate finds the endpoints in the catalog that came with the token.
func (c *Client) locate(result tokens.CreateResult) (*endpoints, error) {
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return nil, fmt.Errorf("Keystone's catalog cannot be read: %w", err)
	}
	compute := c.find(catalog, c.service)
	if compute == "" {
		return nil, fmt.Errorf("Keystone's catalog has no service %s:%s with interface %s%s", c.service.kind, c.service.name,
			c.service.face, c.inRegion())
	}
	compute, err = computeRoot(compute)
	if err != nil {
		return nil, err
	}
	placement := c.find(catalog, catalogService{kind: "placement", face: c.service.face})
	if placement != "" {
		placement = strings.TrimRight(placement, "/") + "/"
	}
	return &endpoints{compute: compute, placement: placement}, nil
}

func (c *Client) inRegion() string {
	if c.cfg.Region == "" {
		return ""
	}
	return " in region " + c.cfg.Region
}

func (c *Client) find(catalog *tokens.ServiceCatalog, s catalogService) string {
	for _, entry := range catalog.Entries {
		if entry.Type != s.kind || (s.name != "" && entry.Name != s.name) {
			continue
		}
		for _, e := range entry.Endpoints {
			if e.Interface == s.face && (c.cfg.Region == "" || e.Region == c.cfg.Region || e.RegionID == c.cfg.Region) {
				return e.URL
			}
		}
	}
	return ""
}

// computeRoot cuts an endpoint down to its version, …/v2.1/, where calls without a project id start and the versions are
// told. An endpoint without a version gets one.
func computeRoot(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("Nova's endpoint %q in the catalog is no URL", endpoint)
	}
	path := u.Path
	for _, version := range []string{"/v2.1", "/v2"} {
		if at := strings.Index(path+"/", version+"/"); at >= 0 {
			path = path[:at]
			break
		}
	}
	u.Path, u.RawPath, u.RawQuery, u.Fragment = strings.TrimRight(path, "/")+"/v2.1/", "", "", ""
	return u.String(), nil
}

// negotiate picks the microversion.
func (c *Client) negotiate(ctx context.Context, e *endpoints) error {
	var doc versionDoc
	resp, err := c.provider.Request(ctx, http.MethodGet, e.compute, &gophercloud.RequestOpts{KeepResponseBody: true, OkCodes: okCodes})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		return fmt.Errorf("Nova's versions at %s cannot be read: %w", e.compute, err)
	}
	var v ha.NovaVersions
	if err := doc.read(&v); err != nil {
		return fmt.Errorf("%s %w", e.compute, err)
	}
	if v.Used == 0 {
		return fmt.Errorf("Nova offers microversions 2.%d to 2.%d; salvor needs one from 2.%d to 2.%d", v.Low, v.High, minMinor, maxMinor)
	}
	e.minor, e.servers = v.Used, min(v.High, maxServersMinor)
	return nil
}

func minorOf(version string) (int, bool) {
	major, minor, ok := strings.Cut(version, ".")
	n, err := strconv.Atoi(minor)
	return n, ok && err == nil && major == "2"
}
