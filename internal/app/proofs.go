package app

import (
	"github.com/salvor-ha/salvor/internal/agent"
	"github.com/salvor-ha/salvor/internal/agent/disks"
	"github.com/salvor-ha/salvor/internal/announce"
	"github.com/salvor-ha/salvor/internal/api"
	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/keystone"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/sim"
	"github.com/salvor-ha/salvor/internal/store"
)

// The adapters fit the interfaces that their consumers declare.
var (
	_ agent.API               = (*client.Client)(nil)
	_ disks.Prober            = disks.Children{}
	_ announce.Outbox         = (*store.Store)(nil)
	_ engine.Store            = (*store.Store)(nil)
	_ engine.Store            = (*watched)(nil)
	_ engine.Cloud            = (*nova.Client)(nil)
	_ engine.Cloud            = (*sim.Nova)(nil)
	_ engine.Cloud            = noCloud{}
	_ service.Store           = (*store.Store)(nil)
	_ service.Store           = counted{}
	_ service.ComputeServices = (*nova.Client)(nil)
	_ service.ComputeServices = (*sim.Nova)(nil)
	_ service.ComputeServices = noCloud{}
	_ service.Cloud           = (*nova.Client)(nil)
	_ service.Cloud           = noCloud{}
	_ api.Authenticator       = (*keystone.Validator)(nil)
	_ api.Authenticator       = api.NoAuth{}
)
