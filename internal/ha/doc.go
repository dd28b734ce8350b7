// Package ha is salvor's language: segments, hosts, notifications, vmoves, units of work, claims, the journal, and what
// is said to and seen of a cloud. Every other package speaks it. It knows no SQL, no HTTP and no JSON, reads no clock,
// starts no goroutine, and imports the standard library only.
//
// Times that are stored or compared are the DATABASE's clock (rule A7); "now" is always handed in.
package ha
