// Package storage sees storage fail as an operator would: true agents beside real filesystems that are made read-only, filled, taken away and
// hung, true salvor processes, and blobs that move between hosts.
package storage
