package field

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
)

// link is an engine's way to the database: it can be cut, frozen with its process, and refuse what it is made to.
type link struct {
	engine.Store
	s *scene

	mu     sync.Mutex
	thawed chan struct{}
	away   bool
	refuse func([]ha.Change) error
}

func newLink(s *scene) *link {
	l := &link{Store: s.rows, s: s, thawed: make(chan struct{})}
	close(l.thawed)
	return l
}

func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thawed = make(chan struct{})
}

func (l *link) cut(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

func (l *link) refuses(f func([]ha.Change) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = f
}

// end lets a frozen process go on without a database, so that it can be stopped.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	select {
	case <-l.thawed:
	default:
		close(l.thawed)
	}
}

var errAway = &ha.UnavailableError{What: "database", Err: errors.New("simulated: away")}

func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	thawed := l.thawed
	l.mu.Unlock()
	<-thawed
	time.Sleep(2 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away || ctx.Err() != nil {
		return errAway
	}
	return nil
}

func (l *link) Poll(ctx context.Context, me string) (ha.Poll, error) {
	if err := l.pass(ctx); err != nil {
		return ha.Poll{}, err
	}
	return l.Store.Poll(ctx, me)
}

func (l *link) BeatEngine(ctx context.Context, e ha.Engine) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.Store.BeatEngine(ctx, e)
}

func (l *link) LeaveEngine(ctx context.Context, name string) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.Store.LeaveEngine(ctx, name)
}

func (l *link) Engines(ctx context.Context) ([]ha.Engine, error) {
	if err := l.pass(ctx); err != nil || l.s.cast.alone {
		return nil, err
	}
	return l.Store.Engines(ctx)
}

func (l *link) Claim(ctx context.Context, r ha.ClaimRequest) (ha.Lease, ha.Unit, error) {
	if err := l.pass(ctx); err != nil {
		return ha.Lease{}, ha.Unit{}, err
	}
	return l.Store.Claim(ctx, r)
}

func (l *link) Load(ctx context.Context, lease *ha.Lease) (ha.Unit, error) {
	if err := l.pass(ctx); err != nil {
		return ha.Unit{}, err
	}
	return l.Store.Load(ctx, lease)
}

func (l *link) Beats(ctx context.Context, leases []ha.Lease) (map[int64]ha.Beat, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	return l.Store.Beats(ctx, leases)
}

func (l *link) Commit(ctx context.Context, lease *ha.Lease, changes ...ha.Change) (ha.Beat, error) {
	if err := l.pass(ctx); err != nil {
		return ha.Beat{}, err
	}
	l.mu.Lock()
	refuse := l.refuse
	l.mu.Unlock()
	if refuse != nil {
		if err := refuse(changes); err != nil {
			return ha.Beat{}, err
		}
	}
	beat, err := l.Store.Commit(ctx, lease, changes...)
	if err == nil {
		l.s.wrote(changes)
	}
	return beat, err
}

// wrote keeps what tests ask for: alarms and claims.
func (s *scene) wrote(changes []ha.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		switch c := c.(type) {
		case ha.Write:
			s.log = append(s.log, fmt.Sprintf("%9.3f  %s %s %s", time.Since(s.start).Seconds(), c.Entry.Kind, c.Entry.Task, c.Entry.Text))
			if c.Entry.Kind == ha.EntryAlarm {
				s.alarms = append(s.alarms, c.Entry.Text)
			}
		case ha.SetNotification:
			s.log = append(s.log, fmt.Sprintf("%9.3f  notification %.8s %s %s", time.Since(s.start).Seconds(), c.UUID, c.Status, c.Message))
		case ha.PutClaim:
			s.claims[fmt.Sprint(c.Claim.HostUUID, " ", c.Claim.What, " ", c.Claim.Reason, " ", c.Claim.Detail)] = true
		case ha.DropClaim:
			delete(s.claims, fmt.Sprint(c.HostUUID, " ", c.What, " ", c.Reason, " ", c.Detail))
		}
	}
}

// story tells what happened, for a test that failed.
func (s *scene) story() string {
	s.mu.Lock()
	lines := slices.Clone(s.log)
	s.mu.Unlock()
	for _, c := range s.cloud.Calls(0) {
		if c.Method != "GET" {
			lines = append(lines, fmt.Sprintf("%9.3f  nova <- %s %s %s %s %s %s -> %d", c.At.Sub(s.start).Seconds(), c.Client, c.Method, c.Path, c.Action, c.Host, c.Fault, c.Status))
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[:9], b[:9]) })
	if len(lines) > 200 {
		lines = append(lines[:100], lines[len(lines)-100:]...)
	}
	return strings.Join(lines, "\n")
}

// diary puts the engines' logs into the story.
type diary struct{ s *scene }

func (d *diary) Enabled(context.Context, slog.Level) bool { return true }
func (d *diary) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "claimed" || r.Message == "ended" { // the rows say so
		return nil
	}
	line := fmt.Sprintf("%9.3f  log: %s", time.Since(d.s.start).Seconds(), r.Message)
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.log = append(d.s.log, line)
	return nil
}
func (d *diary) WithAttrs([]slog.Attr) slog.Handler { return d }
func (d *diary) WithGroup(string) slog.Handler      { return d }
