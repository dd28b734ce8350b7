package agent

import (
	"encoding/json"
	"net/http"
	"path"
	"time"

	"github.com/salvor-ha/salvor/internal/agent/disks"
)

// health is what the health check shows. It has no secret, and needs no disk and no API.
type health struct {
	Host      string                   `json:"host"`
	Epoch     int64                    `json:"epoch"`
	Status    string                   `json:"status"` // ok, or the first resource's that is not
	Resources map[string]disks.Verdict `json:"resources"`
	Reported  *time.Time               `json:"reported_at"` // when the API last took a report
	Trouble   string                   `json:"trouble"`     // why it did not take the last one
	Health    string                   `json:"health"`      // as salvor sees this host
	Served    int64                    `json:"served_bytes"`
	Fetched   int64                    `json:"fetched_bytes"`
}

func (a *Agent) serveHealth(w http.ResponseWriter, _ *http.Request) {
	h := health{Host: a.cfg.Host, Epoch: a.keep.Epoch, Status: "ok", Resources: a.watch.Verdicts()}
	for _, r := range a.cfg.Resources {
		if v := h.Resources[r.Name]; v.Status != "ok" && h.Status == "ok" {
			h.Status = string(v.Status)
			if v.Status == "" {
				h.Status = "unknown"
			}
		}
	}
	a.mu.Lock()
	h.Trouble, h.Health = a.trouble, a.health
	if !a.told.IsZero() {
		told := a.told
		h.Reported = &told
	}
	a.mu.Unlock()
	if a.copies != nil {
		h.Served, h.Fetched = a.copies.Moved()
	}
	text, err := json.Marshal(h)
	if err != nil {
		http.Error(w, "the state cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n'))
}

// straight refuses paths that are not plain, instead of redirecting to what they might mean.
type straight struct{ next http.Handler }

func (s straight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path.Clean(r.URL.Path) != r.URL.Path {
		http.Error(w, "not a plain path", http.StatusForbidden)
		return
	}
	s.next.ServeHTTP(w, r)
}
