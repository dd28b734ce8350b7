package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

const (
	minWidth   = 60
	minStory   = 5  // lines of the story that are shown at least
	barWidth   = 32 // of an incident's progress
	maxBars    = 3  // incidents whose progress is shown
	nameLimit  = 24 // columns of a host's name
	stateWidth = 11
)

// render is the whole screen. It is a function of the scene and of the terminal's size alone.
func render(s Scene, width, height int) string {
	width = max(width, minWidth)
	head := header(s, width)
	foot := footer(s, width)
	bars := progress(s, min(barWidth, width-2*nameLimit+8))
	room := height - len(head) - len(foot) - len(bars) - minStory
	hosts := hostRows(s, width, max(3, room))
	lines := slices.Concat(head, hosts, bars)
	var story []string
	for _, l := range s.Story() {
		story = append(story, storyLines(s, l, width)...)
	}
	room = max(minStory, height-len(lines)-len(foot))
	lines = append(lines, story[max(0, len(story)-room):]...)
	for len(lines) < height-len(foot) {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, foot...), "\n")
}

func header(s Scene, width int) []string {
	title := strong.Render("salvor demo")
	t := s.At.Sub(s.Began)
	clock := fmt.Sprintf("%d:%04.1f", int(t.Minutes()), (t % time.Minute).Seconds())
	gap := max(1, width-lipgloss.Width(title)-len(clock)-2)
	what := fmt.Sprintf("a simulated cloud, %s, %s; API at %s", count(len(s.Hosts), "host"), count(instances(s.Hosts), "instance"), s.URL)
	return []string{" " + title + strings.Repeat(" ", gap) + clock, " " + dim.Render(clip(what, width-2)), ""}
}

// hostRows shows at most room hosts: when not all fit, those to which something happened first.
func hostRows(s Scene, width, room int) []string {
	hosts, more := s.Hosts, 0
	if len(hosts) > room-1 {
		hosts = slices.Clone(hosts)
		slices.SortStableFunc(hosts, func(a, b Host) int { return b.interest() - a.interest() })
		hosts, more = hosts[:room-2], len(hosts)-(room-2)
	}
	nameWidth, notesWidth := 0, 0
	for _, h := range hosts {
		nameWidth = min(max(nameWidth, lipgloss.Width(h.Name)), nameLimit)
		notesWidth = max(notesWidth, lipgloss.Width(h.notes()))
	}
	left := width - nameWidth - stateWidth - notesWidth - 6
	chips := chipsFit(hosts, left)
	var lines []string
	for _, h := range hosts {
		power := green.Render("●") + " up"
		switch {
		case !h.Powered:
			power = red.Render("✗ no power")
		case !h.Up:
			power = yellow.Render("◌") + " returning"
		}
		inside := h.blocks(left)
		if chips {
			inside = h.chips(left)
		}
		lines = append(lines, " "+pad(clip(h.Name, nameLimit), nameWidth)+"  "+pad(power, stateWidth)+" "+pad(inside, left)+" "+dim.Render(h.notes()))
	}
	if more > 0 {
		lines = append(lines, " "+dim.Render(fmt.Sprintf("and %s more", count(more, "host"))))
	}
	return append(lines, "")
}

// interest is how much a host has to tell.
func (h Host) interest() int {
	n := 0
	if !h.Powered {
		n = 1000
	}
	for _, i := range h.Instances {
		if i.State != untouched {
			n++
		}
	}
	return n
}

// notes says what Nova has of the host beyond up and down.
func (h Host) notes() string {
	var notes []string
	if h.ForcedDown {
		notes = append(notes, "forced down")
	}
	if h.Disabled {
		notes = append(notes, "disabled")
	}
	return strings.Join(notes, ", ")
}

// chipsFit reports whether names can be shown: when at least half of the fullest host's fit.
func chipsFit(hosts []Host, width int) bool {
	for _, h := range hosts {
		if lipgloss.Width(h.chips(1<<20)) > 2*width {
			return false
		}
	}
	return true
}

// chips shows each instance by name. When not all fit, it counts those that have been there the longest.
func (h Host) chips(width int) string {
	shown := h.Instances
	for {
		text := ""
		if n := len(h.Instances) - len(shown); n > 0 {
			text = dim.Render(fmt.Sprintf("+%d  ", n))
		}
		for k, i := range shown {
			if k > 0 {
				text += "  "
			}
			text += ofState[i.State].Render(i.Name)
		}
		if len(shown) == 0 || lipgloss.Width(text) <= width {
			return text
		}
		shown = shown[1:]
	}
}

// blocks shows each instance as a block, as many as fit.
func (h Host) blocks(width int) string {
	var b strings.Builder
	for k, i := range h.Instances {
		if k >= width-5 && len(h.Instances) > width {
			fmt.Fprintf(&b, "+%d", len(h.Instances)-k)
			break
		}
		b.WriteString(ofState[i.State].Render("■"))
	}
	return b.String()
}

// progress has a bar for each of the latest incidents.
func progress(s Scene, width int) []string {
	incidents := s.Incidents
	if len(incidents) > maxBars {
		incidents = incidents[len(incidents)-maxBars:]
	}
	var lines []string
	for _, i := range incidents {
		n, done, ordered := len(i.Victims), i.Back(), 0
		for _, v := range i.Victims {
			if v.BackAt.IsZero() && !v.OrderedAt.IsZero() {
				ordered++
			}
		}
		if n == 0 {
			continue
		}
		ends := []int{width * done / n, width * (done + ordered) / n, width}
		bar := green.Render(strings.Repeat("━", ends[0])) + yellow.Render(strings.Repeat("━", ends[1]-ends[0])) +
			dim.Render(strings.Repeat("━", ends[2]-ends[1]))
		lines = append(lines, fmt.Sprintf(" %s  %s  %d of %d back", clip(i.Host, nameLimit), bar, done, n))
	}
	if lines != nil {
		lines = append(lines, "")
	}
	return lines
}

// storyLines tells a line of the story, in several where the terminal is narrow: what happened to whom is not cut off.
func storyLines(s Scene, l Line, width int) []string {
	at := fmt.Sprintf(" %6.1f s  ", l.At.Sub(s.Began).Seconds())
	var lines []string
	for k, text := range wrap(l.Text, width-len(at)-1) {
		if k > 0 {
			at = strings.Repeat(" ", len(at))
		}
		lines = append(lines, dim.Render(at)+ofTone[l.Tone].Render(text))
	}
	return lines
}

func footer(s Scene, width int) []string {
	lines := []string{""}
	for _, i := range slices.Backward(s.Incidents) {
		if !i.Ended() {
			break
		}
		text, _, _ := strings.Cut(s.report(i).String(), "\n")
		style := strong
		if !s.report(i).OK {
			style = red
		}
		for _, line := range wrap(text, width-2) {
			lines = append(lines, " "+style.Render(line))
		}
		break
	}
	if s.Trouble != "" {
		lines = append(lines, " "+red.Render(clip(s.Trouble, width-2)))
	}
	keys := " k kill another host"
	if d := s.dead(nil); d != "" {
		keys += "   r revive " + d
	}
	if h := s.held(); h != "" {
		keys += "   l let " + h + " pass the gate"
	}
	return append(lines, dim.Render(keys+"   q quit"))
}

// wrap breaks plain text at blanks into lines of at most width columns. A word that is longer is cut.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = clip(word, width)
		case lipgloss.Width(*last)+1+lipgloss.Width(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, clip(word, width))
		}
	}
	return lines
}

// clip cuts plain text to a width.
func clip(text string, width int) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && lipgloss.Width(string(runes))+1 > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// pad fills styled text up to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
}
