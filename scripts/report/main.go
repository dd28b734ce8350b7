// Command report reads the output of "go test -json" and prints what a reader wants: go test's own closing line of each
// package as it comes, the whole output of what failed, and, at the end, every skipped test with its reason. Its exit
// status is 1 if anything failed, or if there was no test at all.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of build output
}

type key struct{ pkg, test string }

type report struct {
	out                     io.Writer
	output                  map[key][]string
	skipped                 []string
	passed, failed, skips   int
	brokenBuilds, brokenPkg int
}

func main() {
	r := report{out: os.Stdout, output: map[key][]string{}}
	if err := r.read(os.Stdin); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	if !r.close() {
		os.Exit(1)
	}
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.print(lines.Text() + "\n") // go's own words, such as those of a failed download
			continue
		}
		r.take(e)
	}
	return lines.Err()
}

func (r *report) take(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "build-fail":
		r.brokenBuilds++
	case "output":
		if e.Test == "" {
			r.packageLine(e)
			return
		}
		r.output[k] = append(r.output[k], e.Output)
	case "pass":
		if e.Test != "" {
			r.passed++
		}
		r.forget(e)
	case "fail":
		if e.Test != "" {
			r.failed++
			r.print(strings.Join(r.output[k], ""))
		} else {
			r.brokenPkg++
			r.print(strings.Join(r.output[k], ""))
		}
		r.forget(e)
	case "skip":
		if e.Test != "" {
			r.skips++
			r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(r.output[k])))
		}
		r.forget(e)
	}
}

// packageLine prints "ok …", "FAIL …" and their like at once, and keeps the rest for the case of a failure.
func (r *report) packageLine(e event) {
	for _, start := range []string{"ok ", "FAIL", "? ", "panic:", "---", "coverage:"} {
		if strings.HasPrefix(e.Output, start) {
			if e.Output != "FAIL\n" {
				r.print(e.Output)
			}
			return
		}
	}
	if e.Output != "PASS\n" {
		k := key{e.Package, ""}
		r.output[k] = append(r.output[k], e.Output)
	}
}

func (r *report) forget(e event) { delete(r.output, key{e.Package, e.Test}) }

// reason is what the test said when it was skipped, without the places in files.
func reason(output []string) string {
	var words []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- SKIP") {
			continue
		}
		if _, said, ok := strings.Cut(line, ".go:"); ok {
			if _, said, ok = strings.Cut(said, ": "); ok {
				line = said
			}
		}
		words = append(words, line)
	}
	return strings.TrimLeft(strings.TrimPrefix(strings.Join(words, " "), "SKIPPED"), ":, ")
}

// close prints the end and reports whether all is well.
func (r *report) close() bool {
	for _, s := range r.skipped {
		r.print("SKIPPED " + s + "\n")
	}
	// A package that ended before its tests did (a panic, a timeout) leaves their output behind.
	if r.brokenPkg > 0 || r.brokenBuilds > 0 {
		for k, lines := range r.output {
			if k.test != "" {
				r.print(fmt.Sprintf("--- UNFINISHED %s %s\n%s", k.pkg, k.test, strings.Join(lines, "")))
			}
		}
	}
	r.print(fmt.Sprintf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skips))
	return r.failed == 0 && r.brokenBuilds == 0 && r.brokenPkg == 0 && r.passed+r.skips > 0
}

func (r *report) print(text string) { _, _ = io.WriteString(r.out, text) }
