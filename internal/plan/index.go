package plan

import "github.com/salvor-ha/salvor/internal/ha"

// index finds what the host's lists say of one instance. A host has a thousand, and each turn asks for each of them: it is made at
// most once a turn, when first asked.
type index struct {
	servers map[string]*ha.Server
	records map[string][]*ha.Migration
	stages  []stage
	staged  bool // stages are known
}

// listed is the server in the host's latest list, nil when it is not there.
func (t *turn) listed(id string) *ha.Server {
	if t.index.servers == nil {
		list := t.Facts.Servers.Value
		t.index.servers = make(map[string]*ha.Server, len(list))
		for i := range list {
			t.index.servers[list[i].ID] = &list[i]
		}
	}
	return t.index.servers[id]
}

// records are the migration records of an instance, as listed.
func (t *turn) records(instance string) []*ha.Migration {
	if t.index.records == nil {
		list := t.Facts.Migrations.Value
		t.index.records = make(map[string][]*ha.Migration, len(list))
		for i := range list {
			t.index.records[list[i].InstanceID] = append(t.index.records[list[i].InstanceID], &list[i])
		}
	}
	return t.index.records[instance]
}
