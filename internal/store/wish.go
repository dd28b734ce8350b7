package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

// Recovery returns the latest unit of work of a notification.
func (s *Store) Recovery(ctx context.Context, notification string) (ha.Work, error) {
	missing := &ha.NotFoundError{Kind: ha.KindRecovery, ID: notification}
	if !rules.Storable(notification) || notification == "" {
		return ha.Work{}, missing
	}
	var w ha.Work
	err := s.read(ctx, "reading a recovery", func(ctx context.Context, db bun.IDB) error {
		row, now, err := s.workNow(ctx, db, "t.notification_uuid = ?", notification)
		if errors.Is(err, sql.ErrNoRows) {
			return missing
		}
		w = row.work(now)
		return err
	})
	return w, err
}

// Wish writes an operator's order into the wishes of the notification's unit of work, and signals it. It touches nothing
// that is the owner's.
func (s *Store) Wish(ctx context.Context, notification string, wish ha.Wish) error {
	err := s.write(ctx, "writing an operator's order", func(ctx context.Context, tx bun.Tx) error {
		n, err := one[notificationRow](ctx, tx, "notification_uuid = ? AND deleted = 0", notification)
		if err != nil {
			return err
		}
		if n == nil {
			return &ha.NotFoundError{Kind: ha.KindNotification, ID: notification}
		}
		latest, _, err := s.workNow(ctx, tx, "t.notification_uuid = ?", notification)
		if errors.Is(err, sql.ErrNoRows) {
			return &ha.NotFoundError{Kind: ha.KindRecovery, ID: notification}
		}
		if err != nil {
			return err
		}
		// The touch decides whether it is active: an owner that is about to end it waits, or ends it first.
		active, err := changed(ctx, tx, "UPDATE work SET signals = signals + 1, next_look_at = ? WHERE id = ? AND ended = 0", s.d.now(), latest.ID)
		if err != nil {
			return err
		}
		if active == 0 {
			return s.retryEnded(ctx, tx, notification, latest.ID, wish)
		}
		return s.wishActive(ctx, tx, latest.ID, wish)
	}, nil)
	if s.duplicate(err) {
		return rules.KeyTaken(notification)
	}
	return err
}

func (s *Store) wishActive(ctx context.Context, tx bun.Tx, id int64, wish ha.Wish) error {
	row, now, err := s.workNow(ctx, tx, "t.id = ?", id)
	if err != nil {
		return err
	}
	w := row.work(now)
	if err := rules.Wish(&w.Wishes, wish); err != nil {
		return err
	}
	if wish.Kind == ha.WishRetryMove {
		missing := &ha.NotFoundError{Kind: ha.KindVMove, ID: wish.VMove, Under: w.NotificationUUID}
		if !rules.Storable(wish.VMove) {
			return missing
		}
		n, err := changed(ctx, tx, "UPDATE vmoves SET retry_wish = retry_wish + 1 WHERE uuid = ? AND notification_uuid = ? AND deleted = 0",
			wish.VMove, w.NotificationUUID)
		if err == nil && n == 0 {
			return missing
		}
		return err
	}
	row.setWishes(w.Wishes)
	_, err = tx.NewUpdate().Model(&row).Column(wishColumns...).WherePK().Exec(ctx)
	return err
}

// retryEnded makes a new unit for a recovery that failed.
func (s *Store) retryEnded(ctx context.Context, tx bun.Tx, notification string, id int64, wish ha.Wish) error {
	row, now, err := s.workNow(ctx, tx, "t.id = ?", id)
	if err != nil {
		return err
	}
	n, err := one[notificationRow](ctx, tx, "notification_uuid = ? AND deleted = 0", notification)
	if err != nil {
		return err
	}
	if n == nil {
		return &ha.NotFoundError{Kind: ha.KindNotification, ID: notification}
	}
	if err := rules.WishOfEnded(n.notification(), wish); err != nil {
		return err
	}
	again := rules.Again(row.work(now), wish)
	// Whatever its kind: who deletes the host at the same time moves the row too, and one of the two comes first.
	there, err := changed(ctx, tx, "UPDATE hosts SET touch = touch + 1 WHERE uuid = ? AND deleted = 0", again.HostUUID)
	if err != nil {
		return err
	}
	if there == 0 {
		return rules.HostGone(notification)
	}
	next := newWork(again, now)
	_, err = tx.NewInsert().Model(&next).Exec(ctx)
	return err
}
