package policy

const (
	// AdminContext decides who is admin; AdminAPI is what most rules ask for.
	AdminContext = "context_is_admin"
	AdminAPI     = "admin_api"
)

// systemReader lets administrators pass, and those who may read the whole cloud.
const systemReader = "rule:" + AdminAPI + " or (role:reader and system_scope:all)"

// Rule names an action of a resource of the API, as Masakari does: os_masakari_api:segments:index.
func Rule(resource, action string) string {
	return "os_masakari_api:" + resource + ":" + action
}

// ExtRule names an action below /v1/ext, which Masakari does not have.
func ExtRule(resource, action string) string {
	return "salvor_api:" + resource + ":" + action
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
	// They show the instances of every project: a reader of the cloud may see them, a reader of a project may not.
	for _, show := range []string{ExtRule("coverage", "index"), ExtRule("hosts", "plan")} {
		rules[show] = systemReader
	}
	ext := map[string][]string{
		"recoveries": {"detail", "cancel", "hold", "release", "retry"},
		"hosts":      {"confirm-off"},
		"agents":     {"report", "orders", "agent-key", "agent-user"},
		"health":     {"detail", "clear", "fail", "hold", "resume", "preview"},
		"episodes":   {"index", "detail", "hold", "resume"},
		"segments":   {"index", "storage-failure-action"},
		"engines":    {"index"},
		"pauses":     {"index", "pause", "resume"},
		"blobs":      {"index", "detail", "create", "rescue", "lost", "drop-location"},
		"transfers":  {"index"},
	}
	for resource, actions := range ext {
		for _, a := range actions {
			rules[ExtRule(resource, a)] = "rule:" + AdminAPI
		}
	}
	return rules
}
