package testkit

import "database/sql/driver"

// Session is what the connections of the store's drivers can do: who stands between the two embeds it.
type Session interface {
	driver.Conn
	driver.Pinger
	driver.Validator
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.SessionResetter
}
