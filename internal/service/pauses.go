package service

import (
	"context"
	"errors"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Engines lists the engine processes seen within the last hour, and what each holds.
func (s *Service) Engines(ctx context.Context) ([]ha.EngineState, error) {
	return s.store.EngineStates(ctx)
}

// Pauses lists what operators have paused.
func (s *Service) Pauses(ctx context.Context) ([]ha.Pause, error) { return s.store.Pauses(ctx) }

// Pause stops recoveries from beginning anything new, in one segment or, with none named, everywhere (RECOVERY section 2, gate
// segment). What is under way ends. InvalidError for an end that has passed, NotFoundError of the segment.
func (s *Service) Pause(ctx context.Context, p ha.Pause) error {
	if err := later(p.Until); err != nil {
		return err
	}
	if err := s.onSegment(ctx, &p.Segment); err != nil {
		return err
	}
	if err := s.store.SetPause(ctx, p); err != nil {
		return err
	}
	until := "resumed"
	if p.Until != nil {
		until = p.Until.UTC().Format(time.RFC3339)
	}
	s.cfg.Log.WarnContext(ctx, "recoveries are paused", "segment", scope(p.Segment), "by", p.By, "reason", p.Reason, "until", until)
	s.cfg.Poke()
	return nil
}

// Resume ends a pause. ConflictError when none stands.
func (s *Service) Resume(ctx context.Context, segment, by string) error {
	if err := s.onSegment(ctx, &segment); err != nil {
		return err
	}
	err := s.store.EndPause(ctx, segment)
	var none *ha.NotFoundError
	switch {
	case errors.As(err, &none):
		return &ha.ConflictError{Text: "Nothing is paused here: " + scope(segment) + ". salvor pause --list shows what is."}
	case err != nil:
		return err
	}
	s.cfg.Log.WarnContext(ctx, "a pause of recoveries is ended", "segment", scope(segment), "by", by)
	s.cfg.Poke()
	return nil
}

// later refuses an end that has passed.
func later(until *time.Time) error {
	if until != nil && !until.After(time.Now()) {
		return &ha.InvalidError{Text: "until is in the past: it must be later than now, or left out"}
	}
	return nil
}

// onSegment checks that the segment is there, and makes the id the stored one.
func (s *Service) onSegment(ctx context.Context, uuid *string) error {
	if *uuid == "" {
		return nil
	}
	seg, err := s.Segment(ctx, *uuid)
	*uuid = seg.UUID
	return err
}

func scope(segment string) string {
	if segment == "" {
		return "all"
	}
	return segment
}
