// Package conformance holds the wire's conformance cases, measured on two real Masakari servers (contract section 13),
// a runner of their language, and the small Keystone and Nova that they assume. Its tests run them against salvor's API
// over HTTP: without authentication and with Keystone, below /v1 and below /v1/{project_id}, on each database.
package conformance
