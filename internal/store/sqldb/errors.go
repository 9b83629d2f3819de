package sqldb

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of a database. Each may be wrapped; use errors.Is.
var (
	// ErrBusy: another connection held the lock for longer than the busy timeout.
	ErrBusy = errors.New("store: busy")
	// ErrDiskFull: there was no room; nothing was stored, reads go on.
	ErrDiskFull = errors.New("store: disk full")
	// ErrTakenAway: the database or its log was removed, replaced or cannot be
	// reached at its path.
	ErrTakenAway = errors.New("store: database was taken away")
	// ErrNewerSchema: the database has tables that this program does not know.
	ErrNewerSchema = errors.New("store: database is of a newer program")
)

// Classify wraps what SQLite says about locks and space in this package's
// sentinels, and leaves other errors, nil among them, alone.
func Classify(err error) error {
	var e *sqlite.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	if e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // the log's index cannot grow
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}

// FromSQLite tells that the database failed, not the request: the transaction
// may be gone with it.
func FromSQLite(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e)
}

// Corrupt tells that the file is not what SQLite wrote.
func Corrupt(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_CORRUPT
}

// NotDatabase tells that the file is not one of SQLite's at all.
func NotDatabase(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_NOTADB
}

// Unreachable tells that the file, or what SQLite keeps beside it, could not be
// opened or written.
func Unreachable(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return true
	}
	return false
}

// BrokenReference tells that a row names another one which is not there.
func BrokenReference(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
}
