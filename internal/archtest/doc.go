// Package archtest holds the house's rules as tests: who may import whom (docs/architecture.md, "The rooms"), which library lives in which
// room, and what no product code does. It has no code of its own.
package archtest
