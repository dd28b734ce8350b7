package demo

import (
	"errors"
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// The picture in the README is drawn from a real run, by:
//
//	go test ./internal/demo -run Picture -picture ../../docs/demo.svg
var pictureFile = flag.String("picture", "", "draw the demonstration as an animated SVG into this file")

func TestPicture(t *testing.T) {
	if *pictureFile == "" {
		drawn := draw([]frame{{0, " \x1b[1msalvor\x1b[m & co"}, {time.Second, "   \x1b[31mdead\x1b[m"}})
		for _, want := range []string{`class="bold">salvor</tspan>`, `&amp; co</tspan>`, `<tspan x="25.2" class="c1">dead</tspan>`, "20.00%{transform:translateX(-905.6px)}"} {
			if !strings.Contains(drawn, want) {
				t.Errorf("%s is missing in:\n%s", want, drawn)
			}
		}
		return
	}
	w, err := start(t.Context(), Options{Hosts: 6, Instances: 24, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	frames, err := record(t.Context(), w, columns, rows)
	if err := errors.Join(err, w.stop()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*pictureFile, []byte(draw(frames)), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	columns = 104
	rows    = 27
	cell    = 8.4 // width of a character, in pixels
	line    = 19  // height of a row
	margin  = 16
	pause   = 4 * time.Second // of the last frame, before it begins anew
)

// draw lays all frames side by side on a film strip that moves on by one frame at a time. Rows that several frames share are
// drawn once. Where nothing moves, or moving is not wanted, the last frame is shown.
func draw(frames []frame) string {
	width, height := columns*cell+2*margin, rows*line+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, "A host dies in salvor demo, and its instances come back on other hosts")
	whole := frames[len(frames)-1].at - frames[0].at + pause
	fmt.Fprintf(&b, "<style>\n%s.film{transform:translateX(%.1fpx);animation:film %.1fs steps(1,end) infinite}\n@keyframes film{\n",
		style, -width*float64(len(frames)-1), whole.Seconds())
	for k, f := range frames {
		fmt.Fprintf(&b, "%.2f%%{transform:translateX(%.1fpx)}\n", 100*float64(f.at-frames[0].at)/float64(whole), -width*float64(k))
	}
	b.WriteString("}\n@media (prefers-reduced-motion:reduce){.film{animation:none}}\n</style>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%d" rx="8" class="back"/>`+"\n", width, height)

	names := map[string]string{}
	var defs, uses strings.Builder
	for k, f := range frames {
		for row, text := range strings.Split(f.screen, "\n") {
			drawn := drawRow(text)
			if drawn == "" {
				continue
			}
			name, known := names[drawn]
			if !known {
				name = fmt.Sprintf("r%d", len(names))
				names[drawn] = name
				fmt.Fprintf(&defs, `<text id="%s" xml:space="preserve">%s</text>`+"\n", name, drawn)
			}
			fmt.Fprintf(&uses, `<use href="#%s" x="%.1f" y="%d"/>`, name, width*float64(k)+margin, margin+line*row+14)
		}
		uses.WriteString("\n")
	}
	fmt.Fprintf(&b, "<defs>\n%s</defs>\n<g class=\"film\">\n%s</g>\n</svg>\n", defs.String(), uses.String())
	return b.String()
}

const style = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d5dae3}
.back{fill:#161a21}.bold{font-weight:bold}.faint{fill:#8a92a1}.c1{fill:#e0787f}.c2{fill:#93c47d}.c3{fill:#e3b562}
`

// drawRow turns a row with escape sequences into spans, each at its column, so that no font can shift them. "" for an empty row.
func drawRow(row string) string {
	var b strings.Builder
	var classes []string
	column := 0
	for row != "" {
		if rest, ok := strings.CutPrefix(row, "\x1b["); ok {
			codes, after, _ := strings.Cut(rest, "m")
			classes = apply(classes, codes)
			row = after
			continue
		}
		text, _, _ := strings.Cut(row, "\x1b[")
		row = row[len(text):]
		if shown := strings.TrimLeft(text, " "); strings.TrimSpace(shown) != "" {
			at := column + len(text) - len(shown)
			fmt.Fprintf(&b, `<tspan x="%.1f"`, float64(at)*cell)
			if len(classes) > 0 {
				fmt.Fprintf(&b, ` class="%s"`, strings.Join(classes, " "))
			}
			fmt.Fprintf(&b, ">%s</tspan>", html.EscapeString(strings.TrimRight(shown, " ")))
		}
		column += utf8.RuneCountInString(text)
	}
	return b.String()
}

// apply digests the codes of one sequence, as far as the demonstration uses them.
func apply(classes []string, codes string) []string {
	for code := range strings.SplitSeq(codes, ";") {
		switch code {
		case "", "0":
			classes = nil
		case "1":
			classes = append(classes, "bold")
		case "2":
			classes = append(classes, "faint")
		case "31", "32", "33":
			classes = append(classes, "c"+code[1:])
		}
	}
	return classes
}
