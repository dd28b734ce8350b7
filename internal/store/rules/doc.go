// Package rules holds what every store does alike, whatever keeps its rows: how names compare, what text is kept, how
// lists are sorted, what an operator's wish does to a unit of work. Pure functions: no rows, no clock, no lock.
package rules
