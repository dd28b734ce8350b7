package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func open(t *testing.T, cfg LogConfig) (*Log, *bytes.Buffer) {
	t.Helper()
	var stderr bytes.Buffer
	cfg.Stderr = &stderr
	if cfg.Role == "" {
		cfg.Role = "engine"
	}
	l, err := NewLog(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, &stderr
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhereLinesGo(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name   string
		cfg    LogConfig
		file   string
		stderr bool
	}{
		{"nowhere named", LogConfig{}, "", true},
		{"a file", LogConfig{File: filepath.Join(dir, "a.log")}, "a.log", false},
		{"a file in a directory", LogConfig{File: "b.log", Dir: dir}, "b.log", false},
		{"a directory", LogConfig{Dir: dir}, "salvor-engine.log", false},
		{"both", LogConfig{File: "c.log", Dir: dir, UseStderr: true}, "c.log", true},
	}
	for _, tt := range tests {
		l, stderr := open(t, tt.cfg)
		l.Info("hello", "n", 1)
		if got := strings.Contains(stderr.String(), "msg=hello role=engine n=1"); got != tt.stderr {
			t.Errorf("%s: on standard error: %q", tt.name, stderr)
		}
		if tt.file != "" && !strings.Contains(read(t, filepath.Join(dir, tt.file)), "msg=hello role=engine n=1") {
			t.Errorf("%s: not in %s", tt.name, tt.file)
		}
	}
	if _, err := NewLog(LogConfig{File: filepath.Join(dir, "none", "x.log")}); err == nil || !strings.Contains(err.Error(), "log file") {
		t.Error(err)
	}
	if _, err := NewLog(LogConfig{Syslog: true, Facility: "LOG_MINE"}); err == nil || !strings.Contains(err.Error(), "LOG_MINE") {
		t.Error(err)
	}
}

func TestLevelAndForm(t *testing.T) {
	l, stderr := open(t, LogConfig{JSON: true})
	l.Debug("unseen")
	l.SetDebug(true)
	l.Debug("seen")
	l.SetDebug(false)
	l.Debug("unseen again")
	if l, stderr := open(t, LogConfig{Debug: true}); !strings.Contains(said(l, stderr), "from the start") {
		t.Errorf("debug is on, and the log has %q", stderr)
	}
	var line struct{ Msg, Level, Role string }
	if err := json.Unmarshal(stderr.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON object: %v %q", err, stderr)
	}
	if line.Msg != "seen" || line.Level != "DEBUG" || line.Role != "engine" {
		t.Errorf("%+v", line)
	}
}

func said(l *Log, to *bytes.Buffer) string {
	l.Debug("from the start")
	return to.String()
}

func TestJournal(t *testing.T) {
	l, stderr := open(t, LogConfig{Journal: true, UseStderr: true})
	l.With("unit", 7).WithGroup("g").Warn("careful", "x", 1)
	l.Error("bad")
	want := "<4>msg=careful role=engine unit=7 g.x=1\n<3>msg=bad role=engine\n"
	if got := stderr.String(); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestMovedFileIsOpenedAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.log")
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLog(LogConfig{File: path, Role: "api"})
		if err != nil {
			t.Fatal(err)
		}
		l.Info("one")
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // of the bubble
		l.Info("two")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if old := read(t, path+".1"); !strings.Contains(old, "one") || strings.Contains(old, "two") {
		t.Errorf("the moved file: %q", old)
	}
	if now := read(t, path); !strings.Contains(now, "two") {
		t.Errorf("the new file: %q", now)
	}
}

func TestRedaction(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		l, stderr := open(t, LogConfig{JSON: asJSON})
		l.With("X-Auth-Token", "hush").Info("connecting to mysql://u:hush@db/masakari",
			"password", "hush", "webhook_secret", []byte("hush"), "Authorization", "Bearer hush",
			"url", "rabbit://a:hush@h1,b:hush@h2/v", "err", errors.New("dial amqp://x:hush@h: refused"),
			slog.Group("request", "admin_password", "hush", "path", "/v1"), "token_cache", 5, "host", "compute-1")
		line := stderr.String()
		if strings.Contains(line, "hush") {
			t.Errorf("leaked: %s", line)
		}
		for _, want := range []string{"mysql://***@db/masakari", "***", "compute-1", "/v1", "refused", "5"} {
			if !strings.Contains(line, want) {
				t.Errorf("%q is missing in %s", want, line)
			}
		}
	}
}

// An error may quote another server.
func TestLongErrorsAreCut(t *testing.T) {
	l, stderr := open(t, LogConfig{})
	l.Warn("away", "error", errors.New(strings.Repeat("ä", 1<<20)))
	if line := stderr.String(); len(line) > 2*maxError || !utf8.ValidString(line) || !strings.Contains(line, "ä…") {
		t.Errorf("%d bytes: %.200q", len(line), line)
	}
}
