package imports

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/wire"
)

// target opens an empty database of salvor's.
func target(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// take imports, and returns what was said, sorted.
func take(t *testing.T, s *store.Store, what store.Import) (store.Imported, []string) {
	t.Helper()
	var said []string
	what.Say = func(line string) { said = append(said, line) }
	r, err := s.ImportMasakari(t.Context(), what)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(said)
	return r, said
}

var every = ha.Page{Limit: 1000, Sort: []ha.Sort{{Field: ha.FieldID}}}

// TestEverySchemaVersion on every database: the same rows come over, what is bad is said by its id, and a second run changes nothing.
func TestEverySchemaVersion(t *testing.T) {
	for kind, database := range databases {
		t.Run(kind, func(t *testing.T) {
			for _, version := range versions {
				t.Run(version, func(t *testing.T) {
					from, to := database(t), database(t)
					makeMasakari(t, kind, from, version)
					s := target(t, to)
					empty := dump(t, to)
					dry, saidDry := take(t, s, store.Import{From: from, DryRun: true})
					if diff := cmp.Diff(empty, dump(t, to)); diff != "" {
						t.Errorf("a dry run wrote:\n%s", diff)
					}
					r, said := take(t, s, store.Import{From: from})
					if diff := cmp.Diff(dry, r) + cmp.Diff(saidDry, said); diff != "" {
						t.Errorf("the dry run (-) promised something else (+):\n%s", diff)
					}
					checkSaid(t, version, r, said)
					checkRows(t, version, s)
					first := dump(t, to)
					again, _ := take(t, s, store.Import{From: from})
					if diff := cmp.Diff(first, dump(t, to)); diff != "" {
						t.Errorf("a second run changed:\n%s", diff)
					}
					for _, table := range again.Tables {
						if table.Taken != 0 || table.Changed != 0 {
							t.Errorf("a second run took %+v", table)
						}
					}
					if _, err := s.CreateSegment(t.Context(), ha.Segment{UUID: uuidOf("segment", 77), Name: "new", ServiceType: "C", RecoveryMethod: ha.MethodAuto}); err != nil {
						t.Errorf("a row made after the import: %v", err) // its id must be free
					}
				})
			}
		})
	}
}

func checkSaid(t *testing.T, version string, r store.Imported, said []string) {
	t.Helper()
	moves := []store.ImportedTable{}
	want := []string{
		"changed: notifications id 3, {u:notification:3}: it was running, and is failed: imported from Masakari, which was at work on it: how far it came is not known. If it is still needed, report it again",
		"changed: notifications id 4, {u:notification:4}: it was error, and is new: imported from Masakari, where it was in error: tried again",
		"changed: notifications id 9, {u:notification:9}: it was new, and is failed: imported from Masakari, where it was open: its host is not registered any more",
		"left out: atomdetails {u:atom:5}, task PrepareHAEnabledInstancesTask: meta cannot be read: invalid character 'b' looking for beginning of object key string",
		"left out: failover_segments id 4, {u:segment:4}: recovery_method \"by_hand\" is unknown",
		"left out: hosts id 5, {u:host:5}: its segment {u:segment:9} is not there, or was left out",
		"left out: hosts id 6, {u:host:6}: its name is that of {u:host:3} (case and blanks at the end do not count): rename one of the two in Masakari",
		"left out: hosts id 7, {u:host:7}: its segment {u:segment:4} is not there, or was left out",
		"left out: notifications id 10, {u:notification:10}: payload is no JSON object: \"[]\"",
		"left out: notifications id 6, {u:notification:6}: payload is no JSON object: \"not JSON\"",
		"left out: notifications id 7, {u:notification:7}: status \"sleeping\" is unknown",
	}
	want = append(want, `on maintenance: hosts id 2, {u:host:2}, "cmp-02": nothing recovers it`)
	if text := r.String(); r.OnMaintenance != 1 || !strings.Contains(text, "--on-maintenance=false") {
		t.Errorf("%d hosts on maintenance:\n%s", r.OnMaintenance, text)
	}
	if hasVMoves(version) {
		want = append(want,
			"changed: vmoves id 2, {u:vmove:2}: it was ongoing, and is failed, as its notification is running",
			"left out: vmoves id 3, {u:vmove:3}: its notification {u:notification:4} is tried again by salvor, which makes moves of its own",
			"left out: vmoves id 4, {u:vmove:4}: its notification {u:notification:99} is not there, or was left out")
		moves = append(moves, store.ImportedTable{Name: "vmoves", Taken: 2, Left: 2, Changed: 1})
	}
	for i := range want {
		want[i] = uuids(want[i])
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("what was said (+) is not what was to be said (-):\n%s", diff)
	}
	tables := append([]store.ImportedTable{
		{Name: "failover_segments", Taken: 2, Deleted: 1, Left: 1}, {Name: "hosts", Taken: 3, Deleted: 1, Left: 3},
	}, append(moves, store.ImportedTable{Name: "notifications", Taken: 7, Left: 3, Changed: 3})...)
	if diff := cmp.Diff(tables, r.Tables); diff != "" || r.Runs != 2 || r.Unread != 1 {
		t.Errorf("%d runs, %d unread; counts:\n%s", r.Runs, r.Unread, diff)
	}
}

func checkRows(t *testing.T, version string, s *store.Store) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	segments, err := s.Segments(ctx, ha.SegmentFilter{}, every)
	must(err)
	if len(segments) != 2 || segments[0].ID != 1 || segments[0].UUID != uuidOf("segment", 1) || !segments[0].Enabled || *segments[0].Description != "grün" ||
		segments[1].Enabled || segments[1].UpdatedAt.Format("2006-01-02") != "2024-02-01" || segments[0].CreatedAt.Format("2006-01-02 15:04:05") != "2024-01-01 00:00:01" {
		t.Errorf("segments: %+v", segments)
	}
	// An imported flag of maintenance is the operator's: a report is refused.
	planned, err := s.HostByName(ctx, "cmp-02")
	must(err)
	_, err = s.Admit(ctx, ha.Report{UUID: uuidOf("notification", 500), Type: ha.TypeVM, Hostname: "cmp-02", GeneratedTime: segments[0].CreatedAt,
		Payload: ha.Payload{ha.KeyEvent: "x", ha.KeyInstanceUUID: uuidOf("instance", 9)}}, 0)
	var refused *ha.MaintenanceError
	if !planned.OnMaintenance || planned.Reserved || !errors.As(err, &refused) {
		t.Errorf("cmp-02: %+v, a report of it: %v", planned, err)
	}
	notes, err := s.Notifications(ctx, ha.NotificationFilter{}, every)
	must(err)
	var got []string
	for _, n := range notes {
		segment := "none"
		if n.SegmentUUID != nil {
			segment = *n.SegmentUUID
		}
		got = append(got, fmt.Sprint(n.ID, " ", n.Status, " ", segment))
	}
	var want []string
	for _, line := range []string{"1 finished {u:segment:1}", "2 failed {u:segment:1}", "3 failed {u:segment:1}", "4 new {u:segment:1}", "5 new {u:segment:2}", "8 ignored none", "9 failed {u:segment:3}"} {
		want = append(want, uuids(line))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notifications:\n%s", diff)
	}
	if m := notes[1].Message; hasMessage(version) != (m != nil) || m != nil && *m != "the instance vanished" {
		t.Errorf("notification 2 has message %v", m)
	}
	poll, err := s.Poll(ctx, "x")
	must(err)
	if len(poll.Fresh) != 2 { // what an engine takes up: what was new, and what was in error
		t.Errorf("an engine would take up %+v", poll.Fresh)
	}
	journal, err := s.Journal(ctx, uuidOf("notification", 1), 0, 1000)
	must(err)
	var details []string
	for _, task := range wire.NewWorkflow(journal) {
		details = append(details, fmt.Sprint(task.Name, " ", task.State, " ", task.Progress, " ", task.ProgressDetails))
	}
	if diff := cmp.Diff([]string{
		"DisableComputeServiceTask REVERTED 1 [{2024-01-03 00:00:01.500000 0.0 Disabling}]",
		"DisableComputeServiceTask SUCCESS 1 [{2024-01-03 00:00:10.500000 0.0 Disabling} {2024-01-03 00:00:11.500000 1.0 Disabled}]",
		"EvacuateInstancesTask SUCCESS 1 [{2024-01-03 00:00:20.250000 0.5 Evacuation of instance started} {2024-01-03 00:00:21.000000 1.0 completed}]",
	}, details); diff != "" {
		t.Errorf("recovery_workflow_details:\n%s", diff)
	}
	if hasVMoves(version) {
		m, err := s.VMove(ctx, uuidOf("notification", 1), uuidOf("vmove", 1))
		must(err)
		if m.ID != 1 || m.Status != ha.MoveSucceeded || *m.DestHost != "cmp-02" || m.EndTime.Second() != 9 {
			t.Errorf("vmove 1: %+v", m)
		}
	}
}

// TestDeletedToo: with Deleted, what was deleted in Masakari comes too, deleted.
func TestDeletedToo(t *testing.T) {
	from, to := databases["sqlite"](t), databases["sqlite"](t)
	makeMasakari(t, "sqlite", from, "13adff5efb9a")
	s := target(t, to)
	r, _ := take(t, s, store.Import{From: from, Deleted: true})
	if r.Tables[0].Taken != 3 || r.Tables[1].Taken != 4 || r.Tables[0].Deleted != 0 {
		t.Errorf("%+v", r.Tables)
	}
	rows := query(t, connect(t, to), "SELECT id, deleted, deleted_at FROM hosts WHERE deleted <> 0")
	if len(rows) != 1 || rows[0][0] != "4" || rows[0][1] != "4" || !strings.HasPrefix(rows[0][2], "2024-02-01") {
		t.Errorf("%v", rows)
	}
}

// TestSpellingsOfUUIDs: uuids in upper case, or without dashes, are the same uuids, as they are for MySQL, and as the API looks them up.
func TestSpellingsOfUUIDs(t *testing.T) {
	for _, kind := range []string{"sqlite", "mariadb"} {
		t.Run(kind, func(t *testing.T) {
			from, odd, to, oddly := databases[kind](t), databases[kind](t), databases["sqlite"](t), databases["sqlite"](t)
			makeMasakari(t, kind, from, "13adff5efb9a")
			makeMasakari(t, kind, odd, "13adff5efb9a")
			lettered := func(text string) string { return strings.ReplaceAll(text, "-4000-", "-4abc-") } // the fixture's have no letters
			for _, url := range []string{from, odd} {
				for _, c := range []string{"failover_segments uuid", "hosts uuid", "hosts failover_segment_id", "notifications notification_uuid", "notifications source_host_uuid",
					"notifications failover_segment_uuid", "vmoves uuid", "vmoves notification_uuid", "flowdetails parent_uuid"} {
					table, column, _ := strings.Cut(c, " ")
					run(t, connect(t, url), "UPDATE "+table+" SET "+column+" = REPLACE("+column+", '-4000-', '-4abc-')")
				}
			}
			db := connect(t, odd)
			run(t, db, "UPDATE failover_segments SET uuid = UPPER(uuid) WHERE id = 1", "UPDATE failover_segments SET uuid = REPLACE(uuid, '-', '') WHERE id = 2",
				"UPDATE hosts SET uuid = UPPER(uuid)", "UPDATE hosts SET failover_segment_id = UPPER(failover_segment_id) WHERE id = 2",
				"UPDATE notifications SET notification_uuid = UPPER(notification_uuid) WHERE id IN (1, 3)", "UPDATE notifications SET failover_segment_uuid = UPPER(failover_segment_uuid)",
				"UPDATE vmoves SET uuid = UPPER(uuid)", "UPDATE flowdetails SET parent_uuid = UPPER(parent_uuid) WHERE uuid = '"+uuidOf("flow", 1)+"'")
			take(t, target(t, to), store.Import{From: from})
			r, said := take(t, target(t, oddly), store.Import{From: odd})
			// The time of the import is the message's.
			when := regexp.MustCompile(`20[2-9]\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?`)
			now := func(s string) string {
				return when.ReplaceAllStringFunc(s, func(at string) string {
					if strings.HasPrefix(at, "2024-") {
						return at
					}
					return "now"
				})
			}
			if diff := cmp.Diff(now(dump(t, to)), now(dump(t, oddly))); diff != "" {
				t.Errorf("the plain uuids (-), and those spelt otherwise (+), %+v\n%s\n%s", r, diff, strings.Join(said, "\n"))
			}
			if want := lettered(uuids("changed: hosts id 2, {u:host:2}: lower case with dashes, as salvor spells uuids, is now its uuid, failover_segment_id")); !slices.Contains(said, want) {
				t.Errorf("not said: %s\n%s", want, strings.Join(said, "\n"))
			}
			first := dump(t, oddly)
			take(t, target(t, oddly), store.Import{From: odd})
			if diff := cmp.Diff(first, dump(t, oddly)); diff != "" {
				t.Errorf("a second run changed:\n%s", diff)
			}
		})
	}
}

// TestHalfATaskFlow: without all of TaskFlow's tables there are no details, and all else is taken; one that is not as TaskFlow writes it
// is said in words.
func TestHalfATaskFlow(t *testing.T) {
	from := databases["sqlite"](t)
	makeMasakari(t, "sqlite", from, "13adff5efb9a")
	db := connect(t, from)
	run(t, db, "UPDATE atomdetails SET meta = '[]' WHERE uuid = '"+uuidOf("atom", 1)+"'")
	_, said := take(t, target(t, databases["sqlite"](t)), store.Import{From: from})
	want := uuids("left out: atomdetails {u:atom:1}, task DisableComputeServiceTask: meta is not as TaskFlow writes it: it is a JSON array")
	if !slices.Contains(said, want) {
		t.Errorf("not said: %s\n%s", want, strings.Join(said, "\n"))
	}
	run(t, db, "DROP TABLE atomdetails")
	s := target(t, databases["sqlite"](t))
	if r, _ := take(t, s, store.Import{From: from}); r.Tables[3].Taken != 7 || !strings.Contains(r.Details, "none: ") || !strings.Contains(r.Details, "atomdetails") {
		t.Errorf("%+v", r)
	}
	_, err := s.ImportMasakari(t.Context(), store.Import{From: from, TaskFlow: from, Say: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "--taskflow") || !strings.Contains(err.Error(), "atomdetails") {
		t.Errorf("%v", err)
	}
}

// TestCutShort: an import that is ended in the middle goes on when it is run again.
func TestCutShort(t *testing.T) {
	from, to := databases["sqlite"](t), databases["sqlite"](t)
	makeMasakari(t, "sqlite", from, "13adff5efb9a")
	db := connect(t, from)
	for i := 100; i < 700; i++ {
		run(t, db, fmt.Sprintf("INSERT INTO notifications (id, created_at, updated_at, deleted, notification_uuid, generated_time, source_host_uuid, type, payload, status) "+
			"VALUES (%d, '2024-01-03 00:00:00', '2024-01-03 00:00:00', 0, '%s', '2024-01-03 00:00:00', '%s', 'COMPUTE_HOST', '{}', '%s')",
			i, uuidOf("notification", i), uuidOf("host", 1), map[bool]string{true: "odd", false: "finished"}[i == 350]))
	}
	s := target(t, to)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.ImportMasakari(ctx, store.Import{From: from, Say: func(line string) {
		if strings.Contains(line, "id 350,") {
			cancel()
		}
	}})
	if err == nil {
		t.Fatal("it was not cut short")
	}
	count := func() string { return query(t, connect(t, to), "SELECT COUNT(*) FROM notifications")[0][0] }
	if n := count(); n == "0" || n == "606" {
		t.Fatalf("%s notifications were taken before the end: that tests nothing", n)
	}
	take(t, s, store.Import{From: from})
	if n := count(); n != "606" {
		t.Errorf("%s notifications, want 606", n)
	}
}

// TestRefusals: what cannot be imported, or into, says so and what to do, and nothing is written.
func TestRefusals(t *testing.T) {
	from, to := databases["sqlite"](t), databases["sqlite"](t)
	makeMasakari(t, "sqlite", from, "13adff5efb9a")
	s := target(t, to)
	newer := databases["sqlite"](t)
	makeMasakari(t, "sqlite", newer, "aaaaaaaaaaaa")
	nothing := databases["sqlite"](t)
	run(t, connect(t, nothing), "CREATE TABLE t (i INT)")
	for _, tt := range []struct{ from, flows, want string }{
		{newer, "", "import with a newer salvor"}, {nothing, "", "no tables of Masakari's"}, {to, "", "salvor's own database"},
		{"sqlite:////nowhere/at/all.sqlite", "", "no such file"}, {"sqlite://", "", "in memory"}, {"x", "", "cannot be read"}, {from, nothing, "--taskflow"},
	} {
		_, err := s.ImportMasakari(t.Context(), store.Import{From: tt.from, TaskFlow: tt.flows, Say: func(string) {}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("from %s: %v, want %q", tt.from, err, tt.want)
		}
	}
	if err := s.BeatEngine(t.Context(), ha.Engine{Name: "ctl-1-x", Host: "ctl-1", StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ImportMasakari(t.Context(), store.Import{From: from}); err == nil || !strings.Contains(err.Error(), "ctl-1-x") {
		t.Errorf("with an engine at work: %v", err)
	}
	in, err := store.Open(t.Context(), store.Config{URL: from})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.ImportMasakari(t.Context(), store.Import{From: from}); err == nil || !strings.Contains(err.Error(), "db import-masakari --from URL") {
		t.Errorf("into Masakari's own database: %v", err)
	}
}
