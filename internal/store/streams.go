package store

import (
	"database/sql"
	"errors"
	"slices"
	"time"
)

// deleteBatch rows go in one statement, so that a slice looks at its clock.
const deleteBatch = 100

// streamsRequest deletes whole streams (S40), in slices. It reaches the numbers
// issued before its first slice, so an event pushed meanwhile stays.
type streamsRequest struct {
	auth    Auth
	streams []string
	done    func(Reclaimed, error)

	at, ahead streamsState
}

type streamsState struct {
	started bool
	// until is the newest number that the request reaches; index the stream that
	// it works on.
	until int64
	index int
	Reclaimed
}

func newStreamsRequest(auth Auth, streams []string, done func(Reclaimed, error)) *streamsRequest {
	sorted := slices.Clone(streams)
	slices.Sort(sorted)
	return &streamsRequest{auth: auth, streams: slices.Compact(sorted), done: done}
}

// bytes is what 1,000 ids take at most.
func (r *streamsRequest) bytes() int64 { return int64(len(r.streams)) * 40 }

func (r *streamsRequest) apply(w *writer) (more bool, err error) {
	began := time.Now()
	r.ahead = r.at
	s := &r.ahead
	if _, err := w.known(r.auth); err != nil {
		if s.started && errors.Is(err, ErrOwnerClosed) {
			return false, nil // the close has counted and deletes the rest
		}
		return false, err
	}
	if !s.started {
		s.started, s.until = true, w.cur.last
	}
	rows := int64(0)
	for s.index < len(r.streams) {
		if rows >= sliceRows || time.Since(began) >= sliceTime {
			return true, nil
		}
		n, err := r.batch(w, s)
		if err != nil {
			return false, err
		}
		rows += n
		if n < deleteBatch {
			s.index++
		}
	}
	return false, nil
}

// batch deletes some events of the current stream and credits them. Whether
// the stream is gone is looked at in the same transaction: a push between
// slices must find the count that its own look at the index agrees with.
func (r *streamsRequest) batch(w *writer, s *streamsState) (int64, error) {
	stream := r.streams[s.index]
	n, size, err := w.deleteEvents(`DELETE FROM events WHERE seq IN (
		SELECT seq FROM events INDEXED BY events_stream
		WHERE owner_id = ? AND stream_id = ? AND seq <= ? LIMIT ?) RETURNING bytes`,
		r.auth.Owner, stream, s.until, deleteBatch)
	if err != nil || n == 0 {
		return n, err
	}
	left, err := w.db.Int(`SELECT EXISTS (SELECT 1 FROM events INDEXED BY events_stream
		WHERE owner_id = ? AND stream_id = ?)`, r.auth.Owner, stream)
	if err != nil {
		return 0, err
	}
	s.DeletedEvents += n
	s.ReclaimedBytes += size
	w.cur.total -= size
	return n, w.db.Exec(`UPDATE owners SET stored_bytes = stored_bytes - ?,
		event_count = event_count - ?, stream_count = stream_count - ? WHERE owner_id = ?`,
		size, n, 1-left, r.auth.Owner)
}

// deleteEvents runs a DELETE that returns the bytes of each row.
func (w *writer) deleteEvents(query string, args ...any) (n, size int64, err error) {
	err = w.db.Rows(query, args, func(rows *sql.Rows) error {
		var b int64
		err := rows.Scan(&b)
		n++
		size += b
		return err
	})
	w.pages += 3 * n
	return n, size, err
}

func (r *streamsRequest) committed(*writer) { r.at = r.ahead }

func (r *streamsRequest) answer(_ *writer, err error) {
	if err != nil {
		r.done(Reclaimed{}, err)
		return
	}
	r.done(r.at.Reclaimed, nil)
}
