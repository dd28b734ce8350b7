package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// unreadable is a store whose rows cannot be read for a while.
type unreadable struct {
	Store
	until time.Time
}

func (u *unreadable) Poll(context.Context, string) (ha.Poll, error) {
	if time.Now().Before(u.until) {
		return ha.Poll{}, errors.New("connection refused")
	}
	return ha.Poll{}, nil
}
func (*unreadable) BeatEngine(context.Context, ha.Engine) error { return nil }
func (*unreadable) LeaveEngine(context.Context, string) error   { return nil }

// TestLookThatFailsForMinutes is told at once, then at growing gaps with the count, and when it is over: it was a line twice a second.
func TestLookThatFailsForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := New(Config{Name: "me", Tick: time.Second, TTL: 5 * time.Second, Poll: 500 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))},
			&unreadable{until: time.Now().Add(220 * time.Second)}, nil, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		e.Run(ctx)
		text := log.String()
		if n := strings.Count(text, "could not look for work"); n != 5 { // after 0, 10, 30, 70, 150 s
			t.Errorf("%d lines in 220 s:\n%s", n, text)
		}
		for _, want := range []string{"times=301 for=2m30s", `msg="looks for work again" engine=me after=3m40s times=440`} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	})
}
