package ha

import "time"

// ResendWindow is how much later than its twin a report may have been generated to still be a resend of one that has
// ended (rule A3).
const ResendWindow = 5 * time.Second

// LateWindow is how much earlier than its twin, which has ended, a report may have been generated to still be told with it: as long
// as senders try again. One generated earlier than that tells of another death, under a clock that was ahead (rule A7).
const LateWindow = 15 * time.Minute

// Verdict is what admission decides about a report.
type Verdict int

const (
	Admit     Verdict = iota
	Duplicate         // 409
)

// Admission decides rules A2 and A3 for a report of a host. recent are that host's live notifications of the report's
// type: all that are open, and those that ended, as far back as generated_time within interval reaches. interval is
// duplicate_notification_detection_interval. The caller holds the host's touched row, so nothing slips in between.
func Admission(r Report, recent []Notification, interval time.Duration) (Verdict, *Notification) {
	if r.Type == TypeComputeHost && r.Payload.Stopped() {
		return admitHostStopped(r, recent, interval)
	}
	return admitByTwin(r, recent, interval)
}

// admitHostStopped is rule A2: one open death per host. Two reports pass all the same: the first that brings NORMAL
// to an open one that lacks it, and one that follows a STARTED received after the open one.
func admitHostStopped(r Report, recent []Notification, interval time.Duration) (Verdict, *Notification) {
	last := OpenDeath(r, recent)
	if last == nil {
		return admitByTwin(r, recent, interval)
	}
	if r.Payload.Normal() && !last.Payload.Normal() {
		return Admit, nil
	}
	if r.Payload[KeyConfirmedBy] != "" && last.Payload[KeyConfirmedBy] == "" {
		return Admit, nil // an operator's word is a proof that the open one lacks
	}
	for i := range recent {
		if n := &recent[i]; n.Payload.Started() && n.ID > last.ID {
			return Admit, nil
		}
	}
	return Duplicate, last
}

// OpenDeath is, for a report of a host's death, the open one received last; nil when there is none. Whoever gathers recent adds a STARTED
// received after it, however long ago: what ended is else only looked at as far back as the interval, while a recovery may be open for hours.
func OpenDeath(r Report, recent []Notification) *Notification {
	var last *Notification
	if r.Type != TypeComputeHost || !r.Payload.Stopped() {
		return nil
	}
	for i := range recent {
		n := &recent[i]
		if n.Payload.Stopped() && n.Status.Open() && (last == nil || n.ID > last.ID) {
			last = n
		}
	}
	return last
}

// admitByTwin is rule A3.
func admitByTwin(r Report, recent []Notification, interval time.Duration) (Verdict, *Notification) {
	for i := range recent {
		twin := &recent[i]
		if twin.Type != r.Type || !twin.Payload.Equal(r.Payload) {
			continue
		}
		near := r.GeneratedTime.Before(twin.GeneratedTime.Add(interval)) || !r.GeneratedTime.After(twin.GeneratedTime)
		if !near {
			continue
		}
		// What was generated long before a twin that has ended is no resend of it: a clock was ahead.
		resend := !r.GeneratedTime.After(twin.GeneratedTime.Add(ResendWindow)) && !r.GeneratedTime.Before(twin.GeneratedTime.Add(-LateWindow))
		if !twin.Status.Open() && !resend {
			continue
		}
		if oppositeBetween(r, *twin, recent) || !twin.Status.Open() && outrun(r, *twin, recent) {
			continue
		}
		return Duplicate, twin
	}
	return Admit, nil
}

// outrun reports whether the twin's clock ran ahead of the report's: generated well before the twin, yet the opposite event was
// received since. Without this, one monitor whose clock was hours ahead would have the next deaths refused for hours (rule A7).
func outrun(r Report, twin Notification, recent []Notification) bool {
	if !r.GeneratedTime.Before(twin.GeneratedTime.Add(-ResendWindow)) {
		return false
	}
	for _, n := range recent {
		if n.ID > twin.ID && opposite(r, n) {
			return true
		}
	}
	return false
}

// opposite reports whether n is the opposite event of the same host or process.
func opposite(r Report, n Notification) bool {
	return r.Type != TypeVM && n.Type == r.Type && n.Payload[KeyProcessName] == r.Payload[KeyProcessName] &&
		(n.Payload.Started() && r.Payload.Stopped() || n.Payload.Stopped() && r.Payload.Started())
}

// oppositeBetween reports whether the opposite event of the same host or process was generated between the twin and
// the report: then the two tell of different failures.
func oppositeBetween(r Report, twin Notification, recent []Notification) bool {
	from, to := twin.GeneratedTime, r.GeneratedTime
	if to.Before(from) {
		from, to = to, from
	}
	for _, n := range recent {
		if opposite(r, n) && !n.GeneratedTime.Before(from) && !n.GeneratedTime.After(to) {
			return true
		}
	}
	return false
}
