// Package masakari reads the tables of a Masakari (contract section 7) and of its TaskFlow, as any of the schema versions
// that are in use has them. It only reads, and judges each row by itself: what a salvor cannot hold has a Fault that says why.
package masakari
