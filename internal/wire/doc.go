// Package wire is Masakari's JSON, both ways: request bodies and query strings become ha's types, ha's types become
// response bodies, errors become faults. Names, texts and their order are those of the measured contract (section 1 to
// 5 and 9); nothing else in salvor knows them.
//
// Bodies are checked by a small validator of our own instead of a JSON Schema library: clients and operators see
// python-jsonschema's first error in python-jsonschema's order, with Python's spelling of values, and no Go library
// offers either.
package wire
