package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Login is an account in Keystone, as the variables OS_* of an openrc file name it. Either Token, or an application
// credential's Secret and its ID, or its name and the user, or Username and Password with their project or system scope.
type Login struct {
	AuthURL                        string // with or without /v3
	Token                          string
	Username, UserID, Password     string
	UserDomain, UserDomainID       string // name or id; neither is the domain default
	Project, ProjectID             string
	ProjectDomain, ProjectDomainID string // of Project, as UserDomain
	SystemScope                    string // "all"
	CredentialID, CredentialName   string
	CredentialSecret               string
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
		Username: env["OS_USERNAME"], UserID: env["OS_USER_ID"], Password: env["OS_PASSWORD"],
		UserDomain: first("OS_USER_DOMAIN_NAME", "OS_DEFAULT_DOMAIN"), UserDomainID: env["OS_USER_DOMAIN_ID"],
		Project: first("OS_PROJECT_NAME", "OS_TENANT_NAME"), ProjectID: first("OS_PROJECT_ID", "OS_TENANT_ID"),
		ProjectDomain: first("OS_PROJECT_DOMAIN_NAME", "OS_DEFAULT_DOMAIN"), ProjectDomainID: env["OS_PROJECT_DOMAIN_ID"],
		SystemScope: env["OS_SYSTEM_SCOPE"], CredentialID: env["OS_APPLICATION_CREDENTIAL_ID"],
		CredentialName: env["OS_APPLICATION_CREDENTIAL_NAME"], CredentialSecret: env["OS_APPLICATION_CREDENTIAL_SECRET"], Region: env["OS_REGION_NAME"], Interface: env["OS_INTERFACE"],
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

// LoginError says that Keystone gave no token: Err is a *wire.Fault when it refused, an *UnreachableError when it did not
// answer.
type LoginError struct {
	URL string
	Err error
}

func (e *LoginError) Error() string {
	return fmt.Sprintf("logging in at Keystone %s: %v", e.URL, e.Err)
}
func (e *LoginError) Unwrap() error { return e.Err }

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
	var regions []string
	for _, s := range k.catalog {
		if s.Type != serviceType {
			continue
		}
		for _, e := range s.Endpoints {
			switch {
			case e.Interface != k.login.Interface:
			case k.login.Region == "" || e.Region == k.login.Region:
				return e.URL, nil
			default:
				regions = append(regions, e.Region)
			}
		}
	}
	if len(regions) > 0 {
		return "", fmt.Errorf("Keystone's catalog has no %s endpoint of type %s in region %q, but in %s: correct OS_REGION_NAME, or region_name in clouds.yaml; or give the API's URL with --url",
			k.login.Interface, serviceType, k.login.Region, strings.Join(regions, ", "))
	}
	if len(k.catalog) == 0 && k.login.scope() == nil && k.login.CredentialID+k.login.CredentialName == "" { // Keystone gives one with a scope only
		return "", errors.New("the account's token is for no project, so Keystone gives no catalog with it: set OS_PROJECT_NAME and OS_PROJECT_DOMAIN_NAME " +
			"(or OS_SYSTEM_SCOPE=all), or project_name and project_domain_name in clouds.yaml")
	}
	return "", fmt.Errorf("Keystone's catalog has no %s endpoint of type %s: give the API's URL with --url", k.login.Interface, serviceType)
}

func (k *Keystone) authenticate(ctx context.Context) error {
	if u, err := url.Parse(k.login.AuthURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("OS_AUTH_URL, or auth_url in clouds.yaml, is %q: expected http://HOST:PORT/v3 or https://HOST/v3", strings.TrimSuffix(k.login.AuthURL, "/v3"))
	}
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
		return &LoginError{URL: k.login.AuthURL, Err: err}
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
	user := map[string]any{"id": l.UserID}
	if l.UserID == "" {
		user = map[string]any{"name": l.Username, "domain": domain(l.UserDomain, l.UserDomainID)}
	}
	named := cmp.Or(l.Username, l.UserID)
	switch {
	case l.CredentialID != "":
		return credential(map[string]any{"id": l.CredentialID, "secret": l.CredentialSecret}), nil
	case l.CredentialName != "" && named != "":
		return credential(map[string]any{"name": l.CredentialName, "secret": l.CredentialSecret, "user": user}), nil
	case l.CredentialName != "":
		return nil, fmt.Errorf("the application credential %s goes by its name: name its user, too (OS_USERNAME and OS_USER_DOMAIN_NAME, or in clouds.yaml), or give its id", l.CredentialName)
	case l.Token != "":
		return map[string]any{"methods": []string{"token"}, "token": map[string]any{"id": l.Token}}, nil
	case named == "":
		return nil, errors.New("no account for Keystone: set OS_USERNAME and OS_PASSWORD, OS_TOKEN, or an application credential, or choose a cloud of clouds.yaml with OS_CLOUD")
	case l.Password == "":
		return nil, fmt.Errorf("no password for the account %s: set OS_PASSWORD, or password in clouds.yaml or secure.yaml", named)
	default:
		user["password"] = l.Password
		return map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": user}}, nil
	}
}

func credential(of map[string]any) map[string]any {
	return map[string]any{"methods": []string{"application_credential"}, "application_credential": of}
}

// scope is what the token is to be valid for. An application credential brings its own.
func (l Login) scope() map[string]any {
	switch {
	case l.CredentialID+l.CredentialName != "":
		return nil
	case l.SystemScope != "":
		return map[string]any{"system": map[string]any{"all": true}}
	case l.ProjectID != "":
		return map[string]any{"project": map[string]any{"id": l.ProjectID}}
	case l.Project != "":
		return map[string]any{"project": map[string]any{"name": l.Project, "domain": domain(l.ProjectDomain, l.ProjectDomainID)}}
	default:
		return nil
	}
}

func domain(name, id string) map[string]any {
	switch {
	case id != "":
		return map[string]any{"id": id}
	case name != "":
		return map[string]any{"name": name}
	default:
		return map[string]any{"id": "default"} // as OpenStack's own clients do
	}
}
