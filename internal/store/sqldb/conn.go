package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// Conn is one connection with its prepared statements. One goroutine at a time.
// Its errors have gone through Classify.
//
// It stands on database/sql: called directly, the driver would save 8 % of a
// push of 1,000 events, the rest being SQLite's own work.
type Conn struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// Source is the data source name of the file at path, whatever is in its name,
// with pragmas run on each connection. busy is how long a lock of another
// connection is waited for.
func Source(path string, busy time.Duration, pragmas ...string) string {
	name := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_pragma=busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")"
	for _, p := range pragmas {
		name += "&_pragma=" + url.QueryEscape(p)
	}
	return name
}

// Open opens a pool of exactly one connection and takes it. name is a Source,
// with more of SQLite's URI parameters or without.
func Open(name string) (*Conn, error) {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	one, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(Classify(err), db.Close())
	}
	return &Conn{db: db, conn: one, stmts: make(map[string]*sql.Stmt)}, nil
}

// SQL is the connection itself, for what needs a context. Its errors are
// SQLite's own.
func (c *Conn) SQL() *sql.Conn { return c.conn }

// Close closes the statements and the connection.
func (c *Conn) Close() error {
	for _, s := range c.stmts {
		_ = s.Close() // the connection goes too
	}
	return errors.Join(c.conn.Close(), c.db.Close())
}

// stmt prepares query once. Queries are constants of their package, so the
// map is bounded.
func (c *Conn) stmt(query string) (*sql.Stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	s, err := c.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, Classify(err)
	}
	c.stmts[query] = s
	return s, nil
}

// Exec runs one statement for its effect.
func (c *Conn) Exec(query string, args ...any) error {
	_, err := c.Change(query, args...)
	return err
}

// Change runs one statement and tells how many rows it changed.
func (c *Conn) Change(query string, args ...any) (int64, error) {
	s, err := c.stmt(query)
	if err != nil {
		return 0, err
	}
	res, err := s.Exec(args...)
	if err != nil {
		return 0, Classify(err)
	}
	return res.RowsAffected()
}

// Script runs several statements without arguments, unprepared.
func (c *Conn) Script(text string) error {
	_, err := c.conn.ExecContext(context.Background(), text)
	return Classify(err)
}

// Row reads one row into dest; sql.ErrNoRows when there is none.
func (c *Conn) Row(query string, args []any, dest ...any) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	return Classify(s.QueryRow(args...).Scan(dest...))
}

// Int reads one number.
func (c *Conn) Int(query string, args ...any) (int64, error) {
	var n int64
	err := c.Row(query, args, &n)
	return n, err
}

// Rows reads all rows, calling scan for each.
func (c *Conn) Rows(query string, args []any, scan func(*sql.Rows) error) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.Query(args...)
	if err != nil {
		return Classify(err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(Classify(err), rows.Close())
		}
	}
	return Classify(errors.Join(rows.Err(), rows.Close()))
}
