package simhttp

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/sim"
)

// The microversions of the observed Nova (26.2.2, Zed).
const (
	minMinor = 1
	maxMinor = 93
)

var projectID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// compute is Nova.
func (s *Server) compute(r *request) reply {
	if r.is(1, "GET", "") {
		return reply{status: http.StatusMultipleChoices, body: object{"versions": []object{computeVersion(r)}}}
	}
	if len(r.path) < 2 || r.path[1] != "v2.1" {
		return refusal(http.StatusNotFound, "itemNotFound", "The resource could not be found.")
	}
	if r.is(2, "GET", "") {
		return ok(object{"version": computeVersion(r)})
	}
	if r.token == nil {
		return unauthorized()
	}
	minor, refused := microversion(r.header)
	if refused != nil {
		return *refused
	}
	r.minor = minor
	if len(r.path) > 2 && projectID.MatchString(r.path[2]) { // old endpoints have the project in the path
		r.path = append(r.path[:2:2], r.path[3:]...)
	}
	out := s.route(r)
	if out.header == nil {
		out.header = map[string]string{}
	}
	version := fmt.Sprintf("2.%d", minor)
	out.header["OpenStack-API-Version"] = "compute " + version
	out.header["X-OpenStack-Nova-API-Version"] = version
	out.header["Vary"] = "OpenStack-API-Version, X-OpenStack-Nova-API-Version"
	return out
}

func computeVersion(r *request) object {
	return object{
		"id": "v2.1", "status": "CURRENT", "version": fmt.Sprintf("2.%d", maxMinor), "min_version": fmt.Sprintf("2.%d", minMinor),
		"updated": "2013-07-23T11:33:21Z",
		"links": []object{
			{"rel": "self", "href": r.base + "/compute/v2.1/"},
			{"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
		},
		"media-types": []object{{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}},
	}
}

// microversion reads the version that the client asks for; without a header it is 2.1.
func microversion(h http.Header) (int, *reply) {
	asked := h.Get("X-OpenStack-Nova-API-Version")
	for entry := range strings.SplitSeq(h.Get("OpenStack-API-Version"), ",") {
		if service, version, found := strings.Cut(strings.TrimSpace(entry), " "); found && service == "compute" {
			asked = strings.TrimSpace(version)
		}
	}
	switch asked {
	case "":
		return minMinor, nil
	case "latest":
		return maxMinor, nil
	}
	major, minor, found := strings.Cut(asked, ".")
	m, errMajor := strconv.Atoi(major)
	n, errMinor := strconv.Atoi(minor)
	if !found || errMajor != nil || errMinor != nil {
		out := refusal(http.StatusBadRequest, "badRequest",
			fmt.Sprintf("API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", asked))
		return 0, &out
	}
	if m != 2 || n < minMinor || n > maxMinor {
		out := refusal(http.StatusNotAcceptable, "computeFault",
			fmt.Sprintf("Version %s is not supported by the API. Minimum is 2.%d and maximum is 2.%d.", asked, minMinor, maxMinor))
		return 0, &out
	}
	return n, nil
}

func (s *Server) route(r *request) reply {
	switch {
	case r.is(2, "GET", "servers"):
		return s.listServers(r, false)
	case r.is(2, "GET", "servers/detail"):
		return s.listServers(r, true)
	case r.is(2, "GET", "servers/*"):
		return s.getServer(r, r.path[3])
	case r.is(2, "DELETE", "servers/*"):
		return answer(s.cloud.Delete(r.who(), r.path[3]), http.StatusNoContent)
	case r.is(2, "POST", "servers/*/action"):
		return s.serverAction(r, r.path[3])
	case r.is(2, "GET", "servers/*/os-instance-actions"):
		return s.listActions(r, r.path[3])
	case r.is(2, "GET", "servers/*/os-instance-actions/*"):
		return s.getAction(r, r.path[3], r.path[5])
	case r.is(2, "GET", "os-services"):
		return s.listServices(r)
	case r.is(2, "PUT", "os-services/*") && r.minor >= 53:
		return s.putService(r, r.path[3])
	case r.is(2, "GET", "os-migrations"):
		return s.listMigrations(r)
	case r.is(2, "GET", "os-aggregates"):
		return s.listAggregates(r)
	case r.is(2, "GET", "os-aggregates/*"):
		return s.getAggregate(r, r.path[3])
	case r.is(2, "POST", "os-aggregates/*/action"):
		return s.aggregateAction(r, r.path[3])
	case r.is(2, "GET", "os-hypervisors"):
		return s.listHypervisors(r, false)
	case r.is(2, "GET", "os-hypervisors/detail"):
		return s.listHypervisors(r, true)
	case r.is(2, "GET", "os-hypervisors/*"):
		return s.getHypervisor(r, r.path[3])
	}
	return refusal(http.StatusNotFound, "itemNotFound", "The resource could not be found.")
}

// failed is Nova's answer to an error of the cloud.
func failed(err error) reply {
	var r *sim.Refusal
	if errors.As(err, &r) {
		return refusal(r.Status, r.Name, r.Text)
	}
	return refusal(http.StatusInternalServerError, "computeFault", err.Error())
}

// answer is an empty answer with the status, or the error's.
func answer(err error, status int) reply {
	if err != nil {
		return failed(err)
	}
	return reply{status: status}
}

// page reads limit and marker: no page is longer than the server's limit.
func (s *Server) page(r *request) (limit int, marker string, refused *reply) {
	limit = s.opt.PageLimit
	if text := r.query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			out := refusal(http.StatusBadRequest, "badRequest",
				fmt.Sprintf("Invalid input for query parameters limit. Value: %s. '%s' does not match '^[0-9]*$'", text, text))
			return 0, "", &out
		}
		if n > 0 {
			limit = min(limit, n)
		}
	}
	return limit, r.query.Get("marker"), nil
}

// next are the links of a full page: Nova shows one whether or not something follows.
func next(r *request, limit, length int, last string) []object {
	if length < limit {
		return nil
	}
	query := r.query
	query.Set("marker", last)
	return []object{{"rel": "next", "href": r.base + r.self + "?" + query.Encode()}}
}

// stamp and zulu are Nova's two ways to write a time.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format("2006-01-02T15:04:05.000000")
}

func zulu(t time.Time) string { return t.Format("2006-01-02T15:04:05Z") }

// null is a string that may be absent.
func null(text string) any {
	if text == "" {
		return nil
	}
	return text
}
