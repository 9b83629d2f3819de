package device

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answers are the answers of D34 with the back-off that follows and its reason.
var answers = []struct {
	name   string
	answer func(http.ResponseWriter, *http.Request, []byte)
	pause  time.Duration
	reason string
}{
	{"bad request", say(400, `{"error":"bad_request","message":"m"}`), 5 * time.Minute, "400 bad_request"},
	{"unauthorized", say(401, `{"error":"unauthorized"}`), 5 * time.Minute, "401 unauthorized"},
	{"owner limit", say(403, `{"error":"owner_limit"}`), 5 * time.Minute, "403 owner_limit"},
	{"quota", say(413, `{"error":"quota_exceeded"}`), 5 * time.Minute, "413 quota_exceeded"},
	{"too many", say(429, `{}`), 5 * time.Minute, "429"},
	{"too many, for long", say(429, `{}`, "Retry-After", "480"), 8 * time.Minute, "429"},
	{"too many, for ever", say(429, `{}`, "Retry-After", "999999"), 10 * time.Minute, "429"},
	{"too many, not long", say(429, `{}`, "Retry-After", "1"), 5 * time.Minute, "429"},
	{"not found", say(405, `no JSON`), 5 * time.Minute, "405"},
	{"redirect", say(307, ``, "Location", "/elsewhere"), 5 * time.Minute, "307"},
	{"timeout", say(408, `{}`), 5 * time.Second, "408"},
	{"internal", say(500, `{"error":"internal"}`), 5 * time.Second, "500 internal"},
	{"busy", say(503, `{"error":"busy"}`, "Retry-After", "1"), 5 * time.Second, "503 busy"},
	{"writes disabled", say(503, `{"error":"writes_disabled"}`, "Retry-After", "300"), 5 * time.Minute, "503 writes_disabled"},
	{"odd code", say(500, `{"error":"<b>\u001b[2J"}`), 5 * time.Second, "500"},
	{"cut", cut, 5 * time.Second, "network: EOF"},
	{"no JSON", say(200, `<html>`), 5 * time.Second, "bad_page"},
	{"no object", say(200, `[]`), 5 * time.Second, "bad_page"},
}

// D34: what a lane does after each answer, and that the other lane goes on. The
// poller waits; a local write tries a push at once; so does an explicit sync.
func TestAnswers(t *testing.T) {
	for _, a := range answers {
		for _, push := range []bool{true, false} {
			route, other := "pull", "push"
			if push {
				route, other = other, route
			}
			t.Run(route+"/"+a.name, func(t *testing.T) {
				d, s, c := scripted(t, Options{})
				pusher, puller := loner(t, d)
				once := func(urgent bool) {
					t.Helper()
					puller.pollAt = time.Time{}
					c.advance(time.Nanosecond)
					if push {
						_, _ = pusher.once(t.Context(), urgent)
					} else {
						_, _ = puller.once(t.Context())
					}
				}
				want := func(tries int, what string) {
					t.Helper()
					n := s.count(route)
					if a.name == "cut" {
						n = min(n, 1) // net/http itself tries again on a new connection
					}
					if n != tries {
						t.Errorf("%s: %d requests, want %d", what, n, tries)
					}
				}
				s.on(route, a.answer)
				put(t, d, "x", "1")
				_, err := d.Sync(t.Context(), SyncOptions{})
				lane := laneOf(t, d, push)
				if err == nil || lane.Reason != a.reason || !lane.Until.Equal(c.now().Add(a.pause)) || lane.Fails != 1 {
					t.Errorf("%+v at %v, %v", lane, c.now(), err)
				}
				if free := laneOf(t, d, !push); free.Reason != "" || !free.Until.IsZero() || s.count(other) == 0 {
					t.Errorf("the other lane has %+v", free)
				}
				s.count(route)
				if _, err := d.Sync(t.Context(), SyncOptions{}); err == nil || s.count(route) == 0 {
					t.Errorf("an explicit sync does not try: %v", err)
				}
				once(false)
				want(0, "the poller in a back-off")
				if push {
					once(true)
					want(1, "a local write in a back-off")
				}
				c.set(laneOf(t, d, push).Until.Add(-time.Millisecond))
				once(false)
				want(0, "the poller a moment before")
				c.advance(time.Millisecond)
				once(false)
				want(1, "the poller after the back-off")
				st, err := d.Status()
				if err != nil || st.Relays[0].State != StateBackingOff {
					t.Errorf("%+v, %v", st, err)
				}
			})
		}
	}
}

// D34: 410 is terminal for both lanes, whichever it is told to; only an
// explicit sync asks again.
func TestClosedAnswer(t *testing.T) {
	for _, route := range []string{"push", "pull", "status"} {
		d, s, c := scripted(t, Options{})
		s.on(route, say(410, `{"error":"owner_closed"}`))
		put(t, d, "x", "1")
		_, err := d.Sync(t.Context(), SyncOptions{})
		if !errors.Is(err, ErrOwnerClosed) || !relayOf(t, d).Closed {
			t.Fatalf("%s: %v", route, err)
		}
		pusher, puller := loner(t, d)
		c.advance(24 * time.Hour)
		s.count("push")
		s.count("pull")
		if pause, err := pusher.once(t.Context(), true); pause != untilPoked || err != nil || s.count("push") != 0 {
			t.Errorf("%s: the pusher rests %v, %v", route, pause, err)
		}
		if pause, err := puller.once(t.Context()); pause != untilPoked || err != nil || s.count("pull") != 0 {
			t.Errorf("%s: the puller rests %v, %v", route, pause, err)
		}
		s.on("status", say(200, `{"account":{"createdAt":"then","events":1,"headSeq":1}}`))
		s.on("push", take)
		s.on("pull", say(200, pageOf("0")))
		if _, err := d.Sync(t.Context(), SyncOptions{}); err != nil || relayOf(t, d).Closed {
			t.Errorf("%s: not open again: %v", route, err)
		}
	}
}

// A back-off of before the clock was set back holds nothing up for longer than a
// back-off lasts: it is over, and the next one is by the clock as it is now. So
// is the pause between re-seeds.
func TestClockSetBack(t *testing.T) {
	d, s, c := scripted(t, Options{})
	s.on("push", say(401, `{}`))
	put(t, d, "x", "1")
	_, _ = d.Sync(t.Context(), SyncOptions{})
	c.advance(-1000 * time.Hour)
	pusher, puller := loner(t, d)
	s.count("push")
	if pause, err := pusher.once(t.Context(), false); err == nil || pause != 5*time.Minute || s.count("push") != 1 {
		t.Errorf("rests %v, %v", pause, err)
	}
	if pause, err := pusher.once(t.Context(), false); err != nil || pause != 5*time.Minute || s.count("push") != 0 {
		t.Errorf("rests %v, %v", pause, err)
	}
	s.on("push", take)
	c.advance(5 * time.Minute)
	if _, err := pusher.once(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.on("pull", say(404, `{"error":"unknown_owner"}`))
	for reseeds := range 2 {
		puller.pollAt = time.Time{}
		if _, err := puller.once(t.Context()); err != nil || relayOf(t, d).Reseeds != reseeds+1 {
			t.Errorf("%v, %+v", err, relayOf(t, d))
		}
		if _, err := pusher.once(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		c.advance(-1000 * time.Hour)
	}
}

// D35: a 404 is normal as long as the relay never had anything, needs a relay
// that is well, and then owes it everything.
func TestNotFound(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	s.on("pull", say(404, `{"error":"unknown_owner"}`))
	if r := synced(t, d); r.Reseeded {
		t.Errorf("nothing was ever there: %+v", r)
	}
	put(t, d, "x", "1")
	s.on("health", say(503, `{"ok":false}`))
	if _, err := d.Sync(t.Context(), SyncOptions{}); err == nil || relayOf(t, d).Reseeds != 0 {
		t.Errorf("a relay that is not well: %v, %+v", err, relayOf(t, d))
	}
	s.on("health", say(200, `{"ok":false}`))
	if _, err := d.Sync(t.Context(), SyncOptions{}); err == nil || relayOf(t, d).Reseeds != 0 {
		t.Errorf("a relay that says it is not well: %v, %+v", err, relayOf(t, d))
	}
	s.on("health", say(200, `{"ok":true}`))
	s.count("push")
	_, err := d.Sync(t.Context(), SyncOptions{})
	if rel := relayOf(t, d); !errors.Is(err, ErrLostAgain) || rel.Reseeds != 1 || s.count("push") != 1 {
		t.Errorf("L5: once a call: %v, %+v", err, rel)
	}
}

// D35: a device that never pushed anything, as one that was restored, learns that
// the relay was lost by its cursor alone.
func TestNotFoundWithCursor(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	s.on("pull", say(200, pageOf("70", d.author(t).event())))
	_, puller := loner(t, d)
	rel, r, err := puller.link.open()
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.pull(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := puller.link.apply(rel, puller.link.openPage(r, "", p)); err != nil || a.Rows != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	s.on("pull", say(404, `{"error":"unknown_owner"}`))
	if rel := relayOf(t, d); rel.Cursor != "70" || rel.Acked || rel.Owed != 0 {
		t.Fatalf("%+v", rel)
	}
	// A push would make the owner anew at the relay, and hide that it was lost.
	put(t, d, "x", "1")
	s.on("push", func(w http.ResponseWriter, r *http.Request, body []byte) {
		s.on("pull", say(200, pageOf("0")))
		take(w, r, body)
	})
	if r := synced(t, d); !r.Reseeded || r.Pushed == 0 {
		t.Errorf("%+v, %+v", r, relayOf(t, d))
	}
}

// The status check: an account made anew, and one without events behind our
// cursor, are lost ones. Neither is one that has what we had.
func TestStatusCheck(t *testing.T) {
	f := func(name, status string, lost bool) {
		t.Helper()
		d, s, _ := scripted(t, Options{})
		by := d.author(t)
		s.on("pull", func(w http.ResponseWriter, r *http.Request, b []byte) {
			if r.URL.Query().Get("after") == "" {
				say(200, pageOf("70", by.event()))(w, r, b)
				return
			}
			say(200, pageOf(r.URL.Query().Get("after")))(w, r, b)
		})
		s.on("status", say(200, `{"account":{"createdAt":"then","events":1,"headSeq":70}}`))
		synced(t, d)
		s.on("status", say(200, status))
		s.on("health", say(200, `{"ok":false}`))
		if r := synced(t, d); r.Reseeded {
			t.Errorf("%s, of a relay that is not well: %+v", name, r)
		}
		s.on("health", say(200, `{"ok":true}`))
		if r := synced(t, d); r.Reseeded != lost {
			t.Errorf("%s: %+v", name, r)
		}
		if rel := relayOf(t, d); rel.Cursor != "70" {
			t.Errorf("%s: %+v", name, rel)
		}
	}
	f("the same", `{"account":{"createdAt":"then","events":1,"headSeq":70}}`, false)
	f("compacted", `{"account":{"createdAt":"then","events":1,"headSeq":60}}`, false)
	f("made anew", `{"account":{"createdAt":"now","events":9,"headSeq":99}}`, true)
	f("behind and empty", `{"account":{"createdAt":"then","events":0,"headSeq":0}}`, true)
	f("no word", `{}`, true)
	f("nonsense", `{"account":7}`, false)
	f("no JSON", `<`, false)
}

// L5: automatic re-seeds are spaced, from a minute to an hour.
func TestReseedSpacing(t *testing.T) {
	d, s, c := scripted(t, Options{})
	put(t, d, "x", "1")
	synced(t, d)
	s.on("pull", say(404, `{"error":"unknown_owner"}`))
	pusher, puller := loner(t, d)
	var pauses []string
	last := time.Time{}
	for range 9 {
		for before := relayOf(t, d).Reseeds; relayOf(t, d).Reseeds == before; {
			pause, _ := puller.once(t.Context())
			puller.pollAt = time.Time{}
			if _, err := pusher.once(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			c.advance(max(pause, time.Second))
		}
		at := relayOf(t, d).ReseededAt
		if !last.IsZero() {
			pauses = append(pauses, fmt.Sprint(at.Sub(last).Truncate(30*time.Second)))
		}
		last = at
	}
	if got := strings.Join(pauses, " "); got != "1m0s 2m0s 4m0s 8m0s 16m0s 32m0s 1h0m0s 1h0m0s" {
		t.Errorf("re-seeds after %s", got)
	}
	if st, err := d.Status(); err != nil || st.Relays[0].Reseeds != 9 {
		t.Errorf("%+v, %v", st, err)
	}
}

// What a relay took and never gives back is pushed again three times, and then
// given up and counted.
func TestWithheld(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	put(t, d, "x", "1")
	for range 3 {
		_, err := d.Sync(t.Context(), SyncOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := s.count("push"); n != 4 || refusals(t, d, "withheld") != 1 {
		t.Errorf("pushed %d times, %d counted", n, refusals(t, d, "withheld"))
	}
	if st, err := d.Status(); err != nil || st.Pending != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}
