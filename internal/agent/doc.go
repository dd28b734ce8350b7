// Package agent is what runs on a hypervisor (`salvor agent`, docs/storage.md): it probes the host's storage, reports what it finds to the API
// and carries out what the replicator orders. Below it, disks has the probes and copies the blobs. It decides nothing about anybody but this
// host, and needs nothing but its own directory to keep its verdict: not the API, not the network.
package agent
