package fencing

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

const (
	redfishRoot = "/redfish/v1/"
	forceOff    = "ForceOff"
	maxBody     = 1 << 20
)

// redfish is a BMC by DMTF's Redfish, over net/http.
type redfish struct {
	base     *url.URL
	system   string // an id, or a path that begins with a slash; "": the only one
	user     string
	password config.Secret
	session  bool // log in and out, instead of an account with each request
	tls      *tls.Config
	clean    config.Cleaner
}

func (r redfish) Look(ctx context.Context) (power ha.Power, text string, err error) {
	err = r.with(ctx, func(c *redfishCall) error {
		s, err := c.system(ctx)
		if err != nil {
			return err
		}
		power, text, err = s.power()
		return err
	})
	return orUnknown(power, text, err)
}

func (r redfish) Off(ctx context.Context) (text string, err error) {
	err = r.with(ctx, func(c *redfishCall) error {
		s, err := c.system(ctx)
		if err != nil {
			return err
		}
		target, err := c.reset(ctx, s)
		if err != nil {
			return err
		}
		body := map[string]string{"ResetType": forceOff}
		a, err := c.do(ctx, http.MethodPost, target, body, "")
		if errors.Is(err, errPrecondition) {
			a, err = c.do(ctx, http.MethodPost, target, body, s.etag)
		}
		if err == nil {
			text = fmt.Sprintf("ForceOff answered %d", a.status)
		}
		return err
	})
	return text, err
}

// Check also finds out that ForceOff is allowed.
func (r redfish) Check(ctx context.Context) (power ha.Power, text string, err error) {
	err = r.with(ctx, func(c *redfishCall) error {
		s, err := c.system(ctx)
		if err != nil {
			return err
		}
		if _, err = c.reset(ctx, s); err != nil {
			return err
		}
		power, text, err = s.power()
		text += ", ForceOff allowed"
		return err
	})
	return orUnknown(power, text, err)
}

func orUnknown(power ha.Power, text string, err error) (ha.Power, string, error) {
	if err != nil {
		return ha.PowerUnknown, "", err
	}
	return power, text, nil
}

// redfishCall is one visit at a BMC: connections and a session, which both end with it.
type redfishCall struct {
	redfish
	client *http.Client
	token  string
}

// with visits the BMC. No proxy: a BMC's network is no way to the outside. Redirections stay on the same host: they carry the account.
func (r redfish) with(ctx context.Context, visit func(*redfishCall) error) error {
	transport := &http.Transport{TLSClientConfig: r.tls, MaxResponseHeaderBytes: 64 << 10}
	defer transport.CloseIdleConnections()
	c := &redfishCall{redfish: r, client: &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if len(via) > 3 || to.URL.Scheme != r.base.Scheme || to.URL.Host != r.base.Host {
			return errors.New("redirected elsewhere, which is not followed")
		}
		return nil
	}}}
	if r.session {
		session, err := c.do(ctx, http.MethodPost, redfishRoot+"SessionService/Sessions", map[string]string{"UserName": r.user, "Password": r.password.Reveal()}, "")
		if err != nil {
			return err
		}
		if c.token = session.header.Get("X-Auth-Token"); c.token == "" {
			return errors.New("the session has no X-Auth-Token; set auth: basic")
		}
		defer c.logout(ctx, session)
	}
	return visit(c)
}

// logout gives the session back, also when ctx has just ended: BMCs have few. It expires by itself if that fails.
func (c *redfishCall) logout(ctx context.Context, session answer) {
	where := session.header.Get("Location")
	if where == "" {
		return
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, _ = c.do(within, http.MethodDelete, where, nil, "")
}

// answer is what a BMC answered, of a status below 300.
type answer struct {
	status int
	header http.Header
	body   []byte
}

var errPrecondition = errors.New("the controller wants If-Match")

// do sends one request. where is a path, or a URL of the same host.
func (c *redfishCall) do(ctx context.Context, method, where string, body map[string]string, etag string) (answer, error) {
	to, err := c.base.Parse(where)
	if err != nil || to.Scheme != c.base.Scheme || to.Host != c.base.Host {
		return answer{}, fmt.Errorf("the controller points to %q, which is not at %s: %w", c.clean.Line(where), c.base.Host, ErrCannot)
	}
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, to.String(), in)
	if err != nil {
		return answer{}, errors.New(c.clean.Line(err.Error()))
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if etag != "" {
		req.Header.Set("If-Match", etag)
	}
	switch {
	case c.token != "":
		req.Header.Set("X-Auth-Token", c.token)
	case !c.session && c.user != "":
		req.SetBasicAuth(c.user, c.password.Reveal())
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("no answer: %s", c.clean.Line(err.Error()))
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("the answer to %s %s broke off: %s", method, to.Path, c.clean.Line(err.Error()))
	case len(text) > maxBody:
		return answer{}, fmt.Errorf("the answer to %s %s is longer than %d bytes", method, to.Path, maxBody)
	case resp.StatusCode < http.StatusMultipleChoices:
		return answer{resp.StatusCode, resp.Header, text}, nil
	}
	return answer{}, c.refusal(method, to.Path, resp.StatusCode, text)
}

func (c *redfishCall) refusal(method, path string, status int, body []byte) error {
	text := fmt.Sprintf("%s %s answered %d", method, path, status)
	if why := c.clean.Line(redfishMessage(body)); why != "" {
		text += ": " + why
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %s", ErrLogin, text)
	case http.StatusPreconditionFailed, http.StatusPreconditionRequired:
		return fmt.Errorf("%w: %s", errPrecondition, text)
	}
	return errors.New(text)
}

// system reads the computer system: the configured one, or the only one.
func (c *redfishCall) system(ctx context.Context) (redfishSystem, error) {
	where := c.redfish.system
	switch {
	case where == "":
		var err error
		if where, err = c.onlySystem(ctx); err != nil {
			return redfishSystem{}, err
		}
	case !strings.HasPrefix(where, "/"):
		where = redfishRoot + "Systems/" + url.PathEscape(where)
	}
	a, err := c.do(ctx, http.MethodGet, where, nil, "")
	if err != nil {
		return redfishSystem{}, err
	}
	s, err := readSystem(a.body)
	if tag := a.header.Get("ETag"); tag != "" {
		s.etag = tag
	}
	return s, err
}

func (c *redfishCall) onlySystem(ctx context.Context) (string, error) {
	a, err := c.do(ctx, http.MethodGet, redfishRoot, nil, "")
	if err != nil {
		return "", err
	}
	var root struct{ Systems redfishLink }
	if err := json.Unmarshal(a.body, &root); err != nil || root.Systems.ID == "" {
		return "", fmt.Errorf("%s names no Systems: is this Redfish?", redfishRoot)
	}
	if a, err = c.do(ctx, http.MethodGet, root.Systems.ID, nil, ""); err != nil {
		return "", err
	}
	var list struct{ Members []redfishLink }
	if err := json.Unmarshal(a.body, &list); err != nil {
		return "", errors.New("the list of systems cannot be read")
	}
	if len(list.Members) != 1 || list.Members[0].ID == "" {
		var ids []string
		for _, m := range list.Members[:min(len(list.Members), 8)] {
			ids = append(ids, m.ID)
		}
		return "", fmt.Errorf("the controller has %d systems, not one: set system (%s): %w", len(list.Members), c.clean.Line(strings.Join(ids, ", ")), ErrCannot)
	}
	return list.Members[0].ID, nil
}

// reset finds where ForceOff is posted to, and that it is allowed.
func (c *redfishCall) reset(ctx context.Context, s redfishSystem) (string, error) {
	if s.Actions.Reset.Target == "" {
		return "", fmt.Errorf("the system has no #ComputerSystem.Reset: %w", ErrCannot)
	}
	allowed := s.Actions.Reset.Allowed
	if info := s.Actions.Reset.Info; len(allowed) == 0 && info != "" {
		a, err := c.do(ctx, http.MethodGet, info, nil, "")
		if err != nil {
			return "", err
		}
		allowed = readActionInfo(a.body)
	}
	if len(allowed) > 0 && !slices.Contains(allowed, forceOff) {
		return "", fmt.Errorf("ForceOff is not among what the system allows (%s): %w", c.clean.Line(strings.Join(allowed, ", ")), ErrCannot)
	}
	return s.Actions.Reset.Target, nil
}
