package store_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/store/rules"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

// outboxOpener is opener for stores that tell of their changes.
func outboxOpener(t *testing.T, url string) storetest.OpenOutbox {
	t.Helper()
	if err := open(t, store.Config{URL: url}).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, a *rules.Announce) storetest.OutboxBackend {
		return open(t, store.Config{URL: url, Announce: a})
	}
}

func TestOutboxSQLite(t *testing.T) {
	storetest.RunOutbox(t, func(t *testing.T) storetest.OpenOutbox {
		return outboxOpener(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"))
	})
}

func TestOutboxMariaDB(t *testing.T) {
	mariadb.database(t) // skips the whole suite, by its name
	storetest.RunOutbox(t, func(t *testing.T) storetest.OpenOutbox { return outboxOpener(t, mariadb.database(t)) })
}

func TestOutboxPostgreSQL(t *testing.T) {
	url := postgres.database(t)
	database := strings.TrimSuffix(url[strings.LastIndexByte(url, '/')+1:], "?sslmode=disable")
	storetest.RunOutbox(t, func(t *testing.T) storetest.OpenOutbox {
		schema := randomName()
		if err := postgresRun(t.Context(), database, "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		return outboxOpener(t, url+"&options=-csearch_path%3D"+schema)
	})
}
