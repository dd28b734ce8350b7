package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// An order that is given up since its destination died lies in the destination's queue until nova-compute starts there, forced down or
// not, and then Nova carries it out (NOVA-OBSERVATIONS, "Destination dies"). Only purging the queue before that start prevents it; to keep
// forced_down would not. So it is said when the order is given up, kept as a claim on the destination, and said once more before that
// is taken back.

// leaveStale notes that a new order follows one of the move whose record r is still open, nil for none, and that lies in the queue of a
// host that is down.
func (t *turn) leaveStale(m *ha.VMove, r *ha.Migration) {
	if r == nil {
		return
	}
	dest := t.destination(m, r)
	if svc, known := t.service(dest); !known || svc.Up {
		return
	}
	t.alarm(ha.AlarmStaleOrder, "", "host %s died with evacuate orders in its queue, which Nova carries out when nova-compute starts there: purge it before (%s). "+
		"salvor coverage --host %[1]s names the instances", dest, purge(dest))
	if p, registered := t.peer(dest); registered {
		t.putClaim(ha.Claim{HostUUID: p.UUID, What: ha.WhatOrder, Reason: ha.ReasonRecovery, Detail: m.InstanceUUID, Prior: fmt.Sprint(r.ID)})
	}
}

// purge is the command that empties a dead host's queue.
func purge(host string) string { return "rabbitmqctl purge_queue -p VHOST compute." + host }

// staleOrders are the claims of orders that lie in the queue of the unit's host, and the instances' names for people.
func (t *turn) staleOrders() (claims []ha.Claim, instances string) {
	var ids []string
	for _, c := range t.ownClaims() {
		if c.What == ha.WhatOrder {
			claims = append(claims, c)
			ids = append(ids, c.Detail)
		}
	}
	slices.Sort(ids)
	if len(ids) > 20 {
		ids = append(ids[:20], fmt.Sprintf("and %d more", len(claims)-20))
	}
	return claims, strings.Join(ids, ", ")
}

// tellStale says, of a host that is back or about to be, which orders of the time before it died may run there.
func (t *turn) tellStale() {
	if claims, instances := t.staleOrders(); len(claims) > 0 {
		t.alarm(ha.AlarmStaleOrder, "", "host %s is coming back with evacuate orders from before it died. If its nova-compute has not been started, purge its queue first (%s); "+
			"else look where these instances run: %s", t.Unit.Host.Name, purge(t.Unit.Host.Name), instances)
	}
}

// dropStale ends the claims of such orders: the host is back, and has carried them out, or they were purged.
func (t *turn) dropStale() {
	claims, _ := t.staleOrders()
	for _, c := range claims {
		t.dropClaim(c)
	}
}
