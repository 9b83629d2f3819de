package device

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/store/sqldb"
)

// Errors of fetching.
var (
	ErrNoBlob   = errors.New("no such attachment here: it may come with a sync")
	ErrOldBlob  = errors.New("the attachment is sealed for an earlier owner; a device that holds it must sync first")
	ErrBlobHash = errors.New("the whole does not have the SHA-256 of its manifest")
	ErrChunk    = errors.New("a chunk could not be had")
)

// ChunkError names a chunk that could not be had, or was refused: by what its
// relay sent, or by the relay (D52). It wraps ErrChunk.
type ChunkError struct {
	Blob  string
	Index int    // from 0
	Hash  string // its name at the relays
	Relay string // URL; "" for all of them, or for the copy here
	Err   error
}

// Error names the chunk and the relay.
func (e *ChunkError) Error() string {
	from := ""
	if e.Relay != "" {
		from = " from " + e.Relay
	}
	return fmt.Sprintf("chunk %d (%s) of attachment %s%s: %v", e.Index, e.Hash, shorten(e.Blob), from, e.Err)
}

// Unwrap returns ErrChunk and the cause.
func (e *ChunkError) Unwrap() []error { return []error{ErrChunk, e.Err} }

// What a relay's chunk is refused for, besides its hash and tag.
var (
	errChunkHash = errors.New("its bytes do not have its hash")
	errChunkSize = errors.New("its size is not the manifest's")
)

// Fetch writes a blob to w. Chunks that are not here come from the relays, one
// relay after the other until one has it right, and are kept: a fetch that was
// cut goes on where it was. Every chunk's hash is verified before it is opened,
// its tag and size after that and the whole's SHA-256 at the end (D52), all
// before the first byte is written. The errors: ErrNoBlob, ErrOldBlob,
// *ChunkError, ErrBlobHash and those of w. The progress counts plain bytes; any
// goroutine may call it, one at a time. Any goroutine.
func (d *Device) Fetch(ctx context.Context, blob string, w io.Writer, progress func(Progress)) error {
	f, err := d.fetcher(blob)
	if err != nil {
		return err
	}
	if err := f.download(ctx, progress); err != nil {
		return err
	}
	if err := f.stream(ctx, io.Discard); err != nil {
		return err
	}
	return f.stream(ctx, w)
}

// FetchFile is Fetch into a file, which gets its name when it is whole and
// verified: until then it is beside it, with .part at its end. A file that was
// there is replaced then; what is no regular file is written to.
func (d *Device) FetchFile(ctx context.Context, blob, path string, progress func(Progress)) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		out, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(d.Fetch(ctx, blob, out, progress), out.Close())
	}
	f, err := d.fetcher(blob)
	if err != nil {
		return err
	}
	if err := f.download(ctx, progress); err != nil {
		return err
	}
	part := path + ".part"
	out, err := os.Create(part)
	if err != nil {
		return err
	}
	err = f.stream(ctx, out)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, ignoreAbsent(os.Remove(part)))
	}
	return sqldb.SyncFile(filepath.Dir(path))
}

// fetchMissing fetches the chunks of every blob that are not here. A blob that
// cannot be had stops no other; the errors of the first few are returned.
func (d *Device) fetchMissing(ctx context.Context, progress func(Progress)) error {
	const told = 5
	var failed []error
	missed := 0
	err := d.eachManifest(func(_ devicestore.Row, m *synccrypt.Manifest) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.chunks().holdsAll(m) {
			return nil
		}
		f, err := d.fetcherOf(m)
		if err == nil {
			err = f.download(ctx, progress)
		}
		if err != nil {
			if missed++; missed <= told {
				failed = append(failed, err)
			}
		}
		return ctx.Err()
	})
	if missed > told {
		failed = append(failed, fmt.Errorf("and %d attachments more", missed-told))
	}
	return errors.Join(append(failed, err)...)
}

// source is a relay that chunks may come from.
type source struct {
	relay devicestore.Relay
	r     *remote
	// gone is set when asking again makes no sense in this fetch. Atomic.
	gone atomic.Bool
}

// fetcher is one fetch of one blob. Immutable but for the sources' marks.
type fetcher struct {
	d       *Device
	m       *synccrypt.Manifest
	id      *synccrypt.Identity // of the manifest's owner
	sources []*source
}

func (d *Device) fetcher(blob string) (*fetcher, error) {
	m, err := d.manifest(blob)
	if err != nil {
		return nil, err
	}
	return d.fetcherOf(m)
}

// fetcherOf returns the fetch of a blob of the owner, or of the earlier one
// while its credential is here.
func (d *Device) fetcherOf(m *synccrypt.Manifest) (*fetcher, error) {
	id, err := d.identity()
	if err != nil {
		return nil, err
	}
	if m.OwnerID != id.OwnerID {
		if id, _, err = d.place().read(oldFile); err != nil {
			return nil, err
		}
		if id == nil || m.OwnerID != id.OwnerID {
			return nil, fmt.Errorf("%w: %q", ErrOldBlob, shorten(m.BlobID))
		}
	}
	relays, err := d.store.Relays()
	if err != nil {
		return nil, err
	}
	f := &fetcher{d: d, m: m, id: id}
	for _, relay := range relays {
		r, err := d.remote(relay.URL, id)
		if err != nil {
			return nil, err
		}
		f.sources = append(f.sources, &source{relay: relay, r: r})
	}
	return f, nil
}

// download brings the chunks here that are not.
func (f *fetcher) download(ctx context.Context, progress func(Progress)) error {
	chunks := f.d.chunks()
	tell := teller(progress, "fetch", f.m.ByteSize)
	var done, came atomic.Int64
	telling := make(chan struct{}, 1) // one at a time
	err := inParallel(ctx, len(f.m.Chunks), func(ctx context.Context, i int, buf *[]byte) error {
		if !chunks.holds(f.m.Chunks[i]) {
			if _, err := f.get(ctx, i, nil); err != nil {
				return err
			}
			came.Add(1)
		}
		telling <- struct{}{}
		tell(done.Add(f.m.Chunks[i].PlaintextSize))
		<-telling
		return nil
	})
	if came.Load() == 0 {
		return err
	}
	if err := errors.Join(err, chunks.flush()); err != nil {
		return err
	}
	if len(f.sources) > 1 && f.m.OwnerID == f.d.OwnerID() {
		// Another relay may not have it, and was owed it in vain so far.
		return f.d.store.OweBlob(f.m.BlobID)
	}
	return nil
}

// get has a chunk from the first relay that has it right, keeps it and returns
// its plain bytes in plain's memory.
func (f *fetcher) get(ctx context.Context, i int, plain []byte) ([]byte, error) {
	chunk := f.m.Chunks[i]
	var failed []error
	for _, s := range f.sources {
		if s.gone.Load() {
			continue
		}
		sealed, err := s.r.getBlob(ctx, chunk.Hash)
		if err == nil {
			var opened []byte
			if opened, err = f.open(plain, sealed, i); err == nil {
				return opened, f.d.chunks().put(chunk.Hash, sealed)
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		failed = append(failed, f.blame(s, i, err))
	}
	switch {
	case len(f.sources) == 0:
		failed = append(failed, ErrNoRelays)
	case len(failed) == 0:
		failed = append(failed, errors.New("every relay has failed before"))
	case len(failed) == 1:
		return nil, failed[0]
	}
	return nil, &ChunkError{Blob: f.m.BlobID, Index: i, Hash: chunk.Hash, Err: errors.Join(failed...)}
}

// open verifies and opens a chunk (D50, D52). Only what has the right hash is
// decrypted.
func (f *fetcher) open(plain, sealed []byte, i int) ([]byte, error) {
	chunk := f.m.Chunks[i]
	if synccrypt.ChunkHash(sealed) != chunk.Hash {
		return nil, errChunkHash
	}
	if int64(len(sealed)) != chunk.Size {
		return nil, errChunkSize
	}
	plain, err := f.id.OpenChunk(plain[:0], sealed, f.m.BlobID, i)
	if err == nil && int64(len(plain)) != chunk.PlaintextSize {
		err = errChunkSize
	}
	return plain, err
}

// blame counts a wrong chunk, remembers a relay that cannot be asked again, and
// returns the error that names both.
func (f *fetcher) blame(s *source, i int, err error) error {
	chunk := f.m.Chunks[i]
	bad := errors.Is(err, errChunkHash) || errors.Is(err, errChunkSize) || errors.Is(err, synccrypt.ErrTag) || errors.Is(err, synccrypt.ErrChunk)
	if answer, ok := errors.AsType[*fault](err); ok && answer.reason == reasonBadChunk {
		bad = true
	}
	switch {
	case bad:
		f.d.o.Log.Warn("a relay's chunk is refused", "relay", s.relay.URL, "blob", f.m.BlobID, "index", i, "hash", chunk.Hash, "err", err)
		if err := f.d.store.Refuse(s.relay.ID, devicestore.Refusal{Reason: reasonBadChunk, Event: fmt.Sprintf("%s#%d", chunk.Hash, i)}); err != nil {
			f.d.o.Log.Warn("counting a refused chunk", "err", err)
		}
	default:
		if _, absent := refused(err, http.StatusNotFound); !absent {
			s.gone.Store(true)
		}
	}
	return &ChunkError{Blob: f.m.BlobID, Index: i, Hash: chunk.Hash, Relay: s.relay.URL, Err: err}
}

// stream writes the whole and verifies it. A chunk whose copy here is damaged
// comes from the relays again.
func (f *fetcher) stream(ctx context.Context, w io.Writer) error {
	whole := sha256.New()
	var sealed, plain []byte
	for i, chunk := range f.m.Chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if sealed, err = f.d.chunks().get(sealed, chunk.Hash); err == nil {
			if plain, err = f.open(plain, sealed, i); err != nil {
				return &ChunkError{Blob: f.m.BlobID, Index: i, Hash: chunk.Hash, Err: err}
			}
		} else if plain, err = f.get(ctx, i, plain); err != nil {
			return err
		}
		whole.Write(plain)
		if _, err := w.Write(plain); err != nil {
			return err
		}
	}
	if synccrypt.HashText([sha256.Size]byte(whole.Sum(nil))) != f.m.SHA256 {
		return fmt.Errorf("%w: attachment %q", ErrBlobHash, shorten(f.m.BlobID))
	}
	return nil
}
