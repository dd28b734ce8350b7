package nova

import (
	"net/http"
	"reflect"
	"testing"
)

// TestTraits: what classes of instances ask for comes with the list, from Novas that show it; no call more.
func TestTraits(t *testing.T) {
	for _, c := range []struct {
		offers, asks string
		properties   map[string]string
	}{
		{"2.93", "2.93", nil},
		{"2.96", "2.96", nil},
		{"2.100", "2.98", map[string]string{"os_type": "windows"}},
	} {
		f := newFake(t)
		f.versions = `{"version": {"id": "v2.1", "status": "CURRENT", "version": "` + c.offers + `", "min_version": "2.1"}}`
		asked := ""
		image := `{"id": "img", "links": []}`
		if c.properties != nil {
			image = `{"id": "img", "links": [], "properties": {"os_type": "windows"}}`
		}
		f.answer("GET /compute/v2.1/servers/detail", func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header.Get("X-OpenStack-Nova-API-Version")
			ok(`{"servers": [{"id": "i1", "tenant_id": "p", "image": `+image+`, "OS-EXT-SRV-ATTR:host": "compute-1", "OS-EXT-STS:vm_state": "active",
				"flavor": {"original_name": "gold.large", "vcpus": 1, "ram": 1, "extra_specs": {"hw:tier": "gold"}}}]}`)(w, r)
		})
		servers, err := f.client(t).Servers(t.Context(), "compute-1")
		if err != nil || len(servers) != 1 {
			t.Fatalf("%v, %v", servers, err)
		}
		s := servers[0]
		if asked != c.asks || s.Flavor != "gold.large" || s.ExtraSpecs["hw:tier"] != "gold" || s.Image != "img" || s.Project != "p" || !reflect.DeepEqual(s.ImageProperties, c.properties) {
			t.Errorf("a Nova of %s was asked at %s: %+v", c.offers, asked, s)
		}
	}
}
