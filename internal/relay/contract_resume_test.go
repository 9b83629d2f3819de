package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// at is a position in a session of a test.
type at struct{ epoch, seq uint64 }

func (p at) String() string { return fmt.Sprintf("%d:%d", p.epoch, p.seq) }

func (p at) event(session string) string {
	return relaytest.Event{Session: session, Epoch: p.epoch, Seq: p.seq, ID: session + "@" + p.String()}.JSON()
}

// row is a resume: what it gives is a marker, or none, and events.
type row struct {
	name   string
	from   string // JSON position, or array
	cursor string // Last-Event-ID that asks the same, if there is one
	marker string // "epoch:seq", or empty
	want   []at
}

// check asks for r on each binding that can ask it, replaying only and live.
func (r row) check(t *testing.T, f *fixture, session string) {
	t.Helper()
	from := r.from
	if !strings.HasPrefix(from, "[") {
		from = "[" + from + "]"
	}
	var want []string
	if r.marker != "" {
		want = append(want, ": replay-exhausted "+session+" "+r.marker)
	}
	for _, p := range r.want {
		want = append(want, p.event(session))
	}
	wantTexts(t, r.name+": SSE live=0 from="+from, texts(f.replay(t, query("from", from))), want)
	if r.cursor != "" {
		wantTexts(t, r.name+": SSE Last-Event-ID "+r.cursor, texts(f.replay(t, "", "Last-Event-ID: "+r.cursor)), want)
	}
	live := f.stream(t, query("from", from), relaytest.StreamOptions{})
	w := f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"q","from":` + from + `}`)
	mark := relaytest.AgentEvent().JSON()
	f.post(t, mark)
	wantTexts(t, r.name+": SSE live from="+from, texts(live.until(mark)), want)
	var got []string
	for text := w.text(); text != mark; text = w.text() {
		e, err := relaytest.ParseEnvelope(text)
		if err == nil && e.Type == "replay-exhausted" && string(e.Sub) == `"q"` && e.Earliest != nil {
			text = fmt.Sprintf(": replay-exhausted %s %s:%s", e.Session, e.Earliest.Epoch, e.Earliest.Seq)
		}
		got = append(got, text)
	}
	wantTexts(t, r.name+": WebSocket from="+from, got, want)
	_ = live.Close()
	_ = w.Close()
}

func seqs(epoch uint64, from, to uint64) []at {
	var all []at
	for s := from; s <= to; s++ {
		all = append(all, at{epoch, s})
	}
	return all
}

// TestR166Exhaustion is the table of R166 with its neighbours (R163, R165,
// R167, R168, W14, C27).
func TestR166Exhaustion(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		posted []at
		rows   []row
	}{
		{"eleven events", seqs(1, 0, 10), []row{
			{"gone", `{"session":"s","epoch":1,"seq":0}`, "s:1:0", "1:8", seqs(1, 8, 10)},
			{"one before the floor", `{"session":"s","epoch":1,"seq":6}`, "s:1:6", "1:8", seqs(1, 8, 10)},
			{"at the floor", `{"session":"s","epoch":1,"seq":7}`, "s:1:7", "", seqs(1, 8, 10)},
			{"inside", `{"session":"s","epoch":1,"seq":8}`, "s:1:8", "", seqs(1, 9, 10)},
			{"at the end", `{"session":"s","epoch":1,"seq":10}`, "s:1:10", "", nil},
			{"beyond the end", `{"session":"s","epoch":1,"seq":1000000000000}`, "s:1:1000000000000", "", nil},
			{"epoch beyond", `{"session":"s","epoch":9,"seq":0}`, "s:9:0", "", nil},
			{"epoch before", `{"session":"s","epoch":0,"seq":5}`, "s:0:5", "1:8", seqs(1, 8, 10)},
			{"R168 no seq", `{"session":"s","epoch":1}`, "", "", seqs(1, 8, 10)},
			{"R168 seq -1", `{"session":"s","epoch":1,"seq":-1}`, "", "", seqs(1, 8, 10)},
			{"R168 bare", `{"session":"s"}`, "", "", seqs(1, 8, 10)},
			{"R168 later epoch, seq -1", `{"session":"s","epoch":2,"seq":-1}`, "", "", nil},
			{"R169 unknown session", `{"session":"t","epoch":1,"seq":0}`, "t:1:0", "", nil},
		}},
		{"first event ever at 100", []at{{0, 100}}, []row{
			{"before", `{"session":"s","seq":3}`, "s:0:3", "0:100", []at{{0, 100}}},
			{"one too early", `{"session":"s","seq":98}`, "s:0:98", "0:100", []at{{0, 100}}},
			{"just before", `{"session":"s","seq":99}`, "s:0:99", "", []at{{0, 100}}},
		}},
		{"epoch change", append(seqs(0, 0, 2), seqs(1, 0, 2)...), []row{
			{"nothing is missing", `{"session":"s","epoch":0,"seq":2}`, "s:0:2", "", seqs(1, 0, 2)},
			{"one is missing", `{"session":"s","epoch":0,"seq":1}`, "s:0:1", "1:0", seqs(1, 0, 2)},
		}},
		{"first event ever opens epoch 1", []at{{1, 0}}, []row{
			{"earlier epoch", `{"session":"s","epoch":0,"seq":5}`, "s:0:5", "1:0", []at{{1, 0}}},
			{"R168", `{"session":"s","epoch":1,"seq":-1}`, "", "", []at{{1, 0}}},
		}},
		{"backfill below the floor", []at{{1, 5}, {1, 0}}, []row{
			{"earliest held is not above r + 1", `{"session":"s","epoch":1,"seq":0}`, "s:1:0", "", []at{{1, 5}}},
			{"an epoch before", `{"session":"s","epoch":0,"seq":5}`, "s:0:5", "1:0", []at{{1, 0}, {1, 5}}},
		}},
		{"R162 late and low", []at{{2, 5}, {1, 9}, {2, 4}}, []row{
			{"ascending", `{"session":"s"}`, "", "", []at{{1, 9}, {2, 4}, {2, 5}}},
			{"inside", `{"session":"s","epoch":2,"seq":4}`, "s:2:4", "", []at{{2, 5}}},
		}},
		{"R163 the lowest goes, even the newcomer", []at{{1, 5}, {1, 6}, {1, 7}, {1, 1}}, []row{
			{"held", `{"session":"s"}`, "", "", seqs(1, 5, 7)},
			{"floor", `{"session":"s","epoch":1,"seq":4}`, "s:1:4", "", seqs(1, 5, 7)},
			{"below", `{"session":"s","epoch":1,"seq":3}`, "s:1:3", "1:5", seqs(1, 5, 7)},
		}},
		{"W13 large epochs", []at{{1767225600000, 0}, {1767225600000, 1}, {1767225600001, 0}}, []row{
			{"inside", `{"session":"s","epoch":1767225600000,"seq":0}`, "s:1767225600000:0", "", []at{{1767225600000, 1}, {1767225600001, 0}}},
			{"next epoch", `{"session":"s","epoch":1767225600000,"seq":1}`, "s:1767225600000:1", "", []at{{1767225600001, 0}}},
		}},
		{"W13 large sequences", []at{{8192, 1 << 40}, {8192, 1<<40 + 1}, {8193, 0}}, []row{
			{"inside", `{"session":"s","epoch":8192,"seq":1099511627776}`, "s:8192:1099511627776", "", []at{{8192, 1<<40 + 1}, {8193, 0}}},
		}},
		{"W13 the highest position", []at{{1<<63 - 1, 1<<63 - 2}, {1<<63 - 1, 1<<63 - 1}}, []row{
			{"before", `{"session":"s","epoch":9223372036854775807,"seq":9223372036854775806}`, "s:9223372036854775807:9223372036854775806", "", []at{{1<<63 - 1, 1<<63 - 1}}},
			{"at", `{"session":"s","epoch":9223372036854775807,"seq":9223372036854775807}`, "s:9223372036854775807:9223372036854775807", "", nil},
			{"gone", `{"session":"s","epoch":9223372036854775807,"seq":0}`, "s:9223372036854775807:0", "9223372036854775807:9223372036854775806", []at{{1<<63 - 1, 1<<63 - 2}, {1<<63 - 1, 1<<63 - 1}}},
		}},
	}
	for _, c := range cases {
		f := startRelay(t, map[string]string{"AEP_BUFFER": "3"})
		for _, p := range c.posted {
			f.post(t, p.event("s"))
		}
		for _, r := range c.rows {
			r.name = c.name + ", " + r.name
			r.check(t, f, "s")
		}
	}
}

// TestR167EmptyBuffer: with nothing held the marker names what comes next.
func TestR167EmptyBuffer(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "0"})
	f.post(t, at{2, 7}.event("s"), at{2, 8}.event("s"))
	for _, r := range []row{
		{"before", `{"session":"s","epoch":2,"seq":3}`, "s:2:3", "2:9", nil},
		{"one before the last", `{"session":"s","epoch":2,"seq":7}`, "s:2:7", "2:9", nil},
		{"at the last", `{"session":"s","epoch":2,"seq":8}`, "s:2:8", "", nil},
		{"R168", `{"session":"s"}`, "", "", nil},
	} {
		r.check(t, f, "s")
	}
	if got := f.held(t); len(got) != 0 {
		t.Errorf("R163: AEP_BUFFER=0 holds %q", got)
	}
	if h := f.health(t); h.Sessions > 1 {
		t.Errorf("%d sessions", h.Sessions)
	}
}

// TestR161Dedupe: the pair (source, id), among held events of one session.
func TestR161Dedupe(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER": "3"})
	e := func(session, source, id string, seq uint64) string {
		return relaytest.Event{Session: session, Source: source, ID: id, Seq: seq}.JSON()
	}
	kept := []string{e("s", "a", "1", 0), e("s", "b", "1", 1)}
	f.post(t, kept[0], kept[1], e("s", "a", "1", 2), kept[0], e("s", "a", "1", 9))
	wantTexts(t, "same pair, also at another position", f.held(t), kept)
	joined := []string{e("j", "a", "b1", 0), e("j", "ab", "1", 1)}
	f.post(t, joined...)
	wantTexts(t, "the key is the pair, not a joined string", texts(f.replay(t, query("from", `[{"session":"j"}]`))), joined)
	other := e("o", "a", "1", 0)
	f.post(t, other)
	wantTexts(t, "another session", texts(f.replay(t, query("from", `[{"session":"o"}]`))), []string{other})
	// Trim a:1 away: it is forgotten and admitted at a new position.
	f.post(t, e("s", "c", "2", 3), e("s", "c", "3", 4), e("s", "a", "1", 20))
	wantTexts(t, "a trimmed pair", texts(f.replay(t, query("from", `[{"session":"s"}]`))),
		[]string{e("s", "c", "2", 3), e("s", "c", "3", 4), e("s", "a", "1", 20)})
}

// TestR162EqualPositionsKeepArrivalOrder with inserts on both sides.
func TestR162EqualPositionsKeepArrivalOrder(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	e := func(id string, seq uint64) string { return relaytest.Event{Session: "s", ID: id, Seq: seq}.JSON() }
	f.post(t, e("a", 5), e("b", 5), e("c", 9), e("d", 5), e("e", 1), e("f", 5))
	wantTexts(t, "replay", f.held(t), []string{e("e", 1), e("a", 5), e("b", 5), e("d", 5), e("f", 5), e("c", 9)})
	wantTexts(t, "R165: strictly after", texts(f.replay(t, query("from", `[{"session":"s","seq":5}]`))), []string{e("c", 9)})
}

// TestR164DroppedSessions covers R164, R170 and R171.
func TestR164DroppedSessions(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_SESSIONS": "2"})
	f.post(t, at{1, 4}.event("a"), at{1, 9}.event("a"), at{1, 7}.event("a"), at{0, 0}.event("b"))
	f.held(t)                                // reading refreshes nothing
	f.post(t, at{1, 4}.event("a"))           // a duplicate does
	f.post(t, at{0, 0}.event("c"))           // drops b
	f.post(t, relaytest.AgentEvent().JSON()) // is no session
	f.post(t, at{5, 5}.event("d"))           // drops a, whose highest is 1:9
	if h := f.health(t); h.Sessions != 2 {
		t.Errorf("%d sessions held, want 2", h.Sessions)
	}
	for _, r := range []row{
		{"dropped", `{"session":"a","epoch":1,"seq":4}`, "a:1:4", "1:10", nil},
		{"dropped, one short", `{"session":"a","epoch":1,"seq":8}`, "a:1:8", "1:10", nil},
		{"dropped, but had it all", `{"session":"a","epoch":1,"seq":9}`, "a:1:9", "", nil},
		{"R168", `{"session":"a"}`, "", "", nil},
	} {
		r.check(t, f, "a")
	}
	row{"dropped first", `{"session":"b","seq":0}`, "b:0:0", "", nil}.check(t, f, "b")
	row{"still held", `{"session":"c"}`, "", "", []at{{0, 0}}}.check(t, f, "c")
	all := f.held(t)
	slices.Sort(all)
	wantTexts(t, "R171: no marker under all", all, []string{at{0, 0}.event("c"), at{5, 5}.event("d")})

	f.post(t, at{1, 20}.event("a")) // a new buffer ends the record, and drops c
	row{"R170 record ended", `{"session":"a","epoch":1,"seq":9}`, "a:1:9", "1:20", []at{{1, 20}}}.check(t, f, "a")
	row{"R170 record ended", `{"session":"a","epoch":1,"seq":19}`, "a:1:19", "", []at{{1, 20}}}.check(t, f, "a")

	// The record holds AEP_MAX_SESSIONS names: a flood of others forgets c.
	for i := range 4 {
		f.post(t, at{0, 3}.event(fmt.Sprintf("flood%d", i)))
	}
	row{"R170 record bound", `{"session":"a","epoch":1,"seq":2}`, "a:1:2", "", nil}.check(t, f, "a")
	row{"R170 newest record", `{"session":"flood1","seq":2}`, "flood1:0:2", "0:4", nil}.check(t, f, "flood1")
}

// TestR172From covers R172, R173, W36 and the order of R275 on both bindings.
func TestR172From(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_SESSIONS": "7", "AEP_MAX_FROM": "4"})
	for _, s := range []string{"a", "b"} {
		f.post(t, at{0, 1}.event(s), at{0, 2}.event(s), at{1, 0}.event(s))
	}
	ask := func(from string) []string {
		got := texts(f.replay(t, query("from", from)))
		w := f.socket(t, "")
		w.subscribe(`{"type":"subscribe","id":"q","from":` + from + `}`)
		wantTexts(t, "both bindings for "+from, w.replayed(len(got)), got)
		_ = w.Close()
		return got
	}
	a, b := []string{at{0, 1}.event("a"), at{0, 2}.event("a"), at{1, 0}.event("a")}, []string{at{0, 2}.event("b"), at{1, 0}.event("b")}
	wantTexts(t, "R275: request order", ask(`[{"session":"b","seq":1},{"session":"a","seq":0}]`), append(b[:2:2], a...))
	wantTexts(t, "R172: once, from the lowest", ask(`[{"session":"a","epoch":0,"seq":2},{"session":"b","seq":1},{"session":"a","seq":0},{"session":"a","epoch":1,"seq":0}]`), append(a[:3:3], b...))
	wantTexts(t, "R172: -1 is lowest", ask(`[{"session":"a","seq":2},{"session":"a"}]`), a)
	wantTexts(t, "R174: other members ignored", ask(`[{"session":"a","seq":2.0,"epoch":0,"x":null,"id":[]}]`), a[2:])
	if got := f.held(t); len(got) != 6 {
		t.Errorf("R171: all is exempt: %d events", len(got))
	}

	five := `[` + strings.Repeat(`{"session":"a"},`, 4) + `{"session":"a"}]`
	r := f.get(t, "/stream?"+query("from", five))
	if r.Status != 400 || strings.TrimSpace(string(r.Body)) != "from too large" {
		t.Errorf("R173: SSE: %d %q", r.Status, r.Body)
	}
	w := f.socket(t, "")
	w.send(`{"type":"subscribe","id":"q","from":` + five + `}`)
	if e := w.refused("limit-exceeded"); !strings.Contains(e.Detail, "AEP_MAX_FROM") || e.IDString() != "q" {
		t.Errorf("R320: %+v", e)
	}
}

// TestR10MaxFromFollowsMaxSessions: the default is the effective other limit.
func TestR10MaxFromFollowsMaxSessions(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_SESSIONS": "2"})
	if r := f.get(t, "/stream?live=0&"+query("from", `[{"session":"a"},{"session":"b"}]`)); r.Status != 200 {
		t.Errorf("two positions: %d", r.Status)
	}
	if r := f.get(t, "/stream?live=0&"+query("from", `[{"session":"a"},{"session":"b"},{"session":"c"}]`)); r.Status != 400 {
		t.Errorf("three positions: %d, want 400", r.Status)
	}
}

// badFrom is refused by R174 (and W4) on both bindings.
var badFrom = []string{
	`[null]`, `[5]`, `["s"]`, `[[]]`, `[{}]`, `[{"session":""}]`, `[{"session":5}]`, `[{"session":null}]`,
	`[{"session":"s","seq":-2}]`, `[{"session":"s","seq":"1"}]`, `[{"session":"s","seq":1.5}]`, `[{"session":"s","seq":null}]`,
	`[{"session":"s","epoch":-1}]`, `[{"session":"s","epoch":"0"}]`, `[{"session":"s","epoch":0.5}]`, `[{"session":"s","epoch":null}]`,
	`[{"session":"s"},null]`, `[{"session":"s","seq":true}]`, `[{"session":"s","epoch":{}}]`,
	`{}`, `null`, `5`, `true`, `"s"`, `"ALL"`,
}

func TestR174BadFrom(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	f.post(t, relaytest.Event{Session: "s"}.JSON())
	w := f.socket(t, "")
	for _, from := range append(badFrom, `"all"`, `[`, `ALL`, `all `, `x`, `[{"session":"s"}] x`) {
		r := f.get(t, "/stream?"+query("from", from))
		if r.Status != 400 || strings.TrimSpace(string(r.Body)) != "bad from JSON" {
			t.Errorf("SSE from=%s: %d %q, want 400 bad from JSON", from, r.Status, r.Body)
		}
		wantCORS(t, from, r, true)
	}
	for i, from := range badFrom {
		w.send(fmt.Sprintf(`{"type":"subscribe","id":%d,"from":%s}`, i, from))
		if e := w.refused("invalid-filter"); string(e.ID) != fmt.Sprint(i) || e.Detail == "" {
			t.Errorf("WebSocket from=%s: %+v", from, e)
		}
	}
	if h := f.health(t); h.Subscribers != 0 {
		t.Errorf("refused requests left %d subscribers", h.Subscribers)
	}
}

// TestR175BufferBytes: retention is bounded in bytes, oldest session first.
func TestR175BufferBytes(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_BUFFER_BYTES": "200000"})
	f.fill(t, "old", 100, 1000)
	f.fill(t, "new", 150, 1000)
	from := query("from", `[{"session":"new","seq":0},{"session":"old","seq":0}]`)
	var bytes int
	held := map[string]int{}
	var first, marked string
	for _, b := range f.replay(t, from) {
		if !b.IsEvent() {
			marked += strings.TrimPrefix(b.Raw, ": replay-exhausted ") + ";"
			continue
		}
		bytes += len(b.Data)
		e, err := relaytest.ParseEnvelope(b.Data)
		if err != nil {
			t.Fatal(err)
		}
		if held[e.Session] == 0 {
			first += fmt.Sprintf("%s 0:%s;", e.Session, e.Seq)
		}
		held[e.Session]++
	}
	if bytes > 200_000 || bytes < 100_000 {
		t.Errorf("%d bytes held under a bound of 200,000", bytes)
	}
	if held["new"] < 100 || held["old"] > 60 {
		t.Errorf("held %v: events leave from the session least recently written", held)
	}
	if held["old"] == 0 {
		first += "old 0:100;"
	}
	if held["new"] == 149 { // resume position 0 misses nothing
		first = strings.TrimPrefix(first, "new 0:1;")
	}
	if marked != first {
		t.Errorf("markers %q, want %q", marked, first)
	}
}
