package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR321CheckOrder covers R320 and R321: the first failed check answers, and
// a refused subscribe changes nothing.
func TestR321CheckOrder(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_FROM": "2"})
	w := f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"q","filter":{"session":"s"}}`)
	const three = `[{"session":"a"},{"session":"b"},null]`
	big := `{"id":"` + strings.Repeat("x", 64<<10) + `"}`
	id := func(n int) string { return `"` + strings.Repeat("i", n) + `"` }
	for _, c := range []struct{ name, members, code, detail string }{
		{"id before filter", `"id":{},"filter":` + big, "invalid-filter", ""},
		{"id null", `"id":null`, "invalid-filter", ""},
		{"id array", `"id":[1]`, "invalid-filter", ""},
		{"id object", `"id":{"a":1}`, "invalid-filter", ""},
		{"id boolean", `"id":true`, "invalid-filter", ""},
		{"id too long", `"id":` + id(257), "invalid-filter", ""},
		{"filter before ceiling", `"id":"q","filter":{"seq":1},"capture":"x","from":5`, "invalid-filter", ""},
		{"filter size", `"id":"q","filter":` + big + `,"from":5`, "limit-exceeded", ""},
		{"ceiling before from", `"id":"q","capture":"x","from":` + three, "invalid-filter", ""},
		{"from type", `"id":"q","from":{}`, "invalid-filter", ""},
		{"count before entries", `"id":"q","from":` + three, "limit-exceeded", "AEP_MAX_FROM"},
		{"entries", `"id":"q","from":[null]`, "invalid-filter", ""},
	} {
		w.send(`{"type":"subscribe",` + c.members + `}`)
		e := w.refused(c.code)
		if e.Detail == "" || !strings.Contains(e.Detail, c.detail) {
			t.Errorf("%s: detail %q", c.name, e.Detail)
		}
		if strings.Contains(c.members, `"id":"q"`) && e.IDString() != "q" {
			t.Errorf("R320: %s: id %s", c.name, e.ID)
		}
	}
	w.send(`{"type":"subscribe","filter":[]}`)
	if text := w.text(); strings.Contains(text, `"id"`) {
		t.Errorf("a refusal without an id: %s", text)
	}
	in := relaytest.Event{Session: "s"}.JSON()
	f.post(t, relaytest.Event{Session: "other"}.JSON(), in)
	wantTexts(t, "R321: the subscription q stands", w.barrier(), []string{in})
	if h := f.health(t); h.Subscribers != 1 {
		t.Errorf("R320: refusals left %d subscribers, want 1", h.Subscribers)
	}
}

// TestR323Identity: what names a subscription.
func TestR323Identity(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	ids := []string{`"1"`, `1`, `""`, `-1.50`, `12345678901234567890`, `"` + strings.Repeat("i", 254) + `"`, `"\u0061b\n"`}
	for i, id := range ids {
		w.send(`{"type":"subscribe","id":` + id + `}`)
		if e := w.frame("subscribed"); string(e.ID) != id {
			t.Errorf("R322: id %s echoed as %s", id, e.ID)
		}
		if h := f.health(t); h.Subscribers != i+1 {
			t.Errorf("after id %s: %d subscribers, want %d", id, h.Subscribers, i+1)
		}
	}
	w.send(`{"type":"subscribe"}`)
	wantJSON(t, "absent id", w.text(), `{"type":"subscribed"}`)
	for _, again := range []string{`"id":"ab\n"`, `"id":1`, `"id":"1"`} {
		w.subscribe(`{"type":"subscribe",` + again + `}`)
	}
	w.subscribe(`{"type":"subscribe"}`)
	if h := f.health(t); h.Subscribers != len(ids)+1 {
		t.Errorf("R324: %d subscribers, want %d", h.Subscribers, len(ids)+1)
	}
	for i, id := range append([]string{`"x"`, `null`, `{"a": 1}`, `[]`, `1e5`}, ids...) {
		w.send(`{"type":"unsubscribe","id":` + id + `}`)
		if e := w.frame("unsubscribed"); string(e.ID) != id {
			t.Errorf("R326: %d: id %s echoed as %s", i, id, e.ID)
		}
	}
	w.send(`{"type":"unsubscribe"}`)
	wantJSON(t, "R326: absent id", w.text(), `{"type":"unsubscribed"}`)
	if h := f.health(t); h.Subscribers != 0 {
		t.Errorf("%d subscribers left", h.Subscribers)
	}
}

// TestR324Replacement: none of the old subscription's events follow the new
// subscribed, also when the old one was replaying (W21).
func TestR324Replacement(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	f.fill(t, "old", 3000, 1000)
	f.post(t, relaytest.Event{Session: "new"}.JSON())
	w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 8 << 10})
	w.subscribe(`{"type":"subscribe","id":"q","from":"all","filter":{"session":"old"}}`)
	w.frame("progress.status") // it replays
	w.send(`{"type":"subscribe","id":"q","from":[{"session":"new"}],"filter":{"session":"new"}}`)
	replayed := 1
	for {
		e, err := relaytest.ParseEnvelope(w.text())
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "subscribed" {
			break
		}
		if e.Session != "old" {
			t.Fatalf("before the new subscribed: session %q", e.Session)
		}
		replayed++
	}
	if e := w.frame("progress.status"); e.Session != "new" {
		t.Errorf("after the new subscribed: session %q", e.Session)
	}
	f.post(t, relaytest.Event{Session: "old", Seq: 9999}.JSON())
	wantTexts(t, "after the replacement", w.barrier(), nil)
	t.Logf("replacement took effect after %d of 3000 replayed events", replayed)
}

// TestR326UnsubscribeDuringReplay: the answer comes, and then nothing.
func TestR326UnsubscribeDuringReplay(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	f.fill(t, "s", 3000, 1000)
	for _, recv := range []int{0, 8 << 10} {
		w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: recv})
		w.send(`{"type":"subscribe","id":"q","from":"all"}`, `{"type":"unsubscribe","id":"q"}`)
		w.frame("subscribed")
		for {
			text := w.text()
			if isFrame(text, "unsubscribed") {
				break
			}
		}
		f.post(t, relaytest.Event{Session: "s", Seq: 9999}.JSON())
		wantTexts(t, "after unsubscribed", w.barrier(), nil)
		if h := f.health(t); h.Subscribers != 0 {
			t.Errorf("%d subscribers", h.Subscribers)
		}
		_ = w.Close()
	}
}

// TestR327RepliesDuringReplay: a connection that replays to a slow reader still
// gets answers, between the replayed events (R329, C26).
func TestR327RepliesDuringReplay(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	const total = 5000
	f.fill(t, "s", total, 1000)
	w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 8 << 10})
	w.subscribe(`{"type":"subscribe","id":"q","from":"all"}`)
	w.frame("progress.status")
	w.send(`{"type":"ping","t":1}`, `{"type":"roster","id":2}`, `{"type":"subscribe","id":"q2","filter":{"session":"none"}}`)
	var answers []string
	for seq := uint64(1); seq < total; {
		text := w.text()
		e, err := relaytest.ParseEnvelope(text)
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Type == "progress.status" && e.SeqNumber() == seq:
			seq++
		case e.Type == "pong" || e.Type == "roster" || e.Type == "subscribed":
			answers = append(answers, e.Type)
			if seq == total {
				t.Errorf("%s came after the whole replay", e.Type)
			}
		default:
			t.Fatalf("got %.200s where %d was due", text, seq)
		}
	}
	wantTexts(t, "answers during the replay", answers, []string{"pong", "roster", "subscribed"})
}

// TestR322Order: subscribed, then each session with its marker, then live;
// several replays on one connection do not mix up (R327).
func TestR322Order(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "2"})
	for _, s := range []string{"a", "b"} {
		f.post(t, at{0, 4}.event(s), at{0, 5}.event(s), at{0, 6}.event(s))
	}
	w := f.socket(t, "")
	w.send(
		`{"type":"subscribe","id":"x","from":[{"session":"b","seq":0},{"session":"a","seq":5}]}`,
		`{"type":"subscribe","id":7,"from":[{"session":"a","epoch":0,"seq":1}],"filter":{"session":"a"}}`,
	)
	w.frame("subscribed")
	var x, seven []string
	for len(x)+len(seven) < 1+3+1+1+2 {
		text := w.text()
		e, err := relaytest.ParseEnvelope(text)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Type == "subscribed" && string(e.ID) == "7":
			seven = append(seven, "subscribed")
		case e.Type == "replay-exhausted" && string(e.Sub) == `"x"`, e.Session == "b", e.Session == "a" && len(x) == 3:
			x = append(x, text)
		default:
			seven = append(seven, text)
		}
	}
	wantJSON(t, "marker of x", x[0], `{"type":"replay-exhausted","sub":"x","session":"b","earliest":{"epoch":0,"seq":5}}`)
	wantTexts(t, "x", x[1:], []string{at{0, 5}.event("b"), at{0, 6}.event("b"), at{0, 6}.event("a")})
	if len(seven) != 4 || seven[0] != "subscribed" {
		t.Fatalf("7: %q", seven)
	}
	wantJSON(t, "marker of 7", seven[1], `{"type":"replay-exhausted","sub":7,"session":"a","earliest":{"epoch":0,"seq":5}}`)
	wantTexts(t, "7", seven[2:], []string{at{0, 5}.event("a"), at{0, 6}.event("a")})
}

// TestR325Limits: 256 subscriptions, filters of 64 KiB and 1 MiB in all.
func TestR325Limits(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, `{"type":"hello","versions":["0.1"],"role":"emitter"}`)
	for i := range 256 {
		w.subscribe(fmt.Sprintf(`{"type":"subscribe","id":%d}`, i))
	}
	w.send(`{"type":"subscribe","id":256}`)
	w.refused("limit-exceeded")
	w.send(`{"type":"subscribe","id":256,"from":[null]}`) // entries come before the number
	w.refused("invalid-filter")
	w.subscribe(`{"type":"subscribe","id":255}`) // a replacement does not count
	w.send(`{"type":"unsubscribe","id":0}`)
	w.frame("unsubscribed")
	w.subscribe(`{"type":"subscribe","id":256}`)
	e := relaytest.Event{Session: "s"}.JSON()
	f.post(t, e)
	if got := w.barrier(); len(got) != 256 {
		t.Errorf("%d copies, want one for each of 256 subscriptions", len(got))
	}

	w = f.socket(t, "")
	filter := func(size int) string { return `{"id":"` + strings.Repeat("x", size-len(`{"id":""}`)) + `"}` }
	w.send(`{"type":"subscribe","id":1,"filter":` + filter(64<<10+1) + `}`)
	w.refused("limit-exceeded")
	for i := range 16 {
		w.subscribe(fmt.Sprintf(`{"type":"subscribe","id":%d,"filter":%s}`, i, filter(64<<10)))
	}
	w.send(`{"type":"subscribe","id":16,"filter":{"id":"x"}}`)
	w.refused("limit-exceeded")
	w.send(`{"type":"unsubscribe","id":3}`)
	w.frame("unsubscribed")
	w.subscribe(`{"type":"subscribe","id":16,"filter":{"id":"x"}}`)
}
