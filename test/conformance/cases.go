package conformance

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed testdata/cases.jsonl
var caseLines []byte

// Case is one line of the cases: requests, and what salvor must answer. A case of kind FIX also tells what the original
// answers instead, which is not read here.
type Case struct {
	ID       string            `json:"id"`
	Group    string            `json:"group"`
	Kind     string            `json:"kind"`
	Requires []string          `json:"requires"`
	Why      string            `json:"why"`
	SkipOn   map[string]string `json:"skip_on"`
	Setup    []Step            `json:"setup"`
	Request  Step              `json:"request"`
	Expect   Expect            `json:"expect"`
	Then     []Step            `json:"then"`
}

// Step is one request, and how its answer is used.
type Step struct {
	Method  string             `json:"method"`
	Path    string             `json:"path"`
	Headers map[string]*string `json:"headers"` // null removes a header
	Body    json.RawMessage    `json:"body"`
	Raw     json.RawMessage    `json:"raw"` // a text, or a text to repeat
	Latin1  bool               `json:"latin1"`

	ExpectStatus json.RawMessage   `json:"expect_status"` // a number or a list; default: any success
	Expect       *Expect           `json:"expect"`
	Capture      map[string]string `json:"capture"` // variable: dotted path into the answer
	Poll         *Poll             `json:"poll"`
}

// Poll asks again until the answer matches.
type Poll struct {
	Until   any     `json:"until"`
	Timeout float64 `json:"timeout"` // seconds
}

// Expect is what an answer must be.
type Expect struct {
	Status    json.RawMessage `json:"status"`
	Headers   map[string]any  `json:"headers"`
	NoBody    bool            `json:"no_body"`
	RawRE     string          `json:"raw_re"`
	ErrorKey  string          `json:"error_key"`
	Message   *string         `json:"message"`
	MessageRE string          `json:"message_re"`
	Subset    any             `json:"body_subset"`
}

// Cases reads all cases.
func Cases() ([]Case, error) {
	var cases []Case
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(caseLines))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var c Case
		if err := decode(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("case line %d: %w", n, err)
		}
		if seen[c.ID] {
			return nil, fmt.Errorf("case line %d: a second %s", n, c.ID)
		}
		seen[c.ID] = true
		cases = append(cases, c)
	}
	return cases, lines.Err()
}

// decode keeps numbers as they are written: 1 and 1.0 are different types to the cases.
func decode(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return dec.Decode(v)
}
