// Package gauge is what the benchmarks share: the databases, the clock, and the arithmetic.
package gauge

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/salvor-ha/salvor/internal/testkit"
)

// Parse reads the command line, then has it checked. One that is wrong, or asks for help, ends the program.
func Parse(f *flag.FlagSet, checks ...func() error) {
	switch err := f.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil: // which Parse has printed
		os.Exit(2)
	}
	for _, check := range checks {
		if err := check(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", f.Name(), err)
			os.Exit(2)
		}
	}
}

// Database is a kind of database, and how a run gets one of its own; the URL skips where there is none.
type Database struct {
	Name string
	URL  func(testing.TB) string
}

// Databases are those with that name, all when it is "".
func Databases(only string) []Database {
	all := []Database{
		{"SQLite", func(tb testing.TB) string { return "sqlite:///" + tb.TempDir() + "/salvor.sqlite" }},
		{"MariaDB", testkit.MariaDB},
		{"PostgreSQL", testkit.Postgres},
	}
	return slices.DeleteFunc(all, func(d Database) bool { return only != "" && !strings.EqualFold(only, d.Name) })
}

// Pace is what clients did within a span.
type Pace struct {
	Rate float64         // a second
	Took []time.Duration // each
}

// Run has each client do its thing again and again for the span. The first failure ends the benchmark.
func Run(tb testing.TB, clients int, span time.Duration, do func(client int) error) Pace {
	tb.Helper()
	group, ctx := errgroup.WithContext(tb.Context())
	var all Pace
	var mu sync.Mutex
	began := time.Now()
	for client := range clients {
		group.Go(func() error {
			var took []time.Duration
			for asked := time.Now(); asked.Sub(began) < span && ctx.Err() == nil; {
				if err := do(client); err != nil {
					return err
				}
				now := time.Now()
				took = append(took, now.Sub(asked))
				asked = now
			}
			mu.Lock()
			defer mu.Unlock()
			all.Took = append(all.Took, took...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		tb.Fatal(err)
	}
	all.Rate = float64(len(all.Took)) / time.Since(began).Seconds()
	return all
}

// Spread is the median, the least and the greatest of what of says of each.
func Spread[T any](all []T, of func(T) float64) (median, least, greatest float64) {
	values := make([]float64, len(all))
	for i, t := range all {
		values[i] = of(t)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, values[0], values[len(values)-1]
}

// Median is Spread's.
func Median[T any](all []T, of func(T) float64) float64 {
	m, _, _ := Spread(all, of)
	return m
}

// Quantile is the value below which that part of all lies.
func Quantile(all []time.Duration, part float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[int(part*float64(len(all)-1)+0.5)]
}

// Millis is a time in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Say tells of the progress.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
