package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// valueFormat is for shells: values without names, where there are columns to choose.
const valueFormat = "value"

func oneFormat(format string, known []string) error {
	if !slices.Contains(known, format) {
		return usagef("--output %q: expected %s", format, strings.Join(known, ", "))
	}
	return nil
}

// formatsOf are those of a command.
func formatsOf(cmd *cobra.Command) []string {
	if cmd.Flags().Lookup("columns") == nil {
		return formats
	}
	return append(slices.Clone(formats), valueFormat)
}

// at finds a value by its key; dots lead into objects.
func at(values map[string]any, key string) any {
	for {
		first, rest, deeper := strings.Cut(key, ".")
		if !deeper {
			return values[key]
		}
		values, _ = values[first].(map[string]any)
		key = rest
	}
}

// known refuses columns that an object does not have.
func known(columns []string, values map[string]any) error {
	for _, c := range columns {
		first, _, _ := strings.Cut(c, ".")
		if _, ok := values[first]; !ok {
			var all []string
			for k := range values {
				all = append(all, k)
			}
			slices.Sort(all)
			return usagef("--columns: there is no %q; there are %s", c, strings.Join(all, ", "))
		}
	}
	return nil
}

// checkColumns refuses, before anything is made or changed, columns that v's like does not have.
func (c *connection) checkColumns(v any) error {
	_, values, err := flatten(v)
	if err != nil {
		return err
	}
	return known(c.columns, values)
}

// choose is an object of the chosen keys alone, in their order.
func choose(columns []string, values map[string]any) (json.RawMessage, error) {
	var b bytes.Buffer
	for i, c := range columns {
		key, err := jsonOf(c, "")
		if err != nil {
			return nil, err
		}
		value, err := jsonOf(at(values, c), "")
		if err != nil {
			return nil, err
		}
		b.WriteString([]string{"{", ","}[min(i, 1)])
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plain is a value for a shell: nothing for null, a time as in JSON.
func plain(v any) string {
	if v == nil || v == "" {
		return ""
	}
	if text, ok := v.(string); ok {
		return printable(text)
	}
	return cell(v)
}

// choose leaves the elements of a document their chosen keys.
func (l *listing) choose(rows []row) ([]row, error) {
	chosen := make([]row, len(rows))
	for i, r := range rows {
		_, values, err := flatten(r.v)
		if err == nil {
			err = known(l.columns, values)
		}
		if err == nil {
			chosen[i].v, err = choose(l.columns, values)
		}
		if err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// cellsOf is how many columns of a terminal a text takes: East Asian letters two, marks over others none.
func cellsOf(text string) int {
	n := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), 0x3000 <= r && r <= 0x303E, 0xFF01 <= r && r <= 0xFF60, 0x1F300 <= r && r <= 0x1FAFF:
			n += 2
		default:
			n++
		}
	}
	return n
}
