package device

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// A delivery of chunks that takes long holds up no row, and is not begun a second
// time beside itself.
func TestRowsPassChunks(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, "a", h), newTestDevice(t, key, "b", h)
	held, release := make(chan struct{}, 64), make(chan struct{})
	h.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			held <- struct{}{}
			<-release
		}
		return false
	}, nil)
	m := attach(t, a, bytesOf(5, 2*chunk))
	follow(t, a, -1)
	<-held
	putRow(t, a, "t", "1", `{}`)
	putRow(t, a, "t", "2", `{}`)
	eventually(t, "both rows at the relay", func() bool {
		syncAll(t, b)
		_, err := b.Get(devicestore.Key{Table: "t", ID: "2"})
		return err == nil
	})
	if n := soleRelay(t, a).Blobs; n != 1 || h.puts.Load() > 2 {
		t.Errorf("%d blobs are owed, %d chunks were sent, want one blob of two chunks under way", n, h.puts.Load())
	}
	close(release)
	delivered := func() bool { rel := soleRelay(t, a); return rel.Blobs == 0 && rel.Owed == 0 }
	eventually(t, "the chunks at the relay", delivered)
	other := attach(t, a, bytesOf(6, chunk))
	eventually(t, "a later blob and then its manifest at the relay", delivered)
	h.set(nil, nil)
	if _, err := b.Sync(t.Context(), SyncOptions{Blobs: true}); err != nil {
		t.Fatal(err)
	}
	wantBlob(t, b, m.BlobID, bytesOf(5, 2*chunk))
	wantBlob(t, b, other.BlobID, bytesOf(6, chunk))
}

// A relay without room for chunks is left alone for its pause: that a delivery
// has ended does not begin the next one.
func TestFullRelayIsLeftAlone(t *testing.T) {
	d, s, c := scripted(t, Options{})
	if _, err := d.Attach(t.Context(), bytes.NewReader(bytesOf(7, chunk)), "", "", nil); err != nil {
		t.Fatal(err)
	}
	s.on("", say(413, `{"error":"quota_exceeded"}`)) // chunks
	pusher, _ := loner(t, d)
	s.count("")
	for i := range 4 {
		pause, err := waited(t, pusher, false)
		if err != nil || pause != 5*time.Minute || len(pusher.push) != 0 {
			t.Errorf("%d: rests %v, %v, poked %d times", i, pause, err, len(pusher.push))
		}
	}
	if n := s.count(""); n != 1 {
		t.Errorf("%d requests in the pause", n)
	}
	c.advance(5 * time.Minute)
	s.on("", say(200, `{}`))
	if _, err := waited(t, pusher, false); err != nil || relayOf(t, d).Blobs != 0 {
		t.Errorf("after the pause: %v, %+v", err, relayOf(t, d))
	}
}

// waited is a step of a pusher that has waited for its delivery. On a machine so
// busy that this took longer than chunksFirst, it is the step after the poke
// that such a delivery leaves.
func waited(t *testing.T, p *pusher, urgent bool) (time.Duration, error) {
	t.Helper()
	pause, err := p.once(t.Context(), urgent)
	p.f.group.Wait()
	for p.delivering != nil && len(p.push) > 0 {
		<-p.push
		pause, err = p.once(t.Context(), false)
		p.f.group.Wait()
	}
	return pause, err
}

// A delivery that the pusher does not wait for any more tells it of its end, so
// that what comes after it, as the end of a re-key, is done.
func TestLateDeliveryPokes(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	if _, err := d.Attach(t.Context(), bytes.NewReader(bytesOf(7, chunk)), "", "", nil); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	s.on("", func(w http.ResponseWriter, r *http.Request, body []byte) { // chunks
		<-release
		say(200, `{}`)(w, r, body)
	})
	pusher, _ := loner(t, d)
	pause, err := pusher.once(t.Context(), false)
	if rel := relayOf(t, d); err != nil || pause != untilPoked || rel.Blobs != 1 || rel.Owed != 0 || len(pusher.push) != 0 {
		t.Errorf("under way: rests %v, %v, %+v", pause, err, rel)
	}
	close(release)
	pusher.f.group.Wait()
	if rel := relayOf(t, d); rel.Blobs != 0 || len(pusher.push) != 1 {
		t.Errorf("poked %d times, %+v", len(pusher.push), rel)
	}
}
