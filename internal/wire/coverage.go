package wire

import (
	"github.com/salvor-ha/salvor/internal/ha"
)

// Finding is a rule, or a lack, and what would end it.
type Finding struct {
	Rule string  `json:"rule"`
	Text string  `json:"text"`
	Fix  *string `json:"fix"`
}

// HostCoverage is who is protected on a host, and why not.
type HostCoverage struct {
	Name           string             `json:"name"`
	UUID           *string            `json:"uuid"` // null: not registered
	SegmentUUID    *string            `json:"failover_segment_uuid"`
	SegmentName    *string            `json:"failover_segment_name"`
	RecoveryMethod *string            `json:"recovery_method"`
	Reserved       bool               `json:"reserved"`
	Service        *ComputeService    `json:"compute_service"` // null: Nova has none of that name
	State          string             `json:"state"`           // protected, unprotected, unknown
	Wanted         int                `json:"wanted"`          // instances that are to be protected
	Protected      int                `json:"protected"`       // those of them that would be moved
	Blocks         []Finding          `json:"blocks"`          // each keeps everything on the host from being recovered
	Notes          []Finding          `json:"notes"`
	Error          *string            `json:"error"` // its instances could not be listed
	Instances      []InstanceCoverage `json:"instances"`
}

// ComputeService is a nova-compute as Nova shows it.
type ComputeService struct {
	State          string  `json:"state"`  // up, down
	Status         string  `json:"status"` // enabled, disabled
	ForcedDown     bool    `json:"forced_down"`
	DisabledReason *string `json:"disabled_reason"`
}

// InstanceCoverage is what an instance would come to if its host's death were reported now.
type InstanceCoverage struct {
	UUID      string   `json:"uuid"`
	Name      string   `json:"name"`
	ProjectID string   `json:"project_id"`
	VMState   string   `json:"vm_state"`
	Class     *string  `json:"class"`
	Priority  int      `json:"priority"`
	Wanted    bool     `json:"wanted"`
	Protected bool     `json:"protected"`
	Reason    *Finding `json:"reason"` // why it would not be moved
	Order     *int     `json:"order"`  // its place among the evacuations
	Method    *string  `json:"method"` // auto: Nova chooses; reserved: a reserved host
	Target    *string  `json:"target"` // the host with the most room; of auto, Nova's scheduler has the last word
	Choices   int      `json:"choices"`
	Asked     bool     `json:"placement_asked"`
	Arrives   *string  `json:"arrives"` // active, stopped, error
	Reset     bool     `json:"state_reset"`
	DataLost  bool     `json:"data_lost"` // its disk is on the host: made anew from its image, unless the hosts share their instance store
	Restart   *Finding `json:"restart"`   // why a failure of the instance alone would not restart it; null: it would
}

// CoverageBody is the response body. Next is the marker of the next page.
type CoverageBody struct {
	Coverage []HostCoverage `json:"coverage"`
	Next     *string        `json:"next"`
}

// Plan is what a report of a host's death would come to now.
type Plan struct {
	HostCoverage
	Gates    []GateAnswer `json:"gates"`
	Expected Expected     `json:"expected"`
}

// GateAnswer is how a gate would answer now.
type GateAnswer struct {
	Gate   string `json:"gate"`
	Answer string `json:"answer"` // pass, wait, hold, ignore, fail, unknown
	Text   string `json:"text"`
}

// Expected is how long it would take. Proof is the least time until the death counts as proven, Moves the time from the first order to
// the last arrival: null where nothing tells.
type Expected struct {
	ProofSeconds float64  `json:"proof_seconds"`
	MovesSeconds *float64 `json:"moves_seconds"`
	Text         string   `json:"text"`
}

// PlanBody is the response body.
type PlanBody struct {
	Plan Plan `json:"plan"`
}

// NewCoverage renders hosts.
func NewCoverage(hosts []ha.HostProspect, next string) CoverageBody {
	list := make([]HostCoverage, len(hosts))
	for i, h := range hosts {
		list[i] = newHostCoverage(h)
	}
	return CoverageBody{list, present(next)}
}

// NewPlan renders a rehearsal of a host's death.
func NewPlan(h ha.HostProspect, e ha.Estimate) PlanBody {
	p := Plan{HostCoverage: newHostCoverage(h), Gates: make([]GateAnswer, len(h.Gates))}
	for i, g := range h.Gates {
		p.Gates[i] = GateAnswer{string(g.Gate), string(g.Says), g.Text}
	}
	p.Expected = Expected{ProofSeconds: h.Silence.Seconds(), Text: e.Text}
	if e.Known {
		seconds := e.Moves.Seconds()
		p.Expected.MovesSeconds = &seconds
	}
	return PlanBody{p}
}

func newHostCoverage(h ha.HostProspect) HostCoverage {
	out := HostCoverage{
		Name: h.Name, State: "protected", Wanted: h.Wanted(), Protected: h.Protected(), Blocks: findings(h.Blocks), Notes: findings(h.Notes),
		Error: present(h.Err), Instances: make([]InstanceCoverage, len(h.Moves)),
	}
	switch {
	case h.Err != "":
		out.State = "unknown"
	case len(h.Blocks) > 0 || out.Protected < out.Wanted:
		out.State = "unprotected"
	}
	if h.Host != nil {
		out.UUID, out.Reserved = &h.Host.UUID, h.Host.Reserved
	}
	if h.Segment != nil {
		out.SegmentUUID, out.SegmentName, out.RecoveryMethod = &h.Segment.UUID, &h.Segment.Name, present(string(h.Segment.RecoveryMethod))
	}
	if s := h.Service; s != nil {
		out.Service = &ComputeService{State: "down", Status: "disabled", ForcedDown: s.ForcedDown, DisabledReason: present(s.DisabledReason)}
		if s.Up {
			out.Service.State = "up"
		}
		if s.Enabled {
			out.Service.Status = "enabled"
		}
	}
	for i, p := range h.Moves {
		out.Instances[i] = newInstanceCoverage(p)
	}
	return out
}

func newInstanceCoverage(p ha.Prospect) InstanceCoverage {
	out := InstanceCoverage{
		UUID: p.Server.ID, Name: p.Server.Name, ProjectID: p.Server.Project, VMState: p.Server.VMState, Class: present(p.Fate.Class),
		Priority: p.Fate.Priority, Wanted: p.Wanted, Protected: p.Protected, Choices: p.Choices, Asked: p.Asked,
		Reset: p.Reset, DataLost: p.Fate.Move && p.DataLost, Reason: finding(p.Why), Restart: finding(p.Restart),
	}
	if p.Order > 0 {
		out.Order, out.Method, out.Target, out.Arrives = &p.Order, present(string(p.Pass)), present(p.Target), present(string(p.Want))
	}
	return out
}

func findings(all []ha.Finding) []Finding {
	out := make([]Finding, len(all))
	for i := range all {
		out[i] = *finding(&all[i])
	}
	return out
}

func finding(f *ha.Finding) *Finding {
	if f == nil {
		return nil
	}
	return &Finding{f.Rule, f.Text, present(f.Fix)}
}

// CoverageQuery is the query of GET ext/coverage: of one host or instance, or a page of hosts after the one named by the marker.
type CoverageQuery struct {
	Host, Instance, Marker string
	Limit                  int
}

// Coverage reads the query of GET ext/coverage.
func (q Query) Coverage() (CoverageQuery, error) {
	r := reader{q: q}
	out := CoverageQuery{Limit: r.limit()}
	for name, into := range map[string]*string{"host": &out.Host, "instance": &out.Instance, "marker": &out.Marker} {
		if text := r.text(name); text != nil {
			*into = *text
		}
	}
	if out.Host != "" && out.Instance != "" {
		r.fail("Invalid input received: host and instance exclude each other")
	}
	return out, r.err
}
