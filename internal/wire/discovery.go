package wire

// The version documents (contract 5.1). keystoneauth reads id, status, version, min_version and the self link.

// MediaTypes of answers and bodies.
const (
	MediaJSON   = "application/json"
	MediaVendor = "application/vnd.openstack.masakari+json"
)

const (
	versionID      = "v1.0"
	versionStatus  = "CURRENT"
	versionUpdated = "2016-07-01T11:33:21Z"
)

// Link is a link in a version document.
type Link struct {
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
	Href string `json:"href"`
}

// MediaType is an element of media-types.
type MediaType struct {
	Base string `json:"base"`
	Type string `json:"type"`
}

// APIVersion describes the API's one major version.
type APIVersion struct {
	ID         string      `json:"id"`
	Status     string      `json:"status"`
	Version    string      `json:"version,omitempty"`
	MinVersion string      `json:"min_version,omitempty"`
	Updated    string      `json:"updated,omitempty"`
	Links      []Link      `json:"links"`
	MediaTypes []MediaType `json:"media-types,omitempty"`
}

// VersionsBody, VersionBody and ChoicesBody are the response bodies.
type (
	VersionsBody struct {
		Versions []APIVersion `json:"versions"`
	}
	VersionBody struct {
		Version APIVersion `json:"version"`
	}
	ChoicesBody struct {
		Choices []APIVersion `json:"choices"`
	}
)

func apiVersion(base string) APIVersion {
	return APIVersion{
		ID: versionID, Status: versionStatus, Version: MaxVersion.String(), MinVersion: MinVersion.String(),
		Updated: versionUpdated, Links: []Link{{Rel: "self", Href: base + "/v1/"}},
	}
}

func mediaTypes() []MediaType {
	return []MediaType{{Base: MediaJSON, Type: MediaVendor + ";version=1"}}
}

// Versions is the body of GET /. base is scheme, host and prefix under which the client sees the API.
func Versions(base string) VersionsBody { return VersionsBody{[]APIVersion{apiVersion(base)}} }

// VersionDocument is the body of GET /v1/.
func VersionDocument(base string) VersionBody {
	v := apiVersion(base)
	v.Links = append(v.Links, Link{Rel: "describedby", Type: "text/html", Href: "https://docs.openstack.org/"})
	v.MediaTypes = mediaTypes()
	return VersionBody{v}
}

// IsVersionID reports whether id names the version that VersionDocument describes.
func IsVersionID(id string) bool { return id == versionID }

// Choices is the body of the 300 for a path outside of the API.
func Choices(base, path string) ChoicesBody {
	return ChoicesBody{[]APIVersion{{
		ID: versionID, Status: versionStatus, Links: []Link{{Rel: "self", Href: base + "/v1" + path}}, MediaTypes: mediaTypes(),
	}}}
}
