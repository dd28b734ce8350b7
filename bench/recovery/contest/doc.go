// Package contest lets contestants recover the instances of a dead host on the same cloud, in turn, and measures them with the
// same clock: what the benchmarks recovery and peer share.
package contest
