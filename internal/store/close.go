package store

import (
	"database/sql"
	"errors"
	"time"
)

// closeRequest marks an owner closed and zeroes what is charged (S42, S43).
type closeRequest struct {
	auth   Auth
	done   func(Closed, error)
	marked bool
	result Closed
}

func (c *closeRequest) bytes() int64 { return 0 }

func (c *closeRequest) apply(w *writer) (bool, error) {
	c.marked, c.result = false, Closed{}
	a, err := w.known(c.auth)
	if errors.Is(err, ErrOwnerClosed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	c.marked = true
	c.result = Closed{DeletedEvents: a.eventCount, DeletedBlobs: a.blobCount}
	w.cur.total -= a.stored
	w.pages += 2
	return false, w.db.Exec(`UPDATE owners SET closed_at = ?, stored_bytes = 0,
		event_count = 0, stream_count = 0, blob_count = 0 WHERE owner_id = ?`, w.stamp, c.auth.Owner)
}

func (c *closeRequest) committed(w *writer) {
	if !c.marked {
		return
	}
	w.background = append(w.background, &sweep{owner: c.auth.Owner})
	w.notify(Notice{Owner: c.auth.Owner, Closed: true})
}

func (c *closeRequest) answer(_ *writer, err error) { c.done(c.result, err) }

// sweep deletes the rows of a closed owner, which nobody can reach, in slices.
type sweep struct {
	owner string
}

func (s *sweep) internal()         {}
func (s *sweep) bytes() int64      { return 0 }
func (s *sweep) committed(*writer) {}

func (s *sweep) apply(w *writer) (more bool, err error) {
	began := time.Now()
	for rows := int64(0); rows < sliceRows && time.Since(began) < sliceTime; {
		n, err := w.db.Change(`DELETE FROM events WHERE seq IN (
			SELECT seq FROM events INDEXED BY events_owner_seq WHERE owner_id = ? LIMIT ?)`, s.owner, deleteBatch)
		if err != nil {
			return false, err
		}
		if n == 0 {
			// A chunk of 1 MiB is 256 pages: one by one.
			n, err = w.db.Change(`DELETE FROM blobs WHERE owner_id = ?1 AND hash =
				(SELECT hash FROM blobs WHERE owner_id = ?1 LIMIT 1)`, s.owner)
			if err != nil || n == 0 {
				return false, err
			}
		}
		w.pages += 3 * n
		rows += n
	}
	return true, nil
}

// answer of a failed sweep leaves the rows to the next look at closed owners.
func (s *sweep) answer(w *writer, err error) {
	if err != nil {
		w.sweepFailed = true
	}
}

const selectUnswept = `SELECT owner_id FROM owners WHERE closed_at IS NOT NULL AND (
	EXISTS (SELECT 1 FROM events WHERE events.owner_id = owners.owner_id)
	OR EXISTS (SELECT 1 FROM blobs WHERE blobs.owner_id = owners.owner_id))`

// resumeSweeps queues a sweep for each closed owner that has rows: at a start,
// and after a sweep failed.
func (w *writer) resumeSweeps() error {
	return w.db.Rows(selectUnswept, nil, func(rows *sql.Rows) error {
		s := &sweep{}
		err := rows.Scan(&s.owner)
		w.background = append(w.background, s)
		return err
	})
}

// resumeRequest is posted from time to time; it costs nothing unless a sweep
// failed.
type resumeRequest struct{}

func (resumeRequest) bytes() int64                { return 0 }
func (resumeRequest) apply(*writer) (bool, error) { return false, nil }
func (resumeRequest) answer(*writer, error)       {}

func (resumeRequest) committed(w *writer) {
	if w.sweepFailed {
		w.sweepFailed = w.resumeSweeps() != nil
	}
}
