package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAddSaysWhereACopyBelongs: a file beside the blob directory is in the catalogue, and no agent will find it there.
func TestAddSaysWhereACopyBelongs(t *testing.T) {
	const id = "3f0c7a52-6a43-4c0e-9a55-0e4f2a7d9b11"
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "3f", id), filepath.Join(dir, id)
	for _, path := range []string{inside, outside} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	locations := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"blob": {"uuid": "`+id+`", "locations": [`+locations+`]}}`)
	}))
	defer api.Close()
	const there = `{"host": "cmp-01", "state": "verifying", "since": "2026-01-02T03:04:05.000000"}`
	for _, tt := range []struct{ args, locations, says string }{
		{inside + " --host cmp-01", there, ""},
		{inside, there, ""}, // again, for --want-copies
		{outside + " --host cmp-01", there, outside + " is not where an agent looks: on cmp-01 the copy has to be 3f/" + id + " in [agent] blob_directory"},
		{"--uuid " + id + " --size 1 --sha256 00 --host cmp-01", there, ""},
		{outside, "", "no host is said to have it: put it at 3f/" + id},
	} {
		locations = tt.locations
		code, _, stderr := command(t, []string{"SALVOR_URL=" + api.URL}, append([]string{"blob", "add"}, strings.Fields(tt.args)...)...)
		if code != 0 || !strings.HasPrefix(stderr, tt.says) || (tt.says == "") != (stderr == "") {
			t.Errorf("%s: %d, %q, want %q", tt.args, code, stderr, tt.says)
		}
	}
}
