package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// owedBlobs is how many blobs a delivery looks at before it asks for more.
const owedBlobs = 500

// pausedPrefix begins the name of the file that keeps the pause of one relay's
// blobs, by the relay's id, for every process to see.
const pausedPrefix = "blobs-paused-"

// delivery brings blobs to one relay. Immutable.
type delivery struct {
	d     *Device
	r     *remote
	relay devicestore.Relay
}

// deliverBlobs brings the blobs that are owed to a relay there, as far as their
// chunks are here (D52): a chunk that the relay has is not sent again, so that a
// cut delivery goes on where it was. Progress, which may be nil, counts blobs.
//
// A relay that has no room for chunks, or does not like their size, gets its
// rows all the same: then blobs pause, status shows why, and nil is returned.
// explicit is for a delivery in spite of a pause. All other errors are those of
// the remote and the store.
func (d *Device) deliverBlobs(ctx context.Context, r *remote, relay devicestore.Relay, explicit bool, progress func(Progress)) error {
	if relay.Blobs == 0 || !explicit && d.remaining(d.blobLane(relay.ID).Until) > 0 {
		return nil
	}
	v := delivery{d, r, relay}
	var refusal error
	for delivered := int64(0); ; {
		owed, err := d.store.BlobsOwed(relay.ID, owedBlobs)
		if err != nil {
			return local(err)
		}
		before := delivered
		for _, blob := range owed {
			err := v.deliver(ctx, blob)
			if f, full := refused(err, http.StatusRequestEntityTooLarge); full {
				if refusal = err; f.Code != "blob_too_large" {
					return d.pauseBlobs(relay.ID, refusal)
				}
				continue // another one may have smaller chunks
			}
			if err != nil {
				return err
			}
			delivered++
			if progress != nil {
				progress(Progress{Relay: relay.URL, Phase: "blobs", Done: delivered, Total: max(relay.Blobs, delivered)})
			}
		}
		if delivered == before || len(owed) < owedBlobs {
			return d.pauseBlobs(relay.ID, refusal)
		}
	}
}

// deliver brings one blob to the relay, which is owed it no more.
func (v delivery) deliver(ctx context.Context, blob string) error {
	d := v.d
	m, err := d.manifest(blob)
	var wrong *manifestError
	switch {
	case errors.Is(err, ErrNoBlob), errors.As(err, &wrong):
		// Nothing can be delivered of it.
	case err != nil:
		return local(err)
	case m.OwnerID != v.r.id.OwnerID:
		// It is sealed for an earlier owner: finishRekey seals it anew and owes
		// that, or a device does that holds it.
	default:
		if err := v.chunks(ctx, m); err != nil {
			return err
		}
	}
	// A relay that was forgotten meanwhile may have lost what was just sent.
	now, err := d.store.Relay(v.relay.ID)
	if err != nil || now.Generation != v.relay.Generation {
		return local(err)
	}
	return local(d.store.BlobDelivered(v.relay.ID, blob))
}

// chunks sends the chunks that are here and not there.
func (v delivery) chunks(ctx context.Context, m *synccrypt.Manifest) error {
	d, r, chunks := v.d, v.r, v.d.chunks()
	return inParallel(ctx, len(m.Chunks), func(ctx context.Context, i int, buf *[]byte) error {
		chunk := m.Chunks[i]
		if !chunks.holds(chunk) {
			return nil // who holds it delivers it
		}
		there, err := r.headBlob(ctx, chunk.Hash)
		if err != nil || there {
			return err
		}
		sealed, err := chunks.get(*buf, chunk.Hash)
		if errors.Is(err, errNoChunk) || errors.Is(err, errChunkDamaged) {
			d.o.Log.Warn("a chunk cannot be delivered", "blob", m.BlobID, "index", i, "err", err)
			return nil
		}
		if err != nil {
			return local(err)
		}
		*buf = sealed[:0]
		return r.putBlob(ctx, chunk.Hash, sealed)
	})
}

// blobLane returns the back-off of a relay's blobs, as pauseBlobs left it.
func (d *Device) blobLane(relay int64) devicestore.Lane {
	var lane devicestore.Lane
	text, err := os.ReadFile(d.pausedPath(relay))
	if err != nil || json.Unmarshal(text, &lane) != nil {
		return devicestore.Lane{}
	}
	lane.Reason = printable(lane.Reason)
	return lane
}

// pauseBlobs takes down why a relay does not take blobs, or that it did when
// refusal is nil. The file is advice: it need not outlast a crash.
func (d *Device) pauseBlobs(relay int64, refusal error) error {
	if refusal == nil {
		return ignoreAbsent(os.Remove(d.pausedPath(relay)))
	}
	text, err := json.Marshal(d.laneAfter(refusal, d.blobLane(relay)))
	if err != nil {
		return local(err)
	}
	f, err := os.CreateTemp(d.dir, pausedPrefix+"*.tmp")
	if err != nil {
		return local(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.pausedPath(relay))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return local(fmt.Errorf("keeping the pause of blobs: %w", err))
	}
	return nil
}

// retryBlobs ends the pauses of all relays, as a local write and an explicit
// sync do (D34).
func (d *Device) retryBlobs() {
	names, _ := filepath.Glob(filepath.Join(escapeGlob(d.dir), pausedPrefix+"*")) // the pattern is good
	for _, name := range names {
		_ = os.Remove(name)
	}
}

// escapeGlob makes a path match itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (d *Device) pausedPath(relay int64) string {
	return d.place().path(pausedPrefix + strconv.FormatInt(relay, 10))
}
