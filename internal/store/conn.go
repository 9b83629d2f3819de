package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// conn is one connection with its prepared statements. One goroutine at a time.
//
// It stands on database/sql: called directly, the driver would save 8 % of a
// push of 1,000 events, the rest being SQLite's own work.
type conn struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// source is the data source name of path with pragmas run on each connection.
func source(path string, busy time.Duration, pragmas ...string) string {
	name := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")"
	for _, p := range pragmas {
		name += "&_pragma=" + url.QueryEscape(p)
	}
	return name
}

// openConn opens a pool of exactly one connection and takes it.
func openConn(name string) (*conn, error) {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	one, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(classify(err), db.Close())
	}
	return &conn{db: db, conn: one, stmts: make(map[string]*sql.Stmt)}, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.Close() // the connection goes too
	}
	return errors.Join(c.conn.Close(), c.db.Close())
}

// stmt prepares query once. Queries are constants of this package, so the map
// is bounded.
func (c *conn) stmt(query string) (*sql.Stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	s, err := c.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, classify(err)
	}
	c.stmts[query] = s
	return s, nil
}

// exec runs one statement for its effect.
func (c *conn) exec(query string, args ...any) error {
	_, err := c.change(query, args...)
	return err
}

// change runs one statement and tells how many rows it changed.
func (c *conn) change(query string, args ...any) (int64, error) {
	s, err := c.stmt(query)
	if err != nil {
		return 0, err
	}
	res, err := s.Exec(args...)
	if err != nil {
		return 0, classify(err)
	}
	return res.RowsAffected()
}

// script runs several statements without arguments, unprepared.
func (c *conn) script(text string) error {
	_, err := c.conn.ExecContext(context.Background(), text)
	return classify(err)
}

// row reads one row into dest; sql.ErrNoRows when there is none.
func (c *conn) row(query string, args []any, dest ...any) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	return classify(s.QueryRow(args...).Scan(dest...))
}

// int reads one number.
func (c *conn) int(query string, args ...any) (int64, error) {
	var n int64
	err := c.row(query, args, &n)
	return n, err
}

// rows reads all rows, calling scan for each.
func (c *conn) rows(query string, args []any, scan func(*sql.Rows) error) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.Query(args...)
	if err != nil {
		return classify(err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(classify(err), rows.Close())
		}
	}
	return classify(errors.Join(rows.Err(), rows.Close()))
}

// classify wraps what SQLite says about locks and space in this package's
// sentinels, and leaves other errors alone.
func classify(err error) error {
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

// fromSQLite tells that the database failed, not the request: the transaction
// may be gone with it.
func fromSQLite(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e)
}

// corrupt tells that the file is not what SQLite wrote.
func corrupt(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_CORRUPT
}
