package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a consistent, compact copy of the live database to path, which
// must not exist: the file appears under that name when it is whole and on the
// medium. Pushes go on meanwhile; the write-ahead log cannot be reused until
// the end, so it grows by what is pushed.
//
// A relay started from a copy treats cursors issued after it as stale (S30,
// S33), unless Floor is FloorFixed.
func (s *Store) Backup(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: backup: %w: %s", fs.ErrExist, path)
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: backup: %w", err)
	}
	db, err := openConn(source(s.cfg.Path, s.cfg.BusyTimeout))
	if err != nil {
		return err
	}
	err = db.exec("VACUUM INTO ?", part)
	if err = errors.Join(err, db.close()); err == nil {
		err = syncFile(part)
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err == nil {
		err = syncFile(filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store: backup: %w", err), removeIfThere(part))
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
