package sqldb

import (
	"errors"
	"fmt"
	"time"
)

// Begin begins a transaction that holds the lock of all writers from the start,
// so that what it reads stays true until it commits. The error may be ErrBusy.
func (c *Conn) Begin() error {
	err := c.Exec("BEGIN IMMEDIATE")
	if err != nil && !errors.Is(err, ErrBusy) {
		// A transaction that a failed rollback left open would be in the way.
		c.Rollback()
		err = c.Exec("BEGIN IMMEDIATE")
	}
	return err
}

// Rollback ends the transaction, which SQLite may have ended itself.
func (c *Conn) Rollback() {
	_ = c.Exec("ROLLBACK") // "no transaction is active" is the good case
}

// Transaction runs f between Begin and COMMIT; a failure leaves no trace. It
// returns how long the commit took.
func (c *Conn) Transaction(f func(*Conn) error) (took time.Duration, err error) {
	if err := c.Begin(); err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	if err := f(c); err != nil {
		c.Rollback()
		return 0, err
	}
	began := time.Now()
	if err := c.Exec("COMMIT"); err != nil {
		c.Rollback()
		return 0, fmt.Errorf("commit: %w", err)
	}
	return time.Since(began), nil
}
