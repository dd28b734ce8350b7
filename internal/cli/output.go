package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

var formats = []string{"table", "json", "yaml"}

func checkFormat(format string) error { return oneFormat(format, formats) }

// print shows one thing; text is its table.
func (c *connection) print(cmd *cobra.Command, v any, text func() string) error {
	return printAs(cmd.OutOrStdout(), c.format, v, text)
}

// show shows one object with all of its keys, or the chosen ones.
func (c *connection) show(cmd *cobra.Command, v any) error {
	keys, values, err := flatten(v)
	if err != nil {
		return err
	}
	if len(c.columns) > 0 {
		keys = c.columns
		if err := known(keys, values); err != nil {
			return err
		}
		if v, err = choose(keys, values); err != nil {
			return err
		}
	}
	return c.print(cmd, v, func() string {
		width := 0
		for _, k := range keys {
			width = max(width, len(k))
		}
		var b strings.Builder
		for _, k := range keys {
			if c.format == valueFormat {
				b.WriteString(plain(at(values, k)) + "\n")
			} else {
				fmt.Fprintf(&b, "%-*s  %s\n", width, k, cell(at(values, k)))
			}
		}
		return b.String()
	})
}

func printAs(out io.Writer, format string, v any, text func() string) (err error) {
	var raw []byte
	switch format {
	case "json":
		raw, err = jsonOf(v, "")
		raw = append(raw, '\n')
	case "yaml":
		raw, err = yamlOf(v)
	default:
		raw = []byte(text())
	}
	if err != nil {
		return err
	}
	_, err = out.Write(raw)
	return err
}

// jsonOf is v as indented JSON, without a line's end.
func jsonOf(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// yamlOf is v as YAML with the keys, and their order, of its JSON.
func yamlOf(v any) ([]byte, error) {
	raw, err := jsonOf(v, "")
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil { // JSON is YAML
		return nil, err
	}
	plainStyle(&doc)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// older matches texts that YAML 1.1, as Python reads it, takes for a truth, a number by sixties or a word of its own, and YAML 1.2 for texts.
var older = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|=|<<|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

// plainStyle drops JSON's braces and quotes; what would read as something else is quoted again.
func plainStyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && older.MatchString(n.Value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, inner := range n.Content {
		plainStyle(inner)
	}
}

// flatten reads an object's keys, in the order of its JSON, and its values.
func flatten(v any) (keys []string, values map[string]any, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&values); err != nil {
		return nil, nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, nil, err
	}
	for i, n := range doc.Content[0].Content {
		if i%2 == 0 {
			keys = append(keys, n.Value)
		}
	}
	return keys, values, nil
}

// cell is a value as a table shows it: in one line, and nothing that a terminal would obey.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		if len(v) == 26 && v[10] == 'T' && v[19] == '.' {
			return v[:10] + " " + v[11:19] // a time; JSON has the fraction
		}
		return printable(v)
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	case []any:
		if words, ok := wordsOf(v); ok {
			return words
		}
	case map[string]any:
		if name, ok := v["name"].(string); ok && v["uuid"] != nil {
			return printable(name) // a host's segment
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return printable(string(raw))
}

// wordsOf joins a list of texts, such as an episode's radius.
func wordsOf(list []any) (string, bool) {
	words := make([]string, len(list))
	for i, v := range list {
		text, ok := v.(string)
		if !ok {
			return "", false
		}
		words[i] = printable(text)
	}
	return cmp.Or(strings.Join(words, ", "), "-"), true
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, text)
}

// listing prints a list page by page.
type listing struct {
	out     io.Writer
	format  string
	columns []string // KEY, or KEY=TITLE
	chosen  bool     // by the user
	widths  []int
	rows    int
}

// list begins a list whose table has these columns unless the user chose others.
func (c *connection) list(cmd *cobra.Command, columns ...string) *listing {
	l := &listing{out: cmd.OutOrStdout(), format: c.format, columns: columns}
	if len(c.columns) > 0 {
		l.columns, l.chosen = c.columns, true
	}
	return l
}

// row is an element and, by title, what its table shows beyond its own keys.
type row struct {
	v     any
	extra map[string]string
}

func (l *listing) add(rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	var err error
	if l.chosen && (l.format == "json" || l.format == "yaml") {
		rows, err = l.choose(rows)
	}
	if err != nil {
		return err
	}
	switch l.format {
	case "json":
		err = l.addJSON(rows)
	case "yaml":
		err = l.addYAML(rows)
	default:
		err = l.addTable(rows)
	}
	l.rows += len(rows)
	return err
}

func (l *listing) addJSON(rows []row) error {
	for i, r := range rows {
		before := ",\n  "
		if l.rows+i == 0 {
			before = "[\n  "
		}
		raw, err := jsonOf(r.v, "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(l.out, "%s%s", before, raw); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) addYAML(rows []row) error {
	for _, r := range rows {
		raw, err := yamlOf([]any{r.v})
		if err != nil {
			return err
		}
		if _, err := l.out.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) addTable(rows []row) error {
	var lines [][]string
	if l.rows == 0 {
		titles := make([]string, len(l.columns))
		for i, c := range l.columns {
			key, title, named := strings.Cut(c, "=")
			if !named {
				title = key
			}
			titles[i] = strings.ToUpper(title)
		}
		if l.format == "table" {
			lines = append(lines, titles)
		}
		l.widths = make([]int, len(l.columns))
	}
	for _, r := range rows {
		_, values, err := flatten(r.v)
		if err != nil {
			return err
		}
		if l.chosen && l.rows == 0 {
			if err := known(l.columns, values); err != nil {
				return err
			}
		}
		line := make([]string, len(l.columns))
		for i, c := range l.columns {
			key, title, _ := strings.Cut(c, "=")
			text, beyond := r.extra[title]
			switch {
			case beyond:
				line[i] = printable(text)
			case l.format == valueFormat:
				line[i] = plain(at(values, key))
			default:
				line[i] = cell(at(values, key))
			}
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	for _, line := range lines {
		for i, text := range line {
			l.widths[i] = max(l.widths[i], cellsOf(text))
		}
	}
	for _, line := range lines {
		if l.format == valueFormat {
			b.WriteString(strings.Join(line, "\t") + "\n")
			continue
		}
		for i, text := range line[:len(line)-1] {
			b.WriteString(text + strings.Repeat(" ", l.widths[i]-cellsOf(text)+2))
		}
		b.WriteString(line[len(line)-1] + "\n")
	}
	_, err := io.WriteString(l.out, b.String())
	return err
}

// end closes the document; an empty one says so.
func (l *listing) end() error {
	text := ""
	switch {
	case l.format == "json" && l.rows > 0:
		text = "\n]\n"
	case l.rows > 0, l.format == valueFormat:
	case l.format != "table":
		text = "[]\n"
	default:
		text = "none\n"
	}
	_, err := io.WriteString(l.out, text)
	return err
}
