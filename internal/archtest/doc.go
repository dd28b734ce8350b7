// Package archtest holds the house's rules as tests: who may import whom (DESIGN section 4), which library lives in which
// room, and what no product code does. It has no code of its own.
package archtest
