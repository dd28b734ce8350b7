package ha

import "slices"

// Apply makes to the loaded unit the changes that a commit has made to the rows, so that its owner need not load it again.
func (u *Unit) Apply(changes ...Change) {
	u.putMoves(changes)
	for _, c := range changes {
		u.apply(c)
	}
}

// putMoves copies the moves once for all that a commit has written: a host may have a thousand, and the view handed out before
// stays as it was.
func (u *Unit) putMoves(changes []Change) {
	var at map[string]int // places by instance
	for _, c := range changes {
		put, is := c.(PutMove)
		if !is {
			continue
		}
		if at == nil {
			u.Moves = slices.Clone(u.Moves)
			at = make(map[string]int, len(u.Moves))
			for i, m := range slices.Backward(u.Moves) {
				at[m.InstanceUUID] = i
			}
		}
		i, known := at[put.Move.InstanceUUID]
		if !known {
			at[put.Move.InstanceUUID] = len(u.Moves)
			u.Moves = append(u.Moves, put.Move)
			continue
		}
		u.Moves[i] = put.Move
	}
}

func (u *Unit) apply(c Change) {
	switch c := c.(type) {
	case SetNotification:
		u.setNotification(c)
	case SetRecovery:
		u.Recovery = c.Recovery
	case SetHost:
		u.setHost(c)
	case PutClaim:
		u.putClaim(c.Claim)
	case DropClaim:
		u.Claims = slices.DeleteFunc(slices.Clone(u.Claims), func(h Claim) bool {
			return h.HostUUID == c.HostUUID && h.What == c.What && h.Reason == c.Reason && h.Detail == c.Detail
		})
	case CloseIntent:
		u.Open = slices.DeleteFunc(slices.Clone(u.Open), func(e Entry) bool { return e.Key == c.Key })
	case Adopt:
		for _, n := range u.Queue {
			if n.UUID == c.NotificationUUID {
				u.Notification, u.NotificationUUID = n, n.UUID
			}
		}
		u.dequeue(c.NotificationUUID)
	case TouchSegment:
		u.Segment.Touch++
	case Reserve:
		u.setReservedFor(c.HostUUID, u.ID)
		u.Claims = slices.DeleteFunc(slices.Clone(u.Claims), func(h Claim) bool { return c.Ends(h, u.ID) })
	case Free:
		u.setReservedFor(c.HostUUID, 0)
	case SetEpisode, PutRun, PutItem:
		u.applyStorage(c)
	}
}

func (u *Unit) setNotification(c SetNotification) {
	message := c.Message
	if c.UUID == u.Notification.UUID {
		u.Notification.Status, u.Notification.Message = c.Status, &message
		return
	}
	if !c.Status.Open() {
		u.dequeue(c.UUID)
	}
}

func (u *Unit) dequeue(uuid string) {
	u.Queue = slices.DeleteFunc(slices.Clone(u.Queue), func(n Notification) bool { return n.UUID == uuid })
}

func (u *Unit) setHost(c SetHost) {
	set := func(h *Host) {
		if c.OnMaintenance != nil {
			h.OnMaintenance = *c.OnMaintenance
		}
		if c.Reserved != nil {
			h.Reserved = *c.Reserved
		}
	}
	if u.Host.UUID == c.UUID {
		set(&u.Host)
	}
	u.Peers = slices.Clone(u.Peers)
	for i := range u.Peers {
		if u.Peers[i].UUID == c.UUID {
			set(&u.Peers[i].Host)
		}
	}
}

func (u *Unit) putClaim(c Claim) {
	u.Claims = slices.Clone(u.Claims)
	for i, h := range u.Claims {
		if h.HostUUID == c.HostUUID && h.What == c.What && h.Reason == c.Reason && h.Detail == c.Detail {
			u.Claims[i].Seen = c.Seen
			return
		}
	}
	u.Claims = append(u.Claims, c)
}

func (u *Unit) setReservedFor(host string, work int64) {
	u.Peers = slices.Clone(u.Peers)
	for i := range u.Peers {
		if u.Peers[i].UUID == host {
			u.Peers[i].ReservedFor = work
		}
	}
}
