// Package announce ships the outbox: versioned notifications to RabbitMQ as oslo.messaging sends them, to webhooks, to the log.
//
// Each destination has rows, a shipper and a pace of its own, so that one that is away holds up no other. A row is deleted
// when the destination has confirmed it, and not before: everything arrives, once or, after a lost confirmation or a
// takeover, again with the same id. Rows are shipped in the order of their ids, which of one object is the order of its changes.
//
// Among all processes one ships for a destination at a time. The right to do so is a lease like that of a unit of work: claimed
// by compare-and-set on (epoch, beat), dead when the beat has not moved for its ttl on the watcher's own clock, because no two
// machines' clocks need to agree then and a database that stands still is no dead shipper. Nothing is sent after the lease's
// own deadline, and what was sent is deleted only behind its fence.
package announce
