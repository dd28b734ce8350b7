package doctor

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// rehearsedOnce is how old a rehearsal may be.
const rehearsedOnce = 24 * time.Hour

func (f *facts) judgeFencing(p Patient) []Check {
	s := subject{CheckFencing, ""}
	if p.Fencing == nil {
		return []Check{s.ok("not used: a host whose monitor is not sure of its death waits for an operator's word ([salvor] fencing_file)")}
	}
	var out []Check
	var none []string
	good := 0
	for _, host := range slices.Sorted(maps.Keys(f.fencing)) {
		a := f.fencing[host]
		s := subject{CheckFencing, host}
		var well, bad []string
		var oldest time.Time
		for _, m := range a.value {
			if !m.OK {
				bad = append(bad, m.Name+": "+m.Text)
				continue
			}
			well = append(well, m.Name)
			if oldest.IsZero() || m.At.Before(oldest) {
				oldest = m.At
			}
		}
		const test = "salvor fence test --host "
		switch age := f.now.Sub(oldest); {
		case errors.Is(a.err, errHangs):
			out = append(out, s.fail(test+host, "a method of %s hangs", host))
		case a.err != nil:
			out = append(out, s.fail("mend [salvor] fencing_file", "%s", textOf(a.err)))
		case len(a.value) == 0:
			none = append(none, host)
		case len(well) == 0:
			out = append(out, s.fail(test+host, "%s could not be fenced: %s", host, strings.Join(bad, "; ")))
		case len(bad) > 0:
			out = append(out, s.warn(test+host, "%s can be fenced by %s, but not by %s", host, strings.Join(well, ", "), strings.Join(bad, "; ")))
		case age > rehearsedOnce:
			out = append(out, s.warn(test+host, "fencing of %s was tried last %s ago", host, age.Round(time.Minute)))
		default:
			good++
		}
	}
	if len(none) > 0 {
		out = append(out, subject{CheckFencing, "none"}.warn("add them to [salvor] fencing_file; [] for one that is not to be fenced",
			"no fencing is configured for %s: where their monitor is not sure, an operator must confirm their death", named(none)))
	}
	if good > 0 {
		out = append(out, s.ok("every method of %d hosts was tried, all but the order, and works", good))
	}
	return out
}

func (f *facts) judgeDatabase() []Check {
	s := subject{CheckDatabase, ""}
	const away = "check [database] connection, and that the server runs: without it nothing is admitted and nothing is recovered"
	if f.store.err != nil {
		return []Check{s.fail(away, "%s", textOf(f.store.err))}
	}
	d, err := f.database.value, f.database.err
	var out []Check
	switch {
	case err != nil:
		return []Check{s.fail(away, "%s", textOf(err))}
	case d.Version == "":
		return []Check{s.fail("salvor db sync, with the same configuration", "%s has no tables of salvor's", d.Where)}
	case d.Version < d.Newest:
		out = append(out, s.fail("salvor db sync, with the same configuration", "the tables of %s are of version %s, this salvor needs %s", d.Where, d.Version, d.Newest))
	case len(d.Missing) > 0:
		return []Check{s.fail("restore the database from its backup", "%s lacks tables that its version has: %s", d.Where, named(d.Missing))}
	default:
		out = append(out, s.ok("%s, tables of version %s, the longest answer took %s", d.Where, d.Version, d.Took.Round(time.Millisecond)))
	}
	for _, r := range d.Refused {
		out = append(out, subject{CheckDatabase, "rights"}.fail("give the account SELECT, INSERT, UPDATE and DELETE on all tables, and see that the server takes writes", "%s", r))
	}
	if len(d.Refused) == 0 {
		out = append(out, subject{CheckDatabase, "rights"}.ok("the account may read and write all tables (tried, rolled back)"))
	}
	if i := strings.ToUpper(strings.ReplaceAll(d.Isolation, "-", " ")); i != "" && i != "READ COMMITTED" {
		out = append(out, subject{CheckDatabase, "isolation"}.fail("a proxy between salvor and the database that drops SET SESSION must pass it on", "sessions are %s, not READ COMMITTED as salvor sets them", i))
	}
	for _, t := range d.Trouble {
		setting, do, _ := strings.Cut(t, "; ")
		out = append(out, subject{CheckDatabase, "setting " + strings.Fields(setting)[0]}.warn(do+" in the server's configuration", "%s", setting))
	}
	return append(out, f.judgeGalera(d.Galera)...)
}

func (f *facts) judgeGalera(g *ha.GaleraState) []Check {
	s := subject{CheckDatabase, "galera"}
	switch {
	case g == nil:
		return nil
	case g.Status != "Primary" || !g.Ready:
		return []Check{s.fail("bring the node back into its cluster", "this node takes no part in its cluster: %s, ready %t, %s", g.Status, g.Ready, g.State)}
	case g.State != "Synced":
		return []Check{s.warn("wait until it is Synced, or connect to another node", "this node is %s", g.State)}
	case g.SyncWait == "0" || g.SyncWait == "":
		return []Check{s.fail("a proxy between salvor and the database that drops SET SESSION must pass it on", "wsrep_sync_wait is 0 though salvor sets it: what another node wrote is not seen")}
	case g.Size == 1 || g.Size == 2:
		return []Check{s.warn("bring the other nodes back", "the cluster has %d nodes: one more lost, and it stops", g.Size)}
	}
	return []Check{s.ok("Synced, %d nodes, wsrep_sync_wait %s", g.Size, g.SyncWait)}
}

func (f *facts) judgeEngines() []Check {
	if !f.engines.good() {
		return nil
	}
	s := subject{CheckEngines, ""}
	var alive, silent, versions []string
	for _, e := range f.engines.value {
		if e.Silent() {
			silent = append(silent, e.Name)
			continue
		}
		alive = append(alive, e.Name)
		if !slices.Contains(versions, e.Version) {
			versions = append(versions, e.Version)
		}
	}
	switch {
	case len(alive) == 0:
		return []Check{s.warn("start salvor engine, or salvor serve", "no engine beats: reports are admitted, and nothing is done about them")}
	case len(versions) > 1:
		return []Check{s.warn("finish the upgrade", "engines of different versions: %s", named(versions))}
	case len(silent) > 0:
		return []Check{s.ok("%d beat; silent, so ended or cut off: %s", len(alive), named(silent))}
	}
	return []Check{s.ok("%d beat: %s", len(alive), named(alive))}
}

// Certificates are looked at early enough to renew them.
const certificateLeft = 21 * 24 * time.Hour

// tlsURLs are the addresses with TLS that a recovery goes to.
func (f *facts) tlsURLs() []string {
	var all []string
	for _, e := range append([]ha.Endpoint{f.login.value.Compute, f.login.value.Placement}, f.login.value.Catalog...) {
		if strings.HasPrefix(e.URL, "https://") && !slices.Contains(all, e.URL) && slices.Contains(servicesWithTLS, e.Service) {
			all = append(all, e.URL)
		}
	}
	return all
}

// apiType is salvor's own service in the catalog.
const apiType = "instance-ha"

var servicesWithTLS = []string{"identity", "compute", "placement", apiType}

func (f *facts) judgeTLS() []Check {
	var out []Check
	var first time.Time
	for _, u := range slices.Sorted(maps.Keys(f.certificates)) {
		a, s := f.certificates[u], subject{CheckTLS, u}
		switch left := a.value.Sub(f.now); {
		case a.err != nil: // other checks say whether it answers; an endpoint of another network need not
		case left < 0:
			out = append(out, s.fail("renew it", "the certificate of %s has expired on %s", u, a.value.Format(time.DateOnly)))
		case left < certificateLeft:
			out = append(out, s.warn("renew it", "the certificate of %s expires on %s", u, a.value.Format(time.DateOnly)))
		case first.IsZero() || a.value.Before(first):
			first = a.value
		}
	}
	if len(out) == 0 && !first.IsZero() {
		out = append(out, subject{CheckTLS, ""}.ok("the first certificate expires on %s", first.Format(time.DateOnly)))
	}
	return out
}

// apiEndpoints are those of the catalog in the region, each address once.
func (f *facts) apiEndpoints() []ha.Endpoint {
	var all []ha.Endpoint
	region := f.login.value.Compute.Region
	for _, e := range f.login.value.Catalog {
		if e.Service == apiType && (region == "" || e.Region == region) && !slices.ContainsFunc(all, func(o ha.Endpoint) bool { return o.URL == e.URL }) {
			all = append(all, e)
		}
	}
	return all
}

func (f *facts) judgeAPI(p Patient) []Check {
	if !f.login.good() || p.Rules.SkipAPI {
		return nil
	}
	s := subject{CheckAPI, ""}
	all := f.apiEndpoints()
	if len(all) == 0 {
		return []Check{s.warn("openstack service create --name masakari instance-ha; openstack endpoint create instance-ha public http://ADDRESS:15868/v1 --region REGION",
			"Keystone's catalog has no service %s%s: monitors and clients look for salvor there", apiType, inRegion(f.login.value.Compute.Region))}
	}
	var well []string
	var out []Check
	for _, e := range all {
		if a := f.apis[e.URL]; a.good() {
			well = append(well, e.URL)
		} else {
			out = append(out, subject{CheckAPI, e.URL}.warn("is it started, and is this its address? openstack endpoint list --service instance-ha",
				"the %s endpoint %s: %s", e.Interface, e.URL, textOf(a.err)))
		}
	}
	if len(well) == 0 {
		for i := range out {
			out[i].State = Fail
		}
		return out
	}
	return append([]Check{s.ok("answers at %s", strings.Join(well, ", "))}, out...)
}
