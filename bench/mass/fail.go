package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/salvor-ha/salvor/bench/internal/gauge"
	"github.com/salvor-ha/salvor/internal/testkit"
)

const (
	brakePercent = 50
	patience     = time.Minute
)

// result is what one failure came to.
type result struct {
	name      string
	brake     bool
	hosts     int
	instances int
	skipped   string
	ok        bool

	reported time.Duration // from the first report's 202 to the last one's
	moved    time.Duration // from the first report's 202 until the last instance was ACTIVE elsewhere
	ordered  time.Duration // from the first report's 202 to the last order
	settled  time.Duration // from the first report's 202 until the last notification had ended
	refused  int           // reports that had to be repeated
	held     int           // by the brake
	released int
	heldSays string
	named    int // instances that did not move, with a reason
	wrong    []string

	engines   []engineUse
	questions int64
	cpu       map[string]time.Duration // by role
}

type engineUse struct {
	recoveries int     // that it ended, by its own count
	takeovers  int     // of units whose owner was believed dead
	peak       float64 // MB
	cpu        time.Duration
}

// fail lets the victims die, has each reported, and waits until all is done. Under the brake it releases what is held.
func (w *world) fail(r *result) {
	before, questions := w.spent(), w.questions()
	stopPerf := w.perf(r.name)
	first, last := w.die(r)
	r.reported = last.Sub(first)
	limit := 10*w.o.least() + 5*time.Minute
	all := w.await(limit, func(ns []notification) bool {
		ended, braked := count(ns)
		gauge.Say("%s: %d of %d recoveries ended, %d held by the brake", r.name, ended, len(ns), braked)
		return ended == len(ns) || r.brake && ended+braked == len(ns)
	})
	if r.brake {
		all = w.release(r, all, limit)
	}
	r.settled = time.Since(first)
	stopPerf()
	after := w.spent()
	r.questions = w.questions() - questions
	r.cpu = map[string]time.Duration{}
	for role, d := range after {
		r.cpu[role] = d - before[role]
	}
	for _, e := range w.engines {
		r.engines = append(r.engines, engineUse{
			recoveries: w.counted(e, `salvor_recovery_seconds_count{kind="host"`),
			takeovers:  w.counted(e, `salvor_engine_claims_total{kind="host",takeover="true"`),
			peak:       gauge.PeakMemory(w.tb, e.process.PID()),
			cpu:        gauge.CPU(w.tb, e.process.PID()),
		})
	}
	w.check(r, first, all)
}

func count(ns []notification) (ended, braked int) {
	for _, n := range ns {
		switch {
		case n.ended():
			ended++
		case n.braked():
			braked++
		}
	}
	return ended, braked
}

// die kills the victims at an even pace; each is reported a while later, by turns to each api. It returns when the first and
// the last report were accepted.
func (w *world) die(r *result) (first, last time.Time) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for i, host := range w.victims {
		at := begin.Add(time.Duration(i) * w.o.within / time.Duration(len(w.victims)))
		time.Sleep(time.Until(at))
		testkit.Must(w.tb, 200, "POST", w.sim+"/sim/hosts/"+host+"/kill", nil)
		wg.Go(func() {
			time.Sleep(w.o.noticed)
			again := w.report(w.urls[i%len(w.urls)], testkit.HostDown(host, at))
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			r.refused += again
			if first.IsZero() || now.Before(first) {
				first = now
			}
			if now.After(last) {
				last = now
			}
		})
	}
	wg.Wait()
	if w.tb.Failed() {
		w.tb.Fatal("not all reports were accepted")
	}
	return first, last
}

// monitorRetry and monitorTries are how Masakari's monitors repeat a report that was not accepted (api_retry_interval, _max).
const (
	monitorRetry = 10 * time.Second
	monitorTries = 12
)

// report posts as a monitor does, and returns how often it had to be repeated.
func (w *world) report(api string, body any) (again int) {
	for {
		status, answer, err := testkit.TryCall("POST", api+"/v1/notifications", body)
		if err == nil && status == http.StatusAccepted {
			return again
		}
		if again++; again > monitorTries || w.tb.Context().Err() != nil {
			w.tb.Errorf("a report: %d %v %v", status, answer, err)
			return again
		}
		time.Sleep(monitorRetry)
	}
}

// await polls the notifications until done says so.
func (w *world) await(within time.Duration, done func([]notification) bool) []notification {
	var all []notification
	deadline := time.Now().Add(within)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if all = w.list(); done(all) {
			return all
		}
		if time.Now().After(deadline) {
			w.tb.Fatalf("not done within %s: %+v", within, all[:min(3, len(all))])
		}
		select {
		case <-tick.C:
		case <-w.tb.Context().Done():
			w.tb.Fatal("interrupted")
		}
	}
}

// numbers are what the brake tells an operator.
var numbers = regexp.MustCompile(`(\d+) of (\d+) hosts of the segment are down, brake at more than (\d+) %`)

// release lets what the brake holds go on, as an operator does.
func (w *world) release(r *result, all []notification, limit time.Duration) []notification {
	for _, n := range all {
		if !n.braked() {
			continue
		}
		r.held++
		if !numbers.MatchString(n.message) {
			r.wrong = append(r.wrong, "held without numbers: "+n.message)
		}
		r.heldSays = n.message
	}
	for _, n := range all {
		if !n.braked() {
			continue
		}
		testkit.Must(w.tb, 202, "POST", w.urls[0]+"/v1/ext/recoveries/"+n.uuid+"/release", map[string]any{"reason": "looked at"})
		r.released++
	}
	return w.await(limit, func(ns []notification) bool {
		ended, braked := count(ns)
		gauge.Say("%s, released: %d of %d recoveries ended, %d held by the brake", r.name, ended, len(ns), braked)
		return ended == len(ns)
	})
}

// spent is the CPU time of each role so far.
func (w *world) spent() map[string]time.Duration {
	out := map[string]time.Duration{"sim": gauge.CPU(w.tb, w.simPID), "database": gauge.CPU(w.tb, w.db.PID)}
	for _, p := range w.apis {
		out["api"] += gauge.CPU(w.tb, p.PID())
	}
	for _, e := range w.engines {
		out["engines"] += gauge.CPU(w.tb, e.process.PID())
	}
	return out
}

// counted sums those of an engine's metrics that begin so.
func (w *world) counted(e engine, prefix string) int {
	req, err := http.NewRequestWithContext(w.tb.Context(), http.MethodGet, e.metrics, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.tb.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			n, err := strconv.Atoi(strings.Fields(line)[1])
			if err != nil {
				w.tb.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// perf samples the engines', the database's and the simulator's stacks until the function that it returns is called.
func (w *world) perf(name string) func() {
	if w.o.perfFolder == "" {
		return func() {}
	}
	pids := []string{fmt.Sprint(w.simPID), fmt.Sprint(w.db.PID)}
	for _, e := range w.engines {
		pids = append(pids, fmt.Sprint(e.process.PID()))
	}
	file := filepath.Join(w.o.perfFolder, name+".perf.data")
	cmd := exec.CommandContext(w.tb.Context(), "perf", "record", "-q", "-F", "99", "-g", "-o", file, "-p", strings.Join(pids, ","))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.tb.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait() // it says by itself what went wrong
	}
}

// state is what /sim/state tells.
type state struct {
	Instances []struct {
		ID, Host, Status string
		Locked           bool
		Evacuations      int
		Wrecks           int
		OrderedAt        *time.Time `json:"ordered_at"`
		ArrivedAt        *time.Time `json:"arrived_at"`
		RunningOn        []string   `json:"running_on"`
	}
	DoubleRuns   []any `json:"double_runs"`
	DoubleOrders []any `json:"double_orders"`
}

// check compares what is true with what was to be.
func (w *world) check(r *result, first time.Time, all []notification) {
	wrong := func(format string, args ...any) { r.wrong = append(r.wrong, fmt.Sprintf(format, args...)) }
	for _, n := range all {
		if n.status != "finished" {
			wrong("notification %s is %s: %s", n.uuid, n.status, n.message)
		}
	}
	s := w.state()
	if len(s.DoubleRuns)+len(s.DoubleOrders) > 0 {
		wrong("%d double runs, %d double orders", len(s.DoubleRuns), len(s.DoubleOrders))
	}
	if len(s.Instances) != r.instances {
		wrong("%d instances, not %d", len(s.Instances), r.instances)
	}
	dead := map[string]bool{}
	for _, host := range w.victims {
		dead[host] = true
	}
	var left []string
	for _, i := range s.Instances {
		if i.ArrivedAt == nil {
			left = append(left, i.ID)
			continue
		}
		r.moved = max(r.moved, i.ArrivedAt.Sub(first))
		r.ordered = max(r.ordered, i.OrderedAt.Sub(first))
		if dead[i.Host] || i.Status != "ACTIVE" || i.Locked || i.Evacuations != 1 || i.Wrecks != 0 || len(i.RunningOn) != 1 {
			wrong("instance %+v", i)
		}
	}
	if len(left) > 0 {
		w.named(r, left, all)
	}
}

func (w *world) state() state {
	var s state
	req, err := http.NewRequestWithContext(w.tb.Context(), http.MethodGet, w.sim+"/sim/state", nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		w.tb.Fatal(err)
	}
	return s
}

// named looks for the reasons of the instances that did not move.
func (w *world) named(r *result, left []string, all []notification) {
	reasons := map[string]string{}
	for _, n := range all {
		answer := testkit.Must(w.tb, 200, "GET", w.urls[0]+"/v1/notifications/"+n.uuid+"/vmoves?limit=1000", nil)
		for _, x := range answer["vmoves"].([]any) {
			m := x.(map[string]any)
			if text, _ := m["message"].(string); text != "" {
				reasons[m["instance_uuid"].(string)] = text
			}
		}
	}
	for _, id := range left {
		if reasons[id] == "" {
			r.wrong = append(r.wrong, "instance "+id+" did not move, and nothing says why")
			continue
		}
		r.named++
	}
}
