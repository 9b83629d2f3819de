package sync

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// waiting opens a connection that waits, as long as one may, and returns it once
// total do.
func (r *rig) waiting(total int64, params string) *relaytest.Conn {
	r.t.Helper()
	c := r.dial()
	_ = c.SendString(head("GET", "/v1/events/wait"+query+"&timeout=60000"+params, tokenA))
	r.wait(total)
	return c
}

// wait waits until total devices wait.
func (r *rig) wait(total int64) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%d wait", total), func() bool { return r.surface.Counters().Waiting == total })
}

// TestWait: S52: a page at once, a page as soon as an event exists, or 204.
func TestWait(t *testing.T) {
	r := newRig(t)
	r.pushed(1, 0, event("1", "", "x"))
	events, next := r.page(r.do("GET", "/v1/events/wait"+query, tokenA, ""))
	if len(events) != 1 || next != "1" {
		t.Errorf("at once: %q, %s", events, next)
	}
	res := r.do("GET", "/v1/events/wait"+query+"&after=1&timeout=0", tokenA, "")
	if res.Status != 204 || len(res.Body) != 0 {
		t.Errorf("timeout=0: %d %q", res.Status, res.Body)
	}
	start := time.Now()
	res = r.do("GET", "/v1/events/wait"+query+"&after=1&timeout=120", tokenA, "")
	if took := time.Since(start); res.Status != 204 || took < 120*time.Millisecond {
		t.Errorf("timeout=120: %d after %v", res.Status, took)
	}

	a, b := r.waiting(1, "&after=1"), r.waiting(2, "&after=1&limit=1")
	other := r.dial() // waits for another owner: nobody wakes it
	foreign := strings.ReplaceAll(pushBody(), owner, "other")
	r.wantBody("other owner", r.do("POST", "/v1/events", tokenB, foreign), `{"accepted":0,"duplicate":0}`)
	_ = other.SendString(head("GET", "/v1/events/wait?ownerId=other", tokenB))
	r.wait(3)
	r.pushed(0, 1, event("1", "", "x")) // a duplicate is no news
	r.pushed(2, 0, event("2", "", "x"), event("3", "", "x"))
	if events, next := r.page(r.read(a, "GET")); len(events) != 2 || next != "3" {
		t.Errorf("woken: %q, %s", events, next)
	}
	if events, next := r.page(r.read(b, "GET")); len(events) != 1 || next != "2" {
		t.Errorf("woken with a limit: %q, %s", events, next)
	}
	r.wait(1)
	// The connection goes on.
	_ = a.SendString(head("GET", "/v1/events/wait"+query+"&after=1", tokenA))
	if events, _ := r.page(r.read(a, "GET")); len(events) != 2 {
		t.Errorf("again: %q", events)
	}
}

// TestWaitRefused: the same checks and answers as a pull (S52).
func TestWaitRefused(t *testing.T) {
	r := newRig(t)
	r.unknownWait("before the owner", tokenA, "", 404, "unknown_owner")
	r.pushed(0, 0)
	r.unknownWait("other token", tokenB, "", 401, "unauthorized")
	r.unknownWait("no token", "", "", 401, "unauthorized")
	r.unknownWait("stale", tokenA, "&after=9007199254740991", 404, "stale_cursor")
	r.want("no owner", r.do("GET", "/v1/events/wait", tokenA, ""), 400, "bad_request")
	r.want("POST", r.do("POST", "/v1/events/wait"+query, tokenA, ""), 405, "method_not_allowed")
}

func (r *rig) unknownWait(what, token, params string, status int, code string) {
	r.t.Helper()
	r.want(what, r.do("GET", "/v1/events/wait"+query+params, token, ""), status, code)
}

// TestWaitEnds: closing the owner ends a wait with the usual answer, so does the
// end of the relay, and the loss of a connection frees its seat.
func TestWaitEnds(t *testing.T) {
	r := newRig(t)
	r.pushed(0, 0)
	c := r.waiting(1, "")
	lost := r.waiting(2, "")
	_ = lost.Reset()
	r.wait(1)
	r.wantBody("close", r.do("POST", "/v1/owner/close", tokenA, `{"ownerId":"`+owner+`"}`),
		`{"closed":true,"deletedEvents":0,"deletedBlobs":0}`)
	r.want("closed", r.read(c, "GET"), 410, "owner_closed")

	r = newRig(t)
	r.pushed(0, 0)
	var all []*relaytest.Conn
	for i := range 200 { // more than one slice of answers
		all = append(all, r.waiting(int64(i)+1, ""))
	}
	r.surface.StopWaiting()
	for _, c := range all {
		if res := r.read(c, "GET"); res.Status != 204 {
			t.Fatalf("end of the relay: %d", res.Status)
		}
	}
	if res := r.do("GET", "/v1/events/wait"+query, tokenA, ""); res.Status != 204 {
		t.Errorf("after the end: %d", res.Status)
	}
}

// TestWaitSeats: beyond the limit 429, which is about waiting only.
func TestWaitSeats(t *testing.T) {
	r := newLimitedRig(t, func(s *Surface) { s.waits.limit = 2 })
	r.pushed(1, 0, event("1", "", "x"))
	a, b := r.waiting(1, "&after=1"), r.waiting(2, "&after=1")
	res := r.do("GET", "/v1/events/wait"+query+"&after=1", tokenA, "")
	r.want("third", res, 429, "too_many_waiting")
	if res.Header.Get("Retry-After") == "" {
		t.Error("S52: no Retry-After")
	}
	if events, _ := r.page(r.do("GET", "/v1/events/wait"+query, tokenA, "")); len(events) != 1 {
		t.Error("a page that is there needs no seat")
	}
	r.pushed(1, 0, event("2", "", "x"))
	r.page(r.read(a, "GET"))
	r.page(r.read(b, "GET"))
	r.wait(0)
	_ = r.waiting(1, "&after=2")
}

// TestWaitMissesNothing: B3: whoever waits again and again sees every event once
// while others push, and is never left asleep past one.
func TestWaitMissesNothing(t *testing.T) {
	r := newRig(t)
	r.pushed(0, 0)
	const pushes, devices = 150, 6
	var wg sync.WaitGroup
	for d := range devices {
		wg.Go(func() {
			c, err := relaytest.Dial(r.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			next, seen := "0", 0
			for seen < pushes {
				_ = c.SendString(head("GET", "/v1/events/wait"+query+"&timeout=60000&after="+next, tokenA))
				res, err := c.ReadResponse("GET", patience)
				if err != nil || res.Status != 200 {
					t.Errorf("device %d after %d events: %v, %+v", d, seen, err, res)
					return
				}
				var events []string
				events, next = r.page(res)
				for _, e := range events {
					if !strings.Contains(e, fmt.Sprintf(`"eventId":"%d"`, seen)) {
						t.Errorf("device %d: event %d is %q", d, seen, e)
						return
					}
					seen++
				}
			}
		})
	}
	for i := range pushes {
		r.pushed(1, 0, event(fmt.Sprint(i), "", "x"))
	}
	wg.Wait()
}

// TestWaiterSize: a waiting device costs a few hundred bytes (S52).
func TestWaiterSize(t *testing.T) {
	if n := unsafe.Sizeof(waiter{}); n > 176 {
		t.Errorf("a waiter has %d bytes", n)
	}
	r := newRig(t)
	r.pushed(0, 0)
	const devices = 1500
	var before, after runtime.MemStats
	conns := make([]net.Conn, devices)
	for i := range conns {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		conns[i] = c
	}
	send := func(params string) {
		text := head("GET", "/v1/events/wait"+query+params, tokenA)
		for _, c := range conns {
			_, _ = io.WriteString(c, text)
		}
		r.wait(devices)
	}
	// The first time queues grow, and it shows a herd that is woken.
	send("&timeout=60000")
	r.pushed(1, 0, event("1", "", "x"))
	answer := make([]byte, 4096)
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if n, err := c.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200 ") {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	}
	r.wait(0)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	send("&timeout=60000&after=1")
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / devices
	t.Logf("%d bytes of heap for each waiting device, besides its connection", each)
	if each > 600 {
		t.Errorf("S52: %d bytes for each waiting device", each)
	}
}
