package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Backup writes a consistent, compact copy of the live database to path, which
// must not exist: the file appears under that name when it is whole and on the
// medium. Pushes go on meanwhile; the write-ahead log cannot be reused until
// the end, so it grows by what is pushed.
//
// A relay started from a copy treats cursors issued after it as stale (S30,
// S33), unless Floor is FloorFixed.
func (s *Store) Backup(path string) error {
	db, err := sqldb.Open(sqldb.Source(s.cfg.Path, s.cfg.BusyTimeout))
	if err != nil {
		return err
	}
	return errors.Join(copyTo(context.Background(), db, path, func() error { return nil }), db.Close())
}

// copyTo writes the copy beside path under a name of its own and then gives it
// that of path, which it never overwrites. Only the user may read it: it has
// the hashes of tokens. When ctx ends, or verify fails at last, the part goes.
func copyTo(ctx context.Context, db *sqldb.Conn, path string, verify func() error) error {
	path, err := filepath.Abs(path) // "file:x" is a URI to SQLite
	if err != nil {
		return fmt.Errorf("store: backup: %w", err)
	}
	if err := absent(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return fmt.Errorf("store: backup: %w", err)
	}
	part := f.Name()
	if err = f.Close(); err == nil {
		_, err = db.SQL().ExecContext(ctx, "VACUUM INTO ?", part)
		err = sqldb.Classify(err)
	}
	for _, step := range []func() error{
		func() error { return sqldb.SyncFile(part) }, verify,
		func() error { return place(part, path) },
		func() error { return sqldb.SyncFile(filepath.Dir(path)) },
	} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store: backup: %w", err), removeIfThere(part))
	}
	return nil
}

// absent is an error unless nothing has the name.
func absent(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return fmt.Errorf("store: backup: %w: %s", err, path)
	}
	return nil
}

// place gives part the name path. A link fails where something has the name; a
// rename would replace it, and is for file systems without links.
func place(part, path string) error {
	err := os.Link(part, path)
	if err == nil {
		return os.Remove(part)
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := absent(path); err != nil {
		return err
	}
	return os.Rename(part, path)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
