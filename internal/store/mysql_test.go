package store_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store"
)

// beneath is a store on MariaDB, and a pool of such connections as it has.
func beneath(t *testing.T) (*store.Store, *sql.DB) {
	t.Helper()
	spy := &spy{}
	s := open(t, store.Config{URL: mariadb.database(t), Wrap: spy.wrap})
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool := spy.pool()
	t.Cleanup(func() { pool.Close() })
	return s, pool
}

// TestTransactionsPrepareNothing: on Galera, who prepares a statement within a transaction may not be told that another node has taken the
// transaction away. So nothing is prepared there, also not by database/sql or the driver, for whoever asks for it.
func TestTransactionsPrepareNothing(t *testing.T) {
	_, pool := beneath(t)
	for name, ask := range map[string]func(*sql.Tx) error{
		"a write": func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE hosts SET touch = touch + ?", 1)
			return err
		},
		"a question": func(tx *sql.Tx) error { return tx.QueryRowContext(t.Context(), "SELECT ?", 1).Scan(new(int)) },
		"what the driver cannot write out": func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE hosts SET name = ?", make([]byte, 80<<20))
			return err
		},
		"a statement": func(tx *sql.Tx) error {
			st, err := tx.PrepareContext(t.Context(), "UPDATE hosts SET touch = touch + 1")
			if err == nil {
				st.Close()
			}
			return err
		},
	} {
		for _, first := range []bool{true, false} {
			tx, err := pool.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !first {
				if _, err := tx.ExecContext(t.Context(), "UPDATE hosts SET touch = touch + 1"); err != nil {
					t.Fatal(err)
				}
			}
			asked := ask(tx)
			var status string
			var prepared int
			if err := tx.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Com_stmt_prepare'").Scan(&status, &prepared); err != nil {
				t.Fatal(err)
			}
			if asked == nil || prepared != 0 {
				t.Errorf("%s, the first of its transaction %v: error %v, %d statements were prepared", name, first, asked, prepared)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSaidAfterTheRow: Galera may say after a row that it has taken the transaction away, and who wants one row looks no further. Nothing
// of that transaction is written. (MariaDB says here what else comes after a row: that the next one cannot be had.)
func TestSaidAfterTheRow(t *testing.T) {
	s, pool := beneath(t)
	db := bun.NewDB(pool, mysqldialect.New())
	for _, goesOn := range []bool{true, false} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		write := func() error {
			_, err := tx.NewRaw("INSERT INTO engines (name, host, version, started_at, beat, seen_at) VALUES (UUID(), '', '', NOW(), 0, NOW())").Exec(t.Context())
			return err
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
		var one int
		if err := tx.NewRaw("SELECT t.seq FROM seq_1_to_2 AS t WHERE t.seq = 1 OR (SELECT x.seq FROM seq_1_to_2 AS x WHERE x.seq <= t.seq)").
			Scan(t.Context(), &one); err == nil && one != 1 {
			t.Fatalf("read %d", one)
		}
		if goesOn {
			if err := write(); err == nil {
				t.Error("what came after was written")
			}
		}
		if err := tx.Commit(); err == nil {
			t.Errorf("a transaction that failed was committed, goes on %v", goesOn)
		}
	}
	engines, err := s.Engines(t.Context())
	if err != nil || len(engines) != 0 {
		t.Errorf("%d rows are there, %v", len(engines), err)
	}
}

// TestAdmissionDecidesByARowItHolds: a host that is registered in the middle of a report about it is not decided on, since no other report
// would wait for that decision.
func TestAdmissionDecidesByARowItHolds(t *testing.T) {
	b := newBench(t, mariadb.database(t), open)
	late := b.death()
	late.Hostname = "late"
	registered := 0
	b.spy.set(func(s *spy) {
		s.exec = func(query string) error {
			if !strings.HasPrefix(query, "UPDATE hosts SET touch = touch + 1 WHERE name_key") || registered > 0 {
				return nil
			}
			registered++
			_, err := b.other.CreateHost(context.Background(), ha.Host{UUID: uuid.NewString(), Name: "late", SegmentUUID: b.host.SegmentUUID, Type: "C"})
			return err
		}
	})
	_, err := b.Admit(t.Context(), late, time.Minute)
	var missing *ha.NotFoundError
	if !errors.As(err, &missing) || registered != 1 {
		t.Errorf("registered %d times in its middle, the report got %v; want that there is no such host", registered, err)
	}
	_, err = b.Admit(t.Context(), late, time.Minute)
	b.must(err)
}
