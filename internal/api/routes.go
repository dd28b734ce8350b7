package api

import (
	"net/http"
	"strings"

	"github.com/salvor-ha/salvor/internal/wire"
)

// action carries out a routed request and returns the body of its success.
type action func(a *api, c *call) (any, error)

// route is one line of the table. A path is matched element by element; {name} takes any element that is not empty. A
// route without do is known but not allowed: 405 with the action's name.
type route struct {
	method string
	path   []string
	op     wire.Op
	status int // of success
	do     action
}

// routes is the table (contract 1.1). Earlier lines win, so that `new` is no id.
func routes() []route {
	version := wire.Op{Resource: "versions", Action: "show"}
	table := []route{
		{http.MethodGet, nil, version, http.StatusOK, showVersion},
		{http.MethodGet, []string{""}, version, http.StatusOK, showVersion},
	}
	const segment, notification = "segments/{segment_id}/hosts", "notifications/{notification_id}/vmoves"
	for _, rows := range [][]route{
		resource("versions", "versions", http.StatusOK, map[string]action{"show": showVersionByID}),
		resource("extensions", "extensions", http.StatusOK, map[string]action{"index": listExtensions, "show": showExtension}),
		resource("segments", "segments", http.StatusCreated, map[string]action{
			"index": listSegments, "create": createSegment, "show": showSegment, "update": updateSegment, "delete": deleteSegment,
		}, "action"),
		resource("hosts", segment, http.StatusCreated, map[string]action{
			"index": listHosts, "create": createHost, "show": showHost, "update": updateHost, "delete": deleteHost,
		}),
		resource("notifications", "notifications", http.StatusAccepted, map[string]action{
			"index": listNotifications, "create": createNotification, "show": showNotification,
		}, "action"),
		resource("vmoves", notification, http.StatusOK, map[string]action{"index": listVMoves, "show": showVMove}),
		extRoutes(), blobRoutes(),
	} {
		table = append(table, rows...)
	}
	return table
}

// resource is the conventional lines of a collection: those whose action is not in the map are there, and not allowed.
// created is the status of a successful create; members are further actions by POST on a member.
func resource(name, path string, created int, actions map[string]action, members ...string) []route {
	collection := strings.Split(path, "/")
	below := func(elements ...string) []string {
		return append(collection[:len(collection):len(collection)], elements...)
	}
	line := func(method string, path []string, act string, status int) route {
		return route{method, path, wire.Op{Resource: name, Action: act}, status, actions[act]}
	}
	rows := []route{
		line(http.MethodGet, collection, "index", http.StatusOK),
		line(http.MethodPost, collection, "create", created),
		line(http.MethodGet, below("new"), "new", http.StatusOK),
		line(http.MethodGet, below("{id}"), "show", http.StatusOK),
		line(http.MethodPut, below("{id}"), "update", http.StatusOK),
		line(http.MethodDelete, below("{id}"), "delete", http.StatusNoContent),
		line(http.MethodGet, below("{id}", "edit"), "edit", http.StatusOK),
	}
	for _, m := range members {
		rows = append(rows, line(http.MethodPost, below("{id}", m), m, http.StatusOK))
	}
	return rows
}

// extRoutes are salvor's own.
func extRoutes() []route {
	line := func(method, path, act string, status int, do action) route {
		return route{method, strings.Split("ext/"+path, "/"), wire.Op{Resource: "ext", Action: act}, status, do}
	}
	const unit = "recoveries/{notification_id}"
	rows := []route{
		line(http.MethodGet, unit, "show", http.StatusOK, showRecovery),
		line(http.MethodPost, unit+"/vmoves/{id}/retry", "retry", http.StatusAccepted, wishForMove),
		line(http.MethodPost, "hosts/{host}/confirm-off", "confirm-off", http.StatusAccepted, confirmOff),
	}
	rows = append(rows,
		line(http.MethodGet, "coverage", "coverage", http.StatusOK, listCoverage),
		line(http.MethodGet, "hosts/{host}/plan", "plan", http.StatusOK, showPlan),
		line(http.MethodGet, "engines", "engines", http.StatusOK, listEngines),
		line(http.MethodGet, "pauses", "pauses", http.StatusOK, listPauses))
	for _, order := range []string{"pause", "resume"} {
		rows = append(rows, line(http.MethodPost, order, order, http.StatusAccepted, pauseOrResume),
			line(http.MethodPost, "segments/{segment_id}/"+order, order, http.StatusAccepted, pauseOrResume))
	}
	for _, wish := range []string{"cancel", "hold", "release", "retry"} {
		rows = append(rows, line(http.MethodPost, unit+"/"+wish, wish, http.StatusAccepted, wishForRecovery))
	}
	rows = append(rows, storageRoutes(line)...)
	return rows
}

// match finds the route of a path below /v1, with or without a project id in front, and the path's parameters. The last
// element may end in .json or .xml, which says nothing.
func (a *api) match(method, path string) (rt *route, params map[string]string, project string) {
	var elements []string
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		elements = strings.Split(rest, "/")
	}
	if n := len(elements) - 1; n >= 0 {
		elements[n] = withoutSuffix(elements[n])
	}
	if rt, params = a.find(method, elements); rt != nil {
		return rt, params, ""
	}
	if len(elements) < 2 || elements[1] == "" || !a.projectID.MatchString(elements[0]) {
		return nil, nil, ""
	}
	rt, params = a.find(method, elements[1:])
	return rt, params, elements[0]
}

func withoutSuffix(element string) string {
	for _, suffix := range []string{".json", ".xml"} {
		if name, ok := strings.CutSuffix(element, suffix); ok && name != "" {
			return name
		}
	}
	return element
}

func (a *api) find(method string, elements []string) (*route, map[string]string) {
	for i := range a.routes {
		if rt := &a.routes[i]; rt.method == method && rt.fits(elements) {
			params := rt.params(elements)
			return rt, params
		}
	}
	return nil, nil
}

func (rt *route) fits(elements []string) bool {
	if len(rt.path) != len(elements) {
		return false
	}
	for i, p := range rt.path {
		if isParam := strings.HasPrefix(p, "{"); isParam && elements[i] == "" || !isParam && p != elements[i] {
			return false
		}
	}
	return true
}

// params are the elements of a path that fits, by the names that the route gives them.
func (rt *route) params(elements []string) map[string]string {
	params := map[string]string{}
	for i, p := range rt.path {
		if name, isParam := strings.CutPrefix(p, "{"); isParam {
			params[strings.TrimSuffix(name, "}")] = elements[i]
		}
	}
	return params
}
