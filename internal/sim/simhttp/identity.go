package simhttp

import (
	"encoding/json"
	"net/http"
	"strings"
)

// identity is Keystone v3.
func (s *Server) identity(r *request) reply {
	switch {
	case r.is(1, "GET", ""):
		return ok(object{"version": identityVersion(r)})
	case r.is(1, "POST", "auth/tokens"):
		return s.authenticate(r)
	}
	if r.token == nil {
		return unauthorized()
	}
	switch {
	case r.is(1, "GET", "auth/tokens"):
		subject := s.tokens.valid(r.header.Get("X-Subject-Token"))
		if subject == nil {
			return identityError(http.StatusNotFound, "Could not recognize Fernet token")
		}
		if subject.id != r.token.id && !r.token.admin() {
			return identityError(http.StatusForbidden, "You are not authorized to perform the requested action: identity:validate_token.")
		}
		return s.showToken(r, subject, http.StatusOK)
	case r.is(1, "DELETE", "auth/tokens"):
		s.tokens.revoke(r.header.Get("X-Subject-Token"))
		return reply{status: http.StatusNoContent}
	case r.is(1, "GET", "auth/projects"):
		list := []object{}
		for _, p := range projects {
			if r.token.user.roles[p.name] != nil {
				list = append(list, object{"id": p.id, "name": p.name, "domain_id": "default", "enabled": true, "is_domain": false})
			}
		}
		return ok(object{"projects": list, "links": object{"self": r.base + "/v3/auth/projects", "next": nil, "previous": nil}})
	case r.is(1, "GET", "auth/catalog"):
		return ok(object{"catalog": s.catalog(r), "links": object{"self": r.base + "/v3/auth/catalog"}})
	}
	return identityError(http.StatusNotFound, "The resource could not be found.")
}

func identityVersion(r *request) object {
	return object{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []object{{"rel": "self", "href": r.base + "/v3/"}},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func identityVersions(r *request) reply {
	return reply{status: http.StatusMultipleChoices, body: object{"versions": object{"values": []object{identityVersion(r)}}}}
}

func identityError(status int, text string) reply {
	return reply{status: status, body: object{"error": object{"code": status, "title": http.StatusText(status), "message": text}}}
}

// unauthorized is the answer of Keystone, and of the middleware before Nova, to a missing or bad token.
func unauthorized() reply {
	out := identityError(http.StatusUnauthorized, "The request you have made requires authentication.")
	out.header = map[string]string{"WWW-Authenticate": "Keystone uri=\"/v3\""}
	return out
}

// named is a reference by id or by name; the only domain is the default one.
type named struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Domain *named `json:"domain"`
}

func (n *named) is(id, name string) bool {
	if n.ID != "" {
		return n.ID == id
	}
	d := n.Domain
	// Keystone finds a domain by name without regard to case on MySQL, and masakari.conf's default is "default".
	inDefault := d != nil && (d.ID == "default" || strings.EqualFold(d.Name, "Default"))
	return n.Name == name && inDefault
}

type authRequest struct {
	Auth struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password struct {
				User struct {
					named
					Password string `json:"password"`
				} `json:"user"`
			} `json:"password"`
			Token struct {
				ID string `json:"id"`
			} `json:"token"`
		} `json:"identity"`
		Scope json.RawMessage `json:"scope"` // an object, or "unscoped"
	} `json:"auth"`
}

func (s *Server) authenticate(r *request) reply {
	var in authRequest
	if err := json.Unmarshal(r.body, &in); err != nil || len(in.Auth.Identity.Methods) != 1 {
		return identityError(http.StatusBadRequest, "Expecting to find auth in request body: password or token.")
	}
	t := token{methods: in.Auth.Identity.Methods}
	switch t.methods[0] {
	case "password":
		for _, u := range users {
			if asked := in.Auth.Identity.Password.User; asked.is(u.id, u.name) && asked.Password == password {
				t.user = u
			}
		}
	case "token":
		if old := s.tokens.valid(in.Auth.Identity.Token.ID); old != nil {
			t.user, t.methods = old.user, old.methods
		}
	}
	if t.user == nil || !t.scope(in.Auth.Scope) {
		return unauthorized()
	}
	return s.showToken(r, s.tokens.issue(t), http.StatusCreated)
}

// scope gives the token its roles; false when its user has none there.
func (t *token) scope(raw json.RawMessage) bool {
	var scope struct {
		Project *named          `json:"project"`
		System  json.RawMessage `json:"system"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &scope) != nil { // none, or "unscoped"
		return true
	}
	switch {
	case scope.Project != nil:
		for i, p := range projects {
			if scope.Project.is(p.id, p.name) {
				t.project, t.roles = &projects[i], t.user.roles[p.name]
			}
		}
	case scope.System != nil:
		t.system, t.roles = true, t.user.system
	}
	return len(t.roles) > 0
}

func (s *Server) showToken(r *request, t *token, status int) reply {
	body := object{
		"methods": t.methods, "audit_ids": []string{t.id[6:28]},
		"user":      object{"id": t.user.id, "name": t.user.name, "domain": defaultDomain, "password_expires_at": nil},
		"issued_at": t.issued.Format("2006-01-02T15:04:05.000000Z"), "expires_at": t.expires.Format("2006-01-02T15:04:05.000000Z"),
	}
	if len(t.roles) > 0 {
		var roles []object
		for _, name := range t.roles {
			roles = append(roles, object{"id": "role-" + name, "name": name})
		}
		body["roles"] = roles
		if !r.query.Has("nocatalog") {
			body["catalog"] = s.catalog(r)
		}
	}
	switch {
	case t.project != nil:
		body["project"] = object{"id": t.project.id, "name": t.project.name, "domain": defaultDomain}
		body["is_domain"] = false
	case t.system:
		body["system"] = object{"all": true}
	}
	return reply{status: status, header: map[string]string{"X-Subject-Token": t.id, "Vary": "X-Auth-Token"}, body: object{"token": body}}
}

var defaultDomain = object{"id": "default", "name": "Default"}

func (s *Server) catalog(r *request) []object {
	var out []object
	for _, service := range []struct{ kind, name, url string }{
		{"identity", "keystone", r.base + "/v3"}, {"compute", "nova", r.base + "/compute/v2.1"}, {"placement", "placement", r.base + "/placement"},
		{"instance-ha", "masakari", s.opt.HA},
	} {
		if service.url == "" {
			continue
		}
		var endpoints []object
		for _, face := range []string{"public", "internal", "admin"} {
			endpoints = append(endpoints, object{
				"id": service.name + "-" + face, "interface": face, "region": "RegionOne", "region_id": "RegionOne", "url": service.url,
			})
		}
		out = append(out, object{"id": service.name, "type": service.kind, "name": service.name, "endpoints": endpoints})
	}
	return out
}
