package plan

import (
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
)

// sighting is what looks tell of one server.
type sighting int

const (
	unseen sighting = iota // no look since then; one is asked for
	found
	gone
)

// goneFor is how long Nova must have no such instance until that is believed: deleting one ends its move for good, and Nova, a cell
// or a proxy may be wrong for a moment.
const goneFor = 10 * time.Second

// server returns an instance as seen by a look that started at or after since.
func (t *turn) server(id string, since time.Time) (ha.Server, sighting) {
	missed := "no such instance " + id
	one, asked := t.Facts.Server[id]
	if t.Facts.Servers.After(since) && (!asked || !one.At.After(t.Facts.Servers.At)) {
		if s := t.listed(id); s != nil {
			delete(t.Memory.Since, missed)
			return *s, found
		}
	}
	if asked && one.After(since) {
		switch {
		case ha.ClassOf(one.Err) == ha.ClassGone:
			if first, ok := t.Memory.Since[missed]; !ok {
				t.Memory.Since[missed] = one.At
			} else if one.At.Sub(first) >= goneFor {
				return ha.Server{}, gone
			}
			t.look(LookServer, id)
			t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
			return ha.Server{}, unseen
		case one.Err == nil:
			delete(t.Memory.Since, missed)
			if !one.At.Before(t.Facts.Servers.At.Add(-t.Rules.VerifyInterval)) {
				return one.Value, found
			}
		}
	}
	if !t.Facts.Servers.After(since) {
		t.look(LookServers, "")
	} else {
		t.look(LookServer, id)
	}
	t.wakeAt(t.Now.Add(t.Rules.VerifyInterval))
	return ha.Server{}, unseen
}
