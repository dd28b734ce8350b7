package sim

import "time"

// Request is a call as it reaches the cloud.
type Request struct {
	Client   string // who sent it: the handle's name, or the user's
	Method   string
	Path     string // as over HTTP, such as /compute/v2.1/servers/ID/action
	Query    string
	Action   string // of a POST …/action: evacuate, lock, …
	Host     string // that it concerns; found out from Instance and Path when empty
	Instance string
	Body     string
}

// Call is a request that was received.
type Call struct {
	N  int64 // ascending from 1
	At time.Time
	Request
	Fault  string // the kind of fault that was injected, "" for none
	Status int    // answered; 0 while there is no answer
}

// callLog keeps the last calls.
type callLog struct {
	max  int
	n    int64
	ring []Call
}

func newCallLog(max int) *callLog { return &callLog{max: max} }

func (l *callLog) add(call Call) int64 {
	l.n++
	call.N = l.n
	if len(l.ring) < l.max {
		l.ring = append(l.ring, call)
	} else {
		l.ring[(l.n-1)%int64(l.max)] = call
	}
	return l.n
}

func (l *callLog) at(n int64) *Call {
	if n < 1 || n > l.n || n <= l.n-int64(len(l.ring)) {
		return nil
	}
	return &l.ring[(n-1)%int64(l.max)]
}

// Calls returns the calls after the since-th, oldest first, at most Options.CallLog.
func (c *Cloud) Calls(since int64) []Call {
	c.lock()
	defer c.unlock()
	oldest := c.calls.n - int64(len(c.calls.ring))
	since = max(since, oldest, 0)
	if since >= c.calls.n {
		return nil
	}
	out := make([]Call, 0, c.calls.n-since)
	for n := since + 1; n <= c.calls.n; n++ {
		out = append(out, *c.calls.at(n))
	}
	return out
}

// Answered notes what the n-th call was answered.
func (c *Cloud) Answered(n int64, status int) {
	c.lock()
	defer c.unlock()
	c.answered(n, status)
}

func (c *Cloud) answered(n int64, status int) {
	if call := c.calls.at(n); call != nil {
		call.Status = status
	}
}
