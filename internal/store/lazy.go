package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Lazy is a Store whose database is made when something is first stored: a
// relay whose sync surface nobody uses leaves no trace. Until then nobody is
// known, and everybody may register. Any goroutine may call its methods, as
// those of Store.
type Lazy struct {
	// Immutable.
	cfg     Config
	onStore func()

	opened atomic.Pointer[Store]
	mu     sync.Mutex // held while opening and closing
	failed atomic.Pointer[error]
	closed bool // guarded by mu
}

// OpenLazily opens the database of cfg if there is one, as Open does, and
// otherwise waits for the first write. Its directory is then made too. onStore is
// called once, when the database is opened; it must not call the store.
func OpenLazily(cfg Config, onStore func()) (*Lazy, error) {
	if _, err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	l := &Lazy{cfg: cfg, onStore: onStore}
	switch _, err := os.Stat(cfg.Path); {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return nil, fmt.Errorf("store: opening %s: %w", cfg.Path, err)
	}
	if _, err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

// open returns the store, which it makes unless it is there. It blocks. What it
// fails with is tried again with the next write: a disk may get room.
func (l *Lazy) open() (*Store, error) {
	if s := l.opened.Load(); s != nil {
		return s, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.opened.Load(); s != nil {
		return s, nil
	}
	if l.closed {
		return nil, ErrStopped
	}
	err := sqldb.MakeDir(filepath.Dir(l.cfg.Path))
	if err != nil {
		err = fmt.Errorf("store: making the data directory: %w", err)
	}
	var s *Store
	if err == nil {
		s, err = Open(l.cfg)
	}
	if err != nil {
		l.failed.Store(&err)
		return nil, err
	}
	l.failed.Store(nil)
	l.opened.Store(s)
	l.onStore()
	return s, nil
}

// Opened returns the store, nil as long as nothing was stored.
func (l *Lazy) Opened() *Store { return l.opened.Load() }

// Close closes the store, if it was opened. Later writes fail with ErrStopped.
func (l *Lazy) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if s := l.opened.Load(); s != nil {
		return s.Close()
	}
	return nil
}

// write runs f on the store, made if it is not there: then on a goroutine of its
// own, since that blocks. There are as many of them as writes that come
// meanwhile, whose bodies others bound.
func (l *Lazy) write(f func(*Store), fail func(error)) {
	if s := l.opened.Load(); s != nil {
		f(s)
		return
	}
	go func() {
		s, err := l.open()
		if err != nil {
			fail(err)
			return
		}
		f(s)
	}()
}

// PushAsync is Store.PushAsync.
func (l *Lazy) PushAsync(p Push, done func(PushResult, error)) {
	l.write(func(s *Store) { s.PushAsync(p, done) }, func(err error) { done(PushResult{}, err) })
}

// PutBlobAsync is Store.PutBlobAsync.
func (l *Lazy) PutBlobAsync(auth Auth, hash string, body []byte, done func(bool, error)) {
	l.write(func(s *Store) { s.PutBlobAsync(auth, hash, body, done) }, func(err error) { done(false, err) })
}

// CompactStreamsAsync is Store.CompactStreamsAsync.
func (l *Lazy) CompactStreamsAsync(auth Auth, streams []string, done func(Reclaimed, error)) {
	if s := l.opened.Load(); s != nil {
		s.CompactStreamsAsync(auth, streams, done)
		return
	}
	done(Reclaimed{}, ErrUnknownOwner)
}

// CloseOwnerAsync is Store.CloseOwnerAsync.
func (l *Lazy) CloseOwnerAsync(auth Auth, done func(Closed, error)) {
	if s := l.opened.Load(); s != nil {
		s.CloseOwnerAsync(auth, done)
		return
	}
	done(Closed{}, ErrUnknownOwner)
}

// CompactAllAsync is Store.CompactAllAsync.
func (l *Lazy) CompactAllAsync(done func(Reclaimed, error)) {
	if s := l.opened.Load(); s != nil {
		s.CompactAllAsync(done)
		return
	}
	done(Reclaimed{}, nil)
}

// Ping is Store.Ping. Where the last attempt to make the database failed it
// returns why.
func (l *Lazy) Ping() error {
	if s := l.opened.Load(); s != nil {
		return s.Ping()
	}
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Admit is Store.Admit.
func (l *Lazy) Admit(auth Auth) error {
	if s := l.opened.Load(); s != nil {
		return s.Admit(auth)
	}
	return nil
}

// Authorize is Store.Authorize.
func (l *Lazy) Authorize(auth Auth) error {
	if s := l.opened.Load(); s != nil {
		return s.Authorize(auth)
	}
	return ErrUnknownOwner
}

// AdmitBlob is Store.AdmitBlob.
func (l *Lazy) AdmitBlob(auth Auth, hash string) (duplicate bool, err error) {
	if s := l.opened.Load(); s != nil {
		return s.AdmitBlob(auth, hash)
	}
	return false, nil
}

// Pull is Store.Pull.
func (l *Lazy) Pull(q Pull, add func(envelope []byte)) (Page, error) {
	if s := l.opened.Load(); s != nil {
		return s.Pull(q, add)
	}
	return Page{}, ErrUnknownOwner
}

// Status is Store.Status.
func (l *Lazy) Status(auth Auth) (Status, error) {
	if s := l.opened.Load(); s != nil {
		return s.Status(auth)
	}
	return Status{}, ErrUnknownOwner
}

// Blob is Store.Blob.
func (l *Lazy) Blob(auth Auth, hash string) ([]byte, error) {
	if s := l.opened.Load(); s != nil {
		return s.Blob(auth, hash)
	}
	return nil, ErrUnknownOwner
}

// BlobSize is Store.BlobSize.
func (l *Lazy) BlobSize(auth Auth, hash string) (int64, error) {
	if s := l.opened.Load(); s != nil {
		return s.BlobSize(auth, hash)
	}
	return 0, ErrUnknownOwner
}

// Stats is Store.Stats, zero as long as nothing was stored.
func (l *Lazy) Stats() Stats {
	if s := l.opened.Load(); s != nil {
		return s.Stats()
	}
	return Stats{}
}
