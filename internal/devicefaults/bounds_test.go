package devicefaults

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
	"github.com/sluice-relay/sluice/internal/testdevice"
)

// TestEndlessBody: H6: answers without an end are left after the bound of their
// kind. What the device reads of its connections is counted.
func TestEndlessBody(t *testing.T) {
	const slack = 1 << 20 // for heads, buffers and the answers of other routes
	for what, c := range map[string]struct {
		match func(*http.Request) bool
		limit int64
	}{
		"page":   {pulls, 64 << 20},
		"push":   {pushes, 64 << 10},
		"health": {func(r *http.Request) bool { return r.URL.Path == "/health" }, 64 << 10},
		"status": {func(r *http.Request) bool { return r.URL.Path == "/v1/status" }, 64 << 10},
	} {
		for _, code := range []int{200, 500} {
			if what == "page" && code != 200 {
				c.limit = 64 << 10
			}
			t.Run(fmt.Sprint(what, " ", code), func(t *testing.T) {
				b := newBed(t)
				var taken, times atomic.Int64
				transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					var dialer net.Dialer
					conn, err := dialer.DialContext(ctx, network, addr)
					return countedReads{conn, &taken}, err
				}}
				t.Cleanup(transport.CloseIdleConnections)
				d := b.device("d", device.Options{Transport: transport})
				b.write(d, "a")
				b.lie(func(w http.ResponseWriter, r *http.Request, _ []byte, _ ask) bool {
					if !c.match(r) {
						return false
					}
					times.Add(1)
					w.WriteHeader(code)
					piece := make([]byte, 64<<10)
					for i := range piece {
						piece[i] = '['
					}
					for range (1 << 30) / len(piece) { // or the test would never end
						if _, err := w.Write(piece); err != nil {
							break
						}
					}
					return true
				})
				err := d.Cycle()
				if times.Load() == 0 {
					t.Fatal("it was not asked")
				}
				if most := times.Load()*c.limit + slack; taken.Load() > most {
					t.Errorf("H6: %d bytes were taken in %d answers, want at most %d (%v)", taken.Load(), times.Load(), most, err)
				}
				b.lie(nil)
				b.sync(d)
			})
		}
	}
}

// countedReads counts what is read of a connection.
type countedReads struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countedReads) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// TestEndlessCursors: H3 and H4: pages that go on for ever, with the same
// events under ever new cursors. The drain ends and says so; later pushes and
// pulls of an honest relay work without starting over.
func TestEndlessCursors(t *testing.T) {
	b := newBed(t)
	writer := b.device("writer", device.Options{})
	b.fill(writer, 5)
	victim := b.device("victim", device.Options{})
	var first atomic.Pointer[page]
	var count atomic.Int64
	b.lie(func(w http.ResponseWriter, r *http.Request, _ []byte, ask ask) bool {
		if !pulls(r) {
			return false
		}
		if first.Load() == nil {
			if p, ok := parsePage(ask()); ok {
				first.Store(&p)
			}
		}
		p := *first.Load()
		p.NextCursor = strconv.FormatInt(1+count.Add(1), 10)
		return p.send(w)
	})
	for range scale(3, 1) {
		b.count()
		_ = victim.Cycle()
		if n := b.count(); n > mostRequests {
			t.Errorf("H3: %d requests", n)
		}
	}
	if refused(victim, "no_progress") == 0 {
		t.Errorf("H4: %+v", victim.State().Relays)
	}
	b.ledger.True(victim)
}

// relayInMemory is a transport that answers with a handler, without a network,
// so that time is the bubble's.
type relayInMemory struct {
	handler  http.HandlerFunc
	mu       sync.Mutex
	requests map[string]int
}

// RoundTrip implements http.RoundTripper.
func (m *relayInMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.requests[r.URL.Path]++
	m.mu.Unlock()
	w := httptest.NewRecorder()
	m.handler(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (m *relayInMemory) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.requests {
		n += of
	}
	return n
}

// sayHealth answers /health, with the wait route or without.
func sayHealth(w http.ResponseWriter, r *http.Request, waits bool) bool {
	if r.URL.Path != "/health" {
		return false
	}
	features := `[]`
	if waits {
		features = `["wait"]`
	}
	return say(w, 200, `{"ok":true,"service":"x","version":"1","features":`+features+`}`)
}

// TestFollowDoesNotSpin: H3: Follow with relays that answer always the same,
// for up to half an hour that takes no time. Requests are bounded for each minute;
// those of the first minute and of pages that never end have their own bound.
func TestFollowDoesNotSpin(t *testing.T) {
	minutes := scale(30, 8)
	empty := `{"events":[],"nextCursor":"1"}`
	for name, c := range map[string]struct {
		most   int // requests
		answer http.HandlerFunc
	}{
		// At the pace of 5 s a cycle is a few requests.
		"500":       {80 * minutes, func(w http.ResponseWriter, _ *http.Request) { say(w, 500, `{}`) }},
		"garbage":   {80 * minutes, func(w http.ResponseWriter, _ *http.Request) { say(w, 200, `x`) }},
		"not there": {80 * minutes, func(w http.ResponseWriter, _ *http.Request) { say(w, 404, ``) }},
		// Five minutes apart, each with a few requests.
		"401": {10 * minutes, func(w http.ResponseWriter, r *http.Request) { _ = sayHealth(w, r, true) || say(w, 401, `{}`) }},
		"413": {10 * minutes, func(w http.ResponseWriter, r *http.Request) { _ = sayHealth(w, r, true) || say(w, 413, `{}`) }},
		"429": {10 * minutes, func(w http.ResponseWriter, r *http.Request) { _ = sayHealth(w, r, true) || say(w, 429, `{}`) }},
		// Closed is closed.
		"410": {40, func(w http.ResponseWriter, r *http.Request) { _ = sayHealth(w, r, true) || say(w, 410, `{}`) }},
		"a wait that does not wait": {80 * minutes, func(w http.ResponseWriter, r *http.Request) {
			_ = sayHealth(w, r, true) || r.URL.Path == "/v1/events/wait" && say(w, 200, empty) || answerOthers(w, r)
		}},
		"a wait that says 204 at once": {80 * minutes, func(w http.ResponseWriter, r *http.Request) {
			_ = sayHealth(w, r, true) || r.URL.Path == "/v1/events/wait" && say(w, 204, ``) || answerOthers(w, r)
		}},
		"a wait that is not there": {80 * minutes, func(w http.ResponseWriter, r *http.Request) {
			_ = sayHealth(w, r, true) || r.URL.Path == "/v1/events/wait" && say(w, 404, `{"error":"not_found"}`) || answerOthers(w, r)
		}},
		"events that are none, always": {80*minutes + 10*256, endlessPages(`[{"version":1}]`)},
		"lost again and again": {80 * minutes, func(w http.ResponseWriter, r *http.Request) {
			_ = sayHealth(w, r, false) || pushes(r) && say(w, 200, countAll(r)) || say(w, 404, `{"error":"unknown_owner"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			phrase, _ := newOwner(t)
			synctest.Test(t, func(t *testing.T) {
				m := &relayInMemory{handler: c.answer, requests: map[string]int{}}
				d := testdevice.New(t, phrase, "d", time.Now(), device.Options{Transport: m, Now: time.Now})
				must(t, d.AddRelay("http://relay"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(minutes)*time.Minute)
				defer cancel()
				d.Write(devicestore.Edit{Key: key("a"), Data: []byte(`{}`)})
				err := d.Follow(ctx, device.FollowOptions{})
				if err != nil && ctx.Err() == nil {
					t.Fatalf("Follow ended: %v", err)
				}
				if n := m.total(); n > c.most || n < 2 {
					t.Errorf("H3: %d requests in %d minutes, want 2 to %d: %v", n, minutes, c.most, m.requests)
				} else {
					t.Logf("%d requests in %d minutes: %v", n, minutes, m.requests)
				}
			})
		})
	}
}

// answerOthers answers the routes besides wait as an owner who has nothing new.
func answerOthers(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case pushes(r):
		return say(w, 200, countAll(r))
	case pulls(r):
		return say(w, 200, `{"events":[],"nextCursor":"1"}`)
	}
	return say(w, 200, `{"server":{},"account":{"createdAt":"2026-01-01T00:00:00.000Z","headSeq":1,"events":1,"usedBytes":1,"quotaBytes":10}}`)
}

// countAll counts all events of a push as accepted.
func countAll(r *http.Request) string {
	var push struct{ Events []json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&push)
	return fmt.Sprintf(`{"accepted":%d,"duplicate":0}`, len(push.Events))
}

// endlessPages answers each pull with the same events under a new cursor.
func endlessPages(events string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		_ = sayHealth(w, r, true) ||
			pulls(r) && say(w, 200, fmt.Sprintf(`{"events":%s,"nextCursor":"%d"}`, events, n.Add(1))) ||
			answerOthers(w, r)
	}
}
