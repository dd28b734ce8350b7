// Package cli is salvor's command line: the roles that a process can have, commands for the database, and client commands
// over the API.
package cli
