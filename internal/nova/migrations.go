package nova

import (
	"context"
	"net/url"

	"github.com/salvor-ha/salvor/internal/ha"
)

// recentMigrations is how many records of a host are read whatever they are of, newest first as Nova lists them from 2.59 on. A host's
// live migrations that have not ended are among them, however many it had in its life: it has not that many instances.
const recentMigrations = 1000

// Migrations lists the evacuations and live migrations whose source is host, newest first: all evacuations, and of live migrations those
// among the latest records. It is read once a second while a host is recovered, and a host that is balanced for years has had many thousands.
func (c *Client) Migrations(ctx context.Context, host string) ([]ha.Migration, error) {
	known := map[int64]bool{}
	var all []ha.Migration
	take := func(list []ha.Migration) {
		for _, m := range list {
			if !known[m.ID] {
				known[m.ID] = true
				all = append(all, m)
			}
		}
	}
	// source_compute is understood by every version from 2.1 on; "host" would give those that arrive as well.
	read, more := 0, false
	_, err := eachPage(ctx, url.Values{"source_compute": {host}}, func(ctx context.Context, q url.Values) ([]link, error) {
		list, n, next, err := c.migrationPage(ctx, host, q)
		take(list)
		if read += n; read >= recentMigrations && len(next) > 0 {
			more = true
			return nil, err
		}
		return next, err
	})
	if err == nil && more {
		_, err = eachPage(ctx, url.Values{"source_compute": {host}, "migration_type": {ha.MigrationEvacuation}}, func(ctx context.Context, q url.Values) ([]link, error) {
			list, _, next, err := c.migrationPage(ctx, host, q)
			take(list)
			return next, err
		})
	}
	if err != nil {
		return nil, err
	}
	newestFirst(all, func(m ha.Migration) stamp { return stamp{m.CreatedAt, m.ID} })
	return all, nil
}

// migrationPage reads one page: the evacuations and live migrations of host on it, and how many records it has.
func (c *Client) migrationPage(ctx context.Context, host string, q url.Values) (list []ha.Migration, n int, next []link, err error) {
	const name, path = "migrations", "os-migrations"
	var page struct {
		Migrations *[]struct {
			ID       int64     `json:"id"`
			Instance string    `json:"instance_uuid"`
			Type     string    `json:"migration_type"`
			Status   string    `json:"status"`
			Source   string    `json:"source_compute"`
			Dest     string    `json:"dest_compute"`
			Created  timestamp `json:"created_at"`
		} `json:"migrations"`
		Links []link `json:"migrations_links"`
	}
	if err := c.get(ctx, name, path, q, &page); err != nil {
		return nil, 0, nil, err
	}
	if page.Migrations == nil {
		return nil, 0, nil, broken(name, path, "the answer has no list of migrations")
	}
	for _, m := range *page.Migrations {
		if m.Source != host || (m.Type != ha.MigrationEvacuation && m.Type != ha.MigrationLiveMigration) {
			continue
		}
		list = append(list, ha.Migration{ID: m.ID, InstanceID: m.Instance, Type: m.Type, Status: m.Status, Source: m.Source,
			Dest: m.Dest, CreatedAt: m.Created.Time})
	}
	return list, len(*page.Migrations), page.Links, nil
}
