// Package field replays what operators of instance-HA systems suffered (docs/field.md): salvor whole, its engines and use cases over
// the store in memory and the simulated cloud, in virtual time. A test is named after the report whose kind of fault it guards
// against, and asserts what an operator would see: the notification, the vmoves, and what Nova was asked and shows in the end.
package field
