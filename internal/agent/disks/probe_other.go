//go:build !linux

package disks

import "github.com/salvor-ha/salvor/internal/ha"

// probe: hypervisors are Linux hosts.
func probe(Question) Finding {
	return Finding{Status: ha.CheckWriteFailed, Detail: "storage is probed on Linux only"}
}
