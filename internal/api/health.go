package api

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"os"

	"github.com/salvor-ha/salvor/internal/wire"
)

// serveHealth is oslo.middleware's healthcheck with the backend disable_by_file (contract 5.2): any method, no
// authentication. A balancer stops sending requests here while the file exists.
func (a *api) serveHealth(w http.ResponseWriter, r *http.Request) {
	status, reason := http.StatusOK, "OK"
	if _, err := os.Stat(a.cfg.HealthDisabled); !errors.Is(err, fs.ErrNotExist) {
		status, reason = http.StatusServiceUnavailable, "DISABLED BY FILE"
	}
	const text = "text/plain"
	switch wire.Accepted(r.Header.Get("Accept"), text, "text/html", wire.MediaJSON) {
	case wire.MediaJSON:
		writeJSON(w, status, wire.MediaJSON, struct {
			Detailed bool     `json:"detailed"`
			Reasons  []string `json:"reasons"`
		}{false, []string{reason}})
	case "text/html":
		page := "<HTML>\n<HEAD><TITLE>Healthcheck Status</TITLE></HEAD>\n<BODY>\n<H2>Result of 1 checks:</H2>\n<P>%s</P>\n</BODY>\n</HTML>\n"
		write(w, status, "text/html; charset=UTF-8", fmt.Appendf(nil, page, html.EscapeString(reason)))
	default:
		write(w, status, text+"; charset=UTF-8", []byte(reason))
	}
}
