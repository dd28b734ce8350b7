package ha

import "time"

// Outlook is what the rows say of a segment, as of one moment: what a recovery of any of its hosts would begin with.
type Outlook struct {
	Segment Segment // with the pause that stands over it
	Peers   []Peer  // every live host, oldest first
	Claims  []Claim // on them
	// RecentStarts are the host recoveries started in the segment in the last minute.
	RecentStarts int
	Now          time.Time // the database's clock
}

// Unit is the work that a report of the host's death would begin now. No unit of work has its id.
func (o Outlook) Unit(host Peer, report Payload) Unit {
	u := Unit{
		Work: Work{
			ID: -1, Kind: UnitHost, Key: UnitHost.Key(host.UUID), HostUUID: host.UUID, SegmentUUID: o.Segment.UUID, CreatedAt: o.Now,
		},
		Notification: Notification{Type: TypeComputeHost, Payload: report, Status: StatusNew, SourceHostUUID: host.UUID},
		Segment:      o.Segment, Host: host.Host, Peers: o.Peers, RecentStarts: o.RecentStarts, Now: o.Now,
	}
	u.Notification.CreatedAt = o.Now
	for _, c := range o.Claims {
		if c.HostUUID == host.UUID {
			u.Claims = append(u.Claims, c)
		}
	}
	return u
}
