package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

func got[T any](v T) answer[T]        { return answer[T]{asked: true, value: v} }
func lost[T any](err error) answer[T] { return answer[T]{asked: true, err: err} }
func refused(status int, text string) error {
	class := ha.ClassRefused
	if status == 404 {
		class = ha.ClassGone
	}
	return &ha.CloudError{Class: class, Status: status, Text: text}
}

var now = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// well is a cloud in which nothing is wrong.
func well() (*facts, Patient) {
	svc := func(binary, host string) ha.Service {
		return ha.Service{Binary: binary, Host: host, Up: true, Enabled: true}
	}
	catalog := []ha.Endpoint{
		{Service: "compute", Name: "nova", Interface: "public", Region: "one", URL: "https://nova.example.com/v2.1"},
		{Service: "placement", Name: "placement", Interface: "public", Region: "one", URL: "https://placement.example.com"},
		{Service: apiType, Name: "masakari", Interface: "public", Region: "one", URL: "https://ha.example.com/v1"},
	}
	clock := ha.Clock{Told: now, Here: now, Rough: time.Millisecond}
	nobody := got(ha.Outcome{})
	nobody.err = refused(404, "could not be found")
	hosts := []ha.Host{{UUID: "1", Name: "cmp-01", SegmentUUID: "s"}, {UUID: "2", Name: "cmp-02", SegmentUUID: "s"}, {UUID: "3", Name: "cmp-03", SegmentUUID: "s"}}
	var o ha.Outlook
	for _, h := range hosts {
		o.Peers = append(o.Peers, ha.Peer{Host: h})
	}
	f := &facts{
		now:      now,
		login:    got(ha.Login{Roles: []string{"admin"}, Scope: "project service", Lasts: time.Hour, Catalog: catalog, Compute: catalog[0], Placement: catalog[1], Clock: clock}),
		versions: got(ha.NovaVersions{Low: 1, High: 93, Used: 93, Clock: clock}),
		services: got([]ha.Service{svc("nova-scheduler", "ctl"), svc("nova-conductor", "ctl"), svc(ha.BinaryCompute, "cmp-01"), svc(ha.BinaryCompute, "cmp-02"), svc(ha.BinaryCompute, "cmp-03")}),
		sample:   got([]ha.Server{{ID: "i", Host: "cmp-01"}}), probe: ha.Server{ID: "i", Host: "cmp-01"}, server: got(ha.Server{ID: "i"}),
		migrations: got([]ha.Migration{}), actions: got([]ha.ServerAction{}), providers: got([]string{"cmp-01"}), update: nobody, evacuate: nobody,
		aggregates: got([]ha.Aggregate{}), addHost: nobody,
		database: got(ha.DatabaseState{Where: "mysql db", Version: "0006", Newest: "0006", Isolation: "READ-COMMITTED", Clock: clock}),
		segments: got([]ha.Segment{{UUID: "s", Name: "rack", Enabled: true, RecoveryMethod: ha.MethodAuto}}),
		hosts:    got(hosts),
		outlooks: map[string]answer[ha.Outlook]{"s": got(o)},
		engines:  got([]ha.EngineState{{Engine: ha.Engine{Name: "e1", Version: "1"}}}), pauses: got([]ha.Pause{}),
		fencing:      map[string]answer[[]Method]{"cmp-01": got([]Method{{Name: "redfish", OK: true, At: now}})},
		apis:         map[string]answer[bool]{"https://ha.example.com/v1": got(true)},
		certificates: map[string]answer[time.Time]{"https://nova.example.com/v2.1": got(now.AddDate(1, 0, 0))},
	}
	return f, Patient{Cloud: fakeCloud{}, Fencing: fakeFencing{}, Rules: Rules{BrakePercent: 50, AddToAggregate: true, WaitEvacuation: 90 * time.Second}}
}

type fakeFencing struct{ Fencing }

// TestNothingIsWrong: of a cloud that is well, nothing is to be done.
func TestNothingIsWrong(t *testing.T) {
	f, p := well()
	for _, c := range f.judge(p) {
		if c.State != OK || c.Do != "" {
			t.Errorf("%+v", c)
		}
	}
}

// TestAnOperatorsMaintenanceIsNotCounted: of three hosts, the one that is down is on an operator's maintenance.
func TestAnOperatorsMaintenanceIsNotCounted(t *testing.T) {
	f, p := well()
	peers := f.outlooks["s"].value.Peers
	f.services.value[2].Up, f.hosts.value[0].OnMaintenance, peers[0].OnMaintenance, peers[0].Operator = false, true, true, true
	for _, c := range f.judgeSegments(p) {
		if c.State != OK {
			t.Errorf("%+v", c)
		}
	}
}

// TestRules: one thing is wrong, and one finding says so, with its mend.
func TestRules(t *testing.T) {
	const warn, fail = Warn, Fail
	for _, tt := range []struct {
		what  string
		spoil func(f *facts, p *Patient)
		state State
		check string
		says  string
		do    string
	}{
		{"no Nova", func(_ *facts, p *Patient) { p.Cloud, p.NoCloud = nil, "set os_x" }, fail, CheckKeystone, "set os_x", "no engine starts"},
		{"password", func(f *facts, _ *Patient) {
			f.login = lost[ha.Login](refused(401, "The request requires authentication"))
		}, fail, CheckKeystone, "refuses the account", "_password"},
		{"keystone away", func(f *facts, _ *Patient) { f.login = lost[ha.Login](errors.New("no connection")) }, fail, CheckKeystone, "no connection", "os_privileged_user_auth_url"},
		{"short token", func(f *facts, _ *Patient) { f.login.value.Lasts = 2 * time.Minute }, warn, CheckKeystone, "2m0s", "expiration"},
		{"too short token", func(f *facts, _ *Patient) { f.login.value.Lasts = 30 * time.Second }, fail, CheckKeystone, "before every call", "expiration"},
		{"region", func(f *facts, _ *Patient) {
			f.login.value.Compute = ha.Endpoint{Service: "compute", Name: "nova", Interface: "public", Region: "two"}
		}, fail, CheckCatalog, "no region two; there is one", "os_region_name"},
		{"interface", func(f *facts, _ *Patient) {
			f.login.value.Compute = ha.Endpoint{Service: "compute", Name: "nova", Interface: "internal", Region: "one"}
		}, fail, CheckCatalog, "no internal endpoint in region one; it has public", "nova_catalog_admin_info"},
		{"service's name", func(f *facts, _ *Patient) {
			f.login.value.Compute = ha.Endpoint{Service: "compute", Name: "compute", Interface: "public"}
		}, fail, CheckCatalog, "not called compute", "nova_catalog_admin_info"},
		{"no such type", func(f *facts, _ *Patient) {
			f.login.value.Compute = ha.Endpoint{Service: "computer", Interface: "public"}
		}, fail, CheckCatalog, "no service of type computer", "register it"},
		{"no placement", func(f *facts, _ *Patient) {
			f.login.value.Placement = ha.Endpoint{Service: "placement", Interface: "admin"}
		}, fail, CheckCatalog, "placement has no admin endpoint", "destination"},
		{"old Nova", func(f *facts, _ *Patient) { f.versions.value = ha.NovaVersions{Low: 1, High: 42} }, fail, CheckNova, "2.1 to 2.42", "2.53"},
		{"Nova of Rocky", func(f *facts, _ *Patient) { f.versions.value = ha.NovaVersions{Low: 1, High: 65, Used: 65} }, warn, CheckNova, "below 2.69", "Train"},
		{"Nova away", func(f *facts, _ *Patient) { f.versions = lost[ha.NovaVersions](errHangs) }, fail, CheckNova, "does not end", "Nova's API"},
		{"no conductor", func(f *facts, _ *Patient) { f.services.value = append(f.services.value[:1:1], f.services.value[2:]...) }, fail, CheckNova, "no nova-conductor is up (of 0)", "start it"},
		{"services forbidden", func(f *facts, _ *Patient) { f.services = lost[[]ha.Service](refused(403, "Policy doesn't allow it")) }, fail, CheckRights, "list services", "os-services:list"},
		{"no host attribute", func(f *facts, _ *Patient) {
			f.sample = lost[[]ha.Server](&ha.CloudError{Class: ha.ClassBroken, Text: "Nova does not show the host and state of server i: the account needs the role admin"})
		}, fail, CheckRights, "list all instances", "role admin"},
		{"update forbidden", func(f *facts, _ *Patient) { f.update.err = refused(403, "no") }, fail, CheckRights, "force down", "os-services:update"},
		{"evacuate forbidden", func(f *facts, _ *Patient) { f.evacuate.err = refused(403, "no") }, fail, CheckRights, "evacuate", "os-evacuate"},
		{"a proxy's 404 allows nothing", func(f *facts, _ *Patient) {
			f.evacuate.err = &ha.CloudError{Class: ha.ClassInDoubt, Status: 404, Text: "not here"}
		}, fail, CheckRights, "evacuate", "log"},
		{"taken", func(f *facts, _ *Patient) { f.evacuate.err = nil }, warn, CheckRights, "evacuate", "report this"},
		{"empty cloud", func(f *facts, _ *Patient) { f.probe, f.evacuate = ha.Server{}, answer[ha.Outcome]{} }, warn, CheckRights, "cannot be tried", "start an instance"},
		{"aggregates", func(f *facts, _ *Patient) { f.addHost.err = refused(403, "no") }, fail, CheckRights, "aggregate", "add_host"},
		{"no admin", func(f *facts, _ *Patient) { f.login.value.Roles = []string{"ha"} }, warn, CheckRights, "lock, unlock", "reset_state"},
		{"placement forbidden", func(f *facts, _ *Patient) { f.providers = lost[[]string](refused(403, "no")) }, fail, CheckPlacement, "refused", "placement:allocations"},
		{"database clock", func(f *facts, _ *Patient) { f.database.value.Clock.Told = now.Add(-90 * time.Second) }, warn, CheckClock, "behind", "NTP"},
		{"Nova's clock", func(f *facts, _ *Patient) { f.versions.value.Clock.Told = now.Add(time.Minute) }, warn, CheckClock, "ahead of", "NTP"},
		{"database away", func(f *facts, _ *Patient) { f.store.err = errors.New("connecting to db") }, fail, CheckDatabase, "connecting to db", "[database] connection"},
		{"no tables", func(f *facts, _ *Patient) { f.database.value.Version = "" }, fail, CheckDatabase, "no tables", "salvor db sync"},
		{"old tables", func(f *facts, _ *Patient) { f.database.value.Version = "0005" }, fail, CheckDatabase, "needs 0006", "salvor db sync"},
		{"lost tables", func(f *facts, _ *Patient) { f.database.value.Missing = []string{"claims"} }, fail, CheckDatabase, "claims", "backup"},
		{"read only", func(f *facts, _ *Patient) { f.database.value.Refused = []string{"UPDATE of hosts: read only"} }, fail, CheckDatabase, "UPDATE of hosts", "SELECT, INSERT"},
		{"isolation", func(f *facts, _ *Patient) { f.database.value.Isolation = "REPEATABLE-READ" }, fail, CheckDatabase, "REPEATABLE READ", "proxy"},
		{"setting", func(f *facts, _ *Patient) {
			f.database.value.Trouble = []string{"fsync = off: power loss damages it; set on"}
		}, warn, CheckDatabase, "fsync = off", "set on"},
		{"galera cut off", func(f *facts, _ *Patient) { f.database.value.Galera = &ha.GaleraState{Status: "non-Primary", Size: 3} }, fail, CheckDatabase, "takes no part", "back"},
		{"galera donor", func(f *facts, _ *Patient) {
			f.database.value.Galera = &ha.GaleraState{Status: "Primary", Ready: true, State: "Donor/Desynced", Size: 3, SyncWait: "3"}
		}, warn, CheckDatabase, "Donor/Desynced", "Synced"},
		{"galera does not wait", func(f *facts, _ *Patient) {
			f.database.value.Galera = &ha.GaleraState{Status: "Primary", Ready: true, State: "Synced", Size: 3, SyncWait: "0"}
		}, fail, CheckDatabase, "wsrep_sync_wait", "proxy"},
		{"two of three nodes", func(f *facts, _ *Patient) {
			f.database.value.Galera = &ha.GaleraState{Status: "Primary", Ready: true, State: "Synced", Size: 2, SyncWait: "3"}
		}, warn, CheckDatabase, "2 nodes", "bring the other"},
		{"no engine", func(f *facts, _ *Patient) { f.engines.value[0].Idle = time.Hour }, warn, CheckEngines, "no engine beats", "salvor engine"},
		{"paused", func(f *facts, _ *Patient) { f.pauses.value = []ha.Pause{{By: "ann", Reason: "switch"}} }, warn, CheckSegments, "paused everywhere by ann: switch", "resume"},
		{"disabled segment", func(f *facts, _ *Patient) { f.segments.value[0].Enabled = false }, warn, CheckSegments, "is disabled", "--enabled"},
		{"no hosts", func(f *facts, _ *Patient) { f.hosts.value = nil }, warn, CheckSegments, "nothing is protected", "host create"},
		{"the next is held", func(f *facts, _ *Patient) { f.services.value[2].Up = false }, warn, CheckSegments, "1 of 3 hosts are down (cmp-01): the next death is held", "bring them back"},
		{"one that salvor holds on maintenance counts, as for the brake", func(f *facts, _ *Patient) {
			peers := f.outlooks["s"].value.Peers
			f.hosts.value[0].OnMaintenance, peers[0].OnMaintenance, peers[0].Claimed = true, true, true
		}, warn, CheckSegments, "1 of 3 hosts are down (cmp-01): the next death is held", "bring them back"},
		{"one whose recovery is open counts, though Nova hears it", func(f *facts, _ *Patient) { f.outlooks["s"].value.Peers[2].OpenIncident = true },
			warn, CheckSegments, "1 of 3 hosts are down (cmp-03)", "bring them back"},
		{"a segment that cannot be looked over", func(f *facts, _ *Patient) { f.outlooks["s"] = lost[ha.Outlook](errHangs) },
			warn, CheckSegments, "whether the brake would hold the next death is not known: ", "ask again"},
		{"down", func(f *facts, _ *Patient) { f.services.value[2].Up = false }, warn, CheckHosts, "down in Nova", "look at them"},
		{"forced down", func(f *facts, _ *Patient) { f.services.value[2].ForcedDown = true }, warn, CheckHosts, "forced down", "--up"},
		{"deleted while it was forced down", func(f *facts, p *Patient) {
			svc := &f.services.value[2]
			p.Rules.DisableReason = "host failed"
			svc.Host, svc.ForcedDown, svc.Enabled, svc.DisabledReason = "cmp-09", true, false, "host failed"
		}, warn, CheckHosts, "deleted from salvor since: it looks each minute whether they are back, and takes that back then: cmp-09", "openstack compute service delete"},
		{"disabled", func(f *facts, _ *Patient) { f.services.value[2].Enabled = false }, warn, CheckHosts, "disabled in Nova", "--enable"},
		{"disabled by salvor", func(f *facts, _ *Patient) {
			f.services.value[2].Enabled, f.services.value[2].DisabledReason = false, "salvor: the host's storage failed"
		}, warn, CheckHosts, "disabled in Nova by salvor", "salvor host health HOST"},
		{"on maintenance by an operator", func(f *facts, _ *Patient) {
			f.hosts.value[0].OnMaintenance, f.outlooks["s"].value.Peers[0].Operator, f.hosts.value[1].OnMaintenance = true, true, true
		}, warn, CheckHosts, "reports of them are refused, and nobody recovers them: cmp-01", "--on-maintenance=false"},
		{"on maintenance by a recovery", func(f *facts, _ *Patient) {
			f.hosts.value[0].OnMaintenance, f.outlooks["s"].value.Peers[0].Operator, f.hosts.value[1].OnMaintenance = true, true, true
		}, warn, CheckHosts, "disabled in Nova: cmp-02", "--on-maintenance=false"},
		{"on maintenance, in a segment that is not looked over", func(f *facts, _ *Patient) {
			f.hosts.value[0].OnMaintenance, f.segments.value[0].Enabled, f.outlooks = true, false, nil
		}, warn, CheckHosts, "by a recovery, or by an operator (then reports of them are refused, and nobody recovers them): cmp-01", "--on-maintenance=false"},
		{"full name", func(f *facts, _ *Patient) { f.hosts.value[0].Name = "cmp-01.example.com" }, fail, CheckHosts, "Nova has cmp-01:", "--name cmp-01,"},
		{"short name", func(f *facts, _ *Patient) { f.services.value[2].Host = "cmp-01.example.com" }, fail, CheckHosts, "Nova has cmp-01.example.com", "--name cmp-01.example.com"},
		{"case", func(f *facts, _ *Patient) { f.hosts.value[0].Name = "CMP-01" }, fail, CheckHosts, "Nova has cmp-01", "--name cmp-01"},
		{"two domains are two hosts", func(f *facts, _ *Patient) {
			f.hosts.value[0].Name, f.services.value[2].Host = "cmp-01.a.example.com", "cmp-01.b.example.com"
		}, fail, CheckHosts, "not known to Nova: nothing", "host delete"},
		{"spare down", func(f *facts, _ *Patient) { f.hosts.value[2].Reserved, f.services.value[4].Up = true, false }, fail, CheckReserved, "cmp-03 is down", "start it"},
		{"spare enabled", func(f *facts, _ *Patient) { f.hosts.value[2].Reserved = true }, warn, CheckReserved, "the scheduler fills it", "--disable cmp-03"},
		{"spare with a reason", func(f *facts, _ *Patient) {
			f.hosts.value[2].Reserved, f.services.value[4].Enabled, f.services.value[4].DisabledReason = true, false, "disk"
		}, warn, CheckReserved, `"disk"`, "must not be used"},
		{"spare disabled by salvor", func(f *facts, _ *Patient) {
			f.hosts.value[2].Reserved, f.services.value[4].Enabled, f.services.value[4].DisabledReason = true, false, "salvor: the host's storage failed"
		}, fail, CheckReserved, "pass it over", "salvor host health cmp-03"},
		{"no spare", func(f *facts, _ *Patient) { f.segments.value[0].RecoveryMethod = ha.MethodReservedHost }, fail, CheckReserved, "reserved hosts only", "--reserved"},
		{"spares are the second way", func(f *facts, _ *Patient) { f.segments.value[0].RecoveryMethod = ha.MethodAutoPriority }, warn, CheckReserved, "no reserved host", "--reserved"},
		{"not fenced", func(f *facts, _ *Patient) { f.fencing["cmp-01"] = got([]Method(nil)) }, warn, CheckFencing, "no fencing is configured for cmp-01", "fencing_file"},
		{"fencing fails", func(f *facts, _ *Patient) { f.fencing["cmp-01"] = got([]Method{{Name: "bmc", Text: "dark"}}) }, fail, CheckFencing, "bmc: dark", "fence test"},
		{"one way is left", func(f *facts, _ *Patient) {
			f.fencing["cmp-01"] = got([]Method{{Name: "bmc", Text: "dark"}, {Name: "strip", OK: true, At: now}})
		}, warn, CheckFencing, "by strip, but not by bmc", "fence test"},
		{"old rehearsal", func(f *facts, _ *Patient) {
			f.fencing["cmp-01"] = got([]Method{{Name: "bmc", OK: true, At: now.Add(-50 * time.Hour)}})
		}, warn, CheckFencing, "50h", "fence test"},
		{"fencing hangs", func(f *facts, _ *Patient) { f.fencing["cmp-01"] = lost[[]Method](errHangs) }, fail, CheckFencing, "hangs", "fence test"},
		{"certificate ends", func(f *facts, _ *Patient) {
			f.certificates["https://nova.example.com/v2.1"] = got(now.AddDate(0, 0, 5))
		}, warn, CheckTLS, "expires on 2026-03-06", "renew"},
		{"certificate has ended", func(f *facts, _ *Patient) {
			f.certificates["https://nova.example.com/v2.1"] = got(now.AddDate(0, 0, -5))
		}, fail, CheckTLS, "has expired", "renew"},
		{"api away", func(f *facts, _ *Patient) {
			f.apis["https://ha.example.com/v1"] = lost[bool](errors.New("connection refused"))
		}, fail, CheckAPI, "connection refused", "endpoint list"},
		{"api not in the catalog", func(f *facts, _ *Patient) { f.login.value.Catalog = f.login.value.Catalog[:2] }, warn, CheckAPI, "no service instance-ha", "service create"},
	} {
		f, p := well()
		tt.spoil(f, &p)
		all := f.judge(p)
		seen := false
		for _, c := range all {
			if c.Name == tt.check && c.State == tt.state && strings.Contains(c.Subject+": "+c.Text, tt.says) {
				seen = true
				if !strings.Contains(c.Do, tt.do) {
					t.Errorf("%s: the mend %q does not say %q", tt.what, c.Do, tt.do)
				}
			}
			if strings.Contains(c.Text, "by salvor") && strings.Contains(c.Do, "--enable") {
				t.Errorf("%s: what salvor disabled is not for anybody to enable: %s", tt.what, c.Do)
			}
			if c.State != OK && c.Do == "" {
				t.Errorf("%s: no mend: %+v", tt.what, c)
			}
		}
		if !seen || Worst(all) == OK {
			t.Errorf("%s: no %s of %s says %q: %+v", tt.what, tt.state, tt.check, tt.says, all)
		}
	}
}

// fakeCloud answers everything, but hangs at one call without heeding its context.
type fakeCloud struct {
	Cloud
	hangs <-chan struct{}
}

func (c fakeCloud) Login(ctx context.Context) (ha.Login, error) {
	<-c.hangs
	return ha.Login{}, ctx.Err()
}

// TestOneThatHangsStopsNoOther: the examination ends, and says so.
func TestOneThatHangsStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		began := time.Now()
		all := Examine(t.Context(), Patient{
			Cloud: fakeCloud{hangs: release},
			Store: func(context.Context) (Store, error) { return nil, errors.New("connecting to db") },
			More: []func(context.Context) []Check{
				func(context.Context) []Check { <-release; return nil },
				func(context.Context) []Check { return []Check{{Name: "policy", State: OK, Text: "fine"}} },
			},
		}, 5*time.Second)
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("took %s", took)
		}
		for check, says := range map[string]string{CheckKeystone: "does not end", CheckDatabase: "connecting to db", "policy": "fine", "check 1": "does not end"} {
			seen := false
			for _, c := range all {
				seen = seen || c.Name == check && strings.Contains(c.Text, says)
			}
			if !seen {
				t.Errorf("no %s says %q: %+v", check, says, all)
			}
		}
	})
}

// TestHarmlessProbe: rights are tried on an instance that Nova would not evacuate in any case.
func TestHarmlessProbe(t *testing.T) {
	up := ha.Service{Binary: ha.BinaryCompute, Host: "up", Up: true}
	down := ha.Service{Binary: ha.BinaryCompute, Host: "down"}
	forced := ha.Service{Binary: ha.BinaryCompute, Host: "forced", Up: true, ForcedDown: true}
	servers := []ha.Server{{ID: "1", Host: "down"}, {ID: "2", Host: "forced"}, {ID: "3", Host: "gone"}, {ID: "4", Host: "up"}}
	if got := harmless(servers, []ha.Service{up, down, forced}); got.ID != "4" {
		t.Errorf("%+v", got)
	}
	if got := harmless(servers[:3], []ha.Service{up, down, forced}); got.ID != "" {
		t.Errorf("%+v", got)
	}
}
