package devicefaults

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/testdevice"
)

// mostRequests bounds the requests of one Sync with one relay, whatever it
// answers: 256 pages without anything new end a drain, and the few rows of
// these tests take not many more (H3).
const mostRequests = 400

// newTrap is a host that devices have no business with: whatever comes there is
// a fault (H5). It returns its URL.
func newTrap(t *testing.T) string {
	t.Helper()
	var caught atomic.Int64
	trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		caught.Add(1)
		t.Errorf("H5: %s %s came to another host, with the token: %v", r.Method, r.URL.Path, r.Header.Get("Authorization") != "")
	}))
	t.Cleanup(trap.Close)
	return trap.URL
}

// foreign is an envelope of an owner who is not the one of the test.
func foreign(t *testing.T) []byte {
	t.Helper()
	_, other := newOwner(t)
	hlc, err := synccrypt.Tick(synccrypt.HLC{}, today, "stranger")
	must(t, err)
	e, err := other.Seal(nil, &synccrypt.Payload{
		SchemaVersion: 1, Table: "notes", ID: "of a stranger", HLC: hlc.String(), Row: []byte(`{}`),
	}, "stranger", today, rand.Reader)
	must(t, err)
	return e
}

func liarFor(t *testing.T, seed uint64, lies ...lie) *liar {
	l := newLiar(mathrand.New(mathrand.NewPCG(seed, 2)), lies...)
	l.trap, l.other = newTrap(t), foreign(t)
	return l
}

// fill has one device write and push rows, with a few edits and a deletion.
func (b *bed) fill(d *testdevice.Device, rows int) {
	b.t.Helper()
	for i := range rows {
		b.write(d, fmt.Sprint("row ", i))
	}
	b.write(d, "row 0", "row 1")
	b.remove(d, "row 2")
	b.sync(d)
}

// TestEachLie: H1 to H5, D11, D34: one relay after the other that always lies
// in the same way to a device which pulls and pushes. What it refused is
// counted under the reason of the lie.
func TestEachLie(t *testing.T) {
	seed := newSeed(t)
	reasons := map[string]string{
		"flipped ciphertext": "bad_tag", "flipped nonce": "bad_tag", "flipped eventId": "bad_tag",
		"flipped deviceId": "bad_tag", "flipped createdAt": "bad_tag", "flipped streamId": "bad_tag",
		"flipped ownerId": "other_owner", "version 2": "bad_envelope", "without its stream": "bad_tag",
		"no envelope": "bad_envelope", "swapped bodies": "bad_tag", "another owner's": "other_owner",
		"a cursor of noise": "bad_cursor", "a huge cursor": "bad_cursor", "no cursor": "bad_cursor",
	}
	every := scale(1, 3) // of the lies is told, which ones by the seed
	for i, lie := range slices.Concat(pageLies, cursorLies, statusLies, pushLies) {
		if (uint64(i)+seed)%uint64(every) != 0 {
			continue
		}
		t.Run(lie.name, func(t *testing.T) {
			b := newBed(t, "SEQ_FLOOR=clock")
			writer := b.device("writer", device.Options{})
			b.fill(writer, 12)
			victim := b.device("victim", device.Options{PullEvents: 5, PushEvents: 5})
			if lie.match != nil { // it has synced before, so that a lost relay means something
				b.sync(victim)
				b.fill(writer, 6)
			}
			l := liarFor(t, seed, lie)
			b.lie(l.answer)
			b.write(victim, "mine", "row 3")
			for range 4 {
				b.count()
				err := victim.Cycle() // an answer that makes no sense may be an error
				if n := b.count(); n > mostRequests {
					t.Fatalf("H3: %d requests in one Sync, which ended with %v", n, err)
				}
				b.ledger.True(victim)
				b.later(time.Minute)
			}
			if l.times(lie.name) == 0 {
				t.Fatal("the lie was never told")
			}
			if want := reasons[lie.name]; want != "" && refused(victim, want) == 0 {
				t.Errorf("H4: nothing was refused as %q: %+v", want, victim.State().Relays)
			}
			b.lie(nil)
			b.startOver()
			b.settle()
		})
	}
}

// TestLiesAtRandom: H1 to H5 with three devices and a relay that lies in all
// ways at random; at last it is honest, and taken up anew.
func TestLiesAtRandom(t *testing.T) {
	seed := newSeed(t)
	runs := scale(6, 2)
	if *seedFlag != 0 {
		runs = 1
	}
	for i := range runs {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := mathrand.New(mathrand.NewPCG(seed, 3))
			b := newBed(t, "SEQ_FLOOR=clock")
			l := liarFor(t, seed, slices.Concat(pageLies, cursorLies, statusLies, pushLies)...)
			l.odds = 0.4
			b.lie(l.answer)
			for _, name := range []string{"a", "b", "c"} {
				b.device(name, device.Options{PullEvents: 1 + rng.IntN(6), PushEvents: 1 + rng.IntN(6)})
			}
			failed := 0
			for range 120 {
				b.later(time.Duration(rng.Int64N(int64(time.Minute))))
				d := b.fleet[rng.IntN(3)]
				if rng.IntN(2) == 0 {
					b.write(d, fmt.Sprint("row ", rng.IntN(15)))
					continue
				}
				b.count()
				err := d.Cycle()
				if n := b.count(); n > mostRequests {
					t.Fatalf("H3: %d requests in one Sync, which ended with %v", n, err)
				}
				if err != nil {
					failed++
				}
				b.ledger.True(d)
			}
			told, kinds := l.kinds()
			var counted int64
			for _, d := range b.fleet {
				counted += refusals(d)
			}
			b.lie(nil)
			b.startOver()
			rounds := b.settle()
			t.Logf("%d lies of %d kinds, %d refusals, %d syncs failed, %d rounds", told, kinds, counted, failed, rounds)
			if told < 20 || counted == 0 {
				t.Error("too few lies to prove anything")
			}
		})
	}
}

// TestGivenLater: D11 and D32: what was scrambled or withheld is no more "seen"
// than if it had never come: given right later, by a relay that nobody starts
// over with, it is applied.
func TestGivenLater(t *testing.T) {
	seed := newSeed(t)
	for i := range scale(4, 1) {
		b := newBed(t)
		writer := b.device("writer", device.Options{})
		b.fill(writer, 30)
		l := liarFor(t, seed+uint64(i), pageLies...)
		l.odds = 0.9 // with less, one run in a thousand would miss nothing
		b.lie(l.answer)
		reader := b.device("reader", device.Options{PullEvents: 4})
		for range 3 {
			_ = reader.Cycle() // a page that leads nowhere is an error
			b.ledger.True(reader)
		}
		if b.ledger.Differences(reader) == "" {
			t.Error("the reader missed nothing: the lies did not matter")
		}
		b.lie(l.late)
		b.write(writer, "one more")
		b.settle()
	}
}

// TestThrownAway: H2 and H4: a relay that acknowledges what it does not keep is
// found out by the device that pushed: what never comes back is pushed again, a
// bounded number of times, and then counted as withheld.
func TestThrownAway(t *testing.T) {
	b := newBed(t)
	writer := b.device("writer", device.Options{})
	b.write(writer, "kept")
	b.sync(writer)
	thrown := liarFor(t, 1, pushLies[0])
	b.lie(func(w http.ResponseWriter, r *http.Request, body []byte, ask ask) bool {
		return thrown.times("thrown away") == 0 && thrown.answer(w, r, body, ask)
	})
	b.write(writer, "thrown away once")
	b.sync(writer)
	if n := thrown.times("thrown away"); n != 1 {
		t.Fatalf("%d pushes were thrown away", n)
	}
	b.lie(nil)
	reader := b.device("reader", device.Options{})
	b.settle()

	b.lie(thrown.answer)
	b.write(writer, "thrown away for ever")
	before := thrown.times("thrown away")
	for range 12 {
		b.sync(writer)
		b.later(time.Minute)
	}
	if n := thrown.times("thrown away") - before; n < 2 || n > 6 {
		t.Errorf("H3: it was pushed %d times, want the first and at most a few more", n)
	}
	if refused(writer, "withheld") != 1 {
		t.Errorf("H4: withheld is counted %d times, want 1: %+v", refused(writer, "withheld"), writer.State().Relays)
	}
	b.lie(nil)
	b.startOver()
	b.settle()
	b.same("started over", writer, reader)
}

// TestLiedGone: D34: 410 is terminal and says what to do; pulls and pushes
// stop. A relay that lied so is taken up again by adding it anew.
func TestLiedGone(t *testing.T) {
	b := newBed(t)
	d := b.device("d", device.Options{})
	b.write(d, "a")
	b.sync(d)
	l := liarFor(t, 1, status(410, `{"error":"owner_closed","message":"gone"}`))
	b.lie(l.answer)
	b.write(d, "b")
	mustBe(t, d.Cycle(), device.ErrOwnerClosed)
	if state := string(d.State().Relays[0].State); state != "closed" {
		t.Errorf("state %q, want closed", state)
	}
	b.lie(nil)
	b.startOver()
	b.device("other", device.Options{})
	b.settle()
}

// TestTokenStaysHome: H5: the token goes to the relay's address only, in a
// header only, and not to /health.
func TestTokenStaysHome(t *testing.T) {
	b := newBed(t)
	d := b.device("d", device.Options{})
	b.lie(func(_ http.ResponseWriter, r *http.Request, body []byte, _ ask) bool {
		token := b.owner.RelayAuth
		if strings.Contains(r.URL.String(), token) || strings.Contains(string(body), token) {
			t.Errorf("H5: the token is in %s %s or its body", r.Method, r.URL)
		}
		if has := r.Header.Get("Authorization") == "Bearer "+token; has != anyV1(r) {
			t.Errorf("H5: %s: the token is sent: %v", r.URL.Path, has)
		}
		return false
	})
	b.write(d, "a", "b")
	b.sync(d)
	if b.asked("POST /v1/events") == 0 || b.asked("GET /v1/events") == 0 || b.asked("GET /health") == 0 {
		t.Error("not all routes were asked")
	}
}
