package masakari

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"
)

// Names of tables.
const (
	TableSegments      = "failover_segments"
	TableHosts         = "hosts"
	TableNotifications = "notifications"
	TableVMoves        = "vmoves"
	tableFlows         = "flowdetails"
	tableAtoms         = "atomdetails"

	tableAlembic = "masakari_alembic_version"
	tableMigrate = "migrate_version"
)

// Tables are the names to look for before Version is asked.
var Tables = []string{TableSegments, TableHosts, TableNotifications, TableVMoves, tableAlembic, tableMigrate}

// TaskFlowTables are those that Runs reads.
var TaskFlowTables = []string{tableFlows, tableAtoms}

// alembic are the schema versions since 2023.2, oldest first; before, sqlalchemy-migrate counted: 7 is the first of these, and 8
// the second.
var alembic = []string{"8f848eb45d03", "8bdf5929c5a6", "13adff5efb9a"}

// Version returns the version of a Masakari's tables, for people. have are those of Tables that are there. A database without
// them, or of an unknown version, is an error that says what to do.
func Version(ctx context.Context, db bun.IDB, have []string) (string, error) {
	if !slices.Contains(have, TableSegments) {
		return "", errors.New("it holds no tables of Masakari's: is this the database that [database] connection of Masakari's masakari.conf names?")
	}
	for _, t := range []string{TableHosts, TableNotifications} {
		if !slices.Contains(have, t) {
			return "", fmt.Errorf("Masakari's table %s is missing there: restore it, or run masakari-manage db sync of your Masakari, and try again", t)
		}
	}
	switch {
	case slices.Contains(have, tableAlembic):
		return alembicVersion(ctx, db)
	case slices.Contains(have, tableMigrate):
		return migrateVersion(ctx, db)
	default:
		return "", fmt.Errorf("Masakari's tables there have no version (%s, or %s): run masakari-manage db sync of your Masakari, and try again",
			tableAlembic, tableMigrate)
	}
}

func alembicVersion(ctx context.Context, db bun.IDB) (string, error) {
	var versions []string
	if err := db.NewRaw("SELECT version_num FROM ? LIMIT 10", bun.Ident(tableAlembic)).Scan(ctx, &versions); err != nil {
		return "", err
	}
	if len(versions) != 1 || !slices.Contains(alembic, versions[0]) {
		return "", fmt.Errorf("its Masakari tables are of version %q, which this salvor does not know (it knows %s, and 7 and 8 of releases before 2023.2): "+
			"import with a newer salvor; nothing was changed", strings.Join(versions, ", "), strings.Join(alembic, ", "))
	}
	return "alembic " + versions[0], nil
}

func migrateVersion(ctx context.Context, db bun.IDB) (string, error) {
	var versions []int
	err := db.NewRaw("SELECT version FROM ? WHERE repository_id = 'masakari' LIMIT 10", bun.Ident(tableMigrate)).Scan(ctx, &versions)
	switch {
	case err != nil:
		return "", err
	case len(versions) == 1 && (versions[0] == 7 || versions[0] == 8):
		return fmt.Sprintf("sqlalchemy-migrate %d", versions[0]), nil
	case len(versions) == 1 && versions[0] < 7:
		return "", fmt.Errorf("its Masakari tables are of version %d, older than 7: run masakari-manage db sync of your Masakari, and try again", versions[0])
	default:
		return "", fmt.Errorf("its Masakari tables are of version %v, which this salvor does not know (it knows 7, 8, %s): "+
			"import with a newer salvor; nothing was changed", versions, strings.Join(alembic, ", "))
	}
}
