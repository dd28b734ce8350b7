// Package client speaks salvor's API, and Masakari's where the two are the same: plain net/http and the wire's types. It is
// what the command line, the demonstration and tests use; it knows nothing of the server's inside.
package client
