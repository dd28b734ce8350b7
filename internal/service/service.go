package service

import (
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// Config are the options of the use cases.
type Config struct {
	// DuplicateInterval is duplicate_notification_detection_interval (rule A3).
	DuplicateInterval time.Duration
	// VerifyBlobs is how often each copy of a blob is hashed again (blob_verify_interval); 0: the default.
	VerifyBlobs time.Duration
	// Poke is called after something durable that an engine should look at: with an engine in the same process it
	// need not wait for its next poll. It must not block; nil when there is none.
	Poke func()
	Log  *slog.Logger

	// Cloud is where coverage and plans look; nil: they cannot. Rules are the engine's, Fenced says whether something can power a
	// host off; nil: it is not known here, as the fencing file is the engines'.
	Cloud  Cloud
	Rules  plan.Rules
	Fenced func(host string) bool
}

// maxJournal bounds how much of a journal recovery_workflow_details is made of: that answer has no pages. A recovery of 200
// instances writes about 2,000 entries.
const maxJournal = 20000

// Service carries out the use cases.
type Service struct {
	store   Store
	compute ComputeServices
	cfg     Config

	arrivals arrivals
}

// New returns a service over the store and Nova.
func New(store Store, compute ComputeServices, cfg Config) *Service {
	if cfg.Poke == nil {
		cfg.Poke = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{store: store, compute: compute, cfg: cfg, arrivals: arrivals{store: store, waiting: map[chan struct{}]string{}, last: -1}}
}

// fenced reports whether something can power the host off, and whether that is known here.
func (s *Service) fenced(host string) (can, known bool) {
	if s.cfg.Fenced == nil {
		return false, false
	}
	return s.cfg.Fenced(host), true
}

func newUUID() string { return uuid.NewString() }

// canonical returns an object's uuid as it is stored. What cannot be one names nothing: it never reaches the database.
func canonical(kind ha.Kind, id string) (string, error) {
	if s, ok := ha.CanonicalUUID(id); ok {
		return s, nil
	}
	return "", &ha.NotFoundError{Kind: kind, ID: id}
}
