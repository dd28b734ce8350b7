package simhttp

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// unlimited is the inventory of a class on a host whose capacity is not bounded.
const unlimited = 1 << 20

// candidates are the providers that have room for resources=CLASS:AMOUNT,…, enabled or not, up or not. The simulator's hosts have as
// many VCPUs as instances that they can hold, and 512 MB and 1 GB for each; they have no traits.
func (s *Server) candidates(r *request) reply {
	resources := r.query.Get("resources")
	if resources == "" {
		return placementError(http.StatusBadRequest, "JSON does not validate: 'resources' is a required property")
	}
	asked := map[string]int{}
	for part := range strings.SplitSeq(resources, ",") {
		class, amount, ok := strings.Cut(part, ":")
		n, err := strconv.Atoi(amount)
		if !ok || err != nil || n < 1 {
			return placementError(http.StatusBadRequest, fmt.Sprintf("Badly formed resources parameter. Expected resources query string parameter in form: ?resources=VCPU:2,MEMORY_MB:1024. Got: %s.", part))
		}
		asked[class] = n
	}
	limit := unlimited
	if text := r.query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return placementError(http.StatusBadRequest, "Invalid query string parameters")
		}
		limit = n
	}
	requests, summaries := []object{}, object{}
	required := false
	for trait := range strings.SplitSeq(r.query.Get("required"), ",") {
		required = required || trait != "" && !strings.HasPrefix(trait, "!")
	}
	slots := s.cloud.Capacity()
	if slots == 0 {
		slots = unlimited
	}
	for _, p := range s.cloud.Providers() {
		shown, fits := object{}, !required && len(requests) < limit
		for class, each := range map[string]int{"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1} {
			shown[class] = object{"capacity": slots * each, "used": p.Allocated * each}
			fits = fits && asked[class] <= (slots-p.Allocated)*each
		}
		for class := range asked {
			_, has := shown[class]
			fits = fits && has
		}
		if !fits {
			continue
		}
		requests = append(requests, object{"allocations": object{p.UUID: object{"resources": asked}}})
		summaries[p.UUID] = object{"resources": shown, "traits": []string{}, "parent_provider_uuid": nil, "root_provider_uuid": p.UUID}
	}
	return ok(object{"allocation_requests": requests, "provider_summaries": summaries})
}
