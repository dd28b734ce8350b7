package service

import (
	"context"
	"fmt"

	"github.com/salvor-ha/salvor/internal/ha"
)

// VMoves lists a page of a notification's moves. NotFoundError of the notification, InvalidError for one of a type that
// has none, MarkerError.
func (s *Service) VMoves(ctx context.Context, notification string, f ha.VMoveFilter, p ha.Page) ([]ha.VMove, error) {
	n, err := s.withMoves(ctx, notification)
	if err != nil {
		return nil, err
	}
	f.NotificationUUID = n.UUID
	return s.store.VMoves(ctx, f, p)
}

// VMove shows one move of a notification. Errors as of VMoves; NotFoundError also for a move of another notification.
func (s *Service) VMove(ctx context.Context, notification, id string) (ha.VMove, error) {
	n, err := s.withMoves(ctx, notification)
	if err != nil {
		return ha.VMove{}, err
	}
	uuid, err := canonical(ha.KindVMove, id)
	if err != nil {
		return ha.VMove{}, err
	}
	return s.store.VMove(ctx, n.UUID, uuid)
}

// withMoves finds a notification that can have moves: only a host's has.
func (s *Service) withMoves(ctx context.Context, notification string) (ha.Notification, error) {
	n, err := s.Notification(ctx, notification)
	if err == nil && n.Type != ha.TypeComputeHost {
		err = &ha.InvalidError{Text: fmt.Sprintf("This notification %s without vm moves.", notification)}
	}
	return n, err
}
