package follow

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"

	"github.com/sluice-relay/sluice/internal/client"
)

func ignore(identity) {}

// R162, R165: the position is where everything below was seen, within bounds.
func TestTrack(t *testing.T) {
	f := func(name string, window int, events string, wantDone string, wantAbove int) {
		t.Helper()
		ts := newTracks(window, ignore)
		var tr *track
		for i, text := range strings.Fields(events) {
			var p point
			if _, err := fmt.Sscanf(text, "%d:%d", &p.epoch, &p.seq); err != nil {
				t.Fatal(err)
			}
			if tr == nil {
				tr, _ = ts.start("s", p, 0)
				continue
			}
			ts.advance(tr, p, identity{byte(i)})
		}
		if got := fmt.Sprintf("%d:%d", tr.done.epoch, tr.done.seq); got != wantDone || len(tr.above) != wantAbove {
			t.Errorf("%s: %s: done %s, %d above; want %s, %d", name, events, got, len(tr.above), wantDone, wantAbove)
		}
	}
	f("in order", 4, "0:0 0:1 0:2", "0:2", 0)
	f("a hole", 4, "0:0 0:2 0:3", "0:0", 2)
	f("a hole that fills", 4, "0:0 0:2 0:3 0:1", "0:3", 0)
	f("backwards", 8, "0:0 0:4 0:3 0:2 0:1", "0:4", 0)
	f("a repeat", 4, "0:0 0:1 0:1 0:0", "0:1", 0)
	f("a repeat above", 4, "0:0 0:2 0:2", "0:0", 2)
	f("repeats above that a hole fills", 4, "0:0 0:2 0:2 0:1", "0:2", 0)
	f("a hole that is given up", 2, "0:0 0:2 0:3 0:5", "0:3", 1)
	f("a new epoch", 4, "0:7 1:0 1:1", "1:1", 0)
	f("a new epoch from the middle", 4, "0:7 1:3", "0:7", 1)
	f("an old epoch's rest", 4, "0:7 1:0 0:8", "1:0", 0)
	f("epochs that are left out", 4, "0:7 5:0", "5:0", 0)
	f("from before an epoch", 4, "2:-1 2:0", "2:0", 0)
	f("the highest numbers", 4, fmt.Sprintf("0:%d 0:%d 0:0", math.MaxInt64-1, math.MaxInt64), fmt.Sprintf("0:%d", math.MaxInt64), 0)
}

// R166: what is gone need not be waited for.
func TestTrackSkip(t *testing.T) {
	ts := newTracks(8, ignore)
	tr, _ := ts.start("s", point{0, 1}, 0)
	ts.advance(tr, point{0, 5}, identity{5})
	ts.skip(tr, point{0, 5})
	if tr.done != (point{0, 5}) || len(tr.above) != 0 {
		t.Errorf("done %v, %d above", tr.done, len(tr.above))
	}
	if ts.skip(tr, point{0, 2}); tr.done != (point{0, 5}) {
		t.Errorf("skipped back to %v", tr.done)
	}
	if ts.skip(tr, point{1, 0}); tr.done != (point{1, -1}) {
		t.Errorf("done %v, want 1:-1", tr.done)
	}
}

// The sessions with a position are bounded; the last active stay.
func TestTracksBounded(t *testing.T) {
	ts := newTracks(4, ignore)
	forgotten := 0
	for i := range maxSessions + 1 {
		tr, dropped := ts.start(fmt.Sprint("s", i), point{}, 0)
		if dropped {
			forgotten++
		}
		if first := ts.bySession["s0"]; first != nil && tr != first {
			ts.advance(first, point{0, int64(i)}, identity{})
		}
	}
	if forgotten != 1 || len(ts.bySession) > maxSessions || ts.bySession["s0"] == nil || ts.bySession["s1"] != nil {
		t.Errorf("%d forgotten, %d kept, s0 %v, s1 %v", forgotten, len(ts.bySession), ts.bySession["s0"], ts.bySession["s1"])
	}
	if tr, _ := ts.start("\xff", point{}, 0); tr != nil {
		t.Error("a name that is no UTF-8 has a position")
	}
}

// Memory is bounded, and keeps what is met again.
func TestMemory(t *testing.T) {
	m := newMemory(100)
	id := func(i int) identity { id, _ := identify(nil, "source", fmt.Sprint(i)); return id }
	for i := range 1000 {
		if m.has(id(i)) {
			t.Fatalf("%d is remembered before it came", i)
		}
		m.add(id(i))
		if !m.has(id(0)) {
			t.Fatalf("0 is forgotten at %d", i)
		}
		if n := len(m.young) + len(m.old); n > 200 {
			t.Fatalf("%d identities", n)
		}
		// What is asked for counts as new too: 0, and this one.
		if back := id(i - min(i, 40)); i%40 == 0 && !m.has(back) {
			t.Fatalf("%d is forgotten at %d", i-40, i)
		}
	}
	if m.has(id(500)) {
		t.Error("500 is remembered still")
	}
	if a, _ := identify(nil, "ab", "c"); a == first(identify(nil, "a", "bc")) {
		t.Error("two pairs look the same")
	}
}

func first(id identity, _ []byte) identity { return id }

// The newest identities are kept for the state file, oldest first.
func TestMemoryRecent(t *testing.T) {
	m := newMemory(10)
	for i := range maxRecent + 3 {
		m.add(identity{byte(i), byte(i >> 8)})
	}
	got := m.appendRecent(nil)
	if len(got) != maxRecent*identityBytes || got[0] != 3 {
		t.Errorf("%d bytes, the first is %d", len(got), got[0])
	}
}

func TestBackoff(t *testing.T) {
	f := func(name string, attempt int, retry, after, least, most time.Duration) {
		t.Helper()
		for range 200 {
			b := backoff{attempt: attempt, retry: retry}
			if d := b.next(after); d < least || d > most || b.attempt != attempt+1 {
				t.Fatalf("%s: %v, want %v to %v", name, d, least, most)
			}
		}
	}
	const s = time.Second
	f("first", 0, 0, 0, s/2, s)
	f("second", 1, 0, 0, s, 2*s)
	f("fifth", 4, 0, 0, 8*s, 16*s)
	f("later", 5, 0, 0, 15*s, 30*s)
	f("much later", 1000, 0, 0, 15*s, 30*s)
	f("R274 retry", 0, 5*s, 0, 5*s, 6*s)
	f("retry and later", 5, 5*s, 0, 15*s, 30*s)
	f("Retry-After", 0, s, 40*s, 40*s, 41*s)
	f("asked for too much", 0, 24*time.Hour, 0, maxAsked, maxAsked+s)
	b := backoff{attempt: 4}
	if b.lasted(59 * s); b.attempt != 4 {
		t.Error("an unstable connection resets")
	}
	if b.lasted(time.Minute); b.attempt != 0 {
		t.Error("a stable minute does not reset")
	}
}

// R274, R424a.
func TestComment(t *testing.T) {
	f := func(text string, want item) {
		t.Helper()
		if got := comment(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	other := item{what: isOther}
	f("ping", other)
	f("", other)
	f("open 7f3a", item{what: isBoot, text: "7f3a"})
	f("shed 12", item{what: isShed, n: 12})
	f("shed many", other)
	f("replay-complete", item{what: isComplete})
	f("shutting-down", item{what: isClosing, text: "shutting-down"})
	f("replay-exhausted s 1:8", item{what: isGap, session: "s", at: point{1, 8}})
	f("replay-exhausted a b: c 0:0", item{what: isGap, session: "a b: c"})
	f("replay-exhausted s", other)
	f("replay-exhausted s 1", other)
	f("replay-exhausted s x:1", other)
}

func TestParseSince(t *testing.T) {
	f := func(text string, want aep.Position, all, ok bool) {
		t.Helper()
		p, gotAll, err := ParseSince(text)
		if p != want || gotAll != all || (err == nil) != ok || !ok && !errors.Is(err, ErrOptions) {
			t.Errorf("%q: %v, %v, %v", text, p, gotAll, err)
		}
	}
	f("all", aep.Position{}, true, true)
	f("s:0:41", aep.Position{Session: "s", Seq: 41}, false, true)
	f("a:b:2:7", aep.Position{Session: "a:b", Epoch: 2, Seq: 7}, false, true)
	for _, bad := range []string{"", "s", "s:1", ":0:1", "s:0:-1", "s:0:x", "ALL"} {
		f(bad, aep.Position{}, false, false)
	}
}

func TestSelection(t *testing.T) {
	f := func(s Selection, want string, ok bool) {
		t.Helper()
		got, err := s.Filter()
		if got != want || (err == nil) != ok || !ok && !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %s, %v; want %s", s, got, err, want)
		}
	}
	f(Selection{}, "", true)
	f(Selection{Sessions: []string{"a,b", "<c>"}}, `{"session":["a,b","<c>"]}`, true)
	f(Selection{Agents: []string{"x"}, Types: []string{"tool.*"}, Severity: "warning"},
		`{"agent":["x"],"severity":{"gte":"warning"},"type":["tool.*"]}`, true)
	f(Selection{Severity: "loud"}, "", false)
	f(Selection{Types: []string{"*"}}, "", false)
	for filter, want := range map[string]bool{
		"": false, `{}`: false, `{"session":"a"}`: false, `{"session":["a"],"type":"b.c"}`: true,
	} {
		if hides(filter) != want {
			t.Errorf("%s hides: %v", filter, !want)
		}
	}
}

// R173, and proxies that take no more than 8 KiB: requests are cut to size, and
// every session is in one.
func TestSplit(t *testing.T) {
	f := func(name string, socket bool, limit, sessions, nameBytes, wantChunks int) {
		t.Helper()
		fl := follower{o: Options{Socket: socket}, fromLimit: limit, tracks: newTracks(4, ignore)}
		for i := range sessions {
			fl.tracks.start(fmt.Sprintf("%0*d", nameBytes, i), point{0, 5}, 0)
		}
		chunks := fl.split(fl.tracks.newest())
		total := 0
		for i, c := range chunks {
			total += len(c)
			r := &request{live: i == 0, from: positionsOf(c)}
			query, _ := fl.query(r)
			if n := len(query.Encode()); n > maxQueryBytes+200 && len(c) > 1 && !(socket && i == 0) || len(c) > limit {
				t.Errorf("%s: chunk %d has %d sessions, %d bytes", name, i, len(c), n)
			}
			if n := len(fl.subscribe(r)); n > maxFrameBytes+200 {
				t.Errorf("%s: frame of %d bytes", name, n)
			}
		}
		if total != sessions || len(chunks) != wantChunks {
			t.Errorf("%s: %d sessions in %d chunks, want %d in %d", name, total, len(chunks), sessions, wantChunks)
		}
	}
	f("few", false, 500, 10, 5, 1)
	f("by count", false, 3, 10, 5, 4)
	f("by length", false, 500, 10, 2000, 5)
	f("longer than a request", false, 500, 2, 8000, 2)
	f("socket", true, 500, 400, 5, 1)
	f("socket by count", true, 500, 600, 5, 3)
}

// R276: one position goes as Last-Event-ID where a header can carry it.
func TestQuery(t *testing.T) {
	f := func(session string, seq int64, live bool, wantID, wantFrom string) {
		t.Helper()
		fl := follower{o: Options{Filter: `{"agent":"a"}`, Ceiling: "metadata"}}
		query, id := fl.query(&request{live: live, from: []aep.Position{{Session: session, Epoch: 1, Seq: seq}}})
		if id != wantID || query.Get("from") != wantFrom || query.Get("capture") != "metadata" || query.Get("filter") == "" ||
			(query.Get("live") == "0") == live {
			t.Errorf("%q: %q, %v", session, id, query)
		}
	}
	f("s:1", 4, true, "s:1:1:4", "")
	f("s:1", 4, false, "", `[{"session":"s:1","epoch":1,"seq":4}]`)
	f("s", -1, true, "", `[{"session":"s","epoch":1,"seq":-1}]`)
	f("ü", 4, true, "", `[{"session":"ü","epoch":1,"seq":4}]`)
	f(" s", 4, true, "", `[{"session":" s","epoch":1,"seq":4}]`)
}

func TestClean(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	f(" a\r\n b\tc ", "a b c")
	f(`say "x"`, `say "x"`)
	f("\x1b[31mred\u202e", `\x1b[31mred\u202e`)
	f(strings.Repeat("ü", 400), strings.Repeat("ü", 150)+"...")
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "soon": 0,
		"Thu, 01 Jan 2026 00:00:09 GMT": 9 * time.Second, "Thu, 01 Jan 2025 00:00:09 GMT": 0,
	} {
		if got := client.RetryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// A state file is read as it was written.
func TestStateRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if _, found, err := readState(path); found || err != nil {
		t.Fatalf("a file that is not there: %v, %v", found, err)
	}
	want := state{
		Format: stateFormat, Boot: "b", Alive: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Sessions: []stateTrack{
			{Session: "<a>\n", Epoch: 1, Seq: -1},
			{Session: "b", Seq: 5, Above: []stateSeen{{0, 7, make([]byte, identityBytes)}}},
		},
		Recent: make([]byte, 3*identityBytes),
	}
	for range 2 { // the second replaces the first
		if err := want.write(path); err != nil {
			t.Fatal(err)
		}
	}
	got, found, err := readState(path)
	if !found || err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, %v; want %+v", got, found, err, want)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
	if err := want.write(filepath.Join(path, "x")); !errors.Is(err, ErrState) {
		t.Errorf("a path that cannot be: %v", err)
	}
}

// A state file that cannot be used is an error, not a new beginning.
func TestStateCorrupt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty":            "",
		"torn":             `{"sluice_tail":1,"sessions":[{"session":"a","ep`,
		"other":            `{"hello":1}`,
		"array":            `[]`,
		"later format":     `{"sluice_tail":2}`,
		"two":              `{"sluice_tail":1} {"sluice_tail":1}`,
		"no session":       `{"sluice_tail":1,"sessions":[{"session":"","epoch":0,"seq":1}]}`,
		"negative epoch":   `{"sluice_tail":1,"sessions":[{"session":"a","epoch":-1,"seq":1}]}`,
		"below the first":  `{"sluice_tail":1,"sessions":[{"session":"a","epoch":0,"seq":-2}]}`,
		"fraction":         `{"sluice_tail":1,"sessions":[{"session":"a","epoch":0,"seq":1.5}]}`,
		"twice":            `{"sluice_tail":1,"sessions":[{"session":"a"},{"session":"a"}]}`,
		"short identity":   `{"sluice_tail":1,"sessions":[{"session":"a","above":[{"id":"AAAA"}]}]}`,
		"odd identities":   `{"sluice_tail":1,"recent":"AAAA"}`,
		"identity no text": `{"sluice_tail":1,"recent":"!"}`,
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Follow(t.Context(), Options{Relay: at(t, "127.0.0.1:1"), State: path}, newCollector())
		if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("%s: the file was changed to %q", name, got)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"filter":    {Filter: `{"data":1}`},
		"no JSON":   {Filter: `{`},
		"capture":   {Ceiling: "loud"},
		"all, from": {All: true, From: []aep.Position{{Session: "a"}}},
		"position":  {From: []aep.Position{{Session: ""}}},
	} {
		o.Relay = at(t, "127.0.0.1:1")
		if err := Follow(t.Context(), o, newCollector()); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzComment(f *testing.F) {
	for _, seed := range []string{"ping", "open x", "replay-exhausted a b 1:2", "shed 9", "replay-exhausted  :"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if it := comment(text); it.what == 0 || it.what == isEvent || it.what == isUp {
			t.Errorf("%q: %+v", text, it)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"sluice_tail":1,"sessions":[{"session":"a","epoch":1,"seq":2,"above":[{"epoch":1,"seq":4,"id":"AAAAAAAAAAAAAAAAAAAAAA=="}]}]}`))
	f.Add([]byte(`{"sluice_tail":1,"recent":""}`))
	path := filepath.Join(f.TempDir(), "state")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, found, err := readState(path)
		if (err == nil) != found {
			t.Fatalf("found %v, %v", found, err)
		}
		if found {
			fl := follower{tracks: newTracks(maxAbove, ignore), memory: newMemory(10)}
			fl.load(&s)
		}
	})
}
