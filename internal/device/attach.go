package device

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// defaultMime is the type of bytes that nobody named.
const defaultMime = "application/octet-stream"

// maxMimeBytes bounds the type in a manifest.
const maxMimeBytes = 127

// What an attachment can be refused for. Nothing is attached then.
var (
	ErrBlobSize = errors.New("too large to attach")
	ErrMime     = fmt.Errorf("not a media type such as image/png, of up to %d bytes", maxMimeBytes)
)

// MaxBlobBytes is the size of the largest attachment, 512 MiB: the manifest
// names each of its chunks and must fit into one row.
const MaxBlobBytes = synccrypt.MaxChunks * synccrypt.ChunkBytes

// Attach reads r to its end, seals it in chunks, keeps them here and owes them
// to every relay (D50, D51), with bounded memory whatever the size. It returns
// the manifest, whose BlobID is drawn; other rows may hold that id. mediaType ""
// is application/octet-stream. The name is for progress alone: it is not sent. A
// size that r can tell and that is above MaxBlobBytes is refused before anything
// is read, with ErrBlobSize. Any goroutine.
func (d *Device) Attach(ctx context.Context, r io.Reader, mediaType, name string, progress func(Progress)) (synccrypt.Manifest, error) {
	none := synccrypt.Manifest{}
	mediaType, err := checkMime(mediaType)
	if err != nil {
		return none, err
	}
	size := sizeOf(r)
	if size > MaxBlobBytes {
		return none, tooLarge(size)
	}
	done, err := d.chunks().use() // and nobody changes the owner meanwhile
	if err != nil {
		return none, err
	}
	defer done()
	id, err := d.identity()
	if err != nil {
		return none, err
	}
	m := synccrypt.Manifest{
		Version: 1, OwnerID: id.OwnerID, BlobID: drawBlobID(), MimeType: mediaType,
		ChunkSize: synccrypt.ChunkBytes, CreatedAt: isoTime(d.o.Now()),
	}
	tell := teller(progress, "attach "+shorten(name), size)
	if err := d.sealInto(ctx, id, &m, r, tell); err != nil {
		d.chunks().drop(m.Chunks) // none of them is anybody else's
		return none, err
	}
	if err := d.keepManifest(&m); err != nil {
		return none, err // they are swept if no row has come of it
	}
	d.retryBlobs()
	return m, nil
}

// sealInto reads r to its end and adds its chunks, which are kept durably, to
// the manifest.
func (d *Device) sealInto(ctx context.Context, id *synccrypt.Identity, m *synccrypt.Manifest, r io.Reader, tell func(int64)) error {
	whole := sha256.New()
	plain := make([]byte, synccrypt.ChunkBytes)
	var sealed []byte
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(r, plain)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("reading what is to be attached: %w", err)
		}
		if n > 0 {
			if len(m.Chunks) == synccrypt.MaxChunks {
				return tooLarge(-1)
			}
			whole.Write(plain[:n])
			var sealErr error
			if sealed, sealErr = d.addChunk(id, m, sealed[:0], plain[:n]); sealErr != nil {
				return sealErr
			}
			tell(m.ByteSize)
		}
		if err != nil {
			break
		}
	}
	m.SHA256 = synccrypt.HashText([sha256.Size]byte(whole.Sum(nil)))
	return d.chunks().flush()
}

// addChunk seals the next chunk of a blob and keeps it. It returns sealed's
// memory.
func (d *Device) addChunk(id *synccrypt.Identity, m *synccrypt.Manifest, sealed, plain []byte) ([]byte, error) {
	sealed, err := id.SealChunk(sealed, plain, m.BlobID, len(m.Chunks), rand.Reader)
	if err != nil {
		return sealed, err
	}
	hash := synccrypt.ChunkHash(sealed)
	if err := d.chunks().put(hash, sealed); err != nil {
		return sealed, err
	}
	m.Chunks = append(m.Chunks, synccrypt.Chunk{Hash: hash, Size: int64(len(sealed)), PlaintextSize: int64(len(plain))})
	m.ByteSize += int64(len(plain))
	return sealed, nil
}

// keepManifest writes a manifest's row and owes the blob to the relays. It is
// owed before and after: before, or a crash in between would leave it owed to
// nobody; after, since until then a delivery finds no such blob.
func (d *Device) keepManifest(m *synccrypt.Manifest) error {
	row, err := m.Append(nil)
	if err != nil {
		return err
	}
	if err := d.store.OweBlob(m.BlobID); err != nil {
		return err
	}
	if _, err := d.write(devicestore.Edit{Key: devicestore.Key{Table: blobTable, ID: m.BlobID}, Data: row}); err != nil {
		return err
	}
	if err := d.store.OweBlob(m.BlobID); err != nil {
		d.o.Log.Warn("owing an attachment a second time", "err", err) // the first holds
	}
	d.wrote()
	return nil
}

func tooLarge(size int64) error {
	limit := fmt.Sprintf("at most %d bytes (%d MiB)", int64(MaxBlobBytes), MaxBlobBytes>>20)
	if size < 0 {
		return fmt.Errorf("%w: %s", ErrBlobSize, limit)
	}
	return fmt.Errorf("%w: %s, this has %d", ErrBlobSize, limit, size)
}

// checkMime returns a media type for a manifest.
func checkMime(mediaType string) (string, error) {
	if mediaType == "" {
		return defaultMime, nil
	}
	_, _, err := mime.ParseMediaType(mediaType)
	hidden := strings.ContainsFunc(mediaType, func(r rune) bool { return r < ' ' || r > '~' })
	if err != nil || hidden || len(mediaType) > maxMimeBytes || !strings.Contains(mediaType, "/") {
		return "", ErrMime
	}
	return mediaType, nil
}

// sizeOf returns how much is left in a reader that knows, else 0.
func sizeOf(r io.Reader) int64 {
	switch r := r.(type) {
	case interface{ Len() int }:
		return int64(r.Len())
	case interface {
		io.Seeker
		Stat() (fs.FileInfo, error)
	}:
		info, err := r.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		at, err := r.Seek(0, io.SeekCurrent)
		if err != nil {
			return 0
		}
		return max(info.Size()-at, 0)
	}
	return 0
}

// drawBlobID returns a new blob's id: 128 random bits, base64url. It does not
// begin with a dash, which a command line would take for a flag.
func drawBlobID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// isoTime returns a time in the form of every time in this protocol (S9).
func isoTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// teller returns what tells the progress of work of so many bytes; total 0 is
// unknown. Any goroutine may call it if progress allows that.
func teller(progress func(Progress), phase string, total int64) func(done int64) {
	if progress == nil {
		return func(int64) {}
	}
	return func(done int64) { progress(Progress{Phase: phase, Done: done, Total: total}) }
}
