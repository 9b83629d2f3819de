package device

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"syscall"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// resealRound is how many blobs are looked for at a time, resealRounds how often
// in one call: a copy that cannot be removed must not keep it going.
const (
	resealRound  = 1000
	resealRounds = 100
)

// finishRekey goes on with a re-key at a relay that was pulled from under the
// new owner and is owed no row (D39): blobs of the old owner that are held here
// are sealed anew, which owes the relay their rows and chunks, and when it has
// those too the old owner is closed there. It does nothing when no re-key is
// under way. The relay need not be owed nothing: then only the first is done.
func (d *Device) finishRekey(ctx context.Context, relay devicestore.Relay) error {
	old, _, err := d.place().read(oldFile)
	if err != nil || old == nil {
		return local(err)
	}
	if err := d.resealBlobs(ctx, old); err != nil {
		return err
	}
	now, err := d.store.Relay(relay.ID)
	if err != nil {
		return local(err)
	}
	// A relay that has no room for blobs may have when the old owner's are gone.
	blobs := now.Blobs > 0 && d.blobLane(now.ID).Reason == ""
	held, err := d.oldBlobs(old)
	if err != nil || now.Owed > 0 || blobs || len(held) > 0 {
		return local(err)
	}
	if err := d.closeOld(ctx, now.ID, now.URL, old); err != nil {
		return err
	}
	return local(d.forgetOld(old, false))
}

// resealBlobs seals the blobs of the old owner that are held here for the new
// one. Each is done when its row is written: what a crash cut is begun again,
// and its chunks are swept. One process does it at a time; for the others there
// is nothing to do.
func (d *Device) resealBlobs(ctx context.Context, old *synccrypt.Identity) error {
	done, err := lockPath(d.place().path(oldFile), syscall.LOCK_EX, 0)
	if errors.Is(err, ErrBusy) || ignoreAbsent(err) == nil && err != nil {
		return nil
	}
	if err != nil {
		return local(err)
	}
	defer done()
	for range resealRounds {
		held, err := d.oldBlobs(old)
		if err != nil || len(held) == 0 {
			return local(err)
		}
		for _, key := range held {
			if err := d.resealBlob(ctx, old, key); err != nil {
				return local(err)
			}
		}
	}
	return nil
}

// oldBlobs returns the blobs of the old owner that can be sealed anew here, up
// to resealRound of them.
func (d *Device) oldBlobs(old *synccrypt.Identity) (held []devicestore.Key, err error) {
	err = d.eachManifest(func(row devicestore.Row, m *synccrypt.Manifest) error {
		if m.OwnerID != old.OwnerID || !d.chunks().holdsAll(m) {
			return nil
		}
		if held = append(held, row.Key); len(held) == resealRound {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return held, err
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// resealBlob seals one blob anew under its id, so that rows which name it stay
// right. One whose copy here cannot be opened counts as not held from then on:
// the chunk goes, since it is of no use to anybody.
func (d *Device) resealBlob(ctx context.Context, old *synccrypt.Identity, key devicestore.Key) error {
	using, err := d.chunks().use()
	if err != nil {
		return err
	}
	defer using()
	id, err := d.identity()
	if err != nil {
		return err
	}
	row, err := d.store.Get(key)
	if err != nil || row.Deleted {
		return err
	}
	was, err := synccrypt.DecodeManifest(row.Data)
	if err != nil || was.OwnerID != old.OwnerID {
		return nil //nolint:nilerr // it was replaced meanwhile
	}
	m := was
	m.OwnerID, m.Chunks, m.ByteSize = id.OwnerID, nil, 0
	whole := sha256.New()
	var held, plain, sealed []byte
	for i, chunk := range was.Chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if held, err = d.chunks().get(held, chunk.Hash); err == nil {
			plain, err = old.OpenChunk(plain[:0], held, was.BlobID, i)
		}
		if err != nil {
			return d.dropUnreadable(&was, was.Chunks[i:i+1], err)
		}
		whole.Write(plain)
		if sealed, err = d.addChunk(id, &m, sealed[:0], plain); err != nil {
			return err
		}
	}
	if synccrypt.HashText([sha256.Size]byte(whole.Sum(nil))) != was.SHA256 && len(was.Chunks) > 0 {
		return d.dropUnreadable(&was, was.Chunks, ErrBlobHash)
	}
	if err := d.chunks().flush(); err != nil {
		return err
	}
	// A pull of another goroutine may have deleted or replaced it.
	if now, err := d.store.Get(key); err != nil || now.HLC != row.HLC {
		return err
	}
	return d.keepManifest(&m)
}

// dropUnreadable takes chunks away that do not make the blob. Errors of the file
// system are no reason to.
func (d *Device) dropUnreadable(m *synccrypt.Manifest, chunks []synccrypt.Chunk, cause error) error {
	useless := errors.Is(cause, errChunkDamaged) || errors.Is(cause, synccrypt.ErrTag) ||
		errors.Is(cause, synccrypt.ErrChunk) || errors.Is(cause, ErrBlobHash)
	switch {
	case errors.Is(cause, errNoChunk):
		return nil // gone meanwhile: not held any more
	case !useless:
		return fmt.Errorf("sealing attachment %q anew: %w", shorten(m.BlobID), cause)
	}
	d.o.Log.Warn("an attachment cannot be sealed anew: the copy here is damaged", "blob", m.BlobID, "err", cause)
	d.chunks().drop(chunks)
	return nil
}
