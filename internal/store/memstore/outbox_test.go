package memstore_test

import (
	"testing"

	"github.com/salvor-ha/salvor/internal/store/memstore"
	"github.com/salvor-ha/salvor/internal/store/rules"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

func TestOutbox(t *testing.T) {
	storetest.RunOutbox(t, func(*testing.T) storetest.OpenOutbox {
		var s *memstore.Store
		return func(_ *testing.T, a *rules.Announce) storetest.OutboxBackend {
			if s == nil {
				s = memstore.New(memstore.Config{Announce: a})
			}
			return s
		}
	})
}
