package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// The readers' statements. The page reads envelopes as bytes: the driver would
// make a string of them first.
const (
	selectEpoch = `SELECT coalesce((SELECT last FROM seq_epochs WHERE start <= ? ORDER BY start DESC LIMIT 1), 0)`
	selectPage  = `SELECT seq, CAST(envelope AS BLOB) FROM events INDEXED BY events_owner_seq
		WHERE owner_id = ? AND seq > ? ORDER BY seq LIMIT ?`
	selectHead     = "SELECT coalesce(max(seq), 0) FROM events WHERE owner_id = ?"
	selectBlob     = "SELECT body FROM blobs WHERE owner_id = ? AND hash = ?"
	selectBlobSize = "SELECT bytes FROM blobs WHERE owner_id = ? AND hash = ?"
	selectPing     = "SELECT value FROM relay_meta WHERE key = 'last_seq'"
)

// readers is the pool of reading connections and its statements, each prepared
// on a connection when that first uses it. Any goroutine.
type readers struct {
	db    *sql.DB
	stmts map[string]*sql.Stmt // immutable after construction
	// open is held for reading while a snapshot is, after its connection was got.
	open sync.RWMutex
}

// pause runs f while there is no snapshot. New ones wait; f must be short.
func (r *readers) pause(f func()) {
	r.open.Lock()
	defer r.open.Unlock()
	f()
}

func openReaders(name string, n int) (*readers, error) {
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	r := &readers{db: db, stmts: make(map[string]*sql.Stmt)}
	for _, query := range []string{
		selectOwner, selectEpoch, selectPage, selectHead, selectBlob, selectBlobSize, selectBlobHeld, selectPing,
	} {
		s, err := db.Prepare(query)
		if err != nil {
			return nil, errors.Join(sqldb.Classify(err), r.close())
		}
		r.stmts[query] = s
	}
	return r, nil
}

func (r *readers) close() error {
	for _, s := range r.stmts {
		_ = s.Close()
	}
	return r.db.Close()
}

// snapshot runs read on one state of the database.
func (r *readers) snapshot(read func(*view) error) error {
	tx, err := r.db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return sqldb.Classify(err)
	}
	r.open.RLock() // the state is taken by the first statement, not by BEGIN
	defer r.open.RUnlock()
	err = read(&view{tx: tx, stmts: r.stmts})
	return errors.Join(err, sqldb.Classify(tx.Rollback()))
}

// view is a snapshot while it is open.
type view struct {
	tx    *sql.Tx
	stmts map[string]*sql.Stmt
}

func (v *view) row(query string, args []any, dest ...any) error {
	return sqldb.Classify(v.tx.Stmt(v.stmts[query]).QueryRow(args...).Scan(dest...))
}

// account reads and checks the owner: ErrUnknownOwner, ErrUnauthorized,
// ErrOwnerClosed.
func (v *view) account(auth Auth) (account, error) {
	var a account
	err := v.row(selectOwner, []any{auth.Owner}, a.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return a, ErrUnknownOwner
	}
	if err != nil {
		return a, err
	}
	return a, a.check(auth.Hash)
}

// Authorize checks a request that never registers (S13, S15).
func (s *Store) Authorize(auth Auth) error {
	return s.readers.snapshot(func(v *view) error {
		_, err := v.account(auth)
		return err
	})
}

// AuthorizeClose is Authorize with S43's exception: a closed owner may be closed.
func (s *Store) AuthorizeClose(auth Auth) error {
	err := s.Authorize(auth)
	if errors.Is(err, ErrOwnerClosed) {
		return nil
	}
	return err
}

// Admit is the early check of a push or a blob (S16). What it lets pass is
// decided again in the transaction.
func (s *Store) Admit(auth Auth) error {
	err := s.Authorize(auth)
	if !errors.Is(err, ErrUnknownOwner) {
		return err
	}
	if limit := s.cfg.Owners; limit != Unlimited && s.stats.owners.Load() >= limit {
		return ErrOwnerLimit
	}
	return nil
}

// AdmitBlob is Admit, and tells whether the owner holds the chunk (S16, S45).
func (s *Store) AdmitBlob(auth Auth, hash string) (duplicate bool, err error) {
	if err := s.Admit(auth); err != nil {
		return false, err
	}
	err = s.readers.snapshot(func(v *view) error {
		return v.row(selectBlobHeld, []any{auth.Owner, hash}, &duplicate)
	})
	return duplicate, err
}

// Pull hands out one page (S32 to S36) in ascending order; each envelope is
// borrowed until add returns. It holds a snapshot until it returns, so add must
// not wait.
func (s *Store) Pull(q Pull, add func(envelope []byte)) (Page, error) {
	page := Page{Next: max(q.After, 0)}
	err := s.readers.snapshot(func(v *view) error {
		if _, err := v.account(q.Auth); err != nil {
			return err
		}
		if err := v.checkCursor(q.After); err != nil {
			return err
		}
		return v.page(q, s.cfg.PullBytes, &page, add)
	})
	return page, err
}

// checkCursor is S33: a large number in no epoch was issued by another store.
func (v *view) checkCursor(after int64) error {
	if after < staleFrom {
		return nil
	}
	var last int64
	if err := v.row(selectEpoch, []any{after}, &last); err != nil {
		return err
	}
	if after > last {
		return ErrStaleCursor
	}
	return nil
}

func (v *view) page(q Pull, maxBytes int64, page *Page, add func([]byte)) error {
	rows, err := v.tx.Stmt(v.stmts[selectPage]).Query(q.Owner, q.After, q.Limit)
	if err != nil {
		return sqldb.Classify(err)
	}
	var envelope sql.RawBytes
	for page.Bytes <= maxBytes && rows.Next() {
		if err := rows.Scan(&page.Next, &envelope); err != nil {
			return errors.Join(sqldb.Classify(err), rows.Close())
		}
		add(envelope)
		page.Events++
		page.Bytes += int64(len(envelope))
	}
	return sqldb.Classify(errors.Join(rows.Err(), rows.Close()))
}

// Status answers status and usage from counters and the head of an index.
func (s *Store) Status(auth Auth) (Status, error) {
	st := Status{QuotaBytes: s.cfg.OwnerBytes}
	err := s.readers.snapshot(func(v *view) error {
		a, err := v.account(auth)
		if err != nil {
			return err
		}
		st.UsedBytes, st.CreatedAt = a.stored, a.created
		st.Events, st.Streams, st.Blobs = a.eventCount, a.streamCount, a.blobCount
		return v.row(selectHead, []any{auth.Owner}, &st.HeadSeq)
	})
	if err != nil {
		return Status{}, err
	}
	return st, nil
}

// Blob returns a chunk of the owner, or ErrUnknownBlob.
func (s *Store) Blob(auth Auth, hash string) ([]byte, error) {
	var body []byte
	err := s.blobRow(auth, hash, selectBlob, &body)
	return body, err
}

// BlobSize returns the length of a chunk, or ErrUnknownBlob.
func (s *Store) BlobSize(auth Auth, hash string) (int64, error) {
	var size int64
	err := s.blobRow(auth, hash, selectBlobSize, &size)
	return size, err
}

func (s *Store) blobRow(auth Auth, hash, query string, dest any) error {
	return s.readers.snapshot(func(v *view) error {
		if _, err := v.account(auth); err != nil {
			return err
		}
		err := v.row(query, []any{auth.Owner, hash}, dest)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrUnknownBlob
		}
		return err
	})
}

// Ping reads one row of a database that is still at its place.
func (s *Store) Ping() error {
	if err := s.files.Check(); err != nil {
		return err
	}
	return s.readers.snapshot(func(v *view) error {
		var last int64
		return v.row(selectPing, nil, &last)
	})
}
