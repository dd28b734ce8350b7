// Package doctor makes every call that a recovery will make, before one is needed, and says what would fail and how to mend it.
// It changes nothing: what changes something is tried on things that do not exist, or on no row. Asking (examine.go) and judging
// are apart: the rules are functions of the answers.
package doctor
