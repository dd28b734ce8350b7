package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/wire"
)

// TestNewAgentKey: a key that was made void is replaced in its file; the agent goes on with the new one, without a restart.
func TestNewAgentKey(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(wire.AgentKeyHeader) != "new" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer api.Close()
	path := filepath.Join(t.TempDir(), "agent.key")
	put := func(key string) {
		if err := os.WriteFile(path, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("old\n")
	c, err := agentClient(config.Agent{APIURL: api.URL, KeyFile: path})
	if err != nil {
		t.Fatal(err)
	}
	for key, says := range map[string]string{"old": "403", "": "salvor host agent-key"} {
		put(key)
		if _, err := c.AgentReport(t.Context(), "cmp-01", wire.AgentReport{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("with the key %q: %v, want %q", key, err, says)
		}
	}
	put("new\n")
	if _, err := c.AgentReport(t.Context(), "cmp-01", wire.AgentReport{}); err != nil {
		t.Error(err)
	}
}
