package store

// blobRequest stores one chunk (S45).
type blobRequest struct {
	auth   Auth
	hash   string
	body   []byte
	done   func(bool, error)
	stored bool
	compactOnce
}

func (b *blobRequest) owner() string { return b.auth.Owner }

func (b *blobRequest) bytes() int64 { return int64(len(b.body)) }

func (b *blobRequest) apply(w *writer) (bool, error) {
	b.stored = false
	a, err := w.admit(b.auth)
	if err != nil {
		return false, err
	}
	held, err := w.db.Int(selectBlobHeld, b.auth.Owner, b.hash)
	if err != nil || held != 0 {
		return false, err
	}
	size := int64(len(b.body))
	if err := w.room(&a, size); err != nil {
		return false, err
	}
	body := b.body
	if body == nil {
		body = []byte{} // the column takes no null; an empty chunk is a chunk
	}
	if err := w.db.Exec("INSERT INTO blobs (owner_id, hash, bytes, body, created_at) VALUES (?, ?, ?, ?, ?)",
		b.auth.Owner, b.hash, size, body, w.stamp); err != nil {
		return false, err
	}
	b.stored = true
	w.cur.total += size
	w.pages += 4 + size/4096
	return false, w.db.Exec(`UPDATE owners SET stored_bytes = stored_bytes + ?,
		blob_count = blob_count + 1 WHERE owner_id = ?`, size, b.auth.Owner)
}

const selectBlobHeld = "SELECT EXISTS (SELECT 1 FROM blobs WHERE owner_id = ? AND hash = ?)"

func (b *blobRequest) committed(w *writer) { w.s.stats.blob(b.stored, len(b.body)) }

func (b *blobRequest) answer(_ *writer, err error) { b.done(b.stored && err == nil, err) }
