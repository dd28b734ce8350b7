package service

import (
	"context"
	"fmt"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Report admits a monitor's report (RECOVERY section 1). It is durable when Report returns. NotFoundError of the host by
// name, MaintenanceError, DuplicateError; InvalidError for a payload that claims an operator's word.
func (s *Service) Report(ctx context.Context, r ha.Report) (ha.Notification, error) {
	if _, forged := r.Payload[ha.KeyConfirmedBy]; forged {
		return ha.Notification{}, &ha.InvalidError{Text: fmt.Sprintf("Additional properties are not allowed ('%s' was unexpected)", ha.KeyConfirmedBy)}
	}
	return s.admit(ctx, r)
}

// admit fixes the uuid before the transaction, so that a lost answer can be looked up (rule A1).
func (s *Service) admit(ctx context.Context, r ha.Report) (ha.Notification, error) {
	r.UUID = newUUID()
	n, err := s.store.Admit(ctx, r, s.cfg.DuplicateInterval)
	if err == nil {
		s.cfg.Poke()
	}
	return n, err
}

// Notifications lists a page of notifications. MarkerError.
func (s *Service) Notifications(ctx context.Context, f ha.NotificationFilter, p ha.Page) ([]ha.Notification, error) {
	return s.store.Notifications(ctx, f, p)
}

// Notification shows one. NotFoundError.
func (s *Service) Notification(ctx context.Context, id string) (ha.Notification, error) {
	uuid, err := canonical(ha.KindNotification, id)
	if err != nil {
		return ha.Notification{}, err
	}
	return s.store.Notification(ctx, uuid)
}

// NotificationDetails shows one with its journal. NotFoundError. It asks rows, never an engine, so it neither waits nor
// fails when none is there (contract 12, row 10).
func (s *Service) NotificationDetails(ctx context.Context, id string) (ha.Notification, []ha.Entry, error) {
	n, err := s.Notification(ctx, id)
	if err != nil {
		return ha.Notification{}, nil, err
	}
	journal, err := s.store.Journal(ctx, n.UUID, 0, maxJournal)
	return n, journal, err
}
