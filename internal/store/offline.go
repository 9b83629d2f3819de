package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// probeTimeout is how long another process may have the database open when it
// is to be compacted alone: an operator's query ends soon, a relay does not.
const probeTimeout = time.Second

// CompactOffline runs S37 on the database of a stopped relay; when ctx ends it
// stops after the slice that goes on, and what is done stays done. ErrInUse: a
// process has the database open; errors of OpenReadOnly, and ErrOlderSchema.
//
// Beside a running relay it would do the data no harm: each slice judges rows
// inside its own transaction, and either process notices what the other wrote.
// But SQLite's lock is no queue: with 200,000 rows to delete, a push of the relay
// waited 5 s for it in vain and was answered "busy"; the relay's own compaction
// takes turns with pushes, which wait for 14 ms at most.
func CompactOffline(ctx context.Context, path string) (Reclaimed, error) {
	i, err := OpenReadOnly(path)
	if err != nil {
		return Reclaimed{}, err
	}
	if err := errors.Join(i.current(), i.Close()); err != nil {
		return Reclaimed{}, err
	}
	if err := unused(i.path); err != nil {
		return Reclaimed{}, err
	}
	s, err := Open(Config{Path: i.path, CompactionInterval: -1})
	if err != nil {
		return Reclaimed{}, err
	}
	done := make(chan reply[Reclaimed], 1)
	s.CompactAllAsync(func(r Reclaimed, err error) { done <- reply[Reclaimed]{r, err} })
	select {
	case r := <-done:
		return r.value, errors.Join(r.err, s.Close())
	case <-ctx.Done():
		return Reclaimed{}, cmp.Or(s.Close(), ctx.Err())
	}
}

// unused is ErrInUse unless no other process has the database open: every
// connection holds a shared lock as long as it lives.
func unused(path string) error {
	db, err := sqldb.Open(sqldb.Source(path, probeTimeout, "locking_mode(EXCLUSIVE)"))
	if err != nil {
		return fmt.Errorf("store: compacting %s: %w", path, explain(err))
	}
	err = db.Script("BEGIN IMMEDIATE")
	if err == nil {
		err = db.Script("ROLLBACK")
	}
	switch {
	case errors.Is(err, ErrBusy):
		err = fmt.Errorf("%w: %s", ErrInUse, path)
	case err != nil:
		err = fmt.Errorf("store: compacting %s: %w: the file and its directory must be writable", path, err)
	}
	return errors.Join(err, db.Close())
}
