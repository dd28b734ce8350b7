package doctor

import (
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// judgeRights says what Nova lets the account do. Readings are made; of the acts, those whose right Nova looks at before it looks for
// what does not exist.
func (f *facts) judgeRights(p Patient) []Check {
	if !f.versions.good() || f.versions.value.Used == 0 {
		return nil
	}
	l := f.login.value
	out := []Check{
		reading(l, "list services", "os_compute_api:os-services:list", f.services.asked, f.services.err),
		reading(l, "list all instances, with their host", "os_compute_api:servers:detail:get_all_tenants, os-extended-server-attributes", f.sample.asked, f.sample.err),
		reading(l, "list migrations", "os_compute_api:os-migrations:index", f.migrations.asked, f.migrations.err),
		acting(l, "force down, disable", "os_compute_api:os-services:update", f.update),
	}
	if f.services.err != nil || f.sample.err != nil {
		return out // the rest was not asked
	}
	if f.probe.ID == "" {
		out = append(out, subject{CheckRights, "evacuate"}.warn("start an instance anywhere, and run this again",
			"cannot be tried: no instance is on a host that is up"))
	} else {
		out = append(out,
			reading(l, "read an instance", "os_compute_api:servers:show, os-extended-server-attributes", f.server.asked, f.server.err),
			reading(l, "list an instance's actions", "os_compute_api:os-instance-actions:list", f.actions.asked, f.actions.err),
			acting(l, "evacuate", "os_compute_api:os-evacuate", f.evacuate))
	}
	if p.Rules.AddToAggregate {
		out = append(out, reading(l, "list aggregates", "os_compute_api:os-aggregates:index", f.aggregates.asked, f.aggregates.err),
			acting(l, "add to an aggregate", "os_compute_api:os-aggregates:add_host", f.addHost))
	}
	return append(out, untried(l))
}

func mend(l ha.Login, rule string) string {
	return "give the account the role admin, or let one of its roles (" + rolesOf(l) + ") do it by policy: " + rule
}

func reading(l ha.Login, what, rule string, asked bool, err error) Check {
	s := subject{CheckRights, what}
	switch {
	case !asked:
		return s.warn("", "not tried")
	case err == nil:
		return s.ok("done")
	case ha.StatusOf(err) == 403, strings.Contains(ha.TextOf(err), "needs the role admin"):
		return s.fail(mend(l, rule), "refused: %s", ha.TextOf(err))
	default:
		return s.fail("Nova's log says more; until it answers, every recovery waits", "no answer: %s", textOf(err))
	}
}

// acting judges an act on what does not exist: that it was not found was said after the right had been looked at.
func acting(l ha.Login, what, rule string, a answer[ha.Outcome]) Check {
	s := subject{CheckRights, what}
	switch class, status := ha.ClassOf(a.err), ha.StatusOf(a.err); {
	case !a.asked:
		return s.warn("", "not tried")
	case status == 403:
		return s.fail(mend(l, rule), "refused: %s", ha.TextOf(a.err))
	case class == ha.ClassGone, class == ha.ClassRefused && (status == 400 || status == 409):
		return s.ok("allowed: tried on what does not exist, answered %d", status)
	case a.err == nil:
		return s.warn("report this: Nova took an act on what does not exist", "taken")
	default:
		return s.fail("Nova's log says more", "no answer: %s", textOf(a.err))
	}
}

// untried are the acts that cannot be tried without touching an instance: Nova looks for it first.
func untried(l ha.Login) Check {
	s := subject{CheckRights, "lock, unlock, reset state, stop, start"}
	const rules = "os_compute_api:os-lock-server:lock, :unlock, :unlock:unlock_override, os-admin-actions:reset_state, servers:stop, servers:start"
	if isAdmin(l) {
		return s.ok("by the role admin, which Nova's defaults let do all of it; not tried, since that would touch an instance")
	}
	return s.warn(mend(l, rules), "not tried, since that would touch an instance; without the role admin, Nova's defaults refuse it")
}

func (f *facts) judgePlacement() []Check {
	if !f.providers.asked {
		return nil
	}
	s := subject{CheckPlacement, ""}
	switch err := f.providers.err; {
	case err == nil:
		return []Check{s.ok("shows where an instance has its resources")}
	case ha.StatusOf(err) == 403:
		return []Check{s.fail(mend(f.login.value, "placement:allocations:list, placement:resource_providers:show"), "refused: %s", ha.TextOf(err))}
	case f.login.value.Placement.URL == "":
		return nil // with the catalog
	default:
		return []Check{s.fail("check Placement, and its endpoint in the catalog", "no answer: %s", textOf(err))}
	}
}
