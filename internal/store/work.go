package store

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/store/rules"
)

type workRow struct {
	bun.BaseModel    `bun:"table:work,alias:t"`
	ID               int64  `bun:"id,pk,autoincrement"`
	Kind             string `bun:"kind"`
	UnitKey          string `bun:"unit_key"`
	HostUUID         string `bun:"host_uuid"`
	SegmentUUID      string `bun:"segment_uuid"`
	NotificationUUID string `bun:"notification_uuid"`
	Owner            string `bun:"owner"`
	Epoch            int64  `bun:"epoch"`
	Beat             int64  `bun:"beat"`
	TTL              int64  `bun:"ttl_ms"`
	CreatedAt        stamp  `bun:"created_at"`
	EndedAt          stamp  `bun:"ended_at"`
	Ended            int64  `bun:"ended"` // 0 while active, else the row's id
	// NextLookAt orders the look for work: when a unit that nobody owns is due; of an owned one, its last beat, so that
	// what stopped beating comes first.
	NextLookAt  stamp `bun:"next_look_at"`
	Signals     int64 `bun:"signals"`
	SeenSignals int64 `bun:"seen_signals"` // of Signals, those that the owner has loaded: one that it has not makes a parked unit due

	CancelBy   string `bun:"cancel_by"`
	HoldBy     string `bun:"hold_by"`
	HoldReason string `bun:"hold_reason"`
	HoldUntil  stamp  `bun:"hold_until"`
	ReleaseBy  string `bun:"release_by"`
	Releases   int64  `bun:"releases"`
	RetryBy    string `bun:"retry_by"`
	Retries    int64  `bun:"retries"`

	Step      string `bun:"step"`
	Attempt   int    `bun:"attempt"`
	StartedAt stamp  `bun:"started_at"`
	Proof     string `bun:"proof"`
	ProofAt   stamp  `bun:"proof_at"`
	ProofText string `bun:"proof_text"`
	Prepared  bool   `bun:"prepared"`
	HeldAt    string `bun:"held_at"`
	HeldWhy   string `bun:"held_why"`
	HeldSince stamp  `bun:"held_since"`
	Listed    bool   `bun:"listed"`
	Failures  int    `bun:"failures"`
	WakeAt    stamp  `bun:"wake_at"`
	Released  int64  `bun:"released"`
	Retried   int64  `bun:"retried"`
	Waived    string `bun:"waived"` // gates, joined by commas
	Returned  bool   `bun:"returned"`
}

// work is the unit that the row keeps, as of now.
func (r workRow) work(now time.Time) ha.Work {
	return ha.Work{
		ID: r.ID, Kind: ha.UnitKind(r.Kind), Key: r.UnitKey, HostUUID: r.HostUUID, SegmentUUID: r.SegmentUUID,
		NotificationUUID: r.NotificationUUID, Owner: r.Owner, Epoch: r.Epoch, Beat: r.Beat, TTL: time.Duration(r.TTL) * time.Millisecond,
		CreatedAt: r.CreatedAt.Time, EndedAt: r.EndedAt.ptr(), Signal: r.Signals,
		Due: r.Ended == 0 && r.Owner == "" && !r.NextLookAt.After(now),
		Wishes: ha.Wishes{
			CancelBy: r.CancelBy, HoldBy: r.HoldBy, HoldReason: r.HoldReason, HoldUntil: r.HoldUntil.ptr(),
			ReleaseBy: r.ReleaseBy, Releases: r.Releases, RetryBy: r.RetryBy, Retries: r.Retries,
		},
		Recovery: ha.Recovery{
			Step: ha.Step(r.Step), Attempt: r.Attempt, StartedAt: r.StartedAt.ptr(), Proof: ha.Proof(r.Proof), ProofAt: r.ProofAt.Time,
			ProofText: r.ProofText, Prepared: r.Prepared, HeldAt: ha.Gate(r.HeldAt), HeldWhy: r.HeldWhy, HeldSince: r.HeldSince.ptr(),
			Listed: r.Listed, Failures: r.Failures, WakeAt: r.WakeAt.ptr(), Released: r.Released, Retried: r.Retried,
			Waived: splitGates(r.Waived), Returned: r.Returned,
		},
	}
}

func (r *workRow) setWishes(w ha.Wishes) {
	r.CancelBy, r.HoldBy, r.HoldReason, r.HoldUntil = w.CancelBy, w.HoldBy, w.HoldReason, stampOf(w.HoldUntil)
	r.ReleaseBy, r.Releases, r.RetryBy, r.Retries = w.ReleaseBy, w.Releases, w.RetryBy, w.Retries
}

func (r *workRow) setRecovery(rec ha.Recovery) {
	rec = rules.OwnedRecovery(rec)
	r.Step, r.Attempt, r.StartedAt = string(rec.Step), rec.Attempt, stampOf(rec.StartedAt)
	r.Proof, r.ProofAt, r.ProofText = string(rec.Proof), stamp{rec.ProofAt}, rec.ProofText
	r.Prepared, r.HeldAt, r.HeldWhy, r.HeldSince = rec.Prepared, string(rec.HeldAt), rec.HeldWhy, stampOf(rec.HeldSince)
	r.Listed, r.Failures, r.WakeAt = rec.Listed, rec.Failures, stampOf(rec.WakeAt)
	r.Released, r.Retried, r.Waived, r.Returned = rec.Released, rec.Retried, joinGates(rec.Waived), rec.Returned
}

// wishColumns and recoveryColumns are what the api and the owner write, each without the other's.
var (
	wishColumns     = []string{"cancel_by", "hold_by", "hold_reason", "hold_until", "release_by", "releases", "retry_by", "retries"}
	recoveryColumns = []string{"step", "attempt", "started_at", "proof", "proof_at", "proof_text", "prepared", "held_at", "held_why",
		"held_since", "listed", "failures", "wake_at", "released", "retried", "waived", "returned"}
)

func joinGates(gates []ha.Gate) string {
	texts := make([]string, len(gates))
	for i, g := range gates {
		texts[i] = string(g)
	}
	return strings.Join(texts, ",")
}

func splitGates(text string) []ha.Gate {
	var gates []ha.Gate
	for g := range strings.SplitSeq(text, ",") {
		if g != "" {
			gates = append(gates, ha.Gate(g))
		}
	}
	return gates
}

// newWork is the row of a unit that begins now.
func newWork(w ha.Work, now time.Time) workRow {
	r := workRow{
		Kind: string(w.Kind), UnitKey: w.Key, HostUUID: w.HostUUID, SegmentUUID: w.SegmentUUID, NotificationUUID: w.NotificationUUID,
		Owner: w.Owner, Epoch: w.Epoch, Beat: w.Beat, TTL: w.TTL.Milliseconds(), CreatedAt: stamp{now}, NextLookAt: stamp{now},
	}
	r.setWishes(w.Wishes)
	r.setRecovery(w.Recovery)
	return r
}

// startUnit creates an active unit that nobody owns and that is due at once, unless one with its key is active.
func (s *Store) startUnit(ctx context.Context, tx bun.Tx, w ha.Work) error {
	if err := s.touchForHostUnit(ctx, tx, w.Kind, w.HostUUID); err != nil {
		return err
	}
	now, err := s.clock(ctx, tx)
	if err != nil {
		return err
	}
	row := newWork(w, now)
	_, err = tx.NewInsert().Model(&row).ExcludeColumn("id").On(s.d.keep("unit_key, ended")).Returning("NULL").Exec(ctx)
	return err
}

// touchForHostUnit moves the host's row before a host unit begins: the other kinds of unit move it before each act
// (ha.GiveWay), so each either finds this unit or is found by it.
func (s *Store) touchForHostUnit(ctx context.Context, tx bun.Tx, kind ha.UnitKind, host string) error {
	if kind != ha.UnitHost {
		return nil
	}
	_, err := changed(ctx, tx, "UPDATE hosts SET touch = touch + 1 WHERE uuid = ?", host)
	return err
}

// signal moves the signals of the active units with these keys; a parked one is due at once.
func (s *Store) signal(ctx context.Context, tx bun.Tx, keys ...string) error {
	_, err := changed(ctx, tx, signalUnits, s.d.now(), bun.List(keys))
	return err
}

const signalUnits = "UPDATE work SET signals = signals + 1, next_look_at = ? WHERE unit_key IN (?) AND ended = 0"
