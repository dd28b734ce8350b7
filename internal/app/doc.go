// Package app puts the rooms together: it makes an api, an engine, both in one process, or a simulated cloud out of
// masakari.conf, runs it, and stops it in order. It is the only place that knows all adapters; proofs.go shows that they fit.
package app
