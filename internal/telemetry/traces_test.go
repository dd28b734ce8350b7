package telemetry

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestLostSpansTellNoKey: a collector that is away is said, and what stands in its URL is not.
func TestLostSpansTellNoKey(t *testing.T) {
	const hush = "k3y-of-the-collector"
	var out bytes.Buffer
	traces, err := NewTraces(t.Context(), "http://salvor:"+hush+"@127.0.0.1:1/v1/traces?token="+hush, "dev", "test", slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, end := traces.Recovery(t.Context(), "00000000-0000-4000-8000-00000000000f", "recovery")
	end("finished")
	if err := traces.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if s := out.String(); !strings.Contains(s, "spans are lost") || !strings.Contains(s, "127.0.0.1:1") || strings.Contains(s, hush) {
		t.Errorf("the log says:\n%s", s)
	}
}
