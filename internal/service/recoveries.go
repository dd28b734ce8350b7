package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Recovery is what is known of a notification's recovery. Work is nil before an engine has taken it up. Journal is a page;
// Earlier tells whether there are entries before it.
type Recovery struct {
	Notification ha.Notification
	Work         *ha.Work
	Journal      []ha.Entry
	Earlier      bool
}

// Recovery shows where the recovery of a notification stands and how it came there: the newest entries of its journal,
// at most limit, or those before the entry with the id before, unless it is 0. NotFoundError of the notification,
// MarkerError of the entry.
func (s *Service) Recovery(ctx context.Context, notification string, before int64, limit int) (Recovery, error) {
	n, err := s.Notification(ctx, notification)
	if err != nil {
		return Recovery{}, err
	}
	journal, err := s.store.Journal(ctx, n.UUID, before, limit+1)
	if err != nil {
		return Recovery{}, err
	}
	more := max(0, len(journal)-limit)
	r := Recovery{Notification: n, Journal: journal[more:], Earlier: more > 0}
	w, err := s.store.Recovery(ctx, n.UUID)
	var none *ha.NotFoundError
	switch {
	case err == nil:
		r.Work = &w
	case !errors.As(err, &none):
		return Recovery{}, err
	}
	return r, nil
}

// Wish passes an operator's order about a recovery on to its owner, who acts on it with its next beat (RECOVERY section
// 5). NotFoundError of the notification or of the move; ConflictError when the order does not fit, or comes before there is
// a recovery.
func (s *Service) Wish(ctx context.Context, notification string, w ha.Wish) error {
	if err := later(w.Until); err != nil {
		return err
	}
	n, err := s.Notification(ctx, notification)
	if err != nil {
		return err
	}
	if w.VMove != "" {
		m, err := s.VMove(ctx, notification, w.VMove)
		if err != nil {
			return err
		}
		w.VMove = m.UUID
	}
	err = s.store.Wish(ctx, n.UUID, w)
	var none *ha.NotFoundError
	switch {
	case err == nil:
		s.cfg.Poke()
		return nil
	case errors.As(err, &none) && none.Kind == ha.KindRecovery:
		return notTakenUp(n)
	default:
		return err
	}
}

// notTakenUp says what can be done about an order that comes before an engine, or after the end of what needed none.
func notTakenUp(n ha.Notification) error {
	switch n.Status {
	case ha.StatusNew, ha.StatusRunning, ha.StatusError:
		return &ha.ConflictError{Text: fmt.Sprintf("No engine has taken up notification %s yet, so there is no recovery to give an order to: "+
			"try again in a second. If it stays so, no engine is running.", n.UUID)}
	default:
		return &ha.ConflictError{Text: fmt.Sprintf("Notification %s is %s without a recovery, so there is nothing to give an order to.", n.UUID, n.Status)}
	}
}

// ConfirmOff files an operator's word that the host is off: a new report that carries it as proof (RECOVERY section 2).
// Errors as of Report.
func (s *Service) ConfirmOff(ctx context.Context, host, by, reason string) (ha.Notification, error) {
	return s.admit(ctx, ha.Report{
		Type: ha.TypeComputeHost, Hostname: host, GeneratedTime: time.Now().UTC(),
		Payload: ha.Payload{
			ha.KeyEvent: ha.EventStopped, ha.KeyHostStatus: ha.HostStatusNormal, ha.KeyConfirmedBy: confirmedBy(by, reason),
		},
	})
}

// confirmedBy is the value kept in the payload. Payload values have at most 255 characters (contract 1.9); the name comes
// first, so that it is never cut off.
func confirmedBy(by, reason string) string {
	text := []rune(by + ": " + reason)
	return string(text[:min(len(text), 255)])
}
