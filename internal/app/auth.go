package app

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/salvor-ha/salvor/internal/api"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/keystone"
)

// withoutAuth reports whether the api is to take callers at their word: when the file says so, and for a serve that
// nobody has configured anything about authentication for.
func withoutAuth(c *config.Config, r role) bool {
	if c.API.AuthStrategy == "noauth2" {
		return true
	}
	if r != roleServe || c.IsSet("DEFAULT", "auth_strategy") {
		return false
	}
	for _, s := range c.Effective() {
		if s.Group == "keystone_authtoken" && s.Set && !s.Ignored {
			return false
		}
	}
	return c.Keystone.AuthSection == ""
}

// authenticator makes what finds out who calls. open says that it believes everybody.
func authenticator(c *config.Config, open bool, log *slog.Logger) (api.Authenticator, error) {
	if open {
		log.Warn("no authentication: whoever reaches this address is an administrator (auth_strategy = noauth2); for tests only")
		return api.NoAuth{}, nil
	}
	if missing := c.MissingKeystone(); len(missing) > 0 {
		return nil, fmt.Errorf("callers' tokens cannot be validated: set %s, or auth_strategy = noauth2 for a test on loopback",
			strings.Join(missing, ", "))
	}
	v, err := keystone.New(keystoneConfig(c))
	if err != nil {
		return nil, err // a typed nil would be an Authenticator
	}
	return v, nil
}
