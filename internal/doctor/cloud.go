package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// judge makes findings of the answers, in the order in which they are to be mended.
func (f *facts) judge(p Patient) []Check {
	return slices.Concat(
		f.judgeDatabase(), f.judgeEngines(), f.judgeKeystone(p), f.judgeCatalog(), f.judgeNova(), f.judgeClocks(), f.judgeRights(p),
		f.judgePlacement(), f.judgeSegments(p), f.judgeHosts(p), f.judgeReserved(), f.judgeFencing(p), f.judgeTLS(), f.judgeAPI(p), f.more)
}

// tokenLeast: a token is renewed 30 s before its end; one that lasts less is renewed before each call.
const (
	tokenLeast = 40 * time.Second
	tokenGood  = 5 * time.Minute
)

func (f *facts) judgeKeystone(p Patient) []Check {
	s := subject{CheckKeystone, ""}
	const account = "check [DEFAULT] os_privileged_user_name, _password, _tenant, os_user_domain_name, os_project_domain_name"
	l, err := f.login.value, f.login.err
	switch {
	case p.Cloud == nil:
		return []Check{s.fail("set it; without, no engine starts", "%s", p.NoCloud)}
	case err != nil && ha.StatusOf(err) == 401:
		return []Check{s.fail(account, "Keystone refuses the account: %s (401)", textOf(err))}
	case err != nil && ha.StatusOf(err)/100 == 4:
		return []Check{s.fail(account+", os_privileged_user_auth_url", "%s (%d)", textOf(err), ha.StatusOf(err))}
	case err != nil:
		return []Check{s.fail("check [DEFAULT] os_privileged_user_auth_url and nova_ca_certificates_file, and that Keystone runs: until then every recovery waits", "%s", textOf(err))}
	}
	lasts := l.Lasts.Round(time.Second)
	token := subject{CheckKeystone, "token"}
	out := []Check{s.ok("gives a token for %s with the roles %s", l.Scope, rolesOf(l))}
	switch {
	case lasts < tokenLeast:
		out = append(out, token.fail("raise [token] expiration in Keystone, to an hour or so", "a token lasts %s: it is renewed before every call", lasts))
	case lasts < tokenGood:
		out = append(out, token.warn("raise [token] expiration in Keystone, to an hour or so",
			"a token lasts %s, and one evacuation may take %s: Keystone is needed again and again in the middle of a recovery", lasts, p.Rules.WaitEvacuation))
	default:
		out = append(out, token.ok("lasts %s, and is renewed before its end", lasts))
	}
	return out
}

func rolesOf(l ha.Login) string {
	if len(l.Roles) == 0 {
		return "none"
	}
	return named(l.Roles)
}

// isAdmin reports the role that Nova's default rules ask for.
func isAdmin(l ha.Login) bool {
	return slices.ContainsFunc(l.Roles, func(r string) bool { return strings.EqualFold(r, "admin") })
}

// clockSlack is by how much clocks may differ: more, and times in logs cannot be put side by side, and tokens end early.
const clockSlack = 5 * time.Second

func (f *facts) judgeClocks() []Check {
	var out []Check
	for _, c := range []struct {
		of    string
		asked bool
		clock ha.Clock
	}{
		{"database", f.database.good(), f.database.value.Clock},
		{"keystone", f.login.good(), f.login.value.Clock},
		{"nova", f.versions.good(), f.versions.value.Clock},
	} {
		ahead, known := c.clock.Ahead()
		if !c.asked || !known {
			continue
		}
		s := subject{CheckClock, c.of}
		if off := ahead.Abs() - c.clock.Rough; off > clockSlack {
			way := "ahead of"
			if ahead < 0 {
				way = "behind"
			}
			out = append(out, s.warn("set both clocks by NTP", "is %s %s this machine's", ahead.Abs().Round(time.Second), way))
			continue
		}
		out = append(out, s.ok("differs from this machine's by less than %s", max(time.Second, (ahead.Abs()+c.clock.Rough).Round(time.Second))))
	}
	return out
}

func (f *facts) judgeCatalog() []Check {
	if !f.login.good() {
		return nil
	}
	l := f.login.value
	compute := subject{CheckCatalog, "compute"}
	out := []Check{compute.ok("Nova at %s", l.Compute.URL)}
	if l.Compute.URL == "" {
		why, do := lacks(l.Catalog, l.Compute)
		out = []Check{compute.fail(do, "%s", why)}
	}
	placement := subject{CheckCatalog, "placement"}
	if l.Placement.URL != "" {
		return append(out, placement.ok("Placement at %s", l.Placement.URL))
	}
	why, do := lacks(l.Catalog, l.Placement)
	return append(out, placement.fail(do+": without it the destination of an order whose answer was lost is not known", "%s", why))
}

// lacks says why the catalog has no such endpoint, and what it has instead.
func lacks(catalog []ha.Endpoint, want ha.Endpoint) (why, do string) {
	have := func(of func(ha.Endpoint) string, where func(ha.Endpoint) bool) []string {
		var all []string
		for _, e := range catalog {
			if v := of(e); where(e) && v != "" && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		return all
	}
	service := func(e ha.Endpoint) bool { return e.Service == want.Service }
	region := func(e ha.Endpoint) string { return e.Region }
	switch {
	case want.Region != "" && !slices.Contains(have(region, func(ha.Endpoint) bool { return true }), want.Region):
		return fmt.Sprintf("Keystone's catalog knows no region %s; there is %s", want.Region, named(have(region, func(ha.Endpoint) bool { return true }))),
			"correct [DEFAULT] os_region_name"
	case len(have(func(e ha.Endpoint) string { return e.Service }, service)) == 0:
		return fmt.Sprintf("Keystone's catalog has no service of type %s", want.Service),
			"register it, or correct the type in [DEFAULT] nova_catalog_admin_info"
	case want.Name != "" && !slices.Contains(have(func(e ha.Endpoint) string { return e.Name }, service), want.Name):
		return fmt.Sprintf("the service of type %s is not called %s in Keystone's catalog, but %s", want.Service, want.Name,
				named(have(func(e ha.Endpoint) string { return e.Name }, service))),
			"correct the name in [DEFAULT] nova_catalog_admin_info, or leave it empty, as in compute::publicURL"
	case want.Region != "" && !slices.Contains(have(region, service), want.Region):
		return fmt.Sprintf("the service %s is not in region %s; it is in %s", want.Service, want.Region, named(have(region, service))),
			"correct [DEFAULT] os_region_name"
	default:
		return fmt.Sprintf("the service %s has no %s endpoint%s; it has %s", want.Service, want.Interface, inRegion(want.Region),
				named(have(func(e ha.Endpoint) string { return e.Interface }, func(e ha.Endpoint) bool {
					return service(e) && (want.Region == "" || e.Region == want.Region)
				}))),
			"correct the interface in [DEFAULT] nova_catalog_admin_info, or register the endpoint"
	}
}

func inRegion(region string) string {
	if region == "" {
		return ""
	}
	return " in region " + region
}

// Microversions: what each gives.
const (
	minorServices = 53 // services by uuid, forced down and disabled by one call
	minorReason   = 73 // who locked an instance, and why
	minorCells    = 69 // a cell that is away is told apart from an empty one
)

func (f *facts) judgeNova() []Check {
	if !f.versions.asked {
		return nil
	}
	s := subject{CheckNova, ""}
	v, err := f.versions.value, f.versions.err
	offers := fmt.Sprintf("Nova offers microversions 2.%d to 2.%d", v.Low, v.High)
	switch {
	case err != nil:
		return []Check{s.fail("check Nova's API and its endpoint in the catalog: until then every recovery waits", "Nova does not answer: %s", textOf(err))}
	case v.Used == 0:
		return []Check{s.fail("salvor needs one from 2.53 on: Nova Pike or newer", "%s", offers)}
	}
	out := []Check{s.ok("%s; salvor uses 2.%d", offers, v.Used)}
	switch {
	case v.Used < minorCells:
		out[0] = s.warn("upgrade Nova to Train or newer", "%s: below 2.69 the instances of a cell that is away cannot be told from none, below 2.73 locks bear no reason", offers)
	case v.Used < minorReason:
		out[0] = s.warn("upgrade Nova to Train or newer", "%s: below 2.73 nobody sees that it was salvor who locked an instance", offers)
	}
	services := subject{CheckNova, "services"}
	if f.services.err != nil { // with the rights
		return out
	}
	for _, binary := range []string{"nova-scheduler", "nova-conductor"} {
		up, all := 0, 0
		for _, svc := range f.services.value {
			if svc.Binary == binary {
				if all++; svc.Up {
					up++
				}
			}
		}
		if up == 0 {
			out = append(out, services.fail("start it: until then every recovery waits", "no %s is up (of %d)", binary, all))
		}
	}
	if len(out) == 1 {
		out = append(out, services.ok("a scheduler and a conductor are up"))
	}
	return out
}
