package differential

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"
)

// table is one of Masakari's, as both servers have it.
type table struct {
	name, uuid string
	columns    []string
}

var tables = map[string]table{
	"segment":      {"failover_segments", "uuid", []string{"name", "service_type", "description", "recovery_method", "enabled"}},
	"host":         {"hosts", "uuid", []string{"name", "reserved", "type", "control_attributes", "failover_segment_id", "on_maintenance"}},
	"notification": {"notifications", "notification_uuid", []string{"generated_time", "source_host_uuid", "type", "payload", "status"}},
}

// rows changes what no request can: both servers get the same uuids and the same times.
type rows struct {
	t                *testing.T
	masakari, salvor *sql.DB
	clock            int // seconds
}

func (r *rows) exec(db *sql.DB, statement string, args ...any) {
	r.t.Helper()
	if _, err := db.ExecContext(r.t.Context(), statement, args...); err != nil {
		r.t.Fatalf("%s %v: %v", statement, args, err)
	}
}

// words makes Masakari's ENUM columns texts, as they are on SQLite: such a column sorts by the place in the list, there and in salvor by the word.
func (r *rows) words() {
	r.t.Helper()
	r.exec(r.masakari, "ALTER TABLE notifications MODIFY status VARCHAR(36); ALTER TABLE failover_segments MODIFY recovery_method VARCHAR(36)")
}

// clear empties both databases.
func (r *rows) clear() {
	r.t.Helper()
	for _, name := range []string{"notifications", "hosts", "failover_segments"} {
		r.exec(r.masakari, "DELETE FROM "+name)
	}
	for _, name := range []string{"claims", "notifications", "hosts", "failover_segments"} {
		r.exec(r.salvor, "DELETE FROM "+name)
	}
	r.clock = 0
}

// rename gives a new object of Masakari's the uuid that salvor made.
func (r *rows) rename(kind, from, to string) {
	r.t.Helper()
	t := tables[kind]
	r.exec(r.masakari, "UPDATE "+t.name+" SET "+t.uuid+" = ? WHERE "+t.uuid+" = ?", to, from)
}

// calendar is when the tests' time begins; what is younger was written just now.
var calendar = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// stamp makes what was written just now written at the tests' own time, which moves only at times, so that some objects are of one second.
func (r *rows) stamp(step int) {
	r.t.Helper()
	r.clock += step
	at := calendar.Add(time.Duration(r.clock) * time.Second).Format(time.DateTime)
	statement := ""
	for _, name := range []string{"failover_segments", "hosts", "notifications"} {
		for _, column := range []string{"created_at", "updated_at"} {
			statement += fmt.Sprintf("UPDATE %s SET %s = '%s' WHERE %[2]s > '2010-01-01';", name, column, at)
		}
	}
	r.exec(r.masakari, statement)
	r.exec(r.salvor, statement)
}

// end makes a notification's status what an engine would have made it.
func (r *rows) end(uuid, status string) {
	r.t.Helper()
	for _, db := range []*sql.DB{r.masakari, r.salvor} {
		r.exec(db, "UPDATE notifications SET status = ?, updated_at = '2011-01-01' WHERE notification_uuid = ?", status, uuid)
	}
}

// follow makes Masakari's row of an object what salvor's is: where salvor deliberately did something else, the sequence goes on from there.
func (r *rows) follow(kind, uuid string) {
	r.t.Helper()
	t := tables[kind]
	list := ""
	for _, c := range t.columns {
		list += c + ", "
	}
	values := make([]sql.NullString, len(t.columns)+3)
	to, args := make([]any, len(values)), make([]any, len(values))
	for i := range values {
		to[i] = &values[i]
	}
	err := r.salvor.QueryRowContext(r.t.Context(), "SELECT "+list+"created_at, updated_at, deleted_at FROM "+t.name+" WHERE "+t.uuid+" = ?", uuid).Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		r.exec(r.masakari, "DELETE FROM "+t.name+" WHERE "+t.uuid+" = ?", uuid)
		return
	}
	if err != nil {
		r.t.Fatal(err)
	}
	set := t.uuid + " = ?, deleted = 0"
	for i, c := range append(t.columns[:len(t.columns):len(t.columns)], "created_at", "updated_at", "deleted_at") {
		set += ", " + c + " = ?"
		args[i] = values[i]
	}
	args = append([]any{uuid}, args...)
	var there int
	if err := r.masakari.QueryRowContext(r.t.Context(), "SELECT COUNT(*) FROM "+t.name+" WHERE "+t.uuid+" = ?", uuid).Scan(&there); err != nil {
		r.t.Fatal(err)
	}
	if there == 0 {
		r.exec(r.masakari, "INSERT INTO "+t.name+" SET "+set, args...)
	} else {
		r.exec(r.masakari, "UPDATE "+t.name+" SET "+set+" WHERE "+t.uuid+" = ?", append(args, uuid)...)
	}
	r.exec(r.masakari, "UPDATE "+t.name+" SET deleted = id WHERE "+t.uuid+" = ? AND deleted_at IS NOT NULL", uuid)
}
