package nova

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// candidatesVersion is the first whose allocation candidates name each provider's root, so that a host's inventory is summed up over
// its NUMA cells and devices.
const candidatesVersion = "1.29"

// mostCandidates is how many candidates Placement is asked for at most, as Nova's scheduler does by default.
const mostCandidates = "1000"

// Room lists the hosts that Placement offers for the needs, sorted by name, enabled or not, up or not: Placement knows resources and
// traits, not services. A host that it does not list has no room for them.
func (c *Client) Room(ctx context.Context, needs ha.Needs) ([]ha.Room, error) {
	query := url.Values{"resources": {needs.Resources}, "limit": {mostCandidates}}
	if needs.Traits != "" {
		query.Set("required", needs.Traits)
	}
	var doc struct {
		Requests []struct {
			Allocations map[string]struct{} `json:"allocations"`
		} `json:"allocation_requests"`
		Summaries map[string]struct {
			Root      string `json:"root_provider_uuid"`
			Resources map[string]struct {
				Capacity int64 `json:"capacity"`
				Used     int64 `json:"used"`
			} `json:"resources"`
		} `json:"provider_summaries"`
	}
	if err := c.placed(ctx, "candidates", "allocation_candidates", candidatesVersion, query, &doc); err != nil {
		return nil, err
	}
	rooms := map[string]*ha.Room{} // by root
	for _, r := range doc.Requests {
		for id := range r.Allocations {
			if root := doc.Summaries[id].Root; rooms[root] == nil {
				rooms[root] = &ha.Room{Free: map[string]int64{}}
			}
		}
	}
	wanted := needs.Amounts()
	for _, s := range doc.Summaries {
		room := rooms[s.Root]
		if room == nil {
			continue
		}
		for class, r := range s.Resources {
			if _, asked := wanted[class]; asked {
				room.Free[class] += max(0, r.Capacity-r.Used)
			}
		}
	}
	hosts, err := c.hostsOf(ctx, rooms)
	if err != nil {
		return nil, err
	}
	out := make([]ha.Room, 0, len(rooms))
	for root, room := range rooms {
		if room.Host = hosts[root]; room.Host != "" { // else no hypervisor: shared storage has a provider of its own
			out = append(out, *room)
		}
	}
	slices.SortFunc(out, func(a, b ha.Room) int { return strings.Compare(a.Host, b.Host) })
	return out, nil
}

// hostsOf names the compute services of hypervisors by their resource providers. The list of all of them is read once, and again when
// it lacks one.
func (c *Client) hostsOf(ctx context.Context, roots map[string]*ha.Room) (map[string]string, error) {
	c.mu.Lock()
	known := c.hypervisors
	c.mu.Unlock()
	missing := false
	for root := range roots {
		if _, ok := known[root]; !ok {
			missing = true
		}
	}
	if !missing {
		return known, nil
	}
	fresh := map[string]string{}
	_, err := eachPage(ctx, url.Values{}, func(ctx context.Context, q url.Values) ([]link, error) {
		const name, path = "hypervisors", "os-hypervisors/detail"
		var page struct {
			Hypervisors *[]struct {
				ID      string `json:"id"`
				Service struct {
					Host string `json:"host"`
				} `json:"service"`
			} `json:"hypervisors"`
			Links []link `json:"hypervisors_links"`
		}
		if err := c.get(ctx, name, path, q, &page); err != nil {
			return nil, err
		}
		if page.Hypervisors == nil {
			return nil, broken(name, path, "the answer has no list of hypervisors")
		}
		for _, h := range *page.Hypervisors {
			fresh[h.ID] = h.Service.Host
		}
		return page.Links, nil
	})
	if err != nil {
		return nil, err
	}
	for root := range roots {
		if _, ok := fresh[root]; !ok {
			fresh[root] = "" // none, which is not asked again
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hypervisors = fresh
	return fresh, nil
}
