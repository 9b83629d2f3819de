package device

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

func rekey(t *testing.T, d *Device, credential string) {
	t.Helper()
	if err := d.Rekey(t.Context(), credential, RekeyOptions{}); err != nil {
		t.Fatalf("re-key of %s: %v", d.DeviceID(), err)
	}
}

// wantSettled wants a re-key to be over.
func wantSettled(t *testing.T, d *Device, credential string) {
	t.Helper()
	p := d.place()
	if p.has(oldFile) || p.has(nextFile) || p.has(writtenFile) {
		t.Errorf("%s: the re-key is not over", d.DeviceID())
	}
	_, there, err := p.read(credentialFile)
	if err != nil || there != credential {
		t.Errorf("%s: another credential is in the file, %v", d.DeviceID(), err)
	}
	if relays, err := d.store.Relays(); err != nil {
		t.Error(err)
	} else {
		for _, r := range relays {
			if owners, err := d.store.OldOwners(r.ID); err != nil || len(owners) > 0 {
				t.Errorf("%s: %s has still to close %v, %v", d.DeviceID(), r.URL, owners, err)
			}
		}
	}
}

func wantClosed(t *testing.T, h *house, credential string, want bool) {
	t.Helper()
	if _, _, closed := h.account(credential); closed != want {
		t.Errorf("the owner is closed: %v, want %v", closed, want)
	}
}

// D39 with two devices and one or two relays: the first re-keys, the second
// learns that it has to and follows. Nothing is lost, and blobs can be had by
// both and by a third that has the new phrase alone.
func TestRekeyAndFollow(t *testing.T) {
	for _, count := range []int{1, 2} {
		houses := []*house{newHouse(t), newHouse(t)}[:count]
		was, now := newKey(t), newKey(t)
		a, b := newTestDevice(t, was, "a", houses...), newTestDevice(t, was, "b", houses...)
		small, large := bytesOf(1, 10), bytesOf(2, 2*chunk+1)
		putRow(t, a, "t", "a", `{"a":1}`)
		putRow(t, b, "t", "b", `{"b":1}`)
		putRow(t, b, "t", "gone", `{}`)
		fromA, fromB := attach(t, a, small), attach(t, b, large)
		syncAll(t, a, b, a)
		wantBlob(t, b, fromA.BlobID, small) // which b holds then
		if _, err := b.Put(edit("t", "gone", "")); err != nil {
			t.Fatal(err)
		}
		syncAll(t, b)

		rekey(t, a, now)
		wantSettled(t, a, now)
		for _, h := range houses {
			wantClosed(t, h, was, true)
		}
		resealed, err := a.Get(devicestore.Key{Table: blobTable, ID: fromA.BlobID})
		if err != nil {
			t.Fatal(err)
		}

		putRow(t, b, "t", "late", `{"b":2}`)
		if _, err := b.Sync(t.Context(), SyncOptions{}); !errors.Is(err, ErrOwnerClosed) {
			t.Errorf("the second is told %v", err)
		}
		rekey(t, b, now)
		wantSettled(t, b, now)
		syncAll(t, a, b)
		c := newTestDevice(t, now, "c", houses[count-1])
		syncAll(t, c)
		for _, d := range []*Device{a, b, c} {
			wantRow(t, d, "t", "a", `{"a":1}`)
			wantRow(t, d, "t", "b", `{"b":1}`)
			wantRow(t, d, "t", "late", `{"b":2}`)
			if r, err := d.Get(devicestore.Key{Table: "t", ID: "gone"}); err != nil || !r.Deleted {
				t.Errorf("%s: the deleted row is %+v, %v", d.DeviceID(), r, err)
			}
			wantBlob(t, d, fromA.BlobID, small)
			wantBlob(t, d, fromB.BlobID, large)
		}
		if r, err := b.Get(resealed.Key); err != nil || r.HLC != resealed.HLC {
			t.Errorf("the second device sealed a blob once more: %v, %v", r.HLC, err)
		}
	}
}

func TestRekeyAlone(t *testing.T) {
	now := newKey(t)
	d := newTestDevice(t, newKey(t), "")
	data := bytesOf(3, 10)
	m := attach(t, d, data)
	rekey(t, d, now)
	wantSettled(t, d, now)
	wantBlob(t, d, m.BlobID, data)
	d = openAgain(t, d)
	wantBlob(t, d, m.BlobID, data)
}

// The old credential stays as long as a blob needs it, as when another process
// is at sealing it anew.
func TestRekeyKeepsCredentialForBlobs(t *testing.T) {
	now := newKey(t)
	d := newTestDevice(t, newKey(t), "")
	m := attach(t, d, bytesOf(3, 10))
	old, err := d.identity()
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := synccrypt.ParseCredential(now)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.changeOwner(old, next, now); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockPath(d.place().path(oldFile), syscall.LOCK_EX, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.finishAlone(t.Context()); err != nil || !d.place().has(oldFile) {
		t.Errorf("the credential is gone, %v", err)
	}
	unlock()
	if err := d.finishAlone(t.Context()); err != nil {
		t.Error(err)
	}
	wantSettled(t, d, now)
	wantBlob(t, d, m.BlobID, bytesOf(3, 10))
}

func TestRekeyRefuses(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	now := time.Now()
	d := newTestDevice(t, key, "", h)
	putRow(t, d, "t", "1", `{}`)
	syncAll(t, d)
	f := func(credential string, want error) {
		t.Helper()
		err := d.Rekey(t.Context(), credential, RekeyOptions{})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if err != nil && len(credential) > 9 && strings.Contains(err.Error(), credential[4:]) {
			t.Errorf("the error tells the credential: %v", err)
		}
		wantSettled(t, d, key)
		if o, err := d.store.Owner(); err != nil || o != d.OwnerID() {
			t.Errorf("owner %s, %v", o, err)
		}
		wantClosed(t, h, key, false)
	}
	f(key, ErrSameOwner)
	f(" "+key+"\n", ErrSameOwner)
	f("sf1_x", synccrypt.ErrCredential)

	// The relay is down.
	h.set(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, nil)
	err := d.Rekey(t.Context(), newKey(t), RekeyOptions{})
	h.set(nil, nil)
	if !errors.Is(err, ErrRekeyUnready) || !strings.Contains(err.Error(), h.door.URL) {
		t.Errorf("%v does not name the relay", err)
	}
	f(key, ErrSameOwner) // and nothing has changed

	// A blob that nobody can give.
	other := newTestDevice(t, key, "other", h)
	m := attach(t, other, bytesOf(4, 10))
	h.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		return r.Method == http.MethodPut
	}, nil)
	syncAll(t, other)
	h.set(nil, nil)
	f(newKey(t), ErrRekeyUnready)
	syncAll(t, other) // brings it

	// An event from the future would be lost.
	ahead, err := Create(t.TempDir()+"/ahead", key, "ahead", Options{Now: func() time.Time { return now.Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ahead.Close() }()
	if err := ahead.AddRelay(h.door.URL); err != nil {
		t.Fatal(err)
	}
	putRow(t, ahead, "t", "2", `{}`)
	syncAll(t, ahead)
	f(newKey(t), ErrRekeyUnready)
	next := newKey(t)
	if err := d.Rekey(t.Context(), next, RekeyOptions{Force: true}); err != nil {
		t.Errorf("forced: %v", err)
	}
	wantSettled(t, d, next)
	wantBlob(t, d, m.BlobID, bytesOf(4, 10))
}

// One relay of two cannot be reached: the re-key can be forced, is finished there
// when it is back, and no other one comes between.
func TestRekeyWithOneRelayDown(t *testing.T) {
	up, down := newHouse(t), newHouse(t)
	was, now, later := newKey(t), newKey(t), newKey(t)
	d := newTestDevice(t, was, "", up, down)
	data := bytesOf(5, chunk+1)
	putRow(t, d, "t", "1", `{}`)
	m := attach(t, d, data)
	syncAll(t, d)
	down.set(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, nil)
	if err := d.Rekey(t.Context(), now, RekeyOptions{}); !errors.Is(err, ErrRekeyUnready) {
		t.Fatal(err)
	}
	err := d.Rekey(t.Context(), now, RekeyOptions{Force: true})
	if !errors.Is(err, ErrRekeyPending) || !strings.Contains(err.Error(), down.door.URL) {
		t.Fatalf("forced: %v", err)
	}
	for range 2 { // what is left is done by syncs
		_, _ = d.Sync(t.Context(), SyncOptions{})
	}
	wantClosed(t, up, was, true)
	if !d.place().has(oldFile) {
		t.Fatal("the old credential is gone, and the old owner is open")
	}
	if err := d.Rekey(t.Context(), later, RekeyOptions{}); !errors.Is(err, ErrRekeyUnclosed) {
		t.Errorf("a second re-key: %v", err)
	}
	d = openAgain(t, d)
	down.set(nil, nil)
	wantClosed(t, down, was, false)
	syncAll(t, d)
	wantClosed(t, down, was, true)
	wantSettled(t, d, now)
	rekey(t, d, later)
	wantSettled(t, d, later)
	c := newTestDevice(t, later, "c", down)
	syncAll(t, c)
	wantRow(t, c, "t", "1", `{}`)
	wantBlob(t, c, m.BlobID, data)
}

// The old owner stays open as long as the relay is owed rows or blobs of the
// new one, and another change does not come before that.
func TestFinishRekeyWaits(t *testing.T) {
	h := newHouse(t)
	was, now := newKey(t), newKey(t)
	d := newTestDevice(t, was, "", h)
	putRow(t, d, "t", "1", `{}`)
	syncAll(t, d)
	id := func(key string) *synccrypt.Identity {
		id, _, err := synccrypt.ParseCredential(key)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if err := d.changeOwner(id(was), id(now), now); err != nil {
		t.Fatal(err)
	}
	later := newKey(t)
	if err := d.changeOwner(id(now), id(later), later); !errors.Is(err, ErrRekeyUnclosed) {
		t.Errorf("changed twice: %v", err)
	}
	if err := d.changeOwner(id(was), id(later), later); !errors.Is(err, ErrBusy) {
		t.Errorf("changed from who it is not: %v", err)
	}
	finish := func(closed bool) {
		t.Helper()
		if err := d.finishRekey(t.Context(), soleRelay(t, d)); err != nil {
			t.Error(err)
		}
		wantClosed(t, h, was, closed)
	}
	if soleRelay(t, d).Owed != 1 {
		t.Fatal("the row is not owed")
	}
	finish(false)
	l := d.newLink(soleRelay(t, d), true, nil)
	if err := l.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.store.OweBlob("x"); err != nil {
		t.Fatal(err)
	}
	finish(false)
	if err := l.blobs(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	finish(true)
	wantSettled(t, d, now)
}

// A crash after the change of owner, and at each point after it, leaves work
// that the next sync finds.
func TestRekeyGoesOnAfterCut(t *testing.T) {
	cuts := map[string]func(ctx context.Context, d *Device, old *synccrypt.Identity) error{
		"after the change": func(context.Context, *Device, *synccrypt.Identity) error { return nil },
		"one blob is sealed anew": func(ctx context.Context, d *Device, old *synccrypt.Identity) error {
			held, err := d.oldBlobs(old)
			if err != nil || len(held) != 2 {
				return errors.Join(err, errCut)
			}
			return d.resealBlob(ctx, old, held[1])
		},
		"all blobs are": func(ctx context.Context, d *Device, old *synccrypt.Identity) error { return d.resealBlobs(ctx, old) },
		"the relay has closed": func(ctx context.Context, d *Device, old *synccrypt.Identity) error {
			relays, err := d.store.Relays()
			if err != nil {
				return err
			}
			r, err := d.remote(relays[0].URL, old)
			if err != nil {
				return err
			}
			return r.closeOwner(ctx)
		},
		"that is known": func(_ context.Context, d *Device, old *synccrypt.Identity) error {
			relays, err := d.store.Relays()
			if err != nil {
				return err
			}
			return d.store.OldClosed(relays[0].ID, old.OwnerID)
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			was, now := newKey(t), newKey(t)
			d := newTestDevice(t, was, "a", h)
			putRow(t, d, "t", "1", `{}`)
			one, two := attach(t, d, bytesOf(6, chunk+1)), attach(t, d, bytesOf(7, 1))
			syncAll(t, d)
			old, err := d.identity()
			if err != nil {
				t.Fatal(err)
			}
			next, text, err := synccrypt.ParseCredential(now)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.changeOwner(old, next, text); err != nil {
				t.Fatal(err)
			}
			wantBlob(t, d, one.BlobID, bytesOf(6, chunk+1)) // readable all the time
			if err := cut(t.Context(), d, old); err != nil {
				t.Fatal(err)
			}
			wantBlob(t, d, one.BlobID, bytesOf(6, chunk+1))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = openAgain(t, d)
			syncAll(t, d, d)
			wantSettled(t, d, now)
			if name != "that is known" {
				wantClosed(t, h, was, true)
			}
			b := newTestDevice(t, now, "b", h)
			syncAll(t, b)
			wantRow(t, b, "t", "1", `{}`)
			wantBlob(t, b, one.BlobID, bytesOf(6, chunk+1))
			wantBlob(t, b, two.BlobID, bytesOf(7, 1))
		})
	}
}

// A process that has the device open while another re-keys it goes on as the new
// owner.
func TestRekeyUnderAnotherProcess(t *testing.T) {
	h := newHouse(t)
	was, now := newKey(t), newKey(t)
	d := newTestDevice(t, was, "a", h)
	putRow(t, d, "t", "1", `{}`)
	syncAll(t, d)
	other := openAgain(t, d)
	syncAll(t, other)
	rekey(t, d, now)
	putRow(t, other, "t", "2", `{}`)
	syncAll(t, other)
	m := attach(t, other, []byte("x"))
	syncAll(t, other)
	b := newTestDevice(t, now, "b", h)
	syncAll(t, b)
	wantRow(t, b, "t", "1", `{}`)
	wantRow(t, b, "t", "2", `{}`)
	wantBlob(t, b, m.BlobID, []byte("x"))
	if other.OwnerID() != d.OwnerID() {
		t.Error("two owners")
	}
}

// A blob whose copy here is damaged is given up, and holds up nothing.
func TestRekeyWithDamagedBlob(t *testing.T) {
	now := newKey(t)
	d := newTestDevice(t, newKey(t), "")
	good, bad, wrong := attach(t, d, bytesOf(8, 10)), attach(t, d, bytesOf(9, 10)), attach(t, d, bytesOf(10, 10))
	if err := os.WriteFile(d.chunks().path(bad.Chunks[0].Hash), make([]byte, bad.Chunks[0].Size), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong.SHA256 = good.SHA256
	if err := d.keepManifest(&wrong); err != nil {
		t.Fatal(err)
	}
	rekey(t, d, now)
	wantSettled(t, d, now)
	wantBlob(t, d, good.BlobID, bytesOf(8, 10))
	for _, m := range []synccrypt.Manifest{bad, wrong} {
		if err := d.Fetch(t.Context(), m.BlobID, io.Discard, nil); !errors.Is(err, ErrOldBlob) {
			t.Errorf("a blob that is given up: %v", err)
		}
	}
}

// The old owner is closed although the relay has no room for the blobs: closing
// makes it.
func TestRekeyAtFullRelay(t *testing.T) {
	h := newHouse(t, "MAX_TOTAL_BYTES=900000")
	was, now := newKey(t), newKey(t)
	d := newTestDevice(t, was, "a", h)
	data := bytesOf(11, 2*chunk)
	m := attach(t, d, data)
	syncAll(t, d)
	rekey(t, d, now)
	wantClosed(t, h, was, true)
	syncAll(t, d)
	wantSettled(t, d, now)
	b := newTestDevice(t, now, "b", h)
	var out bytes.Buffer
	eventually := time.Now().Add(time.Minute)
	for {
		syncAll(t, d, b) // the relay takes its time to free what was closed
		err := b.Fetch(t.Context(), m.BlobID, &out, nil)
		if err == nil && bytes.Equal(out.Bytes(), data) {
			break
		}
		if time.Now().After(eventually) {
			t.Fatal(err)
		}
	}
}
