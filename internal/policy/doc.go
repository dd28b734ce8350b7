// Package policy decides who may do what, by the rules of oslo.policy files as operators have them (contract 4.3).
//
// What oslo.policy would let pass by accident is refused here, with the file and the line: a rule that cannot be read
// (oslo.policy turns it into "never"), a rule without a value ("always"), an unquoted ! ("always", as YAML reads it).
package policy
