package device

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
)

// rising answers pulls with a cursor that always rises and what event gives.
func rising(event func(after int) string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, r *http.Request, b []byte) {
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		say(200, pageOf(strconv.Itoa(after+1), event(after)))(w, r, b)
	}
}

// L4: pages without an end that bring nothing new end a drain after 256, and
// the pause after it doubles up to five minutes.
func TestEndlessPages(t *testing.T) {
	all := []time.Duration{10, 20, 40, 80, 160, 300, 300, 300} // seconds
	for name, tt := range map[string]struct {
		event  func(*author) func(int) string
		pauses []time.Duration
	}{
		"the same event": {func(a *author) func(int) string {
			e := a.event()
			return func(int) string { return e }
		}, all},
		"events that are none": {func(*author) func(int) string {
			return func(n int) string { return fmt.Sprintf(`{"version":%d}`, n) }
		}, all[:2]},
	} {
		event, want := tt.event, tt.pauses
		d, s, c := scripted(t, Options{})
		s.on("pull", rising(event(d.author(t))))
		_, err := d.Sync(t.Context(), SyncOptions{})
		if err == nil || refusals(t, d, reasonNoProgress) != 1 || laneOf(t, d, false).Reason != reasonNoProgress {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.count("pull"); n < idlePages || n > idlePages+3 {
			t.Errorf("%s: %d pages were asked for", name, n)
		}
		_, puller := loner(t, d)
		var pauses []time.Duration
		for range want {
			c.advance(max(d.remaining(laneOf(t, d, false).Until), 0))
			pause, err := puller.once(t.Context())
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			pauses = append(pauses, pause/time.Second)
		}
		if !slices.Equal(pauses, want) {
			t.Errorf("%s: pauses of %d seconds, want %d", name, pauses, want)
		}
	}
}

// L4: cursors that lead back end a drain at once.
func TestCursorsInARound(t *testing.T) {
	for _, round := range []int{1, 2, 5} {
		d, s, _ := scripted(t, Options{})
		by := d.author(t)
		s.on("pull", func(w http.ResponseWriter, r *http.Request, b []byte) {
			after, _ := strconv.Atoi(r.URL.Query().Get("after"))
			say(200, pageOf(strconv.Itoa(max(1, (after+1)%(round+1))), by.event()))(w, r, b)
		})
		_, err := d.Sync(t.Context(), SyncOptions{})
		f, _ := errors.AsType[*fault](err)
		if f == nil || f.reason != reasonBadCursor || refusals(t, d, reasonBadCursor) != 1 {
			t.Errorf("round of %d: %v", round, err)
		}
		if n := s.count("pull"); n > round+3 {
			t.Errorf("round of %d: %d pages were asked for", round, n)
		}
		st, err := d.store.Stats()
		if err != nil || int(st.Rows) != round {
			t.Errorf("round of %d: %d rows, %v", round, st.Rows, err)
		}
	}
}

// L6: bodies have a bound, and what is longer is refused without being read.
func TestGiantAnswers(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		_, _ = io.WriteString(w, `{"events":[],"x":"`)
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range 80 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for _, route := range []string{"pull", "push", "status", "health"} {
		d, s, _ := scripted(t, Options{})
		s.on(route, endless)
		put(t, d, "x", "1")
		_, err := d.Sync(t.Context(), SyncOptions{})
		want := int64(1)
		if route == "status" || route == "health" {
			want = 0 // they decide nothing by themselves
		}
		if (err == nil) != (want == 0) || refusals(t, d, reasonBadPage) != want {
			t.Errorf("%s: %v, %d counted", route, err, refusals(t, d, reasonBadPage))
		}
	}
}

// A page that is none is refused whole, and changes nothing.
func TestBadPages(t *testing.T) {
	f := func(reason, body string) {
		t.Helper()
		d, s, _ := scripted(t, Options{})
		s.on("pull", say(200, body))
		_, err := d.Sync(t.Context(), SyncOptions{})
		if err == nil || refusals(t, d, reason) != 1 || laneOf(t, d, false).Reason != reason || relayOf(t, d).Cursor != "" {
			t.Errorf("%.80s: %v, %+v", body, err, relayOf(t, d))
		}
	}
	f(reasonBadCursor, pageOf(strings.Repeat("9", 257)))
	f(reasonBadCursor, pageOf(strings.Repeat("9", 1<<20)))
	f(reasonBadCursor, pageOf(""))
	f(reasonBadCursor, pageOf(`a b`))
	f(reasonBadCursor, pageOf(`\u0007`))
	f(reasonBadCursor, `{"events":[],"nextCursor":7}`)
	f(reasonBadPage, ``)
	f(reasonBadPage, `{"events":[]}`)
	f(reasonBadPage, `{"nextCursor":"1"}`)
	f(reasonBadPage, `{"events":{},"nextCursor":"1"}`)
	f(reasonBadPage, pageOf("1")+"x")
	f(reasonBadPage, pageOf("1", strings.Repeat("[", 100)+strings.Repeat("]", 100)))
	f(reasonBadPage, pageOf("1", "0"+strings.Repeat(",0", maxPageEvents)))
}

// D11: envelopes that cannot be opened are skipped and counted by what is wrong
// with them; the others of the page are applied.
func TestBadEnvelopes(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	by := d.author(t)
	stranger, _, err := synccrypt.ParseCredential(owner(t))
	if err != nil {
		t.Fatal(err)
	}
	foreign := author{t: t, id: stranger}
	flipped := by.event()
	at := strings.Index(flipped, `"ciphertext":"`) + 20
	swap := map[byte]string{'A': "B"}
	other := "A"
	if swap[flipped[at]] != "" {
		other = "B"
	}
	flipped = flipped[:at] + other + flipped[at+1:]
	page := pageOf("9", by.event(), foreign.event(), flipped, `{"eventId":"\u001bx"}`, `7`, by.event())
	s.on("pull", func(w http.ResponseWriter, r *http.Request, b []byte) {
		if r.URL.Query().Get("after") == "" {
			say(200, page)(w, r, b)
			return
		}
		say(200, pageOf("9"))(w, r, b)
	})
	r := synced(t, d)
	if r.Pulled != 6 || r.Rows != 2 || r.Refused != 4 {
		t.Errorf("%+v", r)
	}
	for reason, want := range map[string]int64{reasonOtherOwner: 1, reasonBadTag: 1, reasonBadEnvelope: 2} {
		if n := refusals(t, d, reason); n != want {
			t.Errorf("%s: %d, want %d", reason, n, want)
		}
	}
	st, err := d.Status()
	if err != nil || len(st.Relays[0].Refusals) != 3 || strings.Contains(fmt.Sprint(st), "\x1b") {
		t.Errorf("%+v, %v", st, err)
	}
	for _, c := range st.Relays[0].Refusals {
		if c.Reason == reasonBadTag && !strings.HasSuffix(c.LastEvent, "-other") {
			t.Errorf("the event that was flipped is called %q", c.LastEvent)
		}
	}
	// L3: a good copy of what was refused applies later.
	by.n = 0
	good := by.event()
	s.on("pull", func(w http.ResponseWriter, r *http.Request, b []byte) {
		if r.URL.Query().Get("after") == "9" {
			say(200, pageOf("10", good))(w, r, b)
			return
		}
		say(200, pageOf("10"))(w, r, b)
	})
	if r := synced(t, d); r.Rows != 1 {
		t.Errorf("the good copy: %+v", r)
	}
}

// A page that is large is opened by several goroutines, in order and whole.
func TestLargePage(t *testing.T) {
	d, _, c := scripted(t, Options{})
	by := d.author(t)
	var p page
	for i := range 1000 {
		if i%100 == 7 {
			p.events = append(p.events, []byte(`{}`))
			continue
		}
		p.events = append(p.events, []byte(by.event()))
	}
	events, refused := d.openPage(by.id, p, c.now())
	if len(events) != 990 || len(refused) != 10 {
		t.Fatalf("%d events, %d refused", len(events), len(refused))
	}
	for i, e := range events {
		if e.Key != note(fmt.Sprint("n", i+1)) {
			t.Fatalf("event %d is of %v", i, e.Key)
		}
	}
}

// L1: a redirect is not followed, so that the token stays with the relay.
func TestRedirect(t *testing.T) {
	d, s, _ := scripted(t, Options{})
	elsewhere := newScript(t)
	put(t, d, "x", "1")
	for _, status := range []int{301, 302, 307, 308} {
		for _, route := range []string{"push", "pull", "status", "health"} {
			s.on(route, say(status, "", "Location", elsewhere.URL+"/v1/events"))
		}
		if _, err := d.Sync(t.Context(), SyncOptions{}); err == nil {
			t.Errorf("%d: no error", status)
		}
	}
	for name := range elsewhere.asked {
		t.Errorf("%s was asked elsewhere", name)
	}
}

// L7: no secret is in an error, a status or a log line.
func TestNoSecretIsTold(t *testing.T) {
	var log bytes.Buffer
	d, s, _ := scripted(t, Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	token, key := d.id.Load().RelayAuth, credentialOf(t, d)
	put(t, d, "x", "a row that nobody sees")
	var told []string
	for _, a := range answers {
		for _, route := range []string{"health", "status", "push", "pull"} {
			s.on(route, a.answer)
		}
		_, err := d.Sync(t.Context(), SyncOptions{})
		pusher, puller := loner(t, d)
		_, pushErr := pusher.once(t.Context(), true)
		_, pullErr := puller.once(t.Context())
		st, _ := d.Status()
		told = append(told, fmt.Sprint(err, pushErr, pullErr, st))
	}
	// A relay, or a proxy before it, that repeats what it was sent.
	echo := `"` + "the request had Authorization: Bearer " + token + `"`
	for _, route := range []string{"health", "status", "push", "pull"} {
		s.on(route, say(400, `{"error":"bad_request","message":`+echo+`}`))
	}
	_, echoed := d.Sync(t.Context(), SyncOptions{})
	for route, answer := range map[string]string{
		"health": `{"ok":true}`, "status": `{"account":{"createdAt":` + echo + `}}`, "pull": pageOf("1", `{"eventId":`+echo+`}`),
	} {
		s.on(route, say(200, answer))
	}
	_, err := d.Sync(t.Context(), SyncOptions{})
	st, _ := d.Status()
	told = append(told, fmt.Sprint(echoed, err, st))
	s.CloseClientConnections()
	s.Close()
	_, err = d.Sync(t.Context(), SyncOptions{})
	text := strings.Join(append(told, fmt.Sprint(err), log.String()), "\n")
	for _, secret := range []string{token, key, "nobody sees"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	if !strings.Contains(text, "refused") || !strings.Contains(text, "no status of the relay") {
		t.Errorf("little was told: %s", text)
	}
}
