package ha

import "time"

// Power is what a controller showed of a host's power.
type Power string

const (
	PowerOn      Power = "on"
	PowerOff     Power = "off"
	PowerUnknown Power = "unknown" // no answer, or none that says on or off
)

// PowerSight is one look at a host's power. Only an observed state is proof; that an order was taken is none (recovery
// section 2, proof).
type PowerSight struct {
	Method string // which method looked, as fencing_file names it
	Power  Power
	At     time.Time // by the engine's clock, when the answer was there
	Text   string    // what was seen, to be kept as evidence; without secrets, one line, bounded
}

// FenceResult is what one attempt to fence a host, or to look at its power, came to.
type FenceResult struct {
	// Off: some method saw the host off twice in a row, with a pause between; after its order, or before it (then nothing was
	// ordered). A method that also saw the host on after that is not believed.
	Off    bool
	Sights []PowerSight // each method in order, with what it saw; the last two of an Off are its proof
	Text   string       // one line for the journal and the operator: what was seen, or why each method failed
}

// SeenOff is when the proof was taken: the time of the last sight, zero unless Off. Its age is the proof's (option proof_max_age).
func (r FenceResult) SeenOff() time.Time {
	if !r.Off || len(r.Sights) == 0 {
		return time.Time{}
	}
	return r.Sights[len(r.Sights)-1].At
}
