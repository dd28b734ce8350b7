// Package fencing fences hosts as an operator would have it done: true salvor processes with a fencing file, against the BMCs of a
// simulated cloud.
package fencing
