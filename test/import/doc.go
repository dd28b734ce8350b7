// Package imports moves from Masakari to salvor: databases that Debian's real Masakari made, and ones as the other schema versions
// have them. `go test ./test/import`.
package imports
