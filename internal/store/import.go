package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/masakari"
)

const (
	// importBatch bounds the rows of one transaction of an import.
	importBatch = 200
	// importBytes bounds the texts of one transaction, but for a single row: MySQL takes no statement above max_allowed_packet.
	importBytes = 1 << 20
	// importTell is after how many rows of a table an import says how far it is.
	importTell = 10000
	// engineSeen is how long after its last beat an engine counts as running.
	engineSeen = 15 * time.Second
)

// Import is what an import of Masakari's rows is told.
type Import struct {
	From     string // SQLAlchemy URL of Masakari's database
	TaskFlow string // SQLAlchemy URL of TaskFlow's tables; "" looks for them in From
	Deleted  bool   // also what was deleted there
	DryRun   bool   // write nothing
	// Say is told of each row that is left out or changed, with the reason, and how far it is: lines for people.
	Say func(line string)
}

// Imported is what an import came to.
type Imported struct {
	From    string // Masakari's database, for people
	Version string // of its tables
	Tables  []ImportedTable
	Runs    int // runs of recoveries whose details were taken
	Unread  int // tasks whose details cannot be read
	// OnMaintenance counts hosts that were taken with that flag, each said: nothing recovers them.
	OnMaintenance int
	// Details says where recovery_workflow_details came from, or why there are none.
	Details string
}

// ImportedTable counts the rows of one table.
type ImportedTable struct {
	Name    string
	Taken   int // written, or with DryRun to be written
	There   int // already there, with the same uuid: left as they are
	Deleted int // deleted in Masakari, and not asked for
	Left    int // left out, each said with its reason
	Changed int // of Taken, those that are not as they were, each said
}

// Left counts the rows that were left out.
func (r Imported) Left() (n int) {
	for _, t := range r.Tables {
		n += t.Left
	}
	return n
}

// String is the summary.
func (r Imported) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from %s, version %s\n%-20s %9s %14s %9s %9s %9s\n", r.From, r.Version, "", "taken", "already there", "deleted", "left out", "changed")
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "%-20s %9d %14d %9d %9d %9d\n", t.Name, t.Taken, t.There, t.Deleted, t.Left, t.Changed)
	}
	fmt.Fprintf(&b, "recovery details: %s\n", r.Details)
	if r.OnMaintenance > 0 {
		fmt.Fprintf(&b, "on maintenance: %d of the hosts taken: NOTHING RECOVERS THEM, and reports of them are refused (409), until you end that of those that are well: "+
			"salvor host update HOST --on-maintenance=false. Masakari's own recoveries set the flag, and never end it\n", r.OnMaintenance)
	}
	return b.String()
}

// ImportMasakari takes the rows of a Masakari's database over (contract section 7): with their ids, uuids and times. What is there
// already, by its uuid, stays as it is, so it can be run again, after a crash too: each transaction is whole, and the order is
// segments, hosts, vmoves, notifications with their details. It is refused while an engine runs here, which would begin on half of
// them; an api may run.
func (s *Store) ImportMasakari(ctx context.Context, what Import) (report Imported, err error) {
	if err := s.importable(ctx); err != nil {
		return report, err
	}
	src, err := openSource(ctx, what.From)
	if err != nil {
		return report, fmt.Errorf("--from: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	im := &importer{s: s, src: src, flows: src, what: what, report: &report, segments: map[string]bool{}, hosts: map[string]importedHost{}, names: map[string]string{}}
	if err := im.survey(ctx); err != nil {
		return report, err
	}
	if what.TaskFlow != "" {
		if im.flows, err = openSource(ctx, what.TaskFlow); err != nil {
			return report, fmt.Errorf("--taskflow: %w", err)
		}
		defer func() { err = errors.Join(err, im.flows.Close()) }()
	}
	if err := im.surveyFlows(ctx); err != nil {
		return report, err
	}
	return report, im.run(ctx)
}

// importable refuses a target whose tables are not ready, or that an engine works on.
func (s *Store) importable(ctx context.Context) error {
	if err := s.refuseMasakari(ctx); err != nil {
		return err
	}
	have, err := s.Version(ctx)
	if err != nil {
		return err
	}
	want, err := s.Newest()
	if err != nil {
		return err
	}
	if have != want {
		return &ha.ConflictError{Text: fmt.Sprintf("The tables of %s are of version %q, this salvor needs %s: run salvor db sync, with the same configuration, then this again.",
			s.where, have, want)}
	}
	if err := s.CheckTables(ctx); err != nil {
		return err
	}
	engine, err := one[engineRow](ctx, s.reads, "seen_at >= ?", s.d.later(-engineSeen))
	if err != nil || engine == nil {
		return s.explain("looking for engines", err)
	}
	return &ha.ConflictError{Text: fmt.Sprintf("Engine %s on %s works with %s: it would begin on what is only half imported. "+
		"Stop salvor's engines (and serve), wait %s, and run this again. An api may run.", engine.Name, engine.Host, s.where, engineSeen)}
}

// openSource opens a database that is only read. An SQLite file that is not there is not made.
func openSource(ctx context.Context, url string) (*Store, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if t.database != sqlite {
		return Open(ctx, Config{URL: url, SyncWait: 1, MaxOpen: 2})
	}
	if t.name == "" {
		return nil, errors.New("a database in memory cannot be imported: name its file, sqlite:////path/to/file")
	}
	if _, err := os.Stat(t.name); err != nil {
		return nil, fmt.Errorf("the SQLite database cannot be read: %w", err)
	}
	s := &Store{where: t.where()}
	c := Config{}.withDefaults()
	s.callFor, s.retryFor = c.CallFor, c.RetryFor
	if err := s.openSQLiteReader(ctx, t); err != nil {
		return nil, err
	}
	return s, nil
}

// importer is one run of an import.
type importer struct {
	s, src, flows *Store // flows is nil where there are no TaskFlow tables
	what          Import
	report        *Imported
	vmoves        bool // Masakari has the table
	now           time.Time

	segments map[string]bool         // by uuid: those that salvor has, or will have
	hosts    map[string]importedHost // every host of Masakari's, by uuid
	names    map[string]string       // uuid by table and name, as nameOf has it, of segments and hosts taken
}

// importedHost is what later rows must know of a host.
type importedHost struct {
	segment string
	live    bool // it is one of salvor's now, and not deleted
}

// survey finds out what is there.
func (im *importer) survey(ctx context.Context) error {
	have, err := im.src.present(ctx, append([]string{migrationsTable}, masakari.Tables...)...)
	if err != nil {
		return err
	}
	if slices.Contains(have, migrationsTable) {
		return fmt.Errorf("--from: %s is salvor's own database: name the one of Masakari", im.src.where)
	}
	im.report.From = im.src.where
	err = im.src.read(ctx, "reading the version of Masakari's tables", func(ctx context.Context, db bun.IDB) (err error) {
		im.report.Version, err = masakari.Version(ctx, db, have)
		return err
	})
	if err != nil {
		return fmt.Errorf("--from: %s: %w", im.src.where, err)
	}
	im.vmoves = slices.Contains(have, masakari.TableVMoves)
	return im.s.read(ctx, "reading the clock", func(ctx context.Context, db bun.IDB) (err error) {
		im.now, err = im.s.clock(ctx, db)
		return err
	})
}

func (im *importer) surveyFlows(ctx context.Context) error {
	have, err := im.flows.present(ctx, masakari.TaskFlowTables...)
	missing := slices.DeleteFunc(slices.Clone(masakari.TaskFlowTables), func(t string) bool { return slices.Contains(have, t) })
	lacks := im.flows.where + " lacks tables of TaskFlow's, " + strings.Join(missing, " and ")
	switch {
	case err != nil:
		return err
	case len(missing) == 0:
		im.report.Details = "from " + im.flows.where
	case im.what.TaskFlow != "":
		return fmt.Errorf("--taskflow: %s: is it the database that [taskflow] connection of Masakari's masakari.conf names?", lacks)
	default:
		im.flows = nil
		im.report.Details = "none: " + lacks + "; if they are elsewhere ([taskflow] connection of masakari.conf), name that with --taskflow"
	}
	return nil
}

// run takes the tables over, one after the other.
func (im *importer) run(ctx context.Context) error {
	if err := takeTable(ctx, im, im.segmentTable()); err != nil {
		return err
	}
	if err := takeTable(ctx, im, im.hostTable()); err != nil {
		return err
	}
	if im.vmoves {
		if err := takeTable(ctx, im, im.vmoveTable()); err != nil {
			return err
		}
	}
	if err := takeTable(ctx, im, im.notificationTable()); err != nil {
		return err
	}
	if im.flows != nil {
		im.report.Details = fmt.Sprintf("%d runs taken, %s", im.report.Runs, im.report.Details)
		if im.report.Unread > 0 {
			im.report.Details += fmt.Sprintf("; %d tasks cannot be read, and are left out", im.report.Unread)
		}
	}
	return nil
}

func (im *importer) say(format string, args ...any) { im.what.Say(fmt.Sprintf(format, args...)) }
