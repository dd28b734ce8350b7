package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
)

// maxRefused bounds how much of what the database refuses is told.
const maxRefused = 5

// Checkup asks the database how it is, and tries on each table what salvor does to it: statements that touch no row, in transactions
// that are rolled back. Nothing is changed. An error: it does not answer, or holds no tables; what was found until then comes with it.
func (s *Store) Checkup(ctx context.Context) (ha.DatabaseState, error) {
	state := ha.DatabaseState{Where: s.where, Embedded: s.d.name == sqlite}
	var err error
	if state.Newest, err = s.Newest(); err != nil {
		return state, err
	}
	began := time.Now()
	if err := s.Ping(ctx); err != nil {
		return state, err
	}
	state.Took = time.Since(began)
	if state.Clock, err = s.compareClocks(ctx); err != nil {
		return state, err
	}
	if err := s.settings(ctx, &state); err != nil {
		return state, err
	}
	if state.Version, err = s.Version(ctx); err != nil || state.Version == "" {
		return state, err
	}
	if state.Missing, err = s.Missing(ctx); err != nil {
		return state, err
	}
	tables, err := s.tablesOf(state.Version)
	if err != nil {
		return state, err
	}
	for _, table := range tables {
		if slices.Contains(state.Missing, table.name) {
			continue
		}
		began := time.Now()
		if err := s.tryTable(ctx, table); err != nil {
			if ctx.Err() != nil || s.absent(err) {
				return state, s.explain("trying what the account may do", err)
			}
			if state.Refused = append(state.Refused, err.Error()); len(state.Refused) == maxRefused {
				break
			}
		}
		state.Took = max(state.Took, time.Since(began))
	}
	return state, nil
}

// absent reports that the database did not answer the trial, or not now: that tells nothing of the account's rights.
func (s *Store) absent(err error) bool {
	switch s.d.classify(err) {
	case classLost, classEnded, classConflict:
		return true
	case classAway:
		return s.d.name != sqlite // there, a file that takes no writes
	default:
		return false
	}
}

// compareClocks is the database's against this machine's.
func (s *Store) compareClocks(ctx context.Context) (ha.Clock, error) {
	var c ha.Clock
	err := s.read(ctx, "asking for the time", func(ctx context.Context, db bun.IDB) error {
		var now stamp
		began := time.Now()
		if err := db.NewRaw("SELECT ?", s.d.now()).Scan(ctx, &now); err != nil {
			return err
		}
		half := time.Since(began) / 2
		c = ha.Clock{Told: now.Time, Here: began.Add(half), Rough: half}
		return nil
	})
	return c, err
}

// errTried ends a transaction that was only a trial.
var errTried = errors.New("tried")

// tryTable reads, inserts, updates and deletes no row of the table. Rights, and whether the server takes writes at all, are looked at
// before rows are.
func (s *Store) tryTable(ctx context.Context, t table) error {
	what := "BEGIN for"
	err := s.once(ctx, func(ctx context.Context, tx bun.Tx) error {
		for _, try := range []struct{ what, query string }{
			{"SELECT from", fmt.Sprintf("SELECT %s FROM %s WHERE 1 = 0", t.column, t.name)},
			{"INSERT into", fmt.Sprintf("INSERT INTO %[1]s SELECT * FROM %[1]s WHERE 1 = 0", t.name)},
			{"UPDATE of", fmt.Sprintf("UPDATE %[1]s SET %[2]s = %[2]s WHERE 1 = 0", t.name, t.column)},
			{"DELETE from", fmt.Sprintf("DELETE FROM %s WHERE 1 = 0", t.name)},
		} {
			what = try.what
			if _, err := changed(ctx, tx, try.query); err != nil {
				return err
			}
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, t.name, err)
}

// settings reads what must be set, and how a Galera node is.
func (s *Store) settings(ctx context.Context, state *ha.DatabaseState) error {
	switch s.d.name {
	case mysql:
		return s.mysqlSettings(ctx, state)
	case postgres:
		return s.postgresSettings(ctx, state)
	default:
		return nil
	}
}

func (s *Store) postgresSettings(ctx context.Context, state *ha.DatabaseState) error {
	return s.read(ctx, "asking for settings", func(ctx context.Context, db bun.IDB) error {
		var fsync, commit string
		state.Trouble = nil
		for name, to := range map[string]*string{"transaction_isolation": &state.Isolation, "fsync": &fsync, "synchronous_commit": &commit} {
			if err := db.NewRaw("SELECT current_setting(?)", name).Scan(ctx, to); err != nil {
				return err
			}
		}
		if fsync == "off" {
			state.Trouble = append(state.Trouble, "fsync = off: a power loss damages the database; set on")
		}
		if commit == "off" {
			state.Trouble = append(state.Trouble, "synchronous_commit = off: an admitted report may be lost; set on")
		}
		return nil
	})
}

// mysqlTrouble are settings that must be as they are here, with and without Galera.
var mysqlTrouble = []struct {
	name, want, why string
	galera          bool
}{
	{"binlog_format", "ROW", "Galera replicates rows only", true},
	{"innodb_autoinc_lock_mode", "2", "Galera needs it", true},
	{"wsrep_certify_nonPK", "ON", "rows without a key differ between nodes", true},
	{"wsrep_on", "ON", "what is written here reaches no other node", true},
	// On Galera the other nodes have it: 2 and 0 are usual there.
	{"innodb_flush_log_at_trx_commit", "1", "an admitted report may be lost with the server's power", false},
}

func (s *Store) mysqlSettings(ctx context.Context, state *ha.DatabaseState) error {
	type pair struct {
		Name  string `bun:"Variable_name"`
		Value string `bun:"Value"`
	}
	var status, session []pair
	err := s.read(ctx, "asking for settings", func(ctx context.Context, db bun.IDB) error {
		status, session = nil, nil
		if err := db.NewRaw("SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_provider_name', 'wsrep_cluster_status', "+
			"'wsrep_ready', 'wsrep_local_state_comment', 'wsrep_cluster_size')").Scan(ctx, &status); err != nil {
			return err
		}
		return db.NewRaw("SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation', 'wsrep_sync_wait', "+
			"'wsrep_on', 'wsrep_certify_nonPK', 'binlog_format', 'innodb_autoinc_lock_mode', 'innodb_flush_log_at_trx_commit')").Scan(ctx, &session)
	})
	if err != nil {
		return err
	}
	have := map[string]string{}
	for _, p := range slices.Concat(status, session) {
		have[p.Name] = p.Value
	}
	state.Isolation = have["transaction_isolation"]
	if state.Isolation == "" {
		state.Isolation = have["tx_isolation"]
	}
	isGalera := have["wsrep_provider_name"] != ""
	if isGalera {
		size, _ := strconv.Atoi(have["wsrep_cluster_size"]) // 0: not told
		state.Galera = &ha.GaleraState{Status: have["wsrep_cluster_status"], Ready: have["wsrep_ready"] == "ON",
			State: have["wsrep_local_state_comment"], Size: size, SyncWait: have["wsrep_sync_wait"]}
	}
	for _, t := range mysqlTrouble {
		if is, told := have[t.name]; told && t.galera == isGalera && !strings.EqualFold(is, t.want) {
			state.Trouble = append(state.Trouble, fmt.Sprintf("%s = %s: %s; set %s", t.name, is, t.why, t.want))
		}
	}
	return nil
}
