package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/telemetry"
)

// An agent that falls silent is an alarm once, and again when it has come back and falls silent again.
func TestSilentAgentIsAnAlarmOnce(t *testing.T) {
	var out bytes.Buffer
	log, m := slog.New(slog.NewTextHandler(&out, nil)), telemetry.NewMetrics("test")
	silent := map[string]bool{}
	for _, now := range [][]string{{"cmp-1"}, {"cmp-1"}, nil, {"cmp-1", "cmp-2"}} {
		silent = tellSilent(m, log, silent, now)
	}
	if n := strings.Count(out.String(), "agent of host cmp-1 is silent"); n != 2 || strings.Count(out.String(), "cmp-2") == 0 {
		t.Errorf("told %d times:\n%s", n, out.String())
	}
}
