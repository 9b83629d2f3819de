package store

import (
	"database/sql"
	"errors"
	"time"

	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Epoch is a row of seq_epochs: the numbers Start to Last were issued (S30).
type Epoch struct {
	Start    int64  `json:"start"`
	Last     int64  `json:"last"`
	OpenedAt string `json:"openedAt"`
}

// OwnerSummary is an owner's row. The id is as stored: not fit for a terminal.
type OwnerSummary struct {
	ID        string `json:"ownerId"`
	Bytes     int64  `json:"bytes"`
	Events    int64  `json:"events"`
	Streams   int64  `json:"streams"`
	Blobs     int64  `json:"blobs"`
	CreatedAt string `json:"createdAt"`
	// ClosedAt is empty for an open one.
	ClosedAt string `json:"closedAt,omitempty"`
}

// Summary is what an operator is told of a database. Of one of an older schema
// the figures of the owners are left out.
type Summary struct {
	Path          string `json:"path"`
	SchemaVersion int    `json:"schemaVersion"`
	KnownVersion  int    `json:"knownVersion"`
	StoreID       string `json:"storeId"`
	// Open and Closed count owners; the sums are of their counters, so that they
	// cost no look at events and blobs.
	Open        int64 `json:"openOwners"`
	Closed      int64 `json:"closedOwners"`
	Events      int64 `json:"events"`
	Streams     int64 `json:"streams"`
	Blobs       int64 `json:"blobs"`
	StoredBytes int64 `json:"storedBytes"`
	// TotalBytes is the relay's own counter, equal to StoredBytes (S49).
	TotalBytes int64 `json:"totalBytes"`
	// FileBytes is the database's size, of which FreeBytes are for use again;
	// WALBytes is that of the log's file, 0 when there is none.
	FileBytes int64 `json:"fileBytes"`
	FreeBytes int64 `json:"freeBytes"`
	WALBytes  int64 `json:"walBytes"`
	LastSeq   int64 `json:"lastSeq"`
	// CompactedAt is when S37 ran last, at first when the store was made.
	CompactedAt string `json:"compactedAt"`
	// EpochCount is of all; Epochs are the newest, newest first.
	EpochCount int64   `json:"epochCount"`
	Epochs     []Epoch `json:"epochs"`
	// Largest are the owners with the most bytes, if they were asked for.
	Largest []OwnerSummary `json:"owners,omitempty"`
}

// Summary reads counters, on one short snapshot: with that many of the largest
// owners and of the newest epochs, which bound its memory. It reads the row of
// each owner.
func (i *Inspector) Summary(owners, epochs int) (s Summary, err error) {
	err = i.steady(func() error {
		s = Summary{Path: i.path, SchemaVersion: i.version, KnownVersion: len(migrations)}
		err := i.db.Script("BEGIN")
		if err == nil {
			err = errors.Join(i.summarize(&s, owners, epochs), i.db.Script("ROLLBACK"))
		}
		return i.verify(err)
	})
	return s, err
}

func (i *Inspector) summarize(s *Summary, owners, epochs int) error {
	err := i.db.Row("SELECT value FROM relay_meta WHERE key = ?", []any{metaStoreID}, &s.StoreID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var compacted, pages, free int64
	for _, f := range []struct {
		to   *int64
		read func() (int64, error)
	}{
		{&s.LastSeq, func() (int64, error) { return meta(i.db, metaLastSeq) }},
		{&s.TotalBytes, func() (int64, error) { return meta(i.db, metaTotalBytes) }},
		{&compacted, func() (int64, error) { return meta(i.db, metaCompacted) }},
		{&s.EpochCount, func() (int64, error) { return i.db.Int("SELECT count(*) FROM seq_epochs") }},
		{&pages, func() (int64, error) { return i.db.Int("PRAGMA page_size") }},
		{&free, func() (int64, error) { return i.db.Int("PRAGMA freelist_count") }},
	} {
		if *f.to, err = f.read(); err != nil {
			return err
		}
	}
	s.CompactedAt = isoTime(time.UnixMilli(compacted))
	s.FileBytes, s.WALBytes, s.FreeBytes = sqldb.Size(i.path), sqldb.Size(i.path+"-wal"), free*pages
	s.Epochs = make([]Epoch, 0, min(epochs, 16))
	err = i.db.Rows("SELECT start, last, opened_at FROM seq_epochs ORDER BY start DESC LIMIT ?", []any{epochs}, func(r *sql.Rows) error {
		var e Epoch
		err := r.Scan(&e.Start, &e.Last, &e.OpenedAt)
		s.Epochs = append(s.Epochs, e)
		return err
	})
	if err != nil || i.current() != nil {
		return err
	}
	return i.summarizeOwners(s, owners)
}

func (i *Inspector) summarizeOwners(s *Summary, owners int) error {
	err := i.db.Row(`SELECT count(*) - count(closed_at), count(closed_at), coalesce(sum(event_count), 0),
		coalesce(sum(stream_count), 0), coalesce(sum(blob_count), 0), coalesce(sum(stored_bytes), 0) FROM owners`,
		nil, &s.Open, &s.Closed, &s.Events, &s.Streams, &s.Blobs, &s.StoredBytes)
	if err != nil || owners == 0 {
		return err
	}
	return i.db.Rows(`SELECT owner_id, stored_bytes, event_count, stream_count, blob_count, created_at,
		coalesce(closed_at, '') FROM owners ORDER BY stored_bytes DESC, owner_id LIMIT ?`, []any{owners},
		func(r *sql.Rows) error {
			var o OwnerSummary
			err := r.Scan(&o.ID, &o.Bytes, &o.Events, &o.Streams, &o.Blobs, &o.CreatedAt, &o.ClosedAt)
			s.Largest = append(s.Largest, o)
			return err
		})
}
