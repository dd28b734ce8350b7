package keystone

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/salvor-ha/salvor/internal/policy"
)

// Validator answers who sends a request, by its tokens. It is the api's Authenticator for auth_strategy = keystone.
type Validator struct {
	cfg     Config
	session *session
	cache   *cache
	flights singleflight.Group
}

// New returns a validator. It does not call Keystone: that happens with the first token, so that the API starts while
// Keystone is away.
func New(cfg Config) (*Validator, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	client, err := cfg.httpClient()
	if err != nil {
		return nil, fmt.Errorf("keystone: %w", err)
	}
	return &Validator{cfg: cfg, session: &session{cfg: cfg, http: client, pause: retryPause}, cache: newCache(cfg.CacheSize)}, nil
}

// Check logs in with salvor's own account, as validating a first token would; nothing is validated.
func (v *Validator) Check(ctx context.Context) error {
	_, err := v.session.identity(ctx)
	return v.session.plain(err, "")
}

// identityHeaders are those with which keystonemiddleware tells an application who calls. From a client they are lies.
var identityHeaders = []string{
	"X-Identity-Status", "X-Service-Identity-Status", "X-Domain-Id", "X-Domain-Name", "X-Project-Id", "X-Project-Name",
	"X-Project-Domain-Id", "X-Project-Domain-Name", "X-User-Id", "X-User-Name", "X-User-Domain-Id", "X-User-Domain-Name",
	"X-Roles", "X-Role", "X-User", "X-Tenant-Id", "X-Tenant-Name", "X-Tenant", "X-Service-Catalog", "X-Is-Admin-Project",
	"Openstack-System-Scope", "X-Service-Roles", "X-Service-User-Id", "X-Service-User-Name", "X-Service-Project-Id",
	"X-Service-Project-Name", "X-Service-Domain-Id", "X-Service-Domain-Name", "X-Service-User-Domain-Id", "X-Service-User-Domain-Name",
	"X-Service-Project-Domain-Id", "X-Service-Project-Domain-Name",
}

// Authenticate reads X-Auth-Token, and X-Service-Token where there is one, and removes what the client says about itself.
// ok is false when a token is missing or not valid; an error is a *ha.UnavailableError.
func (v *Validator) Authenticate(r *http.Request) (id policy.Identity, ok bool, err error) {
	for _, name := range identityHeaders {
		r.Header.Del(name)
	}
	token := r.Header.Get("X-Auth-Token")
	if token == "" {
		return id, false, nil
	}
	byService := false
	if service := r.Header.Get("X-Service-Token"); service != "" {
		said, err := v.verdict(r.Context(), service, false)
		if err != nil || !said.valid {
			return id, false, err
		}
		byService = v.isService(said.id)
		if !byService && v.cfg.ServiceTokenRolesRequired {
			return id, false, nil
		}
	}
	said, err := v.verdict(r.Context(), token, byService)
	// A service's request is the consequence of one that was permitted.
	return said.id, said.valid && (byService || said.permits(v.cfg.ServiceType, r.Method, r.URL.Path)), err
}

// isService reports whether the identity has a role that makes its token a service's.
func (v *Validator) isService(id policy.Identity) bool {
	return slices.ContainsFunc(id.Roles, func(role string) bool {
		return slices.ContainsFunc(v.cfg.ServiceTokenRoles, func(want string) bool { return strings.EqualFold(role, want) })
	})
}

// verdict takes what is known, or asks. Requests that bring the same token at the same time share one call, which goes
// on when the one that began it is gone: others wait for it.
func (v *Validator) verdict(ctx context.Context, token string, allowExpired bool) (verdict, error) {
	k := keyOf(token, allowExpired)
	if known, ok := v.cache.get(k); ok {
		return known, nil
	}
	flight := v.flights.DoChan(string(k[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.cfg.Timeout)
		defer cancel()
		return v.ask(ctx, k, token, allowExpired)
	})
	select {
	case <-ctx.Done():
		return verdict{}, v.session.unavailable(ctx.Err(), token)
	case result := <-flight:
		if result.Err != nil {
			return verdict{}, result.Err
		}
		return result.Val.(verdict), nil
	}
}

func (v *Validator) ask(ctx context.Context, k key, token string, allowExpired bool) (verdict, error) {
	doc, valid, err := v.session.validate(ctx, token, allowExpired)
	if err != nil {
		return verdict{}, err
	}
	said := verdict{valid: valid}
	keep := min(refusedFor, v.cfg.CacheTime)
	if valid {
		said.id, said.rules, keep = doc.identity(), doc.Token.ApplicationCredential.AccessRules, v.cfg.CacheTime
	}
	until := time.Now().Add(keep)
	if valid && !allowExpired && doc.Token.ExpiresAt.Before(until) {
		until = doc.Token.ExpiresAt
	}
	v.cache.put(k, said, until)
	return said, nil
}
