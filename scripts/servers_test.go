package scripts_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersThatDoNotStart: a server that is installed and cannot be started is told to scripts/test, which says so in its summary; the
// others are tried all the same. What is not installed is only named.
func TestServersThatDoNotStart(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "scripts"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"servers", "test"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "scripts", script), text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"bash", "dirname", "mkdir", "id", "chmod", "sleep", "sed", "ls", "sort", "tail"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skipf("SKIPPED: no %s: what is said of servers that do not start", tool)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for tool, status := range map[string]string{"mariadb": "1", "mariadbd": "1", "mariadb-install-db": "1", "runuser": "1", "chown": "0"} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\nexit "+status+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(script string) (string, string) {
		var out, said bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = root, []string{"PATH=" + bin}, &out, &said
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v\n%s%s", script, err, &out, &said)
		}
		return out.String(), said.String()
	}
	lines, said := run("scripts/servers")
	if !strings.Contains(lines, "export SALVOR_TEST_NOT_STARTED=") || !strings.Contains(lines, "MariaDB") || strings.Contains(lines, "Rabbit") ||
		!strings.Contains(said, "RabbitMQ is NOT installed") {
		t.Errorf("%s\n%s", lines, said)
	}
	summary, _ := run("servers=$(scripts/servers 2>/dev/null); eval \"$servers\"; scripts/test true")
	if !strings.Contains(summary, "INSTALLED, BUT NOT TESTED WITH: MariaDB's data could NOT be made") {
		t.Errorf("%s", summary)
	}
}
