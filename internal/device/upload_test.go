package device

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// cutAt tells which requests of a kind are to be cut: all after the first few.
// It answers only when each worker has one of these, so that all before them
// are through, and none is on its way.
func cutAt(few int64, kind func(*http.Request) bool) func(*http.Request) bool {
	var asked atomic.Int64
	all := make(chan struct{})
	return func(r *http.Request) bool {
		if !kind(r) {
			return false
		}
		n := asked.Add(1)
		if n == few+chunkWorkers {
			close(all)
		}
		if n > few {
			<-all
		}
		return n > few
	}
}

func TestDeliveryResumes(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, "a", h), newTestDevice(t, key, "b", h)
	data := bytesOf(3, 20*chunk)
	m := attach(t, a, data)
	cut := cutAt(8, func(r *http.Request) bool { return r.Method == http.MethodPut })
	h.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if cut(r) {
			panic(http.ErrAbortHandler)
		}
		return false
	}, nil)
	if _, err := a.Sync(t.Context(), SyncOptions{}); err == nil {
		t.Fatal("the cut is not told")
	}
	if n := soleRelay(t, a).Blobs; n != 1 {
		t.Errorf("%d blobs are owed after the cut", n)
	}
	var stored atomic.Int64
	h.set(nil, func(r *http.Response) error {
		if r.Request.Method == http.MethodPut && r.StatusCode == http.StatusOK {
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if strings.Contains(string(body), `"duplicate":true`) {
				t.Errorf("a chunk was sent twice")
			}
			stored.Add(1)
			return err
		}
		return nil
	})
	a = openAgain(t, a)
	syncAll(t, a, b)
	if n := stored.Load(); n != 20-8 {
		t.Errorf("%d chunks were sent after the cut", n)
	}
	h.set(nil, nil)
	wantBlob(t, b, m.BlobID, data)
}

func TestWipedRelayGetsChunks(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, "a", h), newTestDevice(t, key, "b", h)
	data := bytesOf(9, 5*chunk)
	m := attach(t, a, data)
	syncAll(t, a, b)
	h.again(true)
	syncAll(t, b) // has the manifest and no chunk
	syncAll(t, a)
	wantBlob(t, b, m.BlobID, data)
}

func TestLateRelayGetsChunks(t *testing.T) {
	first, late := newHouse(t), newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, "a", first), newTestDevice(t, key, "b", first)
	data := bytesOf(10, 5*chunk)
	m := attach(t, a, data)
	syncAll(t, a, b)
	if err := b.AddRelay(late.door.URL); err != nil {
		t.Fatal(err)
	}
	syncAll(t, b)
	if late.puts.Load() != 0 {
		t.Error("chunks came from nowhere")
	}
	if _, err := b.Sync(t.Context(), SyncOptions{Blobs: true}); err != nil {
		t.Fatal(err)
	}
	syncAll(t, b)
	c := newTestDevice(t, key, "c", late)
	syncAll(t, c)
	wantBlob(t, c, m.BlobID, data)
}

func TestQuotaStopsBlobsOnly(t *testing.T) {
	f := func(reason string, setting string) {
		t.Helper()
		h := newHouse(t, setting)
		key := newKey(t)
		a, b := newTestDevice(t, key, "a", h), newTestDevice(t, key, "b", h)
		data := bytesOf(11, 4*chunk)
		m := attach(t, a, data)
		putRow(t, a, "t", "1", `{}`)
		syncAll(t, a, b)
		wantRow(t, b, "t", "1", `{}`)
		s, err := a.Status()
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Relays[0]; r.Blobs != 1 || r.BlobPause.Reason != "413 "+reason || r.Push.Reason != "" || r.Owed != 0 {
			t.Errorf("status %+v, want blobs paused for %s", r, reason)
		}
		relay := soleRelay(t, a)
		puts := h.puts.Load()
		id, err := a.identity()
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.remote(relay.URL, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.deliverBlobs(t.Context(), r, relay, false, nil); err != nil || h.puts.Load() != puts {
			t.Errorf("the pause is not kept: %v", err)
		}
		if err := a.deliverBlobs(t.Context(), r, relay, true, nil); err != nil || h.puts.Load() == puts {
			t.Errorf("an explicit sync does not try: %v", err)
		}
		puts = h.puts.Load()
		attach(t, a, nil)
		if err := a.deliverBlobs(t.Context(), r, soleRelay(t, a), false, nil); err != nil || h.puts.Load() == puts {
			t.Errorf("an attachment does not end the pause: %v", err)
		}
		h.again(false)
		syncAll(t, a, b)
		wantBlob(t, b, m.BlobID, data)
		if lane := a.blobLane(relay.ID); lane != (devicestore.Lane{}) {
			t.Errorf("the pause is left: %+v", lane)
		}
	}
	f("quota_exceeded", fmt.Sprintf("MAX_OWNER_BYTES=%d", 2*chunk))
	f("relay_full", fmt.Sprintf("MAX_TOTAL_BYTES=%d", 2*chunk))
	f("blob_too_large", "MAX_BLOB_BYTES=1000")
}

func TestOneBlobTooLarge(t *testing.T) {
	h := newHouse(t, "MAX_BLOB_BYTES=1000")
	d := newTestDevice(t, newKey(t), "", h)
	attach(t, d, bytesOf(13, 2000))
	const small = 8
	for range small {
		attach(t, d, bytesOf(14, 10))
	}
	syncAll(t, d)
	if r := soleRelay(t, d); r.Blobs != 1 || h.puts.Load() < small {
		t.Errorf("%d blobs are owed, %d chunks were sent", r.Blobs, h.puts.Load())
	}
}

func TestForgottenDuringDelivery(t *testing.T) {
	h := newHouse(t)
	d := newTestDevice(t, newKey(t), "", h)
	attach(t, d, bytesOf(15, 10))
	before := soleRelay(t, d)
	h.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			if done, err := d.store.Forget(before.ID, before.Generation, d.o.Now()); !done || err != nil {
				t.Errorf("forgotten: %v, %v", done, err)
			}
		}
		return false
	}, nil)
	l := d.newLink(before, true, nil)
	if err := l.blobs(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if n := soleRelay(t, d).Blobs; n != 1 {
		t.Errorf("%d blobs are owed, want the one", n)
	}
}

func TestDeletedBlobIsOwedNoMore(t *testing.T) {
	h := newHouse(t)
	d := newTestDevice(t, newKey(t), "", h)
	m := attach(t, d, bytesOf(12, chunk))
	if _, err := d.Put(edit(blobTable, m.BlobID, "")); err != nil {
		t.Fatal(err)
	}
	syncAll(t, d)
	if r := soleRelay(t, d); r.Blobs != 0 || h.puts.Load() != 0 {
		t.Errorf("%d owed, %d chunks sent", r.Blobs, h.puts.Load())
	}
}
