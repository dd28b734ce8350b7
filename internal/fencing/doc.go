// Package fencing powers hosts off and sees them off (docs/fencing.md; the proof `fenced` of plan). What proves a death is a power state
// that was observed, twice with a pause between; never that an order was taken. How each host is fenced stands in a file of its
// own ([salvor] fencing_file): an ordered list of methods, each with a deadline. It knows nothing of recoveries.
package fencing
