package imports

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// A badRow is one that a copy of Masakari's tables in SQLite can hold, which keeps no lengths, times or unique keys, and that a
// database of salvor's cannot, or not all of them.
type badRow struct {
	table, columns, values string // values as SQL; {u:table:id} is a uuid
	said                   string // after "left out: ", or all of it for one that is "changed: "; "" for one that is taken as it is
}

const (
	segmentColumns = "id, created_at, updated_at, deleted, uuid, name, service_type, recovery_method"
	hostColumns    = "id, created_at, deleted, uuid, name, type, control_attributes, failover_segment_id"
	noteColumns    = "id, created_at, deleted, notification_uuid, generated_time, source_host_uuid, type, payload, status"
	moveColumns    = "id, created_at, deleted, uuid, notification_uuid, instance_uuid, instance_name, start_time, status"
)

func badSegment(id int, uuid, name, updated, said string) badRow {
	return badRow{"failover_segments", segmentColumns, fmt.Sprintf("%d, '2024-01-01 00:00:00', %s, 0, %s, %s, 'COMPUTE', 'auto'", id, updated, uuid, name), said}
}

func badHost(id int, uuid, name, segment, said string) badRow {
	return badRow{"hosts", hostColumns, fmt.Sprintf("%d, '2024-01-01 00:00:00', 0, %s, %s, 'COMPUTE', 'SSH', %s", id, uuid, name, segment), said}
}

func badNote(id int, uuid, created, generated, host, payload, said string) badRow {
	return badRow{"notifications", noteColumns, fmt.Sprintf("%d, '%s', 0, %s, '%s', %s, 'COMPUTE_HOST', '%s', 'finished'", id, created, uuid, generated, host, payload), said}
}

func badMove(id int, uuid, note, start, said string) badRow {
	return badRow{"vmoves", moveColumns, fmt.Sprintf("%d, '2024-01-01 00:00:00', 0, %s, %s, '{u:instance:1}', 'vm', '%s', 'succeeded'", id, uuid, note, start), said}
}

var badRows = func() []badRow {
	const at, zero, host, note = "2024-01-03 00:00:00", "0000-01-01 00:00:00", "'{u:host:1}'", "'{u:notification:1}'"
	const years = " 0000-01-01 00:00:00 is out of range: its year must be from 1000 to 9999"
	return []badRow{
		badSegment(-7, "'{u:segment:107}'", "'minus'", "NULL", "failover_segments id -7, {u:segment:107}: id or deleted is out of range: -7, 0"),
		badSegment(100, "'seg-abc'", "'abc'", "NULL", ""),
		badSegment(101, "'{u:segment:101}'", "'abc '", "NULL",
			"failover_segments id 101, {u:segment:101}: its name is that of seg-abc (case and blanks at the end do not count): rename one of the two in Masakari"),
		badSegment(102, "'seg-abc'", "'twin'", "NULL",
			"failover_segments id 102, seg-abc: its uuid is that of id 100 too: give one of the two another in Masakari, or delete it there"),
		badSegment(103, "'seg-abc '", "'blank'", "NULL",
			"failover_segments id 103, seg-abc : uuid \"seg-abc \" ends with a blank, which MySQL does not tell from one without"),
		badSegment(104, "'{u:segment:104}'", "'old'", "'"+zero+"'", "failover_segments id 104, {u:segment:104}: updated_at"+years),
		badSegment(105, "'{u:segment:105}'", "'nu' || char(0) || 'l'", "NULL",
			`failover_segments id 105, {u:segment:105}: name "nu\x00l" holds NUL or is no valid UTF-8`),
		{"failover_segments", segmentColumns + ", description", "106, '2024-01-01 00:00:00', NULL, 0, '{u:segment:106}', 'long', 'COMPUTE', 'auto', hex(zeroblob(40000))",
			"changed: failover_segments id 106, {u:segment:106}: what no database keeps (NUL, no valid UTF-8, too many characters) was taken from its description"},
		badHost(100, host, "'other'", "'seg-abc'", "hosts id 100, {u:host:1}: its uuid is that of id 1 too: give one of the two another in Masakari, or delete it there"),
		badHost(101, "'{u:host:101}'", "'CMP-01 '", "'seg-abc'",
			"hosts id 101, {u:host:101}: its name is that of {u:host:1} (case and blanks at the end do not count): rename one of the two in Masakari"),
		badHost(102, "'{u:host:102}'", "'lost'", "'seg' || char(0)", `hosts id 102, {u:host:102}: failover_segment_id "seg\x00" holds NUL or is no valid UTF-8`),
		badHost(103, "'{u:host:103}'", "'good'", "'seg-abc'", ""),
		badNote(0, "'{u:notification:990}'", at, at, host, "{}", "notifications id 0, {u:notification:990}: id or deleted is out of range: 0, 0"),
		badNote(-5, "'{u:notification:995}'", at, at, host, "{}", "notifications id -5, {u:notification:995}: id or deleted is out of range: -5, 0"),
		badNote(100, "'{u:notification:100}'", at, at, host, `{"event": "`+strings.Repeat("<", 60000)+`"}`,
			"notifications id 100, {u:notification:100}: payload has 360012 bytes as salvor writes it, more than 65535"),
		badNote(101, "'{u:notification:101}'", at, at, host, `{"a": {"b":[`+strings.Repeat(`"c",`, 13500)+`1]}}`,
			"notifications id 101, {u:notification:101}: payload has 81019 bytes as salvor writes it, more than 65535"),
		badNote(102, "'{u:notification:102}'", zero, at, host, "{}", "notifications id 102, {u:notification:102}: created_at"+years),
		badNote(103, "'{u:notification:103}'", at, zero, host, "{}", "notifications id 103, {u:notification:103}: generated_time"+years),
		badNote(104, "'no' || char(0) || 'te'", at, at, host, "{}", `notifications id 104: notification_uuid "no\x00te" holds NUL or is no valid UTF-8`),
		badNote(105, note, at, at, host, "{}",
			"notifications id 105, {u:notification:1}: its uuid is that of id 1 too: give one of the two another in Masakari, or delete it there"),
		badNote(106, "'{u:notification:106}'", at, at, "'h' || char(0)", "{}", `notifications id 106, {u:notification:106}: source_host_uuid "h\x00" holds NUL or is no valid UTF-8`),
		badNote(107, "'{u:notification:107}'", at, at, host, "{}", ""),
		badNote(900, "'{u:notification:200}'", at, at, host, "{}", // a page or two behind
			"notifications id 900, {u:notification:200}: its uuid is that of id 200 too: give one of the two another in Masakari, or delete it there"),
		badNote(901, "'{u:notification:901}'", at, at, host, "{}", ""),
		{"flowdetails", "created_at, parent_uuid, uuid", "'" + zero + "', '{u:notification:107}', '{u:flow:107}'", ""},
		{"atomdetails", "parent_uuid, name, state, uuid, meta", `'{u:flow:107}', 'EvacuateInstancesTask', 'SUCCESS', '{u:atom:107}', ` +
			`'{"progress_details": {"details": {"progress_details": [{"timestamp": "` + zero + `", "message": "m"}]}}}'`,
			`atomdetails {u:atom:107}, task EvacuateInstancesTask: timestamp "0000-01-01 00:00:00" is out of range: its year must be from 1000 to 9999`},
		badMove(0, "'{u:vmove:990}'", note, at, "vmoves id 0, {u:vmove:990}: id or deleted is out of range: 0, 0"),
		badMove(100, "'{u:vmove:100}'", note, zero, "vmoves id 100, {u:vmove:100}: start_time"+years),
		badMove(101, "'{u:vmove:101}'", "'n' || char(0)", at, `vmoves id 101, {u:vmove:101}: notification_uuid "n\x00" holds NUL or is no valid UTF-8`),
		badMove(102, "'{u:vmove:1}'", note, at, "vmoves id 102, {u:vmove:1}: its uuid is that of id 1 too: give one of the two another in Masakari, or delete it there"),
		badMove(103, "'{u:vmove:103}'", "'{u:notification:100}'", at, "vmoves id 103, {u:vmove:103}: its notification {u:notification:100} is not there, or was left out"),
		badMove(104, "'{u:vmove:104}'", note, at, ""),
	}
}()

// makeBad makes a database with the rows of makeMasakari's, the bad ones, and as many good ones as fill more than one page, each of
// which is as large as can be: all of a page are more than a statement of MySQL's may have.
func makeBad(t *testing.T) string {
	t.Helper()
	from := databases["sqlite"](t)
	makeMasakari(t, "sqlite", from, "13adff5efb9a")
	db := connect(t, from)
	for _, r := range badRows {
		run(t, db, uuids("INSERT INTO "+r.table+" ("+r.columns+") VALUES ("+r.values+")"))
	}
	run(t, db, "WITH RECURSIVE n(i) AS (SELECT 200 UNION ALL SELECT i + 1 FROM n WHERE i < 499) INSERT INTO notifications ("+noteColumns+", message) "+
		"SELECT i, '2024-01-03 00:00:00', 0, printf('3%07d-0000-4000-8000-000000000000', i), '2024-01-03 00:00:00', '"+uuidOf("host", 1)+
		"', 'COMPUTE_HOST', '{}', 'finished', replace(hex(zeroblob(65000)), '00', '''') FROM n")
	return from
}

// TestBadRows: a row that salvor cannot hold is left out and named with its reason, in a dry run too, and keeps no other from being
// taken. What nobody foresaw and only the database refuses is named all the same.
func TestBadRows(t *testing.T) {
	from := makeBad(t)
	var want []string
	for _, r := range badRows {
		switch {
		case strings.HasPrefix(r.said, "changed: "):
			want = append(want, uuids(r.said))
		case r.said != "":
			want = append(want, "left out: "+uuids(r.said))
		}
	}
	for kind, database := range databases {
		t.Run(kind, func(t *testing.T) {
			clean := databases["sqlite"](t)
			makeMasakari(t, "sqlite", clean, "13adff5efb9a")
			to := database(t)
			s := target(t, to)
			_, usual := take(t, s, store.Import{From: clean, DryRun: true})
			want := slices.Sorted(slices.Values(append(slices.Clone(want), usual...)))

			dry, said := take(t, s, store.Import{From: from, DryRun: true})
			if diff := cmp.Diff(want, said); diff != "" {
				t.Errorf("the dry run said (+), and was to say (-):\n%s", diff)
			}
			r, said := take(t, s, store.Import{From: from})
			if diff := cmp.Diff(want, said) + cmp.Diff(dry, r); diff != "" {
				t.Errorf("the import said (+), and was to say (-); the dry run promised (-) what it did (+):\n%s", diff)
			}
			for i, taken := range []int{4, 4, 3, 309} { // with those of the fixture
				if r.Tables[i].Taken != taken {
					t.Errorf("of %d rows %+v", taken, r.Tables[i])
				}
			}
			first := dump(t, to)
			again, _ := take(t, s, store.Import{From: from})
			if diff := cmp.Diff(first, dump(t, to)); diff != "" || again.Tables[3].Taken != 0 || again.Left() != r.Left() {
				t.Errorf("a second run came to %v, and changed:\n%s", again, diff)
			}
			if n, err := s.Notification(t.Context(), uuidOf("notification", 499)); err != nil || len(*n.Message) != 65000 {
				t.Errorf("a large row: %v", err)
			}
		})
	}
}

// TestRefusedRow: a row that only the database refuses, by a rule that salvor knows nothing of.
func TestRefusedRow(t *testing.T) {
	from := makeBad(t)
	for kind, database := range databases {
		t.Run(kind, func(t *testing.T) {
			to := database(t)
			s := target(t, to)
			rule := uuids("ALTER TABLE notifications ADD CONSTRAINT odd CHECK (notification_uuid NOT IN ('{u:notification:300}', '{u:notification:333}'))")
			if kind == "sqlite" {
				rule = "CREATE TRIGGER odd BEFORE INSERT ON notifications WHEN NEW.id IN (300, 333) BEGIN SELECT RAISE(ABORT, 'odd'); END"
			}
			run(t, connect(t, to), rule)
			r, said := take(t, s, store.Import{From: from})
			var refused []string
			for _, line := range said {
				if row, _, found := strings.Cut(line, ": the database refuses it: "); found && strings.Contains(line, "odd") {
					refused = append(refused, row)
				}
			}
			want := []string{uuids("left out: notifications id 300, {u:notification:300}"), uuids("left out: notifications id 333, {u:notification:333}")}
			if diff := cmp.Diff(want, refused); diff != "" || r.Tables[3].Taken != 307 {
				t.Errorf("%+v; refused:\n%s", r.Tables[3], diff)
			}
			notes, err := s.Notifications(t.Context(), ha.NotificationFilter{}, every)
			if err != nil || len(notes) != 307 {
				t.Errorf("%d notifications, want 307: %v", len(notes), err)
			}
		})
	}
}

// TestRefusedImport: what the database refuses whatever the row holds, as a right that is missing, ends the import: it would leave
// every row out.
func TestRefusedImport(t *testing.T) {
	from, to := databases["sqlite"](t), databases["mariadb"](t)
	makeMasakari(t, "sqlite", from, "13adff5efb9a")
	s := target(t, to)
	run(t, connect(t, to), "CREATE TRIGGER odd BEFORE INSERT ON hosts FOR EACH ROW SIGNAL SQLSTATE '42000' SET MESSAGE_TEXT = 'command denied'")
	var said []string
	r, err := s.ImportMasakari(t.Context(), store.Import{From: from, Say: func(line string) { said = append(said, line) }})
	if err == nil || !strings.Contains(err.Error(), "importing hosts") || !strings.Contains(err.Error(), "command denied") {
		t.Errorf("%v; %v", err, said)
	}
	if len(r.Tables) != 2 || r.Tables[0].Taken != 2 || r.Tables[1].Taken+r.Tables[1].Left != 0 {
		t.Errorf("%+v", r.Tables)
	}
}
