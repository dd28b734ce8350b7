package demo

import "charm.land/lipgloss/v2"

// Colours are the terminal's own sixteen, so that they fit whatever theme it has.
var (
	strong  = lipgloss.NewStyle().Bold(true)
	dim     = lipgloss.NewStyle().Faint(true)
	green   = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	yellow  = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	red     = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
	neutral = lipgloss.NewStyle()
)

var ofTone = map[tone]lipgloss.Style{plain: neutral, bad: red, busy: yellow, good: green}

var ofState = map[state]lipgloss.Style{untouched: neutral, lost: red, moving: yellow, back: green}
