// Package api is the REST API over HTTP: Masakari's v1, byte for byte where clients look, and salvor's own below /v1/ext.
//
// A request below /v1 passes the checks of contract 1.1 in their order, all in v1.go; the routes are one table, in
// routes.go; every answer, faults included, is written in reply.go.
package api
