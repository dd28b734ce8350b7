package demo

import (
	"context"
	"time"
)

// frame is what the terminal shows from a moment on, with the escape sequences of its colours.
type frame struct {
	at     time.Duration
	screen string
}

// recordEvery is the pace of a recording.
const recordEvery = 200 * time.Millisecond

// record runs the demonstration as Show does, for a terminal of this size that nobody sits at, until shortly after the first
// host's instances are back.
func record(ctx context.Context, w *world, width, height int) ([]frame, error) {
	s, err := setUp(ctx, w)
	if err != nil {
		return nil, err
	}
	host := s.current().next(nil)
	var frames []frame
	var ended time.Time
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for {
		if err := s.look(ctx); err != nil {
			return nil, err
		}
		scene := s.current()
		frames = append(frames, frame{scene.At.Sub(scene.Began), render(scene, width, height)})
		var err error
		switch elapsed := scene.At.Sub(scene.Began); {
		case len(scene.Incidents) == 0:
			if elapsed >= calmFor-2*time.Second {
				err = s.kill(ctx, host)
			}
		case scene.Incidents[0].ReportedAt.IsZero():
			if elapsed >= calmFor-2*time.Second+reportAfter {
				err = s.report(ctx, host)
			}
		case scene.Incidents[0].settled && ended.IsZero():
			ended = scene.At
		case !ended.IsZero() && scene.At.Sub(ended) > time.Second:
			return frames, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
