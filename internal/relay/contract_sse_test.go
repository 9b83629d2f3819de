package relay_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR270RefusalOrder: the first failed check answers, before any output.
func TestR270RefusalOrder(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_FROM": "2"})
	const three = `[{"session":"a"},{"session":"b"},null]`
	for _, c := range []struct{ filter, capture, from, body string }{
		{"{", "x", "{", "bad filter JSON"},
		{`{"seq":1}`, "x", "{", ""},
		{"{}", "x", "{", ""},
		{"{}", "full", "{", "bad from JSON"},
		{"{}", "full", "{}", "bad from JSON"},
		{"{}", "full", three, "from too large"},
		{"{}", "full", `[{"session":"a"},null]`, "bad from JSON"},
	} {
		r := f.get(t, "/stream?"+query("filter", c.filter, "capture", c.capture, "from", c.from))
		body := strings.TrimSpace(string(r.Body))
		if r.Status != 400 || body == "" || c.body != "" && body != c.body {
			t.Errorf("%+v: %d %q", c, r.Status, body)
		}
		if c.body == "" && (body == "bad filter JSON" || body == "bad from JSON" || body == "from too large") {
			t.Errorf("%+v: %q is the text of another refusal", c, body)
		}
		if ct := r.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/plain") {
			t.Errorf("%+v: Content-Type %q", c, ct)
		}
		wantCORS(t, "400", r, true)
	}
}

// TestR271Opening covers R271, R274, W18, C93 and C94: the head and the first
// block come at once on an idle relay.
func TestR271Opening(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	boot, retries := f.boot(t), map[int]bool{}
	for i := range 20 {
		q := []string{"", "live=1", "live=00", "live=true&from=all"}[i%4]
		s, err := relaytest.OpenStream(f.addr, "/stream?"+q, relaytest.StreamOptions{Token: testToken})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
			"Connection": "keep-alive", "Access-Control-Allow-Origin": "*", "Content-Length": "", "Content-Encoding": "",
		} {
			if got := s.Response.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		b, err := s.Next(patience)
		if err != nil || len(b.Comments) != 1 || b.Comments[0] != "open "+boot || len(b.Fields) != 2 {
			t.Fatalf("first block %q, %v; want \": open %s\" and retry", b.Raw, err, boot)
		}
		ms, err := strconv.Atoi(b.Retry)
		if err != nil || ms < 1000 || ms > 5000 {
			t.Errorf("retry %q, want 1000 to 5000", b.Retry)
		}
		retries[ms] = true
		_ = s.Close()
	}
	if len(retries) < 3 {
		t.Errorf("retry is drawn per stream, got only %v", retries)
	}
	accept := f.do(t, "GET", f.request("GET", "/stream?live=0", append(f.auth(), "Accept: image/png")...))
	if accept.Status != 200 || len(accept.Chunks) == 0 {
		t.Errorf("Accept is not examined: %d", accept.Status)
	}
}

// TestR272Block is the exact text of one event's block.
func TestR272Block(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	s := f.stream(t, "", relaytest.StreamOptions{})
	for _, c := range []struct {
		e  relaytest.Event
		id string
	}{
		{relaytest.Event{Session: "s", Seq: 7}, "s:0:7"},
		{relaytest.Event{Session: "a:b", Epoch: 3, Seq: 1 << 40}, "a:b:3:1099511627776"},
		{relaytest.Event{Session: "sé ü", Seq: 1<<63 - 1}, "sé ü:0:9223372036854775807"},
		{relaytest.Event{Session: "s", NoSeq: true, Extra: `"seq":5.0`}, "s:0:5"},
		{relaytest.Event{Session: "s", NoSeq: true, Extra: `"epoch":20e-1,"seq":3e2`}, "s:2:300"},
		{relaytest.Event{Session: "tab\there", Seq: 1}, "tab\there:0:1"},
		{relaytest.AgentEvent(), ""},
		{relaytest.Event{Type: "attention.routed", Session: "s", NoSeq: true}, ""},
	} {
		text := c.e.JSON()
		f.post(t, text)
		e, err := relaytest.ParseEnvelope(text)
		if err != nil {
			t.Fatal(err)
		}
		want := "event: " + e.Type + "\ndata: " + text
		if c.id != "" {
			want += "\nid: " + c.id
		}
		if got := s.event().Raw; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if s.Misaligned != 0 {
		t.Errorf("R272a: %d chunks did not end with a whole block", s.Misaligned)
	}
}

// TestR273ForgedLines covers R273, R274 and W11: a session name cannot write
// lines of its own.
func TestR273ForgedLines(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "1"})
	s := f.stream(t, "", relaytest.StreamOptions{})
	for session, escaped := range map[string]string{
		"a\n\nevent: forged\ndata: {}": "a%0A%0Aevent: forged%0Adata: {}",
		"a\rb":                         "a%0Db",
		"a\x00b":                       "a%00b",
		"a%b c":                        "a%b c",
	} {
		first, second := relaytest.Event{Session: session, Seq: 4}.JSON(), relaytest.Event{Session: session, Seq: 5}.JSON()
		f.post(t, first, second)
		plain := session == "a%b c"
		for range 2 {
			if b := s.event(); b.HasID != plain || b.Event != "progress.status" {
				t.Errorf("session %q: block %q, want an id: %v", session, b.Raw, plain)
			}
		}
		got := f.replay(t, query("from", `[{"session":`+relaytest.Quote(session)+`,"seq":1}]`))
		wantTexts(t, fmt.Sprintf("session %q", session), texts(got), []string{": replay-exhausted " + escaped + " 0:5", second})
	}
}

// TestR275Order: sessions in request order, each after its marker; the marker
// does not depend on the filter.
func TestR275Order(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "1"})
	post := func(session string) string {
		e := relaytest.Event{Session: session, Seq: 9}.JSON()
		f.post(t, relaytest.Event{Session: session, Seq: 8}.JSON(), e)
		return e
	}
	a, b, c := post("a"), post("b"), post("c")
	from := `[{"session":"c","seq":8},{"session":"b","seq":0},{"session":"a","seq":0}]`
	wantTexts(t, "order", texts(f.replay(t, query("from", from))),
		[]string{c, ": replay-exhausted b 0:9", b, ": replay-exhausted a 0:9", a})
	wantTexts(t, "filter", texts(f.replay(t, query("from", from, "filter", `{"session":"a"}`))),
		[]string{": replay-exhausted b 0:9", ": replay-exhausted a 0:9", a})
	s := f.stream(t, query("from", from), relaytest.StreamOptions{})
	live := post("a")
	got := texts(s.until(live))
	wantTexts(t, "live after replay", got[:min(5, len(got))], []string{c, ": replay-exhausted b 0:9", b, ": replay-exhausted a 0:9", a})
}

// TestR276LastEventID covers R276 to R278, W22 and C36.
func TestR276LastEventID(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	e := func(session string, seq uint64) string {
		return relaytest.Event{Session: session, Epoch: 3, Seq: seq, ID: fmt.Sprint(session, seq)}.JSON()
	}
	for _, session := range []string{"s", "a:b", ":", "sé€😀"} {
		f.post(t, e(session, 7), e(session, 8))
	}
	for _, c := range []struct {
		name, header, query string
		want                []string
	}{
		{"plain", "s:3:7", "", []string{e("s", 8)}},
		{"colons in the session", "a:b:3:7", "", []string{e("a:b", 8)}},
		{"session of one colon", "::3:7", "", []string{e(":", 8)}},
		{"W22 UTF-8", "sé€😀:3:7", "", []string{e("sé€😀", 8)}},
		{"from empty", "s:3:7", "from=", []string{e("s", 8)}},
		{"from an empty array", "s:3:7", "from=[]", []string{e("s", 8)}},
		{"R278 from wins", "s:3:7", query("from", `[{"session":"a:b","epoch":3,"seq":7}]`), []string{e("a:b", 8)}},
		{"R277 all wins", "s:3:7", query("from", "all", "filter", `{"session":":"}`), []string{e(":", 7), e(":", 8)}},
		{"leading zeros", "s:03:007", "", []string{e("s", 8)}},
		{"exhausted", "s:3:1", "", []string{": replay-exhausted s 3:7", e("s", 7), e("s", 8)}},
		{"unknown session", "nobody:0:0", "", nil},
		{"0", "0", "", nil},
		{"abc", "abc", "", nil},
		{"one colon", "s:7", "", nil},
		{"no session", ":3:7", "", nil},
		{"letters", "s:3:x", "", nil},
		{"empty number", "s:3:", "", nil},
		{"empty number", "s::7", "", nil},
		{"sign", "s:3:+7", "", nil},
		{"sign", "s:3:-1", "", nil},
		{"space", "s:3: 7", "", nil},
		{"fraction", "s:3:7.0", "", nil},
		{"64 bits", "s:3:9223372036854775808", "", nil},
		{"64 bits", "s:18446744073709551619:7", "", nil},
		{"63 bits", "s:3:9223372036854775807", "", nil},
		{"bad UTF-8", "s\xff:3:7", "", nil},
		{"64 KiB", strings.Repeat("s", 64<<10) + ":3:7", "", nil},
	} {
		got := texts(f.replay(t, c.query, "Last-Event-ID: "+c.header))
		wantTexts(t, c.name+": Last-Event-ID "+c.header[:min(40, len(c.header))], got, c.want)
	}
	s := f.stream(t, "", relaytest.StreamOptions{LastEventID: "s:3:7"})
	if got := s.event().Data; got != e("s", 8) {
		t.Errorf("live stream: %s", got)
	}
	f.post(t, e("s", 9))
	if got := s.event().Data; got != e("s", 9) {
		t.Errorf("live stream: %s", got)
	}
}

// TestR279FilterSession: live=0 replays what the filter names.
func TestR279FilterSession(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "2"})
	e := func(session string, seq uint64) string {
		return relaytest.Event{Session: session, Seq: seq, ID: fmt.Sprint(session, seq)}.JSON()
	}
	for _, s := range []string{"a", "b", "c"} {
		f.post(t, e(s, 1), e(s, 2), e(s, 3)) // 1 is trimmed
	}
	for _, c := range []struct {
		name, filter, from string
		want               []string
	}{
		{"string", `{"session":"a"}`, "", []string{e("a", 2), e("a", 3)}},
		{"string, and more", `{"session":"a","type":"progress.*"}`, "", []string{e("a", 2), e("a", 3)}},
		{"string, other type", `{"session":"a","type":"tool.*"}`, "", nil},
		{"array", `{"session":["b","a"]}`, "", []string{e("b", 2), e("b", 3), e("a", 2), e("a", 3)}},
		{"array with repeats", `{"session":["b","b"]}`, "", []string{e("b", 2), e("b", 3)}},
		{"named in from", `{"session":"a"}`, `[{"session":"a","seq":2}]`, []string{e("a", 3)}},
		{"one named, one not", `{"session":["a","b"]}`, `[{"session":"b","seq":2}]`, []string{e("b", 3), e("a", 2), e("a", 3)}},
		{"from another", `{"session":"a"}`, `[{"session":"c"}]`, []string{e("a", 2), e("a", 3)}},
		{"no session", `{"type":"progress.*"}`, "", nil},
		{"unknown", `{"session":"nobody"}`, "", nil},
		{"number", `{"session":5}`, "", nil},
		{"all", `{"session":"a"}`, "all", []string{e("a", 2), e("a", 3)}},
	} {
		wantTexts(t, c.name, texts(f.replay(t, query("filter", c.filter, "from", c.from))), c.want)
	}
	s := f.stream(t, query("filter", `{"session":"a"}`), relaytest.StreamOptions{})
	f.post(t, e("a", 4))
	if got := s.event().Data; got != e("a", 4) {
		t.Errorf("a live stream without from starts empty: %s", got)
	}
}

// TestR280NothingToReplay: the answer is complete all the same.
func TestR280NothingToReplay(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	for _, q := range []string{"", "from=all", "from=[]", query("from", `[{"session":"s"}]`)} {
		if got := f.replay(t, q); len(got) != 0 {
			t.Errorf("%s: %q", q, texts(got))
		}
	}
	c := f.raw(t, 0)
	for range 3 { // the connection serves on
		if r := answer(t, c, "GET", f.request("GET", "/stream?live=0")); r.Status != 200 || !strings.HasSuffix(string(r.Body), ": replay-complete\n\n") {
			t.Errorf("%d %q", r.Status, r.Body)
		}
	}
}

// TestR281GaugeFalls: a reader that leaves is forgotten at once.
func TestR281GaugeFalls(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	leave := []func(*stream) error{
		func(s *stream) error { return s.Close() },
		func(s *stream) error { return s.Reset() },
		func(s *stream) error { return s.CloseWrite() },
	}
	for i := range 9 {
		s := f.stream(t, "", relaytest.StreamOptions{HTTP10: i%2 == 1})
		if h := f.health(t); h.Subscribers != 1 {
			t.Errorf("%d subscribers, want 1", h.Subscribers)
		}
		if err := leave[i%3](s); err != nil {
			t.Fatal(err)
		}
		f.awaitHealth(t, "R281", func(h health) bool { return h.Subscribers == 0 })
	}
	f.replay(t, "")
	if h := f.health(t); h.Subscribers != 0 {
		t.Errorf("a finished live=0 counts as %d subscribers", h.Subscribers)
	}
}

// TestR282CompleteReplay: a replay is complete whatever its size and however
// slow its reader (R282, R423, W12).
func TestR282CompleteReplay(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	const events = 9000
	var batch []string
	for i := range events {
		e := relaytest.Padded("s", uint64(i), []string{"info", "debug", "notice"}[i%3], 1000)
		if batch = append(batch, e.JSON()); len(batch) == 500 {
			f.post(t, batch...)
			batch = nil
		}
	}
	for _, o := range []relaytest.StreamOptions{{}, {RecvBytes: 8 << 10}} {
		for _, q := range []string{"live=0&from=all", query("from", `[{"session":"s"}]`)} {
			s := f.stream(t, q, o)
			for i := range events {
				e, err := relaytest.ParseEnvelope(s.event().Data)
				if err != nil || e.SeqNumber() != uint64(i) {
					t.Fatalf("%s: event %d has seq %s, %v", q, i, e.Seq, err)
				}
			}
			if strings.HasPrefix(q, "live=0") {
				if b := s.block(); b.Raw != ": replay-complete" {
					t.Errorf("%s: got %q at the end", q, b.Raw)
				}
				if _, err := s.Next(patience); !errors.Is(err, io.EOF) {
					t.Errorf("%s: end is %v", q, err)
				}
			}
			_ = s.Close()
		}
	}
	w := f.socketWith(t, "", relaytest.WSOptions{RecvBytes: 8 << 10})
	w.subscribe(`{"type":"subscribe","id":"q","from":"all"}`)
	for i := range events {
		if e := w.frame("progress.status"); e.SeqNumber() != uint64(i) {
			t.Fatalf("WebSocket: event %d has seq %s", i, e.Seq)
		}
	}
}
