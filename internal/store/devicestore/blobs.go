package devicestore

import "fmt"

// BlobTable is the table whose rows are manifests of blobs (D51).
const BlobTable = "blob"

// OweBlob owes a blob's chunks to every relay. Errors: ErrInvalid.
func (s *Store) OweBlob(blob string) error {
	if blob == "" || len(blob) > maxBlobBytes {
		return fmt.Errorf("%w: blob id of %d bytes", ErrInvalid, len(blob))
	}
	return s.write(func(t *tx) error {
		for i := range t.lanes {
			n, err := t.Change("INSERT OR IGNORE INTO blobs (relay, blob) VALUES (?, ?)", t.lanes[i].id, blob)
			if err != nil {
				return err
			}
			t.lanes[i].blobs += n
		}
		return nil
	})
}

// BlobsOwed returns blobs that the relay has to get, at most limit of them, a
// number outside of 1..MaxListCount being MaxListCount.
func (s *Store) BlobsOwed(id int64, limit int) ([]string, error) {
	return s.texts("SELECT blob FROM blobs WHERE relay = ? ORDER BY blob LIMIT ?", id, bounded(limit))
}

// BlobDelivered takes down that the relay has all chunks of a blob, or that
// they are to be had nowhere. Errors: ErrNoRelay.
func (s *Store) BlobDelivered(id int64, blob string) error {
	return s.write(func(t *tx) error {
		l, err := t.lane(id)
		if err != nil {
			return err
		}
		n, err := t.Change("DELETE FROM blobs WHERE relay = ? AND blob = ?", id, blob)
		l.blobs -= n
		return err
	})
}
