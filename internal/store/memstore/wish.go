package memstore

import (
	"context"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

func (t *tx) recovery(notification string) (*work, error) {
	works := t.worksOf[notification]
	if len(works) == 0 || notification == "" {
		return nil, &ha.NotFoundError{Kind: ha.KindRecovery, ID: notification}
	}
	latest := works[0]
	for _, w := range works {
		if w.ID > latest.ID {
			latest = w
		}
	}
	return latest, nil
}

// Recovery returns the latest unit of work of a notification.
func (s *Store) Recovery(ctx context.Context, notification string) (w ha.Work, err error) {
	err = s.run(ctx, "Recovery", func(t *tx) error {
		row, err := t.recovery(notification)
		if err == nil {
			w = row.view(t.now)
		}
		return err
	})
	return w, err
}

// Wish writes an operator's order into the unit's wishes, and signals it.
func (s *Store) Wish(ctx context.Context, notification string, wish ha.Wish) error {
	return s.run(ctx, "Wish", func(t *tx) error {
		n, err := t.note(notification)
		if err != nil {
			return err
		}
		w, err := t.recovery(notification)
		if err != nil {
			return err
		}
		if w.EndedAt != nil {
			return t.retryEnded(n, w, wish)
		}
		wishes := w.Wishes
		if err := rules.Wish(&wishes, wish); err != nil {
			return err
		}
		if wish.Kind == ha.WishRetryMove {
			m := t.moveUUIDs[wish.VMove]
			if m == nil || m.NotificationUUID != notification {
				return &ha.NotFoundError{Kind: ha.KindVMove, ID: wish.VMove, Under: notification}
			}
			m.RetryWish++
		}
		w.Wishes = wishes
		t.signal(w.Key)
		return nil
	})
}

func (t *tx) retryEnded(n *note, w *work, wish ha.Wish) error {
	if err := rules.WishOfEnded(n.Notification, wish); err != nil {
		return err
	}
	if h := t.hosts[w.HostUUID]; h == nil || h.deletedAt != nil {
		return rules.HostGone(n.UUID)
	}
	if t.active[w.Key] != nil {
		return rules.KeyTaken(n.UUID)
	}
	t.addWork(rules.Again(w.Work, wish))
	return nil
}
