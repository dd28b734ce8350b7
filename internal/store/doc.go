// Package store keeps salvor's rows in SQLite, MariaDB/MySQL (Galera too) or PostgreSQL, and is the only place that knows
// SQL, column names and transactions (DESIGN sections 3 and 5).
//
// Every method is one transaction. Commit is the fence: it first moves the beat of the unit's row where id, epoch and owner
// still are the lease's, so an owner that was deposed writes nothing. Whoever decides something about a segment or a host
// first touches its row; nothing relies on SELECT … FOR UPDATE, which excludes nothing on Galera.
//
// What the database refuses for the moment (deadlocks, certification, busy) is retried in one place, write and read; what
// remains is *ha.UnavailableError. The answer of a commit that was lost is looked up, never replayed.
//
// All times that are stored or compared come from the database's clock; SQLite's is this process's.
package store
