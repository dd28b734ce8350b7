package service

import (
	"context"

	"github.com/salvor-ha/salvor/internal/ha"
)

// StorageStore is what the use cases of storage health need of the rows (STORAGE-HEALTH). Every method is one transaction.
type StorageStore interface {
	// ReportStorage decides about an agent's report and stores it behind the host's touched row: NotFoundError of the host,
	// StaleEpochError. A failure opens or grows an episode and wakes its unit.
	ReportStorage(ctx context.Context, r ha.AgentReport) (ha.Accepted, error)
	// FailStorage opens an episode by an operator's word, or grows the radius of the open one. NotFoundError of the host.
	FailStorage(ctx context.Context, f ha.Fail) (ha.Episode, error)
	StorageHealth(ctx context.Context, host string) (ha.HostHealth, *ha.Episode, error)
	// Episodes lists episodes, the newest first, after the one whose uuid is the marker: MarkerError.
	Episodes(ctx context.Context, f ha.EpisodeFilter, limit int, marker string) ([]ha.Episode, error)
	Episode(ctx context.Context, uuid string) (ha.EpisodeDetails, error)
	// HoldStorage and ClearStorage: NotFoundError, ConflictError when it does not fit. Both wake the unit.
	HoldStorage(ctx context.Context, h ha.Hold) error
	ClearStorage(ctx context.Context, c ha.Clear) (ha.Episode, error)
	Agent(ctx context.Context, host string) (ha.Agent, error)
	// SetAgentKey and SetAgentUser bind who may speak for a host; ticketKey is kept for a host that has none. NotFoundError.
	SetAgentKey(ctx context.Context, host, hash, by string, ticketKey []byte) error
	SetAgentUser(ctx context.Context, host, user, by string, ticketKey []byte) error
	SetStorageAction(ctx context.Context, segment, action string) error
	StorageAction(ctx context.Context, segment string) (string, error)
	// StorageActions are the segments with an action of their own, by uuid, behind the one that is named.
	StorageActions(ctx context.Context, after string, limit int) ([]ha.StorageAction, error)
	HostByUUID(ctx context.Context, uuid string) (ha.Host, error)
}
