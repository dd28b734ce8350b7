package policy

import "fmt"

const (
	// AdminContext decides who is admin; AdminAPI is what most rules ask for.
	AdminContext = "context_is_admin"
	AdminAPI     = "admin_api"
)

// Rule names an action of a resource of the API, as Masakari does: os_masakari_api:segments:index.
func Rule(resource, action string) string {
	return fmt.Sprintf("os_masakari_api:%s:%s", resource, action)
}

// ExtRule names an action below /v1/ext, which Masakari does not have.
func ExtRule(resource, action string) string {
	return fmt.Sprintf("salvor_api:%s:%s", resource, action)
}

// defaults are the rules that hold where no file says otherwise (contract 4.3).
func defaults() map[string]string {
	rules := map[string]string{
		AdminContext:     "role:admin",
		AdminAPI:         "is_admin:True",
		"admin_or_owner": "is_admin:True or project_id:%(project_id)s",

		Rule("versions", "index"):        "@",
		Rule("versions", "discoverable"): "@",
	}
	admin := map[string][]string{
		"segments":      {"index", "detail", "create", "update", "delete", "discoverable"},
		"os-hosts":      {"index", "detail", "create", "update", "delete", "discoverable"},
		"notifications": {"index", "detail", "create", "discoverable"},
		"vmoves":        {"index", "detail", "discoverable"},
		"extensions":    {"index", "detail", "discoverable"},
	}
	for resource, actions := range admin {
		for _, a := range actions {
			rules[Rule(resource, a)] = "rule:" + AdminAPI
		}
	}
	ext := map[string][]string{
		"recoveries": {"detail", "cancel", "hold", "release", "retry"},
		"hosts":      {"confirm-off"},
		"engines":    {"index"},
		"pauses":     {"index", "pause", "resume"},
	}
	for resource, actions := range ext {
		for _, a := range actions {
			rules[ExtRule(resource, a)] = "rule:" + AdminAPI
		}
	}
	return rules
}
