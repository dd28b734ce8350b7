package store_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/salvor-ha/salvor/internal/store"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

// TestGalera runs the suite on a cluster whose nodes SALVOR_TEST_GALERA names (h1:p1,h2:p2,h3:p3; root without password).
// Each process of a test talks to another node.
func TestGalera(t *testing.T) {
	list := os.Getenv("SALVOR_TEST_GALERA")
	if list == "" {
		t.Skip("SKIPPED: no Galera cluster is named in SALVOR_TEST_GALERA")
	}
	nodes := strings.Split(list, ",")
	cluster := server{
		name: "Galera",
		run: func(ctx context.Context, statements ...string) error {
			cfg := mysql.NewConfig()
			cfg.User, cfg.Net, cfg.Addr = "root", "tcp", nodes[0]
			c, err := mysql.NewConnector(cfg)
			if err != nil {
				return err
			}
			db := sql.OpenDB(c)
			defer db.Close()
			for _, s := range statements {
				if _, err := db.ExecContext(ctx, s); err != nil {
					return err
				}
			}
			return nil
		},
		url: func(database string) string { return database },
	}
	storetest.Run(t, func(t *testing.T) storetest.Open {
		name := cluster.database(t)
		processes := 0
		process := func(t *testing.T) *store.Store {
			at := processes % len(nodes)
			processes++
			order := strings.Join(append(append([]string(nil), nodes[at:]...), nodes[:at]...), ",")
			return open(t, store.Config{URL: "mysql+pymysql://root@" + order + "/" + name, SyncWait: 3, RetryFor: 30 * time.Second})
		}
		if err := process(t).Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func(t *testing.T) storetest.Backend { return process(t) }
	})
}
