package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Login is an account in Keystone, as the variables OS_* of an openrc file name it. Either Token, or an application
// credential's ID and Secret, or Username and Password with their project or system scope.
type Login struct {
	AuthURL                        string // with or without /v3
	Token                          string
	Username, Password             string
	UserDomain                     string // name; "" is the domain default
	Project, ProjectDomain         string // names; the domain "" is default
	ProjectID                      string
	SystemScope                    string // "all"
	CredentialID, CredentialSecret string
	Region                         string // "": any
	Interface                      string // public, internal or admin; "": public
	HTTP                           *http.Client
}

// LoginFrom reads an account from an environment of NAME=VALUE entries. ok is false when OS_AUTH_URL is not there.
func LoginFrom(environ []string) (l Login, ok bool) {
	env := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	first := func(names ...string) string {
		for _, n := range names {
			if env[n] != "" {
				return env[n]
			}
		}
		return ""
	}
	l = Login{
		AuthURL: env["OS_AUTH_URL"], Token: first("OS_TOKEN", "OS_AUTH_TOKEN"),
		Username: env["OS_USERNAME"], Password: env["OS_PASSWORD"],
		UserDomain: first("OS_USER_DOMAIN_NAME", "OS_DEFAULT_DOMAIN"), Project: first("OS_PROJECT_NAME", "OS_TENANT_NAME"),
		ProjectDomain: first("OS_PROJECT_DOMAIN_NAME", "OS_DEFAULT_DOMAIN"), ProjectID: first("OS_PROJECT_ID", "OS_TENANT_ID"),
		SystemScope: env["OS_SYSTEM_SCOPE"], CredentialID: env["OS_APPLICATION_CREDENTIAL_ID"],
		CredentialSecret: env["OS_APPLICATION_CREDENTIAL_SECRET"], Region: env["OS_REGION_NAME"], Interface: env["OS_INTERFACE"],
	}
	return l, l.AuthURL != ""
}

// Keystone is an Auth that logs in when it must, and again shortly before its token ends.
type Keystone struct {
	login Login

	mu      sync.Mutex
	token   string
	until   time.Time
	catalog []catalogService
}

type catalogService struct {
	Type      string `json:"type"`
	Endpoints []struct {
		Interface string `json:"interface"`
		Region    string `json:"region"`
		URL       string `json:"url"`
	} `json:"endpoints"`
}

// NewKeystone returns an Auth for the account; it calls Keystone when it is first asked.
func NewKeystone(l Login) *Keystone {
	if l.HTTP == nil {
		l.HTTP = &http.Client{Timeout: 30 * time.Second}
	}
	if l.Interface == "" {
		l.Interface = "public"
	}
	l.Interface = strings.TrimSuffix(l.Interface, "URL")
	l.AuthURL = strings.TrimSuffix(strings.TrimRight(l.AuthURL, "/"), "/v3") + "/v3"
	return &Keystone{login: l}
}

// Token returns a token that is valid for another minute at least.
func (k *Keystone) Token(ctx context.Context, fresh bool) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if fresh || k.token == "" || time.Until(k.until) < time.Minute {
		if err := k.authenticate(ctx); err != nil {
			return "", err
		}
	}
	return k.token, nil
}

// Endpoint finds a service in the catalog.
func (k *Keystone) Endpoint(ctx context.Context, serviceType string) (string, error) {
	if _, err := k.Token(ctx, false); err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.catalog {
		if s.Type != serviceType {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Interface == k.login.Interface && (k.login.Region == "" || e.Region == k.login.Region) {
				return e.URL, nil
			}
		}
	}
	return "", fmt.Errorf("Keystone's catalog has no %s endpoint of type %s: give the API's URL with --url", k.login.Interface, serviceType)
}

func (k *Keystone) authenticate(ctx context.Context) error {
	identity, err := k.login.identity()
	if err != nil {
		return err
	}
	auth := map[string]any{"identity": identity}
	if scope := k.login.scope(); scope != nil {
		auth["scope"] = scope
	}
	req, err := request(ctx, http.MethodPost, k.login.AuthURL+"/auth/tokens", map[string]any{"auth": auth})
	if err != nil {
		return fmt.Errorf("logging in at Keystone: %w", err)
	}
	var answer struct {
		Token struct {
			ExpiresAt time.Time        `json:"expires_at"`
			Catalog   []catalogService `json:"catalog"`
		} `json:"token"`
	}
	header, err := send(k.login.HTTP, req, &answer)
	if err != nil {
		return fmt.Errorf("logging in at Keystone %s: %w", k.login.AuthURL, err)
	}
	token := header.Get("X-Subject-Token")
	if token == "" {
		return fmt.Errorf("logging in at Keystone %s: the answer has no token", k.login.AuthURL)
	}
	k.token, k.until, k.catalog = token, answer.Token.ExpiresAt, answer.Token.Catalog
	return nil
}

// identity is the part of the request that says who logs in.
func (l Login) identity() (map[string]any, error) {
	switch {
	case l.CredentialID != "":
		return map[string]any{"methods": []string{"application_credential"},
			"application_credential": map[string]any{"id": l.CredentialID, "secret": l.CredentialSecret}}, nil
	case l.Token != "":
		return map[string]any{"methods": []string{"token"}, "token": map[string]any{"id": l.Token}}, nil
	case l.Username != "":
		user := map[string]any{"name": l.Username, "password": l.Password, "domain": domain(l.UserDomain)}
		return map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": user}}, nil
	default:
		return nil, errors.New("no account for Keystone: set OS_USERNAME and OS_PASSWORD, OS_TOKEN, or an application credential")
	}
}

// scope is what the token is to be valid for. An application credential brings its own.
func (l Login) scope() map[string]any {
	switch {
	case l.CredentialID != "":
		return nil
	case l.SystemScope != "":
		return map[string]any{"system": map[string]any{"all": true}}
	case l.ProjectID != "":
		return map[string]any{"project": map[string]any{"id": l.ProjectID}}
	case l.Project != "":
		return map[string]any{"project": map[string]any{"name": l.Project, "domain": domain(l.ProjectDomain)}}
	default:
		return nil
	}
}

func domain(name string) map[string]any {
	if name == "" {
		return map[string]any{"id": "default"} // as OpenStack's own clients do
	}
	return map[string]any{"name": name}
}
