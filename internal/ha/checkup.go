package ha

import "time"

// Login is what Keystone gave for an account: what it may do, for how long, and where the services are.
type Login struct {
	Roles   []string
	Scope   string // what the token is for: a project's name, or "system"
	Lasts   time.Duration
	Catalog []Endpoint
	// Compute and Placement are those that salvor would take. Where the catalog has none, URL is "" and the other fields are
	// what was looked for.
	Compute, Placement Endpoint
	Clock              Clock
}

// Endpoint is one of Keystone's catalog.
type Endpoint struct {
	Service   string // type: compute, placement, instance-ha
	Name      string // of the service; "" of a wanted one: any
	Interface string // public, internal, admin
	Region    string // "" of a wanted one: any
	URL       string
}

// Clock is what a service answered about its time.
type Clock struct {
	Told  time.Time // by its clock; zero: it told none
	Here  time.Time // by this machine's clock, between question and answer
	Rough time.Duration
}

// Ahead is by how much the other clock is ahead of this machine's, within Rough; false: nobody knows.
func (c Clock) Ahead() (time.Duration, bool) { return c.Told.Sub(c.Here), !c.Told.IsZero() }

// NovaVersions are the minor numbers of the microversions 2.x that Nova offers, and the one that salvor takes.
type NovaVersions struct {
	Low, High, Used int
	Clock           Clock
}

// DatabaseState is what the database says of itself, and what it lets salvor do.
type DatabaseState struct {
	Where     string // for people, no secret
	Version   string // of the tables, "" for none
	Newest    string // the one that this program needs
	Missing   []string
	Refused   []string // what the account may not do, or the server does not let it: "INSERT into hosts: …"
	Trouble   []string // settings of the server's under which writes are lost, and what is to be set instead
	Isolation string   // of a transaction, as the database names it; "" where there is but one
	Embedded  bool     // SQLite
	Clock     Clock
	Galera    *GaleraState  // nil: none
	Took      time.Duration // the longest answer
}

// GaleraState is a node's word on its cluster.
type GaleraState struct {
	Status   string // Primary, or not
	Ready    bool
	State    string // Synced, Donor/Desynced, …
	Size     int
	SyncWait string // of salvor's own sessions
}
