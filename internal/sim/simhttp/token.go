package simhttp

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

const password = "secret"

type project struct{ id, name string }

var projects = []project{
	{sim.ProjectAdmin, "admin"},
	{sim.ProjectService, "service"},
	{sim.ProjectDemo, "demo"},
}

// user is an account with its roles by project name; system is its role on the whole cloud.
type user struct {
	id, name string
	roles    map[string][]string
	system   []string
}

var (
	adminRoles  = []string{"admin", "member", "reader"}
	memberRoles = []string{"member", "reader"}
	users       = []*user{
		{id: sim.UserAdmin, name: "admin", roles: map[string][]string{"admin": adminRoles, "service": adminRoles, "demo": adminRoles}, system: adminRoles},
		{id: sim.UserMasakari, name: "masakari", roles: map[string][]string{"service": adminRoles}, system: adminRoles},
		{id: sim.UserDemo, name: "demo", roles: map[string][]string{"demo": memberRoles}},
	}
)

// token is what somebody may do until it expires. Neither project nor system: it is unscoped.
type token struct {
	id      string
	user    *user
	project *project
	system  bool
	methods []string
	roles   []string
	issued  time.Time
	expires time.Time
}

func (t *token) admin() bool { return len(t.roles) > 0 && t.roles[0] == "admin" }

func (t *token) caller() sim.Caller {
	c := sim.Caller{UserID: t.user.id, Admin: t.admin()}
	if t.project != nil {
		c.ProjectID = t.project.id
	}
	return c
}

// maxTokens bounds the store: beyond it the oldest token ends early.
const maxTokens = 10_000

type tokenStore struct {
	ttl time.Duration

	mu     sync.Mutex
	byID   map[string]*token
	issued []*token // oldest first
}

func newTokenStore(ttl time.Duration) *tokenStore {
	return &tokenStore{ttl: ttl, byID: map[string]*token{}}
}

func (s *tokenStore) issue(t token) *token {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	t.id = "gAAAAA" + hex.EncodeToString(random[:])
	t.issued = time.Now().UTC()
	t.expires = t.issued.Add(s.ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.issued) > 0 && (len(s.issued) >= maxTokens || s.issued[0].expires.Before(t.issued)) {
		delete(s.byID, s.issued[0].id)
		s.issued = s.issued[1:]
	}
	s.byID[t.id] = &t
	s.issued = append(s.issued, &t)
	return &t
}

// valid returns the token with this id, nil when there is none or it has expired.
func (s *tokenStore) valid(id string) *token {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.byID[id]
	if t == nil || time.Now().After(t.expires) {
		return nil
	}
	return t
}

func (s *tokenStore) revoke(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}
