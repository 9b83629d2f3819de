package device

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Chunks as they are kept and sent.
const (
	maxSealedBytes = synccrypt.ChunkBytes + synccrypt.SealedExtra
	hashLetters    = 43        // SHA-256 in base64url
	partPrefix     = ".part-"  // a chunk that is being written
	sweepAge       = time.Hour // what is younger may belong to work in another process
	sweepBatch     = 10_000
	manifestRows   = 100
)

// What a chunk in the directory can be wrong with.
var (
	errNoChunk      = errors.New("the chunk is not here")
	errChunkDamaged = errors.New("the chunk's bytes do not have its hash")
)

// chunkStore is a directory of sealed chunks, each under its hash. A chunk is
// verified by its name whenever it is read, so that nothing about it needs to
// be remembered; it appears whole, by a rename. Any goroutine, any process.
type chunkStore string

func (c chunkStore) path(hash string) string { return filepath.Join(string(c), hash) }

// validHash tells whether a name can be a chunk's. It keeps names of other
// directories out.
func validHash(hash string) bool {
	return len(hash) == hashLetters && !strings.ContainsFunc(hash, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// holds tells whether a chunk is there, by its name and size alone.
func (c chunkStore) holds(chunk synccrypt.Chunk) bool {
	if !validHash(chunk.Hash) {
		return false
	}
	info, err := os.Lstat(c.path(chunk.Hash))
	return err == nil && info.Mode().IsRegular() && info.Size() == chunk.Size
}

// holdsAll tells whether a blob can be read without a relay.
func (c chunkStore) holdsAll(m *synccrypt.Manifest) bool {
	for _, chunk := range m.Chunks {
		if !c.holds(chunk) {
			return false
		}
	}
	return true
}

// get returns a chunk's bytes, which have its hash, in buf's memory if that has
// room for the largest. The error is errNoChunk or errChunkDamaged, or the file
// system's.
func (c chunkStore) get(buf []byte, hash string) ([]byte, error) {
	if !validHash(hash) {
		return nil, errNoChunk
	}
	f, err := os.Open(c.path(hash))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoChunk
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if cap(buf) < maxSealedBytes+1 {
		buf = make([]byte, maxSealedBytes+1)
	}
	n, err := io.ReadFull(f, buf[:maxSealedBytes+1])
	switch {
	case err == nil:
		return nil, errChunkDamaged // longer than any chunk
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case synccrypt.ChunkHash(buf[:n]) != hash:
		return nil, errChunkDamaged
	}
	return buf[:n], nil
}

// put stores bytes that have the hash, durably but for the directory: see
// flush. It replaces a file that is there, which may be damaged.
func (c chunkStore) put(hash string, sealed []byte) (err error) {
	if !validHash(hash) || len(sealed) > maxSealedBytes {
		return errChunkDamaged
	}
	f, err := os.CreateTemp(string(c), partPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(sealed)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.path(hash))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keeping a chunk: %w", err)
	}
	return nil
}

// drop removes chunks.
func (c chunkStore) drop(chunks []synccrypt.Chunk) {
	for _, chunk := range chunks {
		if validHash(chunk.Hash) {
			_ = os.Remove(c.path(chunk.Hash)) // else it is swept some day
		}
	}
}

// flush brings the names of the chunks to the medium. It precedes whatever
// says that they are here.
func (c chunkStore) flush() error { return sqldb.SyncFile(string(c)) }

// use keeps chunks that no manifest names yet from being swept, for as long as
// a blob is made of them.
func (c chunkStore) use() (done func(), err error) {
	return lockPath(string(c), syscall.LOCK_SH, lockPatience)
}

// sweep removes chunks and cut files that are older than sweepAge and that
// spare leaves in the set it is given. The set is bounded. While somebody makes
// a blob it removes nothing.
func (c chunkStore) sweep(now time.Time, spare func(candidates map[string]struct{}) error) (removed int, err error) {
	unlock, err := lockPath(string(c), syscall.LOCK_EX, 0)
	if errors.Is(err, ErrBusy) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer unlock()
	dir, err := os.Open(string(c))
	if err != nil {
		return 0, err
	}
	defer func() { _ = dir.Close() }()
	for {
		entries, err := dir.ReadDir(sweepBatch)
		if errors.Is(err, io.EOF) {
			return removed, nil
		}
		if err != nil {
			return removed, err
		}
		old := oldEntries(entries, now.Add(-sweepAge))
		if len(old) == 0 {
			continue
		}
		if err := spare(old); err != nil {
			return removed, err
		}
		for name := range old {
			if err := os.Remove(c.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return removed, err
			}
			removed++
		}
	}
}

// oldEntries returns the names of chunks and cut files from before a time.
// Other files are not ours to remove.
func oldEntries(entries []fs.DirEntry, before time.Time) map[string]struct{} {
	old := map[string]struct{}{}
	for _, e := range entries {
		if !validHash(e.Name()) && !strings.HasPrefix(e.Name(), partPrefix) {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) {
			old[e.Name()] = struct{}{}
		}
	}
	return old
}

// sweepChunks removes chunks that no manifest names. Files have the machine's
// time, whatever clock the device was given.
func (d *Device) sweepChunks() (int, error) {
	return d.chunks().sweep(time.Now(), func(candidates map[string]struct{}) error {
		return d.eachManifest(func(_ devicestore.Row, m *synccrypt.Manifest) error {
			for _, chunk := range m.Chunks {
				delete(candidates, chunk.Hash)
			}
			return nil
		})
	})
}

// eachManifest calls f for every blob that is not deleted, in the order of
// their ids. A row that is no manifest, as another program may have written it,
// is passed over.
func (d *Device) eachManifest(f func(devicestore.Row, *synccrypt.Manifest) error) error {
	for after := (devicestore.Key{Table: blobTable}); ; {
		rows, err := d.store.List(blobTable, after, manifestRows, false)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		for _, r := range rows {
			after = r.Key
			m, err := synccrypt.DecodeManifest(r.Data)
			if err != nil || m.BlobID != r.ID {
				d.o.Log.Warn("a row of the table blob is no manifest", "id", r.ID)
				continue
			}
			if err := f(r, &m); err != nil {
				return err
			}
		}
	}
}

// manifest returns the manifest of a blob. The error is ErrNoBlob when there is
// none or it was deleted.
func (d *Device) manifest(blob string) (*synccrypt.Manifest, error) {
	r, err := d.store.Get(devicestore.Key{Table: blobTable, ID: blob})
	switch {
	case errors.Is(err, devicestore.ErrNoRow), err == nil && r.Deleted:
		return nil, fmt.Errorf("%w: %q", ErrNoBlob, shorten(blob))
	case err != nil:
		return nil, err
	}
	m, err := synccrypt.DecodeManifest(r.Data)
	if err == nil && m.BlobID != blob {
		err = errors.New("it names another blob")
	}
	if err != nil {
		return nil, &manifestError{blob, err}
	}
	return &m, nil
}

// manifestError tells that a row of the table blob is no manifest.
type manifestError struct {
	blob string
	err  error
}

func (e *manifestError) Error() string {
	return fmt.Sprintf("the manifest of attachment %q is wrong: %v", shorten(e.blob), e.err)
}

func (e *manifestError) Unwrap() error { return e.err }

// ignoreAbsent is the error of a removal unless the file was not there.
func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *Device) chunks() chunkStore { return chunkStore(d.place().path(chunksDir)) }
