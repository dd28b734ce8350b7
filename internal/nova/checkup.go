package nova

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Login asks Keystone for a token anew, and says what came with it. That the catalog lacks a service is no error.
func (c *Client) Login(ctx context.Context) (ha.Login, error) {
	o := op{name: "login", method: http.MethodPost, path: c.keystone + "auth/tokens"}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	began := time.Now()
	if err := c.provider.Reauthenticate(ctx, ""); err != nil {
		return ha.Login{}, c.readError(o, err)
	}
	here := time.Now()
	result, ok := c.provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return ha.Login{}, broken(o.name, o.path, "Keystone gave no token")
	}
	l := ha.Login{Clock: clockOf(result.Header, began, here)}
	if err := c.readToken(result, &l); err != nil {
		return l, broken(o.name, o.path, err.Error())
	}
	return l, nil
}

func (c *Client) readToken(result tokens.CreateResult, l *ha.Login) error {
	token, err := result.ExtractToken()
	if err != nil {
		return err
	}
	l.Lasts = time.Until(token.ExpiresAt)
	if ahead, known := l.Clock.Ahead(); known { // by Keystone's own clock: a clock that is wrong is another finding
		l.Lasts -= ahead
	}
	roles, err := result.ExtractRoles()
	if err != nil {
		return err
	}
	for _, r := range roles {
		l.Roles = append(l.Roles, r.Name)
	}
	l.Scope = "system"
	if c.cfg.SystemScope == "" {
		l.Scope = "project " + c.cfg.Project
	}
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return err
	}
	for _, entry := range catalog.Entries {
		for _, e := range entry.Endpoints {
			region := e.Region
			if region == "" {
				region = e.RegionID
			}
			l.Catalog = append(l.Catalog, ha.Endpoint{Service: entry.Type, Name: entry.Name, Interface: e.Interface, Region: region, URL: e.URL})
		}
	}
	wanted := func(s catalogService) ha.Endpoint {
		return ha.Endpoint{Service: s.kind, Name: s.name, Interface: s.face, Region: c.cfg.Region, URL: c.find(catalog, s)}
	}
	l.Compute, l.Placement = wanted(c.service), wanted(catalogService{kind: "placement", face: c.service.face})
	return nil
}

// clockOf reads the header Date, which has whole seconds.
func clockOf(h http.Header, began, ended time.Time) ha.Clock {
	told, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return ha.Clock{}
	}
	half := ended.Sub(began) / 2
	return ha.Clock{Told: told.Add(time.Second / 2), Here: began.Add(half), Rough: half + time.Second/2}
}

// Versions asks Nova at an endpoint of the catalog for its microversions. That it has none which salvor can use is no error.
func (c *Client) Versions(ctx context.Context, endpoint string) (ha.NovaVersions, error) {
	o := op{name: "versions", method: http.MethodGet, path: endpoint}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	root, err := computeRoot(endpoint)
	if err != nil {
		return ha.NovaVersions{}, broken(o.name, o.path, err.Error())
	}
	began := time.Now()
	resp, err := c.provider.Request(ctx, http.MethodGet, root, &gophercloud.RequestOpts{KeepResponseBody: true, OkCodes: okCodes}) //nolint:bodyclose // decode does
	if err != nil {
		return ha.NovaVersions{}, c.readError(o, err)
	}
	v := ha.NovaVersions{Clock: clockOf(resp.Header, began, time.Now())}
	var doc versionDoc
	if err := decode(resp, &doc); err != nil {
		return v, broken(o.name, o.path, err.Error())
	}
	if err := doc.read(&v); err != nil {
		return v, broken(o.name, o.path, err.Error())
	}
	return v, nil
}

// versionDoc is what Nova answers at its root.
type versionDoc struct {
	Version struct {
		Version    string `json:"version"`
		MinVersion string `json:"min_version"`
	} `json:"version"`
}

func (d versionDoc) read(v *ha.NovaVersions) error {
	low, okLow := minorOf(d.Version.MinVersion)
	high, okHigh := minorOf(d.Version.Version)
	if !okLow || !okHigh {
		return errors.New("names no microversions: is it Nova?")
	}
	v.Low, v.High = low, high
	if v.Used = min(high, maxMinor); v.Used < minMinor || low > maxMinor {
		v.Used = 0
	}
	return nil
}

// sample is how many servers Sample asks for.
const sample = "20"

// Sample lists a few servers of all projects, as Servers would: of host, or of any where host is "". A server that is shown
// in part is an error.
func (c *Client) Sample(ctx context.Context, host string) ([]ha.Server, error) {
	const name, path = "servers", "servers/detail"
	query := url.Values{"all_tenants": {"true"}, "limit": {sample}}
	if host != "" {
		query.Set("host", host)
	}
	var page struct {
		Servers *[]json.RawMessage `json:"servers"`
	}
	if err := c.get(ctx, name, path, query, &page); err != nil {
		return nil, err
	}
	if page.Servers == nil {
		return nil, broken(name, path, "the answer has no list of servers")
	}
	var all []ha.Server
	for _, raw := range *page.Servers {
		var s server
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, broken(name, path, "the answer cannot be read: "+err.Error())
		}
		if strings.EqualFold(s.Status, statusUnknown) { // in a cell that is away: another matter than rights
			continue
		}
		if err := s.whole(); err != nil {
			return nil, broken(name, path, err.Error())
		}
		all = append(all, s.ha())
	}
	return all, nil
}
