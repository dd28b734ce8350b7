package ha

import "slices"

// applyStorage makes to the loaded rows of a storage unit what a commit has written. What SuspectLocations did only the store knows: its
// owner loads the unit again.
func (u *Unit) applyStorage(c Change) {
	if u.Storage == nil {
		return
	}
	st := *u.Storage // the view handed out before stays as it was
	switch c := c.(type) {
	case SetEpisode:
		st.Episodes = slices.Clone(st.Episodes)
		for i, e := range st.Episodes {
			if e.UUID == c.UUID {
				if e.WaivedBy == "" {
					e.Braked = c.Braked
				}
				e.Waiting, e.Service = c.Waiting, c.Service
				if c.Ended && e.EndedAt == nil {
					e.EndedAt = &u.Now
				}
				if c.ClearedBy != "" && e.ClearedAt == nil {
					e.ClearedAt, e.ClearedBy = &u.Now, c.ClearedBy
				}
				st.Episodes[i] = e
			}
		}
	case PutRun:
		st.Runs = slices.Clone(st.Runs)
		for i, r := range st.Runs {
			if r.EpisodeUUID == c.Run.EpisodeUUID && r.Version == c.Run.Version && r.Kind == c.Run.Kind {
				st.Runs[i] = c.Run
			}
		}
	case PutItem:
		i := slices.IndexFunc(st.Items, func(have Item) bool { return have.Same(c.Item) })
		if i < 0 {
			st.Items = append(st.Items[:len(st.Items):len(st.Items)], c.Item)
			break
		}
		st.Items = slices.Clone(st.Items)
		st.Items[i] = c.Item
	}
	u.Storage = &st
}

// Same reports whether both are one item: of the same run and object.
func (i Item) Same(o Item) bool {
	return i.EpisodeUUID == o.EpisodeUUID && i.Version == o.Version && i.Kind == o.Kind && i.ID == o.ID
}
