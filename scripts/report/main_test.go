package main

import (
	"strings"
	"testing"
)

const stream = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"noise\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"run","Package":"m/a","Test":"TestAbsent"}
{"Action":"output","Package":"m/a","Test":"TestAbsent","Output":"=== RUN   TestAbsent\n"}
{"Action":"output","Package":"m/a","Test":"TestAbsent","Output":"    a_test.go:7: SKIPPED: no MariaDB server answers: refused\n"}
{"Action":"output","Package":"m/a","Test":"TestAbsent","Output":"--- SKIP: TestAbsent (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestAbsent"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}
{"Action":"pass","Package":"m/a"}
`

const bad = `{"Action":"run","Package":"m/b","Test":"TestBad"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"    b_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"m/b","Test":"TestBad"}
{"Action":"output","Package":"m/b","Output":"FAIL\n"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.2s\n"}
{"Action":"fail","Package":"m/b"}
`

const unbuilt = `{"ImportPath":"m/c","Action":"build-output","Output":"c.go:3: undefined: x\n"}
{"ImportPath":"m/c","Action":"build-fail"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c [build failed]\n"}
{"Action":"fail","Package":"m/c"}
`

func run(t *testing.T, text string) (string, bool) {
	t.Helper()
	var out strings.Builder
	r := report{out: &out, output: map[key][]string{}}
	if err := r.read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	well := r.close()
	return out.String(), well
}

func TestReport(t *testing.T) {
	tests := []struct {
		name, in, out string
		well          bool
	}{
		{"good", stream, "ok  \tm/a\t0.1s\nSKIPPED m/a TestAbsent: no MariaDB server answers: refused\n1 passed, 0 failed, 1 skipped\n", true},
		{"bad", bad, "    b_test.go:9: got 1, want 2\nFAIL\tm/b\t0.2s\n0 passed, 1 failed, 0 skipped\n", false},
		{"unbuilt", unbuilt, "c.go:3: undefined: x\nFAIL\tm/c [build failed]\n0 passed, 0 failed, 0 skipped\n", false},
		{"no test", "go: downloading x\n", "go: downloading x\n0 passed, 0 failed, 0 skipped\n", false}, // whatever go's exit status
	}
	for _, tt := range tests {
		out, well := run(t, tt.in)
		if out != tt.out || well != tt.well {
			t.Errorf("%s: %v\n got %q\nwant %q", tt.name, well, out, tt.out)
		}
	}
}
