package service

import (
	"context"
	"errors"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Recovery is what is known of a notification's recovery. Work is nil before an engine has taken it up.
type Recovery struct {
	Notification ha.Notification
	Work         *ha.Work
	Journal      []ha.Entry
}

// Recovery shows where the recovery of a notification stands and how it came there. NotFoundError of the notification.
func (s *Service) Recovery(ctx context.Context, notification string) (Recovery, error) {
	n, journal, err := s.NotificationDetails(ctx, notification)
	if err != nil {
		return Recovery{}, err
	}
	r := Recovery{Notification: n, Journal: journal}
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
// 5). NotFoundError of the notification, of its recovery or of the move; ConflictError when the order does not fit.
func (s *Service) Wish(ctx context.Context, notification string, w ha.Wish) error {
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
	if err := s.store.Wish(ctx, n.UUID, w); err != nil {
		return err
	}
	s.cfg.Poke()
	return nil
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
