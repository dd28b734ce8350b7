package service

import (
	"context"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// ticketFor is how long a ticket opens a blob: agents ask for orders anew long before.
const ticketFor = 15 * time.Minute

// verifyEvery is how often each copy is hashed again, where Config does not say.
const verifyEvery = 30 * 24 * time.Hour

// Orders are what is open for a host's agent, by the host's uuid, with new tickets for what it is to fetch: each signed with the key of its
// source, for this blob, source and destination alone.
func (s *Service) Orders(ctx context.Context, host string) ([]ha.AgentOrder, error) {
	every := s.cfg.VerifyBlobs
	if every <= 0 {
		every = verifyEvery
	}
	orders, err := s.store.AgentOrders(ctx, host, time.Now().Add(-every))
	if err != nil {
		return nil, err
	}
	expires := time.Now().Add(ticketFor).Truncate(time.Second)
	for i := range orders {
		for j := range orders[i].Sources {
			src := &orders[i].Sources[j]
			if src.Ticket, err = ha.SignTicket(src.Key, ha.Ticket{Blob: orders[i].Blob, Source: src.Host, Destination: host, Expires: expires}); err != nil {
				return nil, err
			}
			src.Key = nil
		}
	}
	return orders, nil
}

// AddBlob puts a blob into the catalogue: with the given uuid, or a new one. hosts are names of hosts that are said to have it; their agents
// are to hash it, and until one has, no copy counts. NotFoundError of a host, InvalidError, ConflictError for another file of that uuid.
func (s *Service) AddBlob(ctx context.Context, b ha.Blob, hosts []string) (ha.BlobDetails, error) {
	if b.UUID == "" {
		b.UUID = newUUID()
	}
	uuids := make([]string, len(hosts))
	for i, name := range hosts {
		h, err := s.store.HostByName(ctx, name)
		if err != nil {
			return ha.BlobDetails{}, err
		}
		uuids[i] = h.UUID
	}
	if _, err := s.store.AddBlob(ctx, b, uuids); err != nil {
		return ha.BlobDetails{}, err
	}
	s.cfg.Poke()
	return s.store.Blob(ctx, b.UUID)
}

// Blobs lists the catalogue, the oldest first; with host, a name, only what has a copy there. NotFoundError of the host, MarkerError.
func (s *Service) Blobs(ctx context.Context, f ha.BlobFilter, host string, limit int, marker string) ([]ha.Blob, error) {
	uuid, err := s.hostUUID(ctx, host)
	if err != nil {
		return nil, err
	}
	f.HostUUID = uuid
	return s.store.Blobs(ctx, f, limit, marker)
}

// Blob shows a blob with its copies. NotFoundError.
func (s *Service) Blob(ctx context.Context, id string) (ha.BlobDetails, error) {
	uuid, err := canonical(ha.KindBlob, id)
	if err != nil {
		return ha.BlobDetails{}, err
	}
	return s.store.Blob(ctx, uuid)
}

// Transfers lists transfers, the newest first, and the names of their hosts; with host, only those to it.
func (s *Service) Transfers(ctx context.Context, f ha.TransferFilter, host string, limit int, marker string) ([]ha.Transfer, map[string]string, error) {
	uuid, err := s.hostUUID(ctx, host)
	if err != nil {
		return nil, nil, err
	}
	f.HostUUID = uuid
	return s.store.Transfers(ctx, f, limit, marker)
}

func (s *Service) hostUUID(ctx context.Context, name string) (*string, error) {
	if name == "" {
		return nil, nil
	}
	h, err := s.store.HostByName(ctx, name)
	if err != nil {
		return nil, err
	}
	return &h.UUID, nil
}

// RescueBlob has everything tried again at once that may still give the blob. NotFoundError.
func (s *Service) RescueBlob(ctx context.Context, id, by, reason string) (ha.BlobDetails, error) {
	return s.order(ctx, id, "an operator has a blob rescued", by, reason, func(uuid string) error { return s.store.RescueBlob(ctx, uuid) })
}

// LoseBlob gives a blob up. ConflictError while a copy is good; NotFoundError.
func (s *Service) LoseBlob(ctx context.Context, id, by, reason string) (ha.BlobDetails, error) {
	return s.order(ctx, id, "an operator gives a blob up", by, reason, func(uuid string) error { return s.store.LoseBlob(ctx, uuid, by) })
}

// DropLocation has the copy on a host (a name, or a uuid) dropped. ConflictError when too few others are known to be good; by force one is
// enough. NotFoundError.
func (s *Service) DropLocation(ctx context.Context, id, host, by, reason string, force bool) (ha.BlobDetails, error) {
	return s.order(ctx, id, "an operator drops a copy of a blob", by, reason, func(uuid string) error {
		d, err := s.store.Blob(ctx, uuid)
		if err != nil {
			return err
		}
		at := host
		for known, name := range d.Hosts { // a host that is registered no more has copies too
			if strings.EqualFold(name, host) {
				at = known
			}
		}
		return s.store.DropLocation(ctx, ha.DropLocation{BlobUUID: uuid, HostUUID: at, By: by, Reason: reason, Force: force})
	})
}

func (s *Service) order(ctx context.Context, id, what, by, reason string, do func(uuid string) error) (ha.BlobDetails, error) {
	uuid, err := canonical(ha.KindBlob, id)
	if err != nil {
		return ha.BlobDetails{}, err
	}
	if err := do(uuid); err != nil {
		return ha.BlobDetails{}, err
	}
	s.cfg.Log.WarnContext(ctx, what, "blob", uuid, "by", by, "reason", reason)
	s.cfg.Poke()
	return s.store.Blob(ctx, uuid)
}
