package sim

import (
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

type migration struct {
	id      int64
	uuid    string
	ins     *instance
	kind    string
	status  string
	source  *host
	dest    *host
	created time.Time
	updated time.Time
	who     Caller
}

// Migration is a record of os-migrations.
type Migration struct {
	ID         int64
	UUID       string
	InstanceID string
	Type       string
	Status     string
	Source     string
	SourceNode string
	Dest       string // "" for null
	DestNode   string
	UserID     string
	ProjectID  string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

func (c *Cloud) record(who Caller, ins *instance, kind string, source, dest *host) *migration {
	n := len(c.migrations) + 1
	m := &migration{
		id: int64(n), uuid: c.uuid("migration", n), ins: ins, kind: kind, status: "accepted",
		source: source, dest: dest, created: c.now, updated: c.now, who: who,
	}
	c.migrations = append(c.migrations, m)
	source.migrations = append(source.migrations, m)
	ins.records = append(ins.records, m)
	return m
}

func (c *Cloud) setStatus(m *migration, status string) { m.status, m.updated = status, c.now }

func (h *host) hasDoneEvacuations() bool {
	return slices.ContainsFunc(h.migrations, func(m *migration) bool {
		return m.kind == ha.MigrationEvacuation && m.status == "done"
	})
}

// MigrationQuery selects records. They come newest first.
type MigrationQuery struct {
	Instance string
	Source   string // source_compute
	Host     string // source or destination
	Type     string
	Status   string
	Marker   string // uuid
	Limit    int    // 0: all
}

// Migrations lists records; more says that there are further ones after the limit.
func (c *Cloud) Migrations(q MigrationQuery) (out []Migration, more bool, err error) {
	c.lock()
	defer c.unlock()
	return c.listMigrations(q)
}

func (c *Cloud) listMigrations(q MigrationQuery) (out []Migration, more bool, err error) {
	from := c.migrations
	switch {
	case q.Source != "":
		from = nil
		if h := c.hosts[q.Source]; h != nil {
			from = h.migrations
		}
	case q.Instance != "" && c.instances[q.Instance] != nil:
		from = c.instances[q.Instance].records
	}
	skip := q.Marker != ""
	if skip && !slices.ContainsFunc(c.migrations, func(m *migration) bool { return m.uuid == q.Marker }) {
		return nil, false, badRequest("Marker %s could not be found.", q.Marker)
	}
	for _, m := range slices.Backward(from) {
		if skip {
			skip = m.uuid != q.Marker
			continue
		}
		if !q.takes(m) {
			continue
		}
		if q.Limit > 0 && len(out) == q.Limit {
			return out, true, nil
		}
		out = append(out, c.showMigration(m))
	}
	return out, false, nil
}

func (q MigrationQuery) takes(m *migration) bool {
	return (q.Instance == "" || m.ins.id == q.Instance) &&
		(q.Host == "" || m.source.name == q.Host || m.dest != nil && m.dest.name == q.Host) &&
		(q.Type == "" || m.kind == q.Type) &&
		(q.Status == "" || m.status == q.Status)
}

func (c *Cloud) showMigration(m *migration) Migration {
	out := Migration{
		ID: m.id, UUID: m.uuid, InstanceID: m.ins.id, Type: m.kind, Status: m.status,
		Source: m.source.name, SourceNode: m.source.hypervisor,
		UserID: m.who.UserID, ProjectID: m.who.ProjectID,
		CreatedAt: c.stamp(m.created), UpdatedAt: c.stamp(m.updated),
	}
	if m.dest != nil {
		out.Dest, out.DestNode = m.dest.name, m.dest.hypervisor
	}
	return out
}

// action is a record of os-instance-actions.
type action struct {
	n       int
	name    string
	user    string
	project string
	started time.Time
	updated time.Time
	message string
	events  []ActionEvent
}

// Action is what was asked of an instance.
type Action struct {
	RequestID string
	Name      string
	UserID    string // "" when Nova did it by itself
	ProjectID string
	StartedAt time.Time
	UpdatedAt time.Time
	Message   string // "" for null, or Error
	Events    []ActionEvent
}

// ActionEvent is a step of an action; Result is Success or Error, "" while it is under way.
type ActionEvent struct {
	Event    string
	Host     string
	Result   string
	StartAt  time.Time
	FinishAt time.Time
}

func (c *Cloud) act(ins *instance, name string, who Caller) *action {
	a := &action{n: len(ins.actions), name: name, user: who.UserID, project: who.ProjectID, started: c.now, updated: c.now}
	ins.actions = append(ins.actions, a)
	return a
}

// event adds an ended step.
func (c *Cloud) event(a *action, name string, on *host, begun time.Time, failed bool) {
	e := ActionEvent{Event: name, Result: "Success", StartAt: begun, FinishAt: c.now}
	if on != nil {
		e.Host = on.name
	}
	if failed {
		e.Result, a.message = "Error", "Error"
	}
	a.updated = c.now
	a.events = append(a.events, e)
}

// Actions lists what was asked of an instance, newest first.
func (c *Cloud) Actions(who Caller, id string) ([]Action, error) {
	c.lock()
	defer c.unlock()
	ins, err := c.find(who, id)
	if err != nil {
		return nil, err
	}
	out := make([]Action, 0, len(ins.actions))
	for _, a := range slices.Backward(ins.actions) {
		show := Action{
			RequestID: "req-" + c.uuid("request "+ins.id, a.n), Name: a.name, UserID: a.user, ProjectID: a.project,
			StartedAt: c.stamp(a.started), UpdatedAt: c.stamp(a.updated), Message: a.message, Events: slices.Clone(a.events),
		}
		for i := range show.Events {
			show.Events[i].StartAt, show.Events[i].FinishAt = c.stamp(show.Events[i].StartAt), c.stamp(show.Events[i].FinishAt)
		}
		out = append(out, show)
	}
	return out, nil
}

// Find returns an instance as who sees it; the error is Nova's 404.
func (c *Cloud) Find(who Caller, id string) (Instance, error) {
	c.lock()
	defer c.unlock()
	ins, err := c.find(who, id)
	if err != nil {
		return Instance{}, err
	}
	return c.show(ins), nil
}

// find looks an instance up as Nova does for who: one of another project does not exist for a plain member.
func (c *Cloud) find(who Caller, id string) (*instance, error) {
	ins := c.instances[id]
	if ins == nil || !who.Admin && ins.project != who.ProjectID {
		return nil, notFound("Instance %s could not be found.", id)
	}
	return ins, nil
}
