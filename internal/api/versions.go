package api

import (
	"net/http"

	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/wire"
)

// showVersion needs a valid token and no more.
func showVersion(_ *api, c *call) (any, error) { return wire.VersionDocument(c.base), nil }

func showVersionByID(a *api, c *call) (any, error) {
	if !wire.IsVersionID(c.params["id"]) {
		return nil, errNoResource
	}
	return showVersion(a, c)
}

var errNoResource = faultf(http.StatusNotFound, "The resource could not be found.")

func listExtensions(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("extensions", "index")); err != nil {
		return nil, err
	}
	return wire.ExtensionList{Extensions: a.discoverable(c)}, nil
}

func showExtension(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.Rule("extensions", "detail")); err != nil {
		return nil, err
	}
	for _, e := range a.discoverable(c) {
		if e.Alias == c.params["id"] {
			return wire.ExtensionBody{Extension: e}, nil
		}
	}
	return nil, errNoResource
}

// discoverable are the extensions that the policy does not hide.
func (a *api) discoverable(c *call) []wire.Extension {
	visible := []wire.Extension{}
	for _, e := range wire.Extensions() {
		if a.policy.Allows(policy.Rule(e.Alias, "discoverable"), c.user) {
			visible = append(visible, e)
		}
	}
	return visible
}
