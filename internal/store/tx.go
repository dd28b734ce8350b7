package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/salvor-ha/salvor/internal/ha"
)

// Waits between tries of a refused transaction: doubled each time, and spread so that rivals do not meet again.
const (
	retryFirst = 4 * time.Millisecond
	retryMost  = 250 * time.Millisecond
	// lostTries bounds how often a transaction is begun again after its connection was lost BEFORE its commit was sent:
	// another node may be there, but a database that is away is the caller's to wait for.
	lostTries = 3
	// hangs is how long a try must have had no answer, when its time is over, for its node to be left. It is shorter than
	// any patience of an engine's.
	hangs = 1500 * time.Millisecond
)

// errLost marks the error of a commit whose answer did not come: the transaction may be durable.
var errLost = errors.New("the answer to a commit was lost")

// write runs fn in a transaction, again and again while the database refuses it for the moment, until ctx ends or RetryFor
// has passed. fn must leave no trace outside of its transaction but in variables that it sets anew.
//
// When the answer to the commit is lost, settle is asked whether it was applied; it must first touch a row that fn has
// touched, so that a commit that is still under way is over when it reads. The transaction is never replayed: when it was
// not applied, or nobody knows, the error is *ha.UnavailableError.
func (s *Store) write(ctx context.Context, op string, fn func(context.Context, bun.Tx) error, settle func(context.Context) (bool, error)) error {
	err := s.retry(ctx, func(ctx context.Context) error { return s.once(ctx, fn) })
	if !errors.Is(err, errLost) {
		return s.explain(op, err)
	}
	if settle != nil {
		applied, serr := settle(ctx)
		if serr == nil && applied {
			return nil
		}
	}
	return &ha.UnavailableError{What: "database", Err: &opError{op, err}}
}

// read runs fn, which only reads, outside of a transaction, and again while the database refuses it for the moment.
func (s *Store) read(ctx context.Context, op string, fn func(context.Context, bun.IDB) error) error {
	return s.explain(op, s.retry(ctx, func(ctx context.Context) error { return fn(ctx, s.reads) }))
}

// repeat runs statements outside of a transaction whose repetition does no harm, and again while the database refuses them.
func (s *Store) repeat(ctx context.Context, op string, fn func(context.Context) error) error {
	return s.explain(op, s.retry(ctx, fn))
}

// once runs fn in one transaction. Whatever fails, it is rolled back before once returns: MySQL itself rolls back only the
// statement that waited too long for a lock.
func (s *Store) once(ctx context.Context, fn func(context.Context, bun.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit; its own failure ends the connection, and so the transaction
	if err := fn(ctx, tx); err != nil {
		return err
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return nil
	case s.refused(err):
		return err
	default:
		return fmt.Errorf("%w: %w", errLost, err)
	}
}

// refused reports that the database answered a commit by saying that it did not happen.
func (s *Store) refused(err error) bool {
	switch s.d.classify(err) {
	case classConflict, classDuplicate, classFault, classNoTable:
		return true
	case classNode, classAway:
		return s.d.name != sqlite
	default:
		return false
	}
}

// retry is the one place where refusals are tried again (DESIGN section 3): 1213, 1205, 1020, 1047, 40001, 40P01,
// SQLITE_BUSY and their kin.
//
// Each try has CallFor: a server that does not answer is left, whatever the caller's patience, and with it all connections to it.
func (s *Store) retry(ctx context.Context, try func(context.Context) error) error {
	end := time.Now().Add(s.retryFor)
	wait, lost := retryFirst, 0
	for {
		term, began := s.term(), time.Now()
		err := s.bounded(ctx, try)
		class := classOwn
		if err != nil {
			class = s.d.classify(err)
		}
		if s.nodes != nil && (class == classNode || class == classEnded && time.Since(began) >= hangs) {
			s.nodes.leave(term)
		}
		if err == nil || errors.Is(err, errLost) {
			return err
		}
		if class == classEnded && ctx.Err() == nil { // CallFor has passed
			class = classLost
		}
		switch class {
		case classConflict, classNode:
		case classLost:
			if lost++; lost >= lostTries {
				return err
			}
		default:
			return err
		}
		pause := wait/2 + rand.N(wait)
		if wait = min(2*wait, retryMost); time.Now().Add(pause).After(end) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		case <-timer.C:
		}
	}
}

func (s *Store) bounded(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.callFor)
	defer cancel()
	return try(ctx)
}

func (s *Store) term() int64 {
	if s.nodes == nil {
		return 0
	}
	return s.nodes.now()
}

// explain turns what is left of an error into ha's: temporary ones into *ha.UnavailableError; ours pass as they are.
func (s *Store) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	switch s.d.classify(err) {
	case classOwn:
		return err
	case classDuplicate, classFault:
		return &opError{op, err}
	case classNoTable:
		return &opError{op, fmt.Errorf("a table of salvor's is missing in %s (run: salvor db sync): %w", s.where, err)}
	default:
		return &ha.UnavailableError{What: "database", Err: &opError{op, err}}
	}
}

// duplicate reports that err is a unique key's.
func (s *Store) duplicate(err error) bool { return err != nil && s.d.classify(err) == classDuplicate }

// clock reads the database's clock.
func (s *Store) clock(ctx context.Context, db bun.IDB) (time.Time, error) {
	if s.d.name == sqlite {
		return time.Now().UTC().Truncate(time.Microsecond), nil
	}
	var now stamp
	err := db.NewRaw("SELECT ?", s.d.now()).Scan(ctx, &now)
	return now.Time, err
}

// changed runs a statement and returns how many rows it found.
func changed(ctx context.Context, db bun.IDB, query string, args ...any) (int64, error) {
	res, err := db.NewRaw(query, args...).Exec(ctx)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
