package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/wire"
)

// Config says where the API is and as whom it is used.
type Config struct {
	URL  string       // of the service, with or without /v1; "": Auth says where it is
	Auth Auth         // nil: no authentication, for a server with auth_strategy = noauth2
	HTTP *http.Client // nil: one with a time limit of a minute
	// AgentKey gives a host's own key, for its agent, which goes instead of a token. It is called for each request: a new key voids the former.
	AgentKey func() (string, error)
}

// Auth gives a client what it needs of Keystone.
type Auth interface {
	// Token returns a valid token. fresh: the one given before was refused.
	Token(ctx context.Context, fresh bool) (string, error)
	// Endpoint returns the URL of the service of that type, from the catalog.
	Endpoint(ctx context.Context, serviceType string) (string, error)
}

// ServiceType is the service's type in Keystone's catalog.
const ServiceType = "instance-ha"

// maxAnswer bounds what is read of an answer. A timeline of 20,000 entries has about 6 MB.
const maxAnswer = 64 << 20

// Client is safe for concurrent use.
type Client struct {
	cfg  Config
	base string // ends in /v1; "" until the catalog was asked
}

// New returns a client. It fails on an URL that is none, and when nothing says where the API is.
func New(cfg Config) (*Client, error) {
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Timeout: time.Minute}
	}
	c := &Client{cfg: cfg}
	if cfg.URL == "" {
		if cfg.Auth == nil {
			return nil, errors.New("no URL of the API is given, and no Keystone that could be asked for it")
		}
		return c, nil
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of an API: expected http://HOST:PORT or https://HOST/PATH", cfg.URL)
	}
	c.base = versioned(cfg.URL)
	return c, nil
}

// versioned ends a service's URL in /v1, whatever the catalog has behind it: a project's id is not needed in paths.
func versioned(u string) string {
	u = strings.TrimRight(u, "/")
	if at := strings.Index(u+"/", "/v1/"); at >= 0 {
		u = u[:at]
	}
	return u + "/v1"
}

// call sends a request and reads its answer into out, if that is not nil. A refusal is a *wire.Fault inside an error that
// says what was called.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	err := c.try(ctx, method, path, in, out, false)
	var fault *wire.Fault
	if c.cfg.Auth != nil && errors.As(err, &fault) && fault.Status == http.StatusUnauthorized {
		err = c.try(ctx, method, path, in, out, true) // the token may have been revoked
	}
	return err
}

// try calls once. Only what the API itself answers, or does not, bears the name of the call: the way there is the same for all.
func (c *Client) try(ctx context.Context, method, path string, in, out any, fresh bool) error {
	base := c.base
	if base == "" {
		u, err := c.cfg.Auth.Endpoint(ctx, ServiceType)
		if err != nil {
			return err
		}
		base = versioned(u)
	}
	req, err := request(ctx, method, base+path, in)
	if err != nil {
		return err
	}
	req.Header.Set(wire.VersionHeader, wire.MaxVersion.Header())
	if c.cfg.AgentKey != nil {
		key, err := c.cfg.AgentKey()
		if err != nil {
			return err
		}
		req.Header.Set(wire.AgentKeyHeader, key)
	} else if c.cfg.Auth != nil {
		token, err := c.cfg.Auth.Token(ctx, fresh)
		if err != nil {
			return err
		}
		req.Header.Set("X-Auth-Token", token)
	}
	if _, err = send(c.cfg.HTTP, req, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// request makes a request with a JSON body, if in is not nil.
func request(ctx context.Context, method, u string, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", wire.MediaJSON)
	if in != nil {
		req.Header.Set("Content-Type", wire.MediaJSON)
	}
	return req, nil
}

// send carries a request out. Errors are a *wire.Fault with the answer's own words, *UnreachableError, *StrangerError. A redirect is not
// followed: an order would become a question whose answer looks like success, and a token, key or password go to whom it names.
func send(h *http.Client, req *http.Request, out any) (http.Header, error) {
	site := req.URL.Scheme + "://" + req.URL.Host
	direct := *h
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := direct.Do(req)
	if err != nil {
		var where *url.Error
		if errors.As(err, &where) {
			err = where.Err // it says method and URL, which the caller does
		}
		return nil, &UnreachableError{URL: site, Err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &UnreachableError{URL: site, Err: fmt.Errorf("reading the answer: %w", err)}
	}
	if resp.StatusCode/100 != 2 {
		f := faultOf(resp.StatusCode, raw)
		if f.Message == "" || resp.StatusCode/100 == 3 {
			return nil, &StrangerError{URL: site, Status: resp.StatusCode, To: redirected(resp), TLS: bytes.HasPrefix(raw, []byte("Client sent an HTTP request to an HTTPS server"))}
		}
		return nil, f
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			return nil, &StrangerError{URL: site, Status: resp.StatusCode}
		}
	}
	return resp.Header, nil
}

// redirected is the site that an answer sends to, "" for none.
func redirected(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil || resp.StatusCode/100 != 3 {
		return ""
	}
	return to.Scheme + "://" + to.Host
}

// UnreachableError says that nothing answered at the URL.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("%s does not answer: %v", e.URL, e.Err) }
func (e *UnreachableError) Unwrap() error { return e.Err }

// StrangerError says that what answers at the URL is something else.
type StrangerError struct {
	URL    string
	Status int    // HTTP
	To     string // where it redirects to, scheme and host; "": it does not
	TLS    bool   // it wants TLS, and was asked in plain HTTP
}

func (e *StrangerError) Error() string {
	if e.To != "" {
		return fmt.Sprintf("%s answers %d and redirects to %s, which is not followed", e.URL, e.Status, e.To)
	}
	return fmt.Sprintf("%s answers %d, and not as expected", e.URL, e.Status)
}

// faultOf reads a refusal. Its message is "" when it is none of the API's.
func faultOf(status int, raw []byte) *wire.Fault {
	f := &wire.Fault{}
	if err := json.Unmarshal(raw, f); (err != nil || f.Message == "") && status/100 == 5 {
		f.Message = http.StatusText(status) // a proxy's words are no JSON
	}
	if strings.Contains(f.Message, "<br />") { // of the layers below the API (contract 1.3)
		f.Message = strings.Join(strings.Fields(strings.ReplaceAll(f.Message, "<br />", " ")), " ")
	}
	f.Status = status
	return f
}
