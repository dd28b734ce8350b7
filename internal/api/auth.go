package api

import (
	"net/http"

	"github.com/salvor-ha/salvor/internal/policy"
)

// Authenticator finds out who sends a request. ok is false for somebody unknown (401); an error means that it cannot be
// told now (503). IsAdmin is left to the policy, unless the authenticator knows no policy.
type Authenticator interface {
	Authenticate(r *http.Request) (id policy.Identity, ok bool, err error)
}

// NoAuth is auth_strategy = noauth2 (contract 4.2): everybody is admin, and is whom the headers say.
type NoAuth struct{}

// Authenticate believes the client.
func (NoAuth) Authenticate(r *http.Request) (policy.Identity, bool, error) {
	id := policy.Identity{UserID: r.Header.Get("X-User-Id"), Roles: []string{"admin"}, IsAdmin: true}
	for _, name := range []string{"X-Project-Id", "X-Tenant-Id", "X-Tenant"} {
		if id.ProjectID == "" {
			id.ProjectID = r.Header.Get(name)
		}
	}
	return id, true, nil
}
