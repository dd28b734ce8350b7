package wire

import "github.com/salvor-ha/salvor/internal/ha"

// Engine is an engine process as operators see it.
type Engine struct {
	Name      string    `json:"name"`
	Host      string    `json:"host"`
	Version   string    `json:"version"`
	State     string    `json:"state"` // alive or silent
	IdleMS    int64     `json:"last_beat_ms_ago"`
	StartedAt Timestamp `json:"started_at"`
	Units     []string  `json:"units"` // keys of the units of work that it holds
}

// EnginesBody is the response body of the list.
type EnginesBody struct {
	Engines []Engine `json:"engines"`
}

// NewEngines renders the engines.
func NewEngines(states []ha.EngineState) EnginesBody {
	list := make([]Engine, len(states))
	for i, s := range states {
		state := "alive"
		if s.Silent() {
			state = "silent"
		}
		list[i] = Engine{Name: s.Name, Host: s.Host, Version: s.Version, State: state, IdleMS: s.Idle.Milliseconds(),
			StartedAt: Timestamp{s.StartedAt.UTC()}, Units: append([]string{}, s.Units...)}
	}
	return EnginesBody{list}
}

// Pause is an operator's order to begin nothing new.
type Pause struct {
	SegmentUUID *string    `json:"failover_segment_uuid"` // null: everything
	By          string     `json:"by"`
	Reason      string     `json:"reason"`
	Since       Timestamp  `json:"since"`
	Until       *Timestamp `json:"until"`
}

// PausesBody is the response body of the list, and of a change of it.
type PausesBody struct {
	Pauses []Pause `json:"pauses"`
}

// NewPauses renders the pauses that stand.
func NewPauses(pauses []ha.Pause) PausesBody {
	list := make([]Pause, len(pauses))
	for i, p := range pauses {
		list[i] = Pause{SegmentUUID: present(p.Segment), By: p.By, Reason: p.Reason, Since: Timestamp{p.Since.UTC()}, Until: timestamp(p.Until)}
	}
	return PausesBody{list}
}
