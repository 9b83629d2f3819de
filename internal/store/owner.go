package store

import (
	"crypto/subtle"
	"database/sql"
	"errors"
)

// account is an owner's row.
type account struct {
	hash                               string
	stored                             int64
	created                            string
	closed                             bool
	eventCount, streamCount, blobCount int64
}

const selectOwner = `SELECT auth_hash, stored_bytes, created_at, closed_at IS NOT NULL,
	event_count, stream_count, blob_count FROM owners WHERE owner_id = ?`

func (a *account) fields() []any {
	return []any{&a.hash, &a.stored, &a.created, &a.closed, &a.eventCount, &a.streamCount, &a.blobCount}
}

// check compares the hash in constant time (S12) and then looks at closed, so
// that a stranger does not learn of a close (S15).
func (a *account) check(hash string) error {
	if subtle.ConstantTimeCompare([]byte(a.hash), []byte(hash)) != 1 {
		return ErrUnauthorized
	}
	if a.closed {
		return ErrOwnerClosed
	}
	return nil
}

// known reads the owner inside the writer's transaction: ErrUnknownOwner and
// the errors of check.
func (w *writer) known(auth Auth) (account, error) {
	var a account
	err := w.db.Row(selectOwner, []any{auth.Owner}, a.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return a, ErrUnknownOwner
	}
	if err != nil {
		return a, err
	}
	return a, a.check(auth.Hash)
}

// admit is known for a push or a blob: an unknown owner is registered in the
// open transaction (S13, S14), within the limit of owners.
func (w *writer) admit(auth Auth) (account, error) {
	a, err := w.known(auth)
	if !errors.Is(err, ErrUnknownOwner) {
		return a, err
	}
	if limit := w.s.cfg.Owners; limit != Unlimited && w.cur.owners >= limit {
		return a, ErrOwnerLimit
	}
	w.cur.owners++
	w.pages += 2
	return account{hash: auth.Hash, created: w.stamp}, w.db.Exec(
		"INSERT INTO owners (owner_id, auth_hash, created_at) VALUES (?, ?, ?)",
		auth.Owner, auth.Hash, w.stamp)
}

// room tells whether added bytes fit the owner and the relay (S20).
func (w *writer) room(a *account, added int64) error {
	cfg := &w.s.cfg
	if a.stored+added > cfg.OwnerBytes {
		return ErrQuota
	}
	if cfg.TotalBytes != Unlimited && w.cur.total+added > cfg.TotalBytes {
		return ErrRelayFull
	}
	return nil
}
