package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	lookEvery = 100 * time.Millisecond
	// onceWithin bounds a run for a script. Its own course takes well under 10 s.
	onceWithin = 3 * time.Minute
)

// ErrNotBack says that a demonstration did not end well; what was wrong has been printed.
var ErrNotBack = errors.New("not every instance came back as it should")

var errInterrupted = errors.New("interrupted before the demonstration was over")

// Once lets one host die and writes what happens as timed lines, or, with asJSON, only the summary. It ends when salvor is
// done with it; ErrNotBack when that did not go well.
func Once(ctx context.Context, o Options, out io.Writer, asJSON bool) error {
	within, cancel := context.WithTimeout(ctx, onceWithin)
	defer cancel()
	w, err := start(within, o)
	var r Report
	if err == nil {
		r, err = once(within, w, out, asJSON)
		err = errors.Join(err, w.stop())
	}
	switch {
	case ctx.Err() != nil: // what was not back yet is no problem
		return errInterrupted
	case err != nil:
		return err
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		_, err = fmt.Fprintf(out, "\n%s", r)
	}
	if err == nil && !r.OK {
		err = ErrNotBack
	}
	return err
}

func once(ctx context.Context, w *world, out io.Writer, quiet bool) (Report, error) {
	s, err := setUp(ctx, w)
	if err != nil {
		return Report{}, err
	}
	tell := newTeller(out, quiet, s.began)
	tell.say(Line{At: s.began, Text: fmt.Sprintf("a simulated cloud of %s with %s, salvor beside it, at %s",
		count(len(s.current().Hosts), "host"), count(instances(s.current().Hosts), "instance"), w.url)})
	host := s.current().next(nil)
	if err := s.kill(ctx, host); err != nil {
		return Report{}, err
	}
	if err := s.report(ctx, host); err != nil {
		return Report{}, err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := s.look(ctx)
		scene := s.current()
		tell.tell(scene.Story())
		if i := scene.Incidents[0]; err == nil && i.settled || ctx.Err() != nil {
			return scene.report(i), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		case err := <-w.failed:
			return Report{}, err
		}
	}
}

func instances(hosts []Host) int {
	n := 0
	for _, h := range hosts {
		n += len(h.Instances)
	}
	return n
}

// teller writes each line once, with its seconds.
type teller struct {
	out   io.Writer
	quiet bool
	began time.Time
	told  map[string]bool
}

func newTeller(out io.Writer, quiet bool, began time.Time) *teller {
	return &teller{out: out, quiet: quiet, began: began, told: map[string]bool{}}
}

func (t *teller) tell(lines []Line) {
	for _, l := range lines {
		if key := l.At.String() + l.Text; !t.told[key] {
			t.told[key] = true
			t.say(l)
		}
	}
}

func (t *teller) say(l Line) {
	if !t.quiet {
		fmt.Fprintf(t.out, "%6.1f s  %s\n", l.At.Sub(t.began).Seconds(), l.Text)
	}
}
