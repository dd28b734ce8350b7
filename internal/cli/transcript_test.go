package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "write golden files and generated documents anew")

// cloudOf starts a simulated cloud of three hosts and a serve beside it, and returns the cloud's URL and an operator's
// environment.
func cloudOf(t *testing.T) (cloud string, environ []string) {
	t.Helper()
	sim := start(t, "sim", "--listen", "127.0.0.1:0", "--hosts", "3", "--instances", "3", "--scale", "0.2")
	cloud = sim.out.await(t, `listening on (http://\S+)`)
	salvor := start(t, "serve", "--config-file", conf(t, sim.out.String()), "--listen", "127.0.0.1:0")
	u := salvor.out.await(t, `listening on (http://\S+)`)
	return cloud, []string{"OS_AUTH_URL=" + cloud, "OS_USERNAME=admin", "OS_PASSWORD=secret", "OS_PROJECT_NAME=admin", "SALVOR_URL=" + u}
}

// scrubber puts what differs from run to run into a fixed form of the same width.
type scrubber struct{ uuids map[string]string }

var (
	uuids  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times  = regexp.MustCompile(`\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d{6})?`)
	local  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	engine = regexp.MustCompile(`engine \S+-[0-9a-f]{8} `)
	after  = regexp.MustCompile(`( +)\d+\.\d{3} s`)
)

func (s *scrubber) scrub(text string) string {
	text = uuids.ReplaceAllStringFunc(text, func(u string) string {
		if s.uuids[u] == "" {
			s.uuids[u] = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.uuids)+1)
		}
		return s.uuids[u]
	})
	text = times.ReplaceAllStringFunc(text, func(at string) string {
		return ("2026-01-02" + at[10:11] + "03:04:05.000000")[:len(at)]
	})
	text = local.ReplaceAllString(text, "127.0.0.1:PORT")
	text = after.ReplaceAllString(text, "     0.000 s")
	return engine.ReplaceAllString(text, "engine ENGINE ")
}

// TestTranscript is every command of an operator against a true server, as seen in a terminal: standard output, what begins
// with "! " of standard error, and the exit status.
func TestTranscript(t *testing.T) {
	_, environ := cloudOf(t)
	s := scrubber{uuids: map[string]string{}}
	var seen strings.Builder
	run := func(line string) {
		t.Helper()
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "~", " ")
		}
		code, stdout, stderr := command(t, environ, args...)
		fmt.Fprintf(&seen, "$ salvor %s\n%s", strings.Join(args, " "), stdout)
		for l := range strings.Lines(stderr) {
			seen.WriteString("! " + l)
		}
		fmt.Fprintf(&seen, "exit %d\n\n", code)
	}
	lines, err := os.ReadFile(filepath.Join("testdata", "operator.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		line = strings.TrimSpace(line)
		switch what, _, _ := strings.Cut(line, " "); what {
		case "", "#":
		default:
			run(line)
		}
	}
	golden := filepath.Join("testdata", "operator.golden")
	got := s.scrub(seen.String())
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("what an operator sees has changed; if it is meant so: go test ./internal/cli -run TestTranscript -update\n%s", diff)
	}
}

// TestFormatsSayTheSame: JSON and YAML are one document each, with the same keys and values.
func TestFormatsSayTheSame(t *testing.T) {
	_, environ := cloudOf(t)
	for _, args := range []string{"segment create yes --description 1.5", "segment create b", "host create host-1 --segment b", "host create host-2 --segment b"} {
		if code, _, stderr := command(t, environ, strings.Fields(args)...); code != 0 {
			t.Fatalf("%s: %s", args, stderr)
		}
	}
	for _, args := range []string{"segment list", "segment show yes", "host list", "host show host-1", "notification list", "segment list --enabled=false"} {
		var parsed [2]any
		for i, format := range []string{"json", "yaml"} {
			code, stdout, stderr := command(t, environ, append(strings.Fields(args), "-o", format)...)
			if code != 0 {
				t.Fatalf("%s: %s", args, stderr)
			}
			read := json.Unmarshal
			if format == "yaml" {
				read = yaml.Unmarshal
			}
			if err := read([]byte(stdout), &parsed[i]); err != nil {
				t.Fatalf("%s -o %s: %v\n%s", args, format, err, stdout)
			}
		}
		fromYAML, err := json.Marshal(parsed[1])
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, err := json.Marshal(parsed[0])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(fromJSON), string(fromYAML)); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
}
