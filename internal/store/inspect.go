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

// Errors of an operator's view. Each may be wrapped.
var (
	// ErrNoStore is of a file that holds no store, or not yet.
	ErrNoStore = errors.New("store: holds no sync store")
	// ErrOlderSchema is of what needs the tables of this program, and finds those
	// of an older one. A relay migrates them when it starts (S50).
	ErrOlderSchema = errors.New("store: database is of an older program")
	// ErrChanged is of a stopped relay's database that was written meanwhile, over
	// and over.
	ErrChanged = errors.New("store: database was written while it was read")
	// ErrInUse is of a database that another process has open.
	ErrInUse = errors.New("store: another process has the database open")
)

// Inspector reads a store's database beside the relay that runs on it, in this
// or another process, or after it. It has no writer: it never migrates, takes
// no sequence number, compacts nothing and moves nothing out of the
// write-ahead log. A snapshot lasts as long as one query, but for Backup and
// Summary, and pushes wait for none.
//
// A database without a write-ahead log, as a stopped relay leaves it, is read as
// a file that does not change, so that no log is made beside it and a read-only
// file system will do. Should a relay start meanwhile and write, that shows in
// the file's time or size, and the work is done again.
//
// One goroutine at a time.
type Inspector struct {
	path    string
	db      *sqldb.Conn
	version int
	// still is what the file was when it was taken as one that does not change,
	// nil if there is a log.
	still fs.FileInfo
}

// OpenReadOnly opens the database at path to look at it. Errors: fs.ErrNotExist,
// ErrNoStore, ErrNewerSchema. One of an older schema is opened; its Summary tells
// so.
func OpenReadOnly(path string) (*Inspector, error) {
	real, err := filepath.EvalSymlinks(path) // SQLite puts the log beside the file
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	i := &Inspector{path: real}
	if err := i.open(); err != nil {
		return nil, err
	}
	return i, nil
}

// open opens the file in the way that its log asks for.
func (i *Inspector) open() error {
	info, err := os.Stat(i.path)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("store: %s is not a file", i.path)
	}
	name := sqldb.Source(i.path, DefaultBusyTimeout) + "&mode=ro"
	i.still = nil
	if sqldb.Size(i.path+"-wal") == 0 && sqldb.Size(i.path+"-journal") == 0 {
		i.still, name = info, name+"&immutable=1"
	}
	if i.db, err = sqldb.Open(name); err == nil {
		if err = i.identify(); err == nil {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("store: reading %s: %w", i.path, explain(err)), i.Close())
}

// identify reads the schema's version.
func (i *Inspector) identify() (err error) {
	if i.version, err = schemaVersion(i.db); err != nil {
		return err
	}
	switch {
	case i.version < 1:
		return ErrNoStore
	case i.version > len(migrations):
		return fmt.Errorf("%w: version %d, known %d", ErrNewerSchema, i.version, len(migrations))
	}
	return nil
}

// explain says what to do about an error of SQLite.
func explain(err error) error {
	switch {
	case sqldb.Unreachable(err):
		return fmt.Errorf("%w: the file and what is beside it, -wal and -shm, must be readable, and -shm there or writable: "+
			"try it as the relay's user", err)
	case sqldb.NotDatabase(err):
		return fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	return err
}

// Close closes the connection. The files stay as they are.
func (i *Inspector) Close() error {
	if i.db == nil {
		return nil
	}
	db := i.db
	i.db = nil
	return db.Close()
}

// steady runs f, whose last step is verify, and again from the start when the
// file that was taken for one that does not change did so.
func (i *Inspector) steady(f func() error) error {
	const tries = 3 // a relay starts once
	for n := 1; ; n++ {
		err := f()
		if n == tries || !errors.Is(err, ErrChanged) {
			return err
		}
		if err := errors.Join(i.Close(), i.open()); err != nil {
			return err
		}
	}
}

// verify returns ErrChanged if the file did change, whatever err is: reading two
// states may fail in any way.
func (i *Inspector) verify(err error) error {
	if i.still == nil {
		return err
	}
	info, statErr := os.Stat(i.path)
	if statErr == nil && os.SameFile(info, i.still) && info.Size() == i.still.Size() && info.ModTime().Equal(i.still.ModTime()) {
		return err
	}
	return ErrChanged
}

// Check tests the invariants of doc.go (S49), one query after the other, each on
// a snapshot of its own: a relay's pushes go on, and its log waits for one query
// at most. With file set, it also has SQLite look at the whole file ("PRAGMA
// quick_check"), which costs one more reading of all of it. Memory is bounded.
// ErrOlderSchema: the invariants are those of this program.
func (i *Inspector) Check(ctx context.Context, file bool) (broken []Broken, err error) {
	err = i.steady(func() error {
		broken, err = i.check(ctx, file)
		return i.verify(err)
	})
	return broken, err
}

func (i *Inspector) check(ctx context.Context, file bool) ([]Broken, error) {
	if err := i.current(); err != nil {
		return nil, err
	}
	broken, err := checkAll(ctx, i.db.SQL())
	if err != nil || !file {
		return broken, err
	}
	b, err := checkOne(ctx, i.db.SQL(), fmt.Sprintf("PRAGMA quick_check(%d)", maxBroken))
	if b.Name = "the file"; err == nil && (len(b.Rows) != 1 || b.Rows[0] != "ok") {
		broken = append(broken, b)
	}
	return broken, err
}

// current is ErrOlderSchema unless the tables are this program's.
func (i *Inspector) current() error {
	if i.version < len(migrations) {
		return fmt.Errorf("%w: version %d, known %d", ErrOlderSchema, i.version, len(migrations))
	}
	return nil
}

// Backup writes a copy as Store.Backup does, and tells what is in it. Any schema
// is copied: a copy is what to take before a new program migrates it.
func (i *Inspector) Backup(ctx context.Context, path string) (Summary, error) {
	err := i.steady(func() error {
		err := copyTo(ctx, i.db, path, func() error { return i.verify(nil) })
		if err != nil {
			err = i.verify(err)
		}
		return err
	})
	if err != nil {
		return Summary{}, err
	}
	copied, err := OpenReadOnly(path)
	if err != nil {
		return Summary{}, err
	}
	s, err := copied.Summary(0, 1)
	return s, errors.Join(err, copied.Close())
}
