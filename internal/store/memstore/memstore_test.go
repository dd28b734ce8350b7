package memstore_test

import (
	"testing"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/store/memstore"
	"github.com/salvor-ha/salvor/internal/store/storetest"
)

var (
	_ engine.Store  = (*memstore.Store)(nil)
	_ service.Store = (*memstore.Store)(nil)
)

func TestSuite(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Open {
		s := memstore.New(memstore.Config{})
		return func(*testing.T) storetest.Backend { return s }
	})
}
