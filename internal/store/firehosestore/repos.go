package firehosestore

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// Bounds of what is stored. Those of a batch bound a transaction, and with it
// the write-ahead log. Those of a row are at least what the codec accepts: a batch
// that is refused would hold up all that comes after it.
const (
	MaxBatchRepos = 100_000
	MaxBatchHosts = 100_000

	maxDID    = 2048
	maxRev    = 64
	maxCID    = dagcbor.MaxCIDBytes
	maxStatus = 64
)

func checkRepo(r *state.Repo) error {
	switch {
	case r.DID == "" || len(r.DID) > maxDID:
		return fmt.Errorf("%w: DID of %d bytes", ErrInvalid, len(r.DID))
	case r.HostID < 0:
		return fmt.Errorf("%w: host %d of %s", ErrInvalid, r.HostID, r.DID)
	case len(r.Rev) > maxRev || len(r.Commit) > maxCID || len(r.Data) > maxCID:
		return fmt.Errorf("%w: rev of %d, CIDs of %d and %d bytes of %s", ErrInvalid,
			len(r.Rev), len(r.Commit), len(r.Data), r.DID)
	case len(r.Status) > maxStatus || len(r.UpstreamStatus) > maxStatus:
		return fmt.Errorf("%w: statuses of %d and %d bytes of %s", ErrInvalid,
			len(r.Status), len(r.UpstreamStatus), r.DID)
	}
	return nil
}

func checkBatch(b *state.Batch) error {
	if len(b.Repos) > MaxBatchRepos || len(b.Cursors) > MaxBatchHosts {
		return fmt.Errorf("%w: batch of %d repositories and %d hosts", ErrInvalid, len(b.Repos), len(b.Cursors))
	}
	for i := range b.Repos {
		if err := checkRepo(&b.Repos[i]); err != nil {
			return err
		}
	}
	for _, c := range b.Cursors {
		if c.LastSeq < -1 || c.AccountCount < 0 {
			return fmt.Errorf("%w: last_seq %d, %d accounts of host %d", ErrInvalid, c.LastSeq, c.AccountCount, c.ID)
		}
	}
	return nil
}

const (
	selectRepo = `SELECT coalesce(host_id, 0), rev, commit_cid, data_cid, status, upstream_status
		FROM repos WHERE did = ?`
	upsertRepo = `INSERT INTO repos (did, host_id, rev, commit_cid, data_cid, status, upstream_status)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (did) DO UPDATE SET host_id = excluded.host_id, rev = excluded.rev,
		commit_cid = excluded.commit_cid, data_cid = excluded.data_cid,
		status = excluded.status, upstream_status = excluded.upstream_status`
	updateCursor = "UPDATE hosts SET last_seq = ?, account_count = ?, updated_at = ? WHERE id = ?"
)

// Repo returns the row of a DID, and false if there is none. Its slices are the
// caller's.
func (s *Store) Repo(did string) (r state.Repo, found bool, err error) {
	err = s.read(func(c *sqldb.Conn) error {
		err := c.Row(selectRepo, []any{did}, &r.HostID, &r.Rev, &r.Commit, &r.Data, &r.Status, &r.UpstreamStatus)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	if !found || err != nil {
		return state.Repo{}, false, err
	}
	r.DID = did
	return r, true, nil
}

// Apply stores the batch in one transaction (K3); its slices are borrowed until
// it returns. It fails with ErrInvalid, ErrUnknownHost and the errors of a write.
// An empty batch does nothing.
func (s *Store) Apply(b state.Batch) error {
	if err := checkBatch(&b); err != nil {
		return err
	}
	if len(b.Repos) == 0 && len(b.Cursors) == 0 {
		return nil
	}
	now := isoTime(s.cfg.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.writeLocked(func(c *sqldb.Conn) error {
		for i := range b.Repos {
			if err := saveRepo(c, &b.Repos[i]); err != nil {
				return err
			}
		}
		for _, h := range b.Cursors {
			n, err := c.Change(updateCursor, h.LastSeq, h.AccountCount, now, h.ID)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%w: %d", ErrUnknownHost, h.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.stats.repos.Add(uint64(len(b.Repos)))
	s.stats.cursors.Add(uint64(len(b.Cursors)))
	if s.opened.Load().wrote(len(b.Repos) + len(b.Cursors)) {
		s.stats.checkpoints.Add(1)
	}
	return nil
}

func saveRepo(c *sqldb.Conn, r *state.Repo) error {
	var host any
	if r.HostID != 0 {
		host = r.HostID
	}
	err := c.Exec(upsertRepo, r.DID, host, r.Rev, orNull(r.Commit), orNull(r.Data), r.Status, r.UpstreamStatus)
	if sqldb.BrokenReference(err) {
		return fmt.Errorf("%w: %d of %s", ErrUnknownHost, r.HostID, r.DID)
	}
	return err
}

func orNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}
