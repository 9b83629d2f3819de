package devicestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Errors of the store. Each may be wrapped; use errors.Is. Unless a method says
// otherwise nothing was changed.
var (
	// ErrBusy: another process held the database's lock for longer than
	// Options.Busy. It may be tried again.
	ErrBusy = sqldb.ErrBusy
	// ErrDiskFull: there was no room; reads go on.
	ErrDiskFull = sqldb.ErrDiskFull
	// ErrTakenAway: the database or its log was removed or replaced under the open
	// store. Nothing is stored any more until it is back.
	ErrTakenAway = sqldb.ErrTakenAway
	// ErrNewerSchema: a newer program has made the database.
	ErrNewerSchema = sqldb.ErrNewerSchema
	// ErrUnreadable: what is in the file is not what this package wrote.
	ErrUnreadable = errors.New("device store: the database cannot be read")
	// ErrInvalid is of values that no row, event or relay can have.
	ErrInvalid = errors.New("device store: invalid value")
	// ErrNoRow: no such row, or, for a delete, no live one.
	ErrNoRow = errors.New("device store: no such row")
	// ErrNoRelay: no such relay is configured.
	ErrNoRelay = errors.New("device store: no such relay")
	// ErrRelayExists: the relay is configured already.
	ErrRelayExists = errors.New("device store: relay is there already")
	// ErrTooMany: a bounded list is full, of relays or of owners to be closed.
	ErrTooMany = errors.New("device store: too many")
	// ErrDeferredFull: a page would defer more than Options allow.
	ErrDeferredFull = errors.New("device store: too many deferred events")
	// ErrOwnerChanged: the device was given another owner, maybe by another
	// process, since this store was opened.
	ErrOwnerChanged = errors.New("device store: the device has another owner now")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("device store: closed")
)

// Bounds that are the same for every device.
const (
	// MaxAhead is how far ahead of wall time an event may be to be applied and
	// absorbed (D20).
	MaxAhead = 5 * time.Minute
	// MaxRelays is how many relays a device may have: each owes an entry per
	// pending event.
	MaxRelays = 16
	// MaxEdits and MaxEditBytes bound one Write.
	MaxEdits     = 1000
	MaxEditBytes = 64 << 20
	// MaxDataBytes bounds one row. An envelope, which is larger, fits a relay's
	// default only below it.
	MaxDataBytes = 256 << 10
	// MaxListCount and MaxListBytes bound one List or Changes.
	MaxListCount = 10_000
	MaxListBytes = 4 << 20
	// MaxPageEvents bounds one page, and the ids of one Acknowledge.
	MaxPageEvents = 10_000
	// MaxCursorBytes bounds a relay's cursor.
	MaxCursorBytes = 256
	// MaxPurges bounds the queue of streams to be compacted, over all relays.
	MaxPurges = 100_000
	// MaxOldOwners bounds the owners that a relay has still to close.
	MaxOldOwners = 64

	maxURLBytes    = 2048
	maxReasonBytes = 512
	maxEventBytes  = 256
	maxBlobBytes   = 256
)

// Options are a store's settings. A zero field takes its default.
type Options struct {
	// SeenMax is how many ids the seen set keeps, default 50,000 (D33).
	SeenMax int
	// DeferredMax and DeferredMaxBytes bound what is deferred, defaults 100,000 and
	// 256 MiB.
	DeferredMax      int
	DeferredMaxBytes int64
	// Busy is how long a lock of another process is waited for, default 5 s.
	Busy time.Duration
	// Now is the clock of what Refuse and EndDrain count, default time.Now.
	Now func() time.Time
}

func (o *Options) ensureDefaults() {
	if o.SeenMax <= 0 {
		o.SeenMax = 50_000
	}
	if o.DeferredMax <= 0 {
		o.DeferredMax = 100_000
	}
	if o.DeferredMaxBytes <= 0 {
		o.DeferredMaxBytes = 256 << 20
	}
	if o.Busy <= 0 {
		o.Busy = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Store is one device's database, open in this process and maybe in others. Any
// goroutine that may block may call its methods.
type Store struct {
	// Immutable after construction.
	path   string
	opt    Options
	device string
	db     *database

	// Guarded by mu, which is held during writes and closing.
	mu     sync.Mutex
	closed bool
}

var ownerForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Create makes a database for a device of an owner at path, and its directory
// if there is none, readable by their user only. A file that an interrupted
// Create left without a device is taken. Errors: fs.ErrExist when there is
// anything else, ErrInvalid, and those of the file system.
func Create(path, owner, device string, o Options) (*Store, error) {
	if !ownerForm.MatchString(owner) {
		return nil, fmt.Errorf("%w: owner of %d bytes", ErrInvalid, len(owner))
	}
	if !synccrypt.ValidDeviceID(device) {
		return nil, fmt.Errorf("%w: device %q: 1 to 64 of a-z, 0-9 and -", ErrInvalid, device)
	}
	if err := sqldb.MakeDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("device store: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), sqldb.SyncFile(filepath.Dir(path)))
	}
	if err != nil {
		return nil, fmt.Errorf("device store: %w", err)
	}
	s, err := open(path, o, func(c *sqldb.Conn) error {
		v, err := version(c)
		if err == nil && v > 0 {
			err = fmt.Errorf("%w: it is a device's", fs.ErrExist)
		}
		if err != nil {
			return err
		}
		return seed(c, owner, device)
	})
	if errors.Is(err, ErrUnreadable) {
		err = fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return s, err
}

// Open opens the database of a device. Errors: fs.ErrNotExist, ErrUnreadable,
// ErrNewerSchema, ErrBusy and those of the file system; the file is left as it
// is.
func Open(path string, o Options) (*Store, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("device store: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is no file", ErrUnreadable, path)
	case info.Size() == 0 && sqldb.Size(path+"-wal") != 0:
		// SQLite would throw the log away, and the rows in it.
		return nil, fmt.Errorf("%w: %s-wal has no database: put it beside the log, or move the log away",
			ErrUnreadable, path)
	}
	return open(path, o, upgrade)
}

func open(path string, o Options, prepare func(*sqldb.Conn) error) (*Store, error) {
	o.ensureDefaults()
	db, err := openDatabase(path, o.Busy, prepare)
	if err != nil {
		return nil, fmt.Errorf("device store: opening %s: %w", path, err)
	}
	s := &Store{path: path, opt: o, db: db}
	var st state
	if err := db.read(st.load); err != nil {
		return nil, errors.Join(fmt.Errorf("device store: opening %s: %w", path, explain(err)), db.close())
	}
	s.device = st.device
	return s, nil
}

// Close waits for the write under way and closes the database. Later calls fail
// with ErrClosed; Close itself may be called more than once.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.db.close()
}

// Device is the device's id (D12).
func (s *Store) Device() string { return s.device }

// Owner is the owner that the device has now; another process may have changed
// it since Open (D39).
func (s *Store) Owner() (string, error) {
	st, err := s.state()
	return st.owner, err
}

// DataVersion is a number that is another one after any commit, of this store,
// of another in this process or of another process. It costs one read of the
// log's index.
func (s *Store) DataVersion() (n int64, err error) {
	err = s.db.read(func(c *sqldb.Conn) error {
		n, err = c.Int("PRAGMA data_version")
		return err
	})
	return n, err
}
