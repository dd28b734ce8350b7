// Package simulation runs salvor whole, in virtual time: several engines, one store, a simulated cloud, and everything that goes
// wrong at once: engines that crash or are paused, a database that is away or loses its answers, a Nova that refuses, is slow, or
// acts long after it was asked, hosts that come back in the middle, users who delete what is being moved. After every event the
// invariants I1 to I10 of RECOVERY section 9 are checked. In some worlds the hosts have disks and agents too, which fail, rot, hold blobs and are cut off:
// the cascades and the replicator run there beside the rest, with invariants of their own (chaosOfDisks).
//
// A seed makes a world. SEEDS says how many (default 200), SEED runs one and prints its timeline.
package simulation
