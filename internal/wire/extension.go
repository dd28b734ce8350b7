package wire

// Extension is an element of the extensions list (contract 1.11).
type Extension struct {
	Name        string `json:"name"`
	Alias       string `json:"alias"`
	Description string `json:"description"`
	Namespace   string `json:"namespace"`
	Updated     string `json:"updated"`
	Links       []Link `json:"links"`
}

// ExtensionBody and ExtensionList are the response bodies.
type (
	ExtensionBody struct {
		Extension Extension `json:"extension"`
	}
	ExtensionList struct {
		Extensions []Extension `json:"extensions"`
	}
)

// Extensions lists them all, by alias.
func Extensions() []Extension {
	extension := func(alias, name, description string) Extension {
		return Extension{Name: name, Alias: alias, Description: description, Links: []Link{}}
	}
	return []Extension{
		extension("extensions", "Extensions", "Extension information."),
		extension("notifications", "Notifications", "Notifications support."),
		extension("os-hosts", "Hosts", "Hosts controller"),
		extension("segments", "Segments", "Segments Extension."),
		extension("versions", "Versions", "API Version information."),
		extension("vmoves", "vmoves", "vmoves controller"),
	}
}
