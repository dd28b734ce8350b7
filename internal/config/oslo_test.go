package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// osloCase is a file as the real oslo.config (9.0) read it: the values, or the class of its error.
type osloCase struct {
	Name, Text string
	Values     map[string]any
	Error      string
}

// TestReadsAsOsloConfigDoes compares with what the real library read from the same files (testdata/oslo.json).
func TestReadsAsOsloConfigDoes(t *testing.T) {
	data, err := os.ReadFile("testdata/oslo.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []osloCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := readWithSmallTable(t, c.Text)
			if c.Error != "" {
				if err == nil {
					t.Fatalf("oslo.config says %s; no error here, but %v", c.Error, got)
				}
				return
			}
			if err != nil {
				t.Fatalf("oslo.config takes it: %v", err)
			}
			if flow, ok := c.Values["f"].(map[string]any); ok {
				for part, names := range flow {
					if len(names.([]any)) == 0 {
						delete(flow, part) // an empty part and none are the same to a Flow
					}
				}
			}
			if diff := cmp.Diff(c.Values, got); diff != "" {
				t.Errorf("(-oslo.config +salvor)\n%s", diff)
			}
		})
	}
}

func readWithSmallTable(t *testing.T, content string) (map[string]any, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.conf")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var table []Option
	var collect []func(c *Config, into map[string]any)
	keep := func(name, group, option string, value func() any) {
		collect = append(collect, func(c *Config, into map[string]any) {
			if c.IsSet(group, option) {
				if v := value(); v != nil {
					into[name] = v
				}
			}
		})
	}
	str := func(shown, group, name string) {
		v := new(string)
		table = append(table, define(group, name, text(), "", func(*Config) *string { return v }, ""))
		keep(shown, group, name, func() any { return *v })
	}
	str("s", groupDefault, "s")
	str("s2", groupDefault, "s2")
	str("t", groupDefault, "t")
	str("g.s", "g", "s")
	str("g.t", "g", "t")
	b, i, l, m, f := new(bool), new(int), new([]string), new([]string), new(Flow)
	*i = -1
	table = append(table,
		define(groupDefault, "b", boolean(), "false", func(*Config) *bool { return b }, ""),
		define(groupDefault, "i", integer(0, 9), "", func(*Config) *int { return i }, ""),
		define(groupDefault, "l", list(), "", func(*Config) *[]string { return l }, ""),
		define(groupDefault, "m", repeated(), "", func(*Config) *[]string { return m }, ""),
		define(groupDefault, "f", single("flow", parseFlow), "", func(*Config) *Flow { return f }, ""))
	keep("b", groupDefault, "b", func() any { return *b })
	keep("i", groupDefault, "i", func() any {
		if *i < 0 {
			return nil
		}
		return float64(*i)
	})
	keep("l", groupDefault, "l", func() any { return anys(*l) })
	keep("m", groupDefault, "m", func() any { return anys(*m) })
	keep("f", groupDefault, "f", func() any {
		parts := map[string]any{}
		for name, names := range map[string][]string{"pre": f.Pre, "main": f.Main, "post": f.Post} {
			if names != nil {
				parts[name] = anys(names)
			}
		}
		return parts
	})
	c, _, err := load(Sources{Files: []string{path}, SearchDirs: []string{}}, table)
	if err != nil {
		return nil, err
	}
	got := map[string]any{}
	for _, f := range collect {
		f(c, got)
	}
	return got, nil
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, t := range texts {
		all[i] = t
	}
	return all
}
