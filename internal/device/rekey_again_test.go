package device

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// owners returns the owner that a device has, and that of another credential.
func owners(t *testing.T, d *Device, credential string) (from, to *synccrypt.Identity) {
	t.Helper()
	from, err := d.identity()
	if err != nil {
		t.Fatal(err)
	}
	to, _, err = synccrypt.ParseCredential(credential)
	if err != nil {
		t.Fatal(err)
	}
	return from, to
}

// L11: a further re-key does not close the owner before the last at a relay that
// has not everything under the last one. When that is closed there too, as by
// another device, nothing more can come there, and it does.
func TestRekeyBeforeTheLastIsOver(t *testing.T) {
	for _, closed := range []bool{false, true} {
		h := newHouse(t)
		was, now, later := newKey(t), newKey(t), newKey(t)
		d := newTestDevice(t, was, "", h)
		putRow(t, d, "t", "1", `{}`)
		syncAll(t, d)
		from, to := owners(t, d, now)
		if err := d.changeOwner(from, to, now); err != nil {
			t.Fatal(err)
		}
		if closed {
			other := newTestDevice(t, now, "other", h)
			putRow(t, other, "t", "2", `{}`)
			syncAll(t, other)
			rekey(t, other, later)
			wantClosed(t, h, now, true)
		} else {
			h.set(func(w http.ResponseWriter, r *http.Request) bool {
				push := r.Method == http.MethodPost && r.URL.Path == "/v1/events"
				if push {
					w.WriteHeader(http.StatusInternalServerError)
				}
				return push
			}, nil)
			err := d.Rekey(t.Context(), later, RekeyOptions{})
			if !errors.Is(err, ErrRekeyUnclosed) || !strings.Contains(err.Error(), h.door.URL) {
				t.Errorf("%v", err)
			}
			wantClosed(t, h, was, false)
			if d.OwnerID() != to.OwnerID {
				t.Error("re-keyed all the same")
			}
			h.set(nil, nil)
		}
		rekey(t, d, later)
		wantSettled(t, d, later)
		wantClosed(t, h, was, true)
		b := newTestDevice(t, later, "b", h)
		syncAll(t, b)
		wantRow(t, b, "t", "1", `{}`)
	}
}

// A relay that never comes back can be taken away, or a second re-key forced.
func TestRekeyPastLostRelay(t *testing.T) {
	for _, force := range []bool{false, true} {
		lost := newHouse(t)
		now, later := newKey(t), newKey(t)
		d := newTestDevice(t, newKey(t), "", lost)
		putRow(t, d, "t", "1", `{}`)
		syncAll(t, d)
		lost.set(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, nil)
		if err := d.Rekey(t.Context(), now, RekeyOptions{Force: true}); !errors.Is(err, ErrRekeyPending) {
			t.Fatal(err)
		}
		if force {
			if err := d.Rekey(t.Context(), later, RekeyOptions{Force: true}); !errors.Is(err, ErrRekeyPending) {
				t.Errorf("forced twice: %v", err)
			}
			if _, old, err := d.place().read(oldFile); err != nil || old != now {
				t.Errorf("the old credential is not the last: %v", err)
			}
			continue
		}
		if err := d.RemoveRelay(lost.door.URL); err != nil {
			t.Fatal(err)
		}
		rekey(t, d, later)
		wantSettled(t, d, later)
	}
}

// An answer to the old owner that comes after a re-key by another process says
// nothing of the new one: the relay is not closed, and does not back off (D34,
// D39).
func TestRekeyUnderAPull(t *testing.T) {
	h := newHouse(t)
	was, now := newKey(t), newKey(t)
	d := newTestDevice(t, was, "", h)
	putRow(t, d, "t", "1", `{}`)
	syncAll(t, d)
	from, to := owners(t, d, now)
	h.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/events" || r.Method != http.MethodGet {
			return false
		}
		h.set(nil, nil)
		if err := d.changeOwner(from, to, now); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusGone)
		return true
	}, nil)
	if _, err := d.Sync(t.Context(), SyncOptions{}); !errors.Is(err, devicestore.ErrOwnerChanged) {
		t.Errorf("sync: %v", err)
	}
	relays, err := d.store.Relays()
	if err != nil || len(relays) != 1 {
		t.Fatal(relays, err)
	}
	if r := relays[0]; r.Closed || r.Pull != (devicestore.Lane{}) {
		t.Errorf("closed %v, receiving %+v", r.Closed, r.Pull)
	}
	syncAll(t, d)
	wantSettled(t, d, now)
}
