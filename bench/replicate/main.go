// Replicate measures how fast copies of blobs come back when one host's blob store dies: five agents as processes, salvor over MariaDB,
// against a plain HTTP loop that copies the same bytes from and to the same directories with the same parallelism. Then an agent is killed in
// the middle of a copy. See bench/README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

// The goals (bench/README.md).
const (
	mostRatio = 1.30
	mostAgain = 16 << 20 // bytes that a killed copy may cost besides the rest: what was under way in buffers
)

type options struct {
	blobs    int
	mib      int
	big      int
	parallel int
	rounds   int
	dir      string
	agents   int
}

// result is what was measured.
type result struct {
	blobs, affected int
	bytes           int64         // that had to be copied
	noticed         time.Duration // from the store's death to the host in error
	salvor          time.Duration // from then until each blob has two verified copies
	bare, hashing   []loop
	salvorCPU       spent         // meanwhile
	watchCPU        time.Duration // of this program, which looks whether it is done
	again           int64         // bytes that were fetched besides the killed copy's own
	killedAt        int64
	size            int64
	ok              bool
}

// loop is a run of the plain loop.
type loop struct{ took, cpu time.Duration }

func (l loop) seconds() float64 { return l.took.Seconds() }
func (l loop) compute() float64 { return l.cpu.Seconds() }

func main() {
	o := options{agents: 5}
	full := false
	f := flag.NewFlagSet("replicate", flag.ContinueOnError)
	f.IntVar(&o.blobs, "blobs", 200, "blobs, two copies each")
	f.IntVar(&o.mib, "mib", 800, "of all of them together, once")
	f.IntVar(&o.big, "big", 2, "of them have 100 MiB; the others are of mixed sizes")
	f.IntVar(&o.parallel, "parallel", 4, "copies that arrive at one host at a time: copies_in of the agents, and workers of the loop per host")
	f.IntVar(&o.rounds, "rounds", 3, "how often each of the loops runs; the median counts")
	f.StringVar(&o.dir, "dir", "", "where the hosts' blob directories are made (default: the system's directory for temporary files)")
	f.BoolVar(&full, "full", false, "the size of the goal: 1,000 blobs of 4 GiB in all, 8 of them of 100 MiB")
	gauge.Parse(f, func() error {
		if full {
			o.blobs, o.mib, o.big = 1000, 4096, 8
		}
		if o.blobs < 10 || o.mib < o.big*100+o.blobs/10 || o.parallel < 1 || o.rounds < 1 {
			return errors.New("--blobs is a number from 10, --parallel and --rounds from 1, and --mib must hold the --big of 100 MiB and 0.1 for each blob")
		}
		return nil
	})
	var r result
	skipped, ok := testkit.Alone("replicate", func(tb testing.TB) { measure(tb, o, &r) })
	if skipped != "" {
		fmt.Println("NOT MEASURED: SKIPPED: " + skipped)
		os.Exit(1)
	}
	if len(r.hashing) == 0 {
		fmt.Println("NOT MEASURED: it failed")
		os.Exit(1)
	}
	if !report(r, o, ok) {
		os.Exit(1)
	}
}

// report prints the table and, in its last line, the verdict.
func report(r result, o options, ok bool) bool {
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	fmt.Printf("%d blobs of %d MiB in all on %d hosts, two copies each; one host's store dies: %d blobs, %.0f MiB to copy, %d at a time to each host\n",
		r.blobs, o.mib, o.agents, r.affected, mib(r.bytes), o.parallel)
	bare, leastBare, mostBare := gauge.Spread(r.bare, loop.seconds)
	hashing, leastHashing, mostHashing := gauge.Spread(r.hashing, loop.seconds)
	ratio := r.salvor.Seconds() / bare
	fmt.Printf("%-44s %8.2f s\n", "the store's death until the host is in error", r.noticed.Seconds())
	fmt.Printf("%-44s %8.2f s %8.0f MiB/s\n", "then, until each blob has two good copies", r.salvor.Seconds(), mib(r.bytes)/max(r.salvor.Seconds(), 0.001))
	fmt.Printf("%-44s %8.2f s %8.0f MiB/s (%.2f to %.2f s)\n", "the same bytes by a plain HTTP loop", bare, mib(r.bytes)/bare, leastBare, mostBare)
	fmt.Printf("%-44s %8.2f s %8.0f MiB/s (%.2f to %.2f s)\n", "by one that hashes too", hashing, mib(r.bytes)/hashing, leastHashing, mostHashing)
	fmt.Printf("%-44s %8.2f, to the loop that hashes %.2f\n", "ratio", ratio, r.salvor.Seconds()/hashing)
	c := r.salvorCPU
	fmt.Printf("%-44s %8.2f s: agents %.2f, api %.2f, engine %.2f, database %.2f, besides the watching %.2f; of the loops %.2f and %.2f s\n", "CPU", c.all().Seconds(),
		c.agents.Seconds(), c.api.Seconds(), c.engine.Seconds(), c.database.Seconds(), r.watchCPU.Seconds(), gauge.Median(r.bare, loop.compute), gauge.Median(r.hashing, loop.compute))
	fmt.Printf("%-44s %8.1f MiB of %.0f (killed at %.0f)\n", "fetched twice because of a killed agent", mib(r.again), mib(r.size), mib(r.killedAt))
	good := ok && r.ok && ratio <= mostRatio && r.again <= mostAgain
	verdict := "MET"
	if !good {
		verdict = "MISSED"
	}
	fmt.Printf("%s: at most %.2f times the plain loop, and a killed agent costs only the rest of its copy\n", verdict, mostRatio)
	return good
}
