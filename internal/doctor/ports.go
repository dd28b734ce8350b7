package doctor

import (
	"context"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Cloud is Nova with the service's own account. It should have no memory of earlier calls: a login that still holds proves nothing.
type Cloud interface {
	Login(ctx context.Context) (ha.Login, error)
	Versions(ctx context.Context, endpoint string) (ha.NovaVersions, error)
	Services(ctx context.Context) ([]ha.Service, error)
	Sample(ctx context.Context, host string) ([]ha.Server, error)
	Server(ctx context.Context, id string) (ha.Server, error)
	Migrations(ctx context.Context, host string) ([]ha.Migration, error)
	Actions(ctx context.Context, instance string) ([]ha.ServerAction, error)
	Providers(ctx context.Context, instance string) ([]string, error)
	Aggregates(ctx context.Context) ([]ha.Aggregate, error)
	// Do is asked for acts on what does not exist only.
	Do(ctx context.Context, act ha.Act) (ha.Outcome, error)
}

// Store is the database.
type Store interface {
	Checkup(ctx context.Context) (ha.DatabaseState, error)
	Segments(ctx context.Context, f ha.SegmentFilter, p ha.Page) ([]ha.Segment, error)
	Hosts(ctx context.Context, f ha.HostFilter, p ha.Page) ([]ha.Host, error)
	EngineStates(ctx context.Context) ([]ha.EngineState, error)
	Pauses(ctx context.Context) ([]ha.Pause, error)
	Outlook(ctx context.Context, segment string) (ha.Outlook, error)
}

// Method is one way to a host's power as a rehearsal found it.
type Method struct {
	Name string
	OK   bool
	Text string // what was seen, or what is wrong
	At   time.Time
}

// Fencing knows how each host is fenced.
type Fencing interface {
	// Methods are a host's with their latest rehearsal, which harms nobody; none where the host is not fenced. An error: the
	// fencing file cannot be applied to it.
	Methods(ctx context.Context, host string) ([]Method, error)
}

// Web looks at addresses from outside.
type Web interface {
	// Certificate is until when the certificates that a TLS server shows are valid: the earliest end.
	Certificate(ctx context.Context, url string) (until time.Time, err error)
	// API asks salvor's own API who it is; an error when something else, or nothing, answers.
	API(ctx context.Context, url string) error
}

// Patient is what is looked at.
type Patient struct {
	Cloud   Cloud  // nil: none is configured
	NoCloud string // what to set, where there is none
	Store   func(ctx context.Context) (Store, error)
	Fencing Fencing // nil: hosts are not fenced
	Web     Web
	More    []func(ctx context.Context) []Check // what else the configuration names
	Rules   Rules
}

// Rules are the options that the judgement rests on.
type Rules struct {
	BrakePercent   int
	AddToAggregate bool
	DisableReason  string        // of a host that a recovery has forced down
	WaitEvacuation time.Duration // how long an order is waited for
	SkipAPI        bool          // nobody looks for the API in the catalog
}
