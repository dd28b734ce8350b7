// Package config reads masakari.conf as oslo.config reads it, into typed structs.
//
// One table of options (Options) is the source of everything: parsing, defaults, bounds, warnings about unknown names,
// the commented sample and the reference page. The syntax is oslo.config's, written anew here rather than taken from an
// INI library, because errors must name file and line and because the corner cases (quotes, continuation lines, ':' as
// a delimiter, '#' inside values) must be exactly oslo.config's: existing files are read, not new ones.
package config
