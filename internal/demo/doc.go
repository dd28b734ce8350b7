// Package demo is `salvor demo`: a simulated cloud and a whole salvor in one process, over real HTTP, in which a host dies and
// its instances come back; shown live in a terminal, as timed lines, or as one summary for a script.
//
// It is a room of its own and no part of cli because it is a story with its own state, and so that the terminal's libraries
// are known to one small room only. It knows salvor as its users do: by the API. world.go starts and stops everything,
// stage.go lets things happen and looks at them, story.go tells them, view.go and plain.go show them.
package demo
