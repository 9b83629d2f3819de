package sync

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/store"
)

// TestPushDuplicates: hard cases 1, 2, 3, 10 and 24 of S22 to S24.
func TestPushDuplicates(t *testing.T) {
	r := newRig(t)
	r.pushed(0, 0) // 10: registers
	r.do("GET", "/v1/status"+query, tokenA, "")
	three := []string{event("1", "", "a"), event("2", "", "b"), event("3", "", "c")}
	r.pushed(3, 0, three...)
	used := r.used()
	if want := int64(len(strings.Join(three, ""))); used != want {
		t.Errorf("S20: %d bytes, want %d", used, want)
	}
	r.pushed(0, 3, three...)
	r.pushed(1, 1, event("4", "", "first"), event("4", "", "second"))
	r.pushed(0, 1, event("4", "", "third"))
	events, next := r.pull("")
	if want := append(three, event("4", "", "first")); !slices.Equal(events, want) || next != "4" {
		t.Errorf("pull: %q, %s, want %q", events, next, want)
	}
}

// TestPushFaults: what is refused stores nothing and registers nobody (S14, S21;
// hard cases 4 to 7, 40).
func TestPushFaults(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxEventsPerPush, c.MaxEventBytes = 1000, 2000 })
	many := make([]string, 1001)
	for i := range many {
		many[i] = event(fmt.Sprint(i), "", "x")
	}
	version2 := strings.Replace(event("v", "", "x"), `"version":1`, `"version":2`, 1)
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"4: 1001 events", pushBody(many...), 413, "too_many_events"},
		{"5: one of version 2", pushBody(append(many[:999:999], version2)...), 400, "bad_envelope"},
		{"6: EventId", pushBody(strings.Replace(many[0], "eventId", "EventId", 1)), 400, "bad_envelope"},
		{"7: eventId twice", pushBody(strings.Replace(many[0], `"nonce"`, `"eventId":"2","nonce"`, 1)), 400, "bad_envelope"},
		{"an envelope too large", pushBody(event("1", "", strings.Repeat("x", 2000))), 413, "event_too_large"},
		{"40: cut off", `{"ownerId":"a"`, 400, "bad_request"},
		{"40: BOM", "\xef\xbb\xbf" + pushBody(), 400, "bad_request"},
		{"40: nesting", `{"ownerId":"a","x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `,"events":[]}`, 400, "bad_request"},
		{"trailing data", pushBody() + "{}", 400, "bad_request"},
		{"an array", "[]", 400, "bad_request"},
		{"nothing", "", 400, "bad_request"},
		{"no owner", `{"events":[]}`, 400, "bad_request"},
	} {
		r.want(c.name, r.do("POST", "/v1/events", tokenA, c.body), c.status, c.code)
		r.unknown(c.name)
	}
}

// TestPushKeepsBytes: hard case 8 of S19, with the body split at every octet
// once and sent in reads of its own.
func TestPushKeepsBytes(t *testing.T) {
	r := newRig(t)
	stored := `{"x":[1.0,-0,1e3],"ciphertext":"\u00e9\/","nonce":"n","createdAt":"t","deviceId":"d",` +
		`"eventId":"odd","ownerId":"` + owner + `","version":1}`
	r.pushed(1, 0, strings.NewReplacer(",", " ,\n\t", ":", " : ").Replace(stored))
	events, _ := r.pull("")
	if len(events) != 1 || events[0] != stored {
		t.Errorf("S19: %q, want %q", events, stored)
	}
	body := `{"events":[` + event("late", "", "x") + `],"more":1,"ownerId":"` + owner + `"}`
	c := r.dial()
	for i := range body {
		if i == 0 {
			_ = c.SendString(head("POST", "/v1/events", tokenA, lengthOf(body)))
		}
		_ = c.SendString(body[i : i+1])
	}
	r.wantBody("octet by octet, owner last", r.read(c, "POST"), `{"accepted":1,"duplicate":0}`)
}

// TestPushRace: hard case 9 of S14: of two tokens exactly one registers.
func TestPushRace(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	status := map[string]int{}
	var mu sync.Mutex
	for _, token := range []string{tokenA, tokenB} {
		wg.Go(func() {
			res, err := relaytest.Do(r.addr, "POST", head("POST", "/v1/events", token, lengthOf(pushBody()))+pushBody(), patience)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			status[token] = res.Status
		})
	}
	wg.Wait()
	if a, b := status[tokenA], status[tokenB]; a+b != 601 || a != 200 && b != 200 {
		t.Fatalf("answers %v", status)
	}
	for token, before := range status {
		if got := r.do("GET", "/v1/usage"+query, token, "").Status; got != before {
			t.Errorf("after the race: %d, before %d", got, before)
		}
	}
}

// TestPushOrder: who the client is comes before what is wrong with its body
// (S16), and the kill switch in between.
func TestPushOrder(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxEventsPerPush = 2 })
	one := event("1", "", "x")
	r.pushed(1, 0, one)
	for _, c := range []struct {
		name, token, body string
		status            int
		code              string
	}{
		{"wrong token, too many", tokenB, pushBody(one, one, one), 401, "unauthorized"},
		{"wrong token, bad envelope", tokenB, pushBody("1"), 401, "unauthorized"},
		{"wrong token, too many before the owner", tokenB, `{"events":[1,1,1,1],"ownerId":"` + owner + `"}`, 401, "unauthorized"},
		{"wrong token, cut off", tokenB, `{"ownerId":"` + owner + `"`, 401, "unauthorized"},
		{"wrong token, fine", tokenB, pushBody(one), 401, "unauthorized"},
		{"right token, bad envelope", tokenA, pushBody("1"), 400, "bad_envelope"},
		{"no token", "", "x", 401, "unauthorized"},
		{"malformed token", "a b", "x", 401, "unauthorized"},
	} {
		r.want(c.name, r.do("POST", "/v1/events", c.token, c.body), c.status, c.code)
	}

	off := newRig(t, func(c *Config) { c.WritesDisabled = true })
	res := off.push(tokenA, one)
	off.want("kill switch", res, 503, "writes_disabled")
	if res.Header.Get("Retry-After") != "300" {
		t.Errorf("S4: Retry-After %q", res.Header.Get("Retry-After"))
	}
	off.want("kill switch, bad body", off.push(tokenA, "1"), 503, "writes_disabled")
	off.unknown("kill switch")
}

// TestPushEarly: a stranger is told while the body is still to come, and the
// answer reaches a client that goes on sending (S16, S46).
func TestPushEarly(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxEventsPerPush = 2 })
	r.pushed(1, 0, event("1", "", "x"))
	c := r.dial()
	_ = c.SendString(head("POST", "/v1/events", tokenB, "Content-Length: 400000") + `{"ownerId":"` + owner + `",`)
	r.want("after the owner alone", r.read(c, "POST"), 401, "unauthorized")

	large := head("POST", "/v1/events", tokenA, "Content-Length: 2000000") + pushBody("1")
	r.want("2 MB with an early fault", r.raw("POST", large+strings.Repeat(" ", 1_900_000)), 400, "bad_envelope")

	oversize := head("POST", "/v1/events", tokenA, "Content-Length: 999999999") + `{"events":[` + event("2", "", "x") + `],"ownerId":"`
	r.want("declared too long", r.raw("POST", oversize+owner+`"`), 413, "body_too_large")
	r.want("declared too long, wrong token", r.raw("POST", strings.Replace(oversize, tokenA, tokenB, 1)+owner+`"`), 401, "unauthorized")
	if n := len(must(r.pull(""))); n != 1 {
		t.Errorf("%d events", n)
	}
}

func must(events []string, _ string) []string { return events }

// TestPushSpool: a body beyond the memory's part goes through the spool file and
// comes out whole (S20a), also when it was begun under a closed gate.
func TestPushSpool(t *testing.T) {
	r := newRig(t)
	var events []string
	for i := range 24 {
		events = append(events, event(fmt.Sprintf("e%02d", i), "s", strings.Repeat(string(rune('a'+i)), 180_000+i*977)))
	}
	release := r.gate.hold()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.pushed(24, 0, events...)
	}()
	r.eventually("spool in use", func() bool { return r.surface.Counters().SpoolBytes > 0 })
	release()
	<-done
	var got []string
	for next := "0"; len(got) < len(events); {
		var page []string
		page, next = r.pull("&limit=5&after=" + next)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	if !slices.Equal(got, events) {
		t.Errorf("%d events, want %d, the same", len(got), len(events))
	}
}

// TestPushSpoolFull: beyond the spool of the whole relay the answer is busy.
func TestPushSpoolFull(t *testing.T) {
	r := newLimitedRig(t, func(s *Surface) { s.spool = serve.NewBudget(600_000) })
	var events []string
	for i := range 12 {
		events = append(events, event(fmt.Sprint(i), "", strings.Repeat("x", 200_000)))
	}
	res := r.push(tokenA, events...)
	r.want("no spool", res, 503, "busy")
	if res.Header.Get("Retry-After") != "1" {
		t.Errorf("S4: Retry-After %q", res.Header.Get("Retry-After"))
	}
	r.unknown("no spool")
	r.pushed(2, 0, events[:2]...)
}

// TestPushLost: a push whose client goes away stores nothing and keeps nothing,
// wherever it was (the rig's end looks).
func TestPushLost(t *testing.T) {
	r := newRig(t)
	body := pushBody(event("1", "", strings.Repeat("x", 200_000)), event("2", "", strings.Repeat("y", 200_000)))
	for _, n := range []int{0, 1, 100, 250_000, len(body) - 1} {
		c := r.dial()
		_ = c.SendString(head("POST", "/v1/events", tokenA, lengthOf(body)) + body[:n])
		_ = c.Reset()
	}
	r.eventually("all gone", func() bool { return r.server.Conns() == 0 })
	r.unknown("lost")
}

// TestPushStoreFails: hard case 43: nothing is stored, reads go on.
func TestPushStoreFails(t *testing.T) {
	r := newRig(t)
	r.pushed(1, 0, event("1", "", "x"))
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("wrapped: %w", store.ErrDiskFull), 503, "busy"},
		{store.ErrBusy, 503, "busy"},
		{store.ErrQuota, 413, "quota_exceeded"},
		{store.ErrRelayFull, 413, "relay_full"},
		{store.ErrOwnerLimit, 403, "owner_limit"},
		{fmt.Errorf("something else"), 500, "internal"},
	} {
		r.gate.failWith(c.err)
		r.want(c.err.Error(), r.push(tokenA, event("2", "", "x")), c.status, c.code)
		r.gate.failWith(nil)
	}
	if n := len(must(r.pull(""))); n != 1 {
		t.Errorf("%d events", n)
	}
}

// TestQuota: hard cases 11 and 44 of S20 and S23, and MAX_OWNERS.
func TestQuota(t *testing.T) {
	first, second := event("1", "", strings.Repeat("x", 300)), event("2", "", strings.Repeat("y", 300))
	r := newRig(t, func(c *Config) { c.MaxOwnerBytes = int64(len(first)) + 10 })
	r.pushed(1, 0, first)
	r.want("11: stored and new", r.push(tokenA, first, second), 413, "quota_exceeded")
	r.pushed(0, 1, first)
	if r.used() != int64(len(first)) {
		t.Errorf("11: %d bytes", r.used())
	}

	r = newRig(t, func(c *Config) { c.MaxTotalBytes, c.MaxOwners = int64(len(first))+10, 1 })
	r.pushed(1, 0, first)
	r.want("44: new", r.push(tokenA, second), 413, "relay_full")
	r.pushed(0, 1, first)
	other := strings.ReplaceAll(pushBody(), owner, "other")
	r.want("another owner", r.do("POST", "/v1/events", tokenB, other), 403, "owner_limit")
}
