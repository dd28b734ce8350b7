package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/salvor-ha/salvor/internal/testkit"
)

func git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("SKIPPED: git %s: %v: no older version can be built", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// tries is how many versions are tried until one can be built: not each commit of a history must build.
const tries = 40

// older builds the version before the tables last changed, or the one before this when they never did since the first, and
// returns the binary. UPGRADE_FROM is another commit.
func older(t *testing.T) string {
	t.Helper()
	if git(t, "rev-parse", "--is-shallow-repository") == "true" {
		t.Skip("SKIPPED: this clone is shallow: no older version is in it that could be upgraded from")
	}
	from := os.Getenv("UPGRADE_FROM")
	if from == "" {
		from = "HEAD~1"
		if changes := strings.Fields(git(t, "log", "--format=%H", "--", "internal/store/migrations")); len(changes) > 1 {
			from = changes[0] + "~1"
		}
	}
	for _, commit := range strings.Fields(git(t, "log", fmt.Sprintf("-%d", tries), "--format=%h", from)) {
		program, err := build(t, commit)
		if err == nil {
			t.Logf("upgrading from %s: %s", commit, git(t, "log", "-1", "--format=%s", commit))
			return program
		}
		t.Logf("version %s cannot be built: %v", commit, err)
	}
	t.Skipf("SKIPPED: none of the %d versions from %s on can be built here", tries, from)
	return ""
}

// build makes the binary of a commit.
func build(t *testing.T, commit string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit)
	archive.Dir = filepath.Join("..", "..")
	tar, err := archive.Output()
	if err != nil {
		return "", err
	}
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(tar)
	if out, err := unpack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w\n%s", err, out)
	}
	program := filepath.Join(dir, "salvor-"+commit)
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/salvor")
	compile.Dir = dir
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
}

// TestRollingUpgrade: three engines and three apis of the version before this one become this one, one process after the other,
// while hosts die. Nobody waits for it, no recovery fails, no report is refused.
func TestRollingUpgrade(t *testing.T) {
	old := older(t)
	const deaths = 5
	w := &world{t: t, Cluster: testkit.NewClusterOf(t, old, testkit.MariaDB(t), deaths+3, fmt.Sprintf("order_in_doubt = %d", orderInDoubt))}
	for i := range deaths {
		w.hosts = append(w.hosts, fmt.Sprintf("host-%d", i+1))
	}
	var apis [3]string
	var apiProcesses [3]*testkit.Process
	for i := range 3 {
		w.engine()
		apiProcesses[i], apis[i] = w.API(fmt.Sprintf("old api %d", i+1))
	}
	olds := w.working()
	w.api = apis[0]
	all := w.doom(t)
	reportTo := func(d *death, api string) {
		w.api = api
		w.report(t, d)
	}

	reportTo(all[0], apis[0])
	w.ordered(t, all[0])
	w.Program = "" // this version
	w.Run("db", "sync")
	reportTo(all[1], apis[1]) // the old version goes on over the new tables
	w.ordered(t, all[1])
	for i, e := range olds {
		w.engine()
		w.ended(e)
		if code := e.Stop(t, 20*time.Second); code != 0 {
			t.Errorf("old engine %d: exit code %d after SIGTERM", i+1, code)
		}
		apiProcesses[i].Signal(syscall.SIGTERM)
		if code := apiProcesses[i].Ended(t, 20*time.Second); code != 0 {
			t.Errorf("old api %d: exit code %d after SIGTERM", i+1, code)
		}
		_, apis[i] = w.API(fmt.Sprintf("new api %d", i+1))
		reportTo(all[i+2], apis[2]) // the last old one, then a new one
	}
	for _, d := range all {
		w.finished(t, d, 100*time.Second)
	}
}

// ordered waits until orders of a death are under way.
func (w *world) ordered(t *testing.T, d *death) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, func() (bool, string) {
		n := 0
		for _, i := range w.state(t)["instances"].([]any) {
			if v := i.(map[string]any); d.ids[v["id"].(string)] != "" {
				n += int(v["evacuations"].(float64))
			}
		}
		return n > 0, "nothing was ordered"
	})
}
