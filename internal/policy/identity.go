package policy

import "slices"

// Identity is who sends a request, as Keystone (or, without authentication, the client) says.
type Identity struct {
	UserID       string
	UserName     string
	UserDomainID string

	// One of these scopes is set; a token may also have none.
	ProjectID       string
	ProjectName     string
	ProjectDomainID string
	DomainID        string
	SystemScope     string // "all"

	Roles []string
	// IsAdmin is masakari's own flag: what the rule context_is_admin says of the identity.
	IsAdmin bool
}

// Name is how logs and the journal name the identity. It is never empty.
func (id Identity) Name() string {
	switch {
	case id.UserName != "":
		return id.UserName
	case id.UserID != "":
		return id.UserID
	default:
		return "unknown"
	}
}

// credential reports whether the named credential has, or holds, the value. One that is absent never does, not even
// against another absent one. To Masakari every project is an admin project, whatever the token says.
func (id Identity) credential(name, value string) bool {
	if name == "roles" {
		return slices.Contains(id.Roles, value)
	}
	got := map[string]string{
		"user_id": id.UserID, "user_domain_id": id.UserDomainID,
		"project_id": id.ProjectID, "project_domain_id": id.ProjectDomainID,
		"domain_id": id.DomainID, "system_scope": id.SystemScope, "is_admin_project": "True",
	}[name]
	return got != "" && got == value
}

// target is what every check of masakari is made against: the caller's own ids.
func (id Identity) target() map[string]string {
	t := map[string]string{}
	if id.ProjectID != "" {
		t["project_id"] = id.ProjectID
	}
	if id.UserID != "" {
		t["user_id"] = id.UserID
	}
	return t
}
