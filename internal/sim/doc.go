// Package sim is a cloud in memory that behaves as a real Nova was observed to behave (NOVA-OBSERVATIONS), with hosts to
// kill and faults to inject. It knows time through package time only, so it runs in real time and, thousands of times
// faster, in a testing/synctest bubble.
//
// A Cloud has no goroutine and no timer of its own: whatever it would do by itself waits in a queue, and every look at the
// cloud first carries out what has come due, at the time it was due. So heartbeats of 500 hosts cost nothing, and nothing
// needs to be stopped. What is random is drawn from the seed and the thing it is drawn for, not from a shared stream: the
// same calls at the same times give the same history, in whatever order goroutines were scheduled between them.
//
// Two faces use it: Nova, in-process, with the method set of the engine's Cloud; and package simhttp, over HTTP.
package sim
