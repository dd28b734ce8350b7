package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/testkit"
)

const pageSize = 100

// list is a page that is asked for.
type list struct {
	name  string
	path  string
	first int64 // the id that it must begin with
	rows  int   // and how many it must have
}

// lists are the pages, with what the tables themselves say that they must be.
func (r rows) lists(tb testing.TB, n int) []list {
	tb.Helper()
	newest, lately := "created_at DESC, id DESC", n-n/1000
	since := r.text(tb, fmt.Sprintf("SELECT generated_time FROM notifications WHERE id = %d", lately))
	host := fmt.Sprintf("b0000000-0000-4000-8000-%012d", 7)
	by := func(key string) string { return "&sort_key=" + key }
	made := "generated_time >= '" + since + "'"
	sinceQuery := "&generated-since=" + strings.Replace(since, " ", "T", 1)
	var all []list
	for _, q := range []struct {
		name, query, where, order string
		deep                      float64 // what part of the rows lies before the page
	}{
		{"first page", "", "", newest, 0},
		{"page 9,000", "", "", newest, 0.9},
		{"oldest first, page 9,000", "&sort_dir=asc", "", "created_at, id", 0.9},
		{"open ones", "&status=new", "status = 'new'", newest, 0},
		{"of a status", "&status=failed", "status = 'failed'", newest, 0},
		{"of a status, deep", "&status=finished", "status = 'finished'", newest, 0.9},
		{"of a type", "&type=COMPUTE_HOST", "type = 'COMPUTE_HOST'", newest, 0},
		{"of a type, deep", "&type=VM", "type = 'VM'", newest, 0.9},
		{"of type and status", "&type=COMPUTE_HOST&status=failed", "type = 'COMPUTE_HOST' AND status = 'failed'", newest, 0},
		{"of type and status, deep", "&type=COMPUTE_HOST&status=failed", "type = 'COMPUTE_HOST' AND status = 'failed'", newest, 0.9},
		{"of a host", "&source_host_uuid=" + host, "source_host_uuid = '" + host + "'", newest, 0},
		{"of a host, failed", "&status=failed&source_host_uuid=" + host, "status = 'failed' AND source_host_uuid = '" + host + "'", newest, 0},
		{"generated since", sinceQuery, made, newest, 0},
		{"generated since, failed", "&status=failed" + sinceQuery, made + " AND status = 'failed'", newest, 0},
		{"generated since, deep", sinceQuery, made, newest, 0.9},
		{"by generated_time", by("generated_time"), "", "generated_time DESC, created_at DESC, id DESC", 0},
		{"by generated_time, page 9,000", by("generated_time"), "", "generated_time DESC, created_at DESC, id DESC", 0.9},
		{"by updated_at", by("updated_at"), "", r.nullsLast("updated_at") + ", created_at DESC, id DESC", 0},
		{"by updated_at, page 9,000", by("updated_at"), "", r.nullsLast("updated_at") + ", created_at DESC, id DESC", 0.9},
		{"by status, page 9,000", by("status"), "", "status DESC, created_at DESC, id DESC", 0.9},
		{"by type, page 9,000", by("type"), "", "type DESC, created_at DESC, id DESC", 0.9},
		{"by host, page 9,000", by("source_host_uuid"), "", "source_host_uuid DESC, created_at DESC, id DESC", 0.9},
		{"by id, page 9,000", by("id"), "", "id DESC", 0.9},
	} {
		where := "deleted = 0"
		if q.where != "" {
			where += " AND " + q.where
		}
		count, _ := strconv.Atoi(r.text(tb, "SELECT COUNT(*) FROM notifications WHERE "+where))
		before := int(q.deep*float64(count)) / pageSize * pageSize
		l := list{name: q.name, path: "/v1/notifications?limit=100" + q.query, rows: min(pageSize, count-before)}
		ordered := "SELECT id FROM notifications WHERE " + where + " ORDER BY " + q.order
		if before > 0 {
			l.path += "&marker=" + r.text(tb, fmt.Sprintf("%s LIMIT 1 OFFSET %d", ordered, before-1))
		}
		if l.rows > 0 {
			l.first, _ = strconv.ParseInt(r.text(tb, fmt.Sprintf("%s LIMIT 1 OFFSET %d", ordered, before)), 10, 64)
		}
		all = append(all, l)
	}
	moves := "/v1/notifications/c0000000-0000-4000-8000-%012d/vmoves?limit=100"
	large, last := fmt.Sprintf(moves, 5), strconv.Itoa(2*n+200)
	return append(all,
		list{name: "vmoves", path: fmt.Sprintf(moves, n/10*5), rows: 10},
		list{name: "vmoves of 500, by marker", path: large + "&marker=" + last, rows: pageSize},
		list{name: "vmoves of 500, failed", path: large + "&status=failed", rows: 25},
		list{name: "vmoves of 500, by start_time", path: large + "&sort_key=start_time&marker=" + last, rows: pageSize},
	)
}

func (r rows) nullsLast(column string) string {
	if r.kind == "postgresql" {
		return column + " DESC NULLS LAST"
	}
	return column + " DESC"
}

// text asks for one value.
func (r rows) text(tb testing.TB, query string) string {
	tb.Helper()
	var value any
	if err := r.QueryRowContext(tb.Context(), query).Scan(&value); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	switch v := value.(type) {
	case time.Time:
		return v.Format("2006-01-02 15:04:05.000000")
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// check makes sure that the api gives the page that the tables say.
func (l list) check(tb testing.TB, c *testkit.Caller) {
	tb.Helper()
	status, err := c.Do("GET", l.path, "")
	if err != nil || status != 200 {
		tb.Fatalf("%s: GET %s: %d %v %s", l.name, l.path, status, err, c.Body)
	}
	answer := map[string][]struct {
		ID int64 `json:"id"`
	}{}
	if err := json.Unmarshal(c.Body, &answer); err != nil {
		tb.Fatal(err)
	}
	for _, page := range answer {
		first := int64(0)
		if len(page) > 0 {
			first = page[0].ID
		}
		if len(page) != l.rows || l.first != 0 && first != l.first {
			tb.Fatalf("%s: GET %s: %d rows from id %d on, want %d from %d on", l.name, l.path, len(page), first, l.rows, l.first)
		}
	}
}

// ask returns how long each of n requests took.
func ask(tb testing.TB, c *testkit.Caller, path string, n int) []time.Duration {
	tb.Helper()
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		status, err := c.Do("GET", path, "")
		took[i] = time.Since(began)
		if err != nil || status != 200 {
			tb.Fatalf("GET %s: %d %v %s", path, status, err, c.Body)
		}
	}
	return took
}

// pageThrough lets four clients page through all notifications, in other orders, and returns how many rows they got.
func pageThrough(tb testing.TB, api string, within time.Duration) int64 {
	tb.Helper()
	var got atomic.Int64
	group, ctx := errgroup.WithContext(tb.Context())
	end := time.Now().Add(within)
	for _, order := range []string{"", "&sort_dir=asc", "&sort_key=generated_time", "&sort_key=source_host_uuid"} {
		group.Go(func() error {
			c := testkit.NewCaller(api)
			defer c.Close()
			for marker := ""; time.Now().Before(end) && ctx.Err() == nil; {
				path := "/v1/notifications?limit=1000" + order + marker
				if status, err := c.Do("GET", path, ""); err != nil || status != 200 {
					return fmt.Errorf("GET %s: %d %w", path, status, err)
				}
				var page struct {
					Notifications []struct {
						ID int64 `json:"id"`
					} `json:"notifications"`
				}
				if err := json.Unmarshal(c.Body, &page); err != nil {
					return err
				}
				rows := page.Notifications
				if got.Add(int64(len(rows))); len(rows) < 1000 {
					return nil
				}
				marker = fmt.Sprintf("&marker=%d", rows[len(rows)-1].ID)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		tb.Fatal(err)
	}
	return got.Load()
}
