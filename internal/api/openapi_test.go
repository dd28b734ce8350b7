package api

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/testkit"
)

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// Each route with an action is an operation of openapi.yaml with the same status of success, with and without a project id,
// and each operation is a route. A line that is missing there is to be written there: the file is what users read.
func TestOpenAPIHasEveryRouteAndNoOther(t *testing.T) {
	var served, listed []string
	for _, rt := range routes() {
		if rt.do == nil {
			continue
		}
		path := "/" + strings.Join(rt.path, "/")
		line := rt.method + " " + strings.TrimSuffix(parameter.ReplaceAllString(path, "{}"), "/") + " " + strconv.Itoa(rt.status)
		if len(rt.path) == 0 || rt.path[0] == "" { // the version's document is without a project id only
			continue
		}
		served = append(served, "/v1 "+line, "/v1/{} "+line)
	}
	for path, item := range testkit.Document(t).Doc.Paths.Map() {
		rest, below := strings.CutPrefix(path, "/v1/")
		if !below || rest == "" {
			continue
		}
		base := "/v1"
		if rest, below = strings.CutPrefix(rest, "{project_id}/"); below {
			base = "/v1/{}"
		}
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if method != http.MethodOptions && strings.HasPrefix(status, "2") {
					listed = append(listed, base+" "+method+" /"+parameter.ReplaceAllString(rest, "{}")+" "+status)
				}
			}
		}
	}
	slices.Sort(served)
	slices.Sort(listed)
	if diff := cmp.Diff(listed, served); diff != "" {
		t.Errorf("openapi.yaml (-) and routes.go (+) differ:\n%s", diff)
	}
}
