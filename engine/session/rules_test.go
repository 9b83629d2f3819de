package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

// TestResume has the worked cases of R165 to R170, each on fresh buffers.
func TestResume(t *testing.T) {
	type resumes [][3]string // request, announced earliest, delivered
	for _, c := range []struct {
		name string
		cfg  Config
		puts func(*writer)
		want resumes
	}{
		{
			"R166, R167: trimmed",
			Config{EventsPerSession: 3},
			func(w *writer) { w.run("s", 1, 0, 10) },
			resumes{
				{"1:0", "1:8", "1:8 1:9 1:10"},
				{"1:6", "1:8", "1:8 1:9 1:10"},
				{"0:0", "1:8", "1:8 1:9 1:10"},
				{"1:7", "", "1:8 1:9 1:10"},
				{"1:8", "", "1:9 1:10"},
				{"1:10", "", ""},
				{"1:11", "", ""},
				{"2:0", "", ""},
			},
		}, {
			"R166: first event ever",
			Config{EventsPerSession: 3},
			func(w *writer) { w.put("s", "0:100") },
			resumes{{"0:3", "0:100", "0:100"}, {"0:98", "0:100", "0:100"}, {"0:99", "", "0:100"}},
		}, {
			"R166: first event of an epoch",
			Config{EventsPerSession: 3},
			func(w *writer) { w.put("s", "1:0") },
			resumes{{"0:7", "1:0", "1:0"}, {"1:0", "", ""}},
		}, {
			"R166: across an epoch",
			Config{EventsPerSession: 3},
			func(w *writer) { w.put("s", "0:0 0:1 0:2 1:0 1:1 1:2") },
			resumes{{"0:2", "", "1:0 1:1 1:2"}, {"0:1", "1:0", "1:0 1:1 1:2"}},
		}, {
			"R166: below the floor, but nothing missing",
			Config{EventsPerSession: 3},
			func(w *writer) { w.put("s", "0:10 0:5 0:6 0:7") },
			resumes{{"0:4", "0:6", "0:6 0:7 0:10"}, {"0:5", "", "0:6 0:7 0:10"}},
		}, {
			"R166: the floor does not go down with backfill",
			Config{EventsPerSession: 3},
			func(w *writer) { w.put("s", "0:10 0:3") },
			resumes{{"0:1", "0:3", "0:3 0:10"}, {"0:2", "", "0:3 0:10"}, {"0:5", "", "0:10"}, {"0:9", "", "0:10"}},
		}, {
			"R163, R166: an event too low to be held moves the floor",
			Config{EventsPerSession: 2},
			func(w *writer) { w.put("s", "0:10 0:20 0:15"); w.put("s", "0:12") },
			resumes{{"0:11", "0:15", "0:15 0:20"}, {"0:12", "", "0:15 0:20"}},
		}, {
			"R168: seq -1 is never exhausted",
			Config{EventsPerSession: 3},
			func(w *writer) { w.run("s", 1, 0, 3); w.run("s", 2, 0, 0) },
			resumes{{"0:-1", "", "1:2 1:3 2:0"}, {"1:-1", "", "1:2 1:3 2:0"}, {"2:-1", "", "2:0"}, {"3:-1", "", ""}},
		}, {
			"R169: never held",
			Config{EventsPerSession: 3},
			func(w *writer) { w.put("other", "0:5") },
			resumes{{"0:0", "", ""}, {"0:-1", "", ""}},
		}, {
			"R167: nothing is held",
			Config{},
			func(w *writer) { w.put("s", "1:3 1:4 1:2") },
			resumes{{"1:3", "1:5", ""}, {"0:9", "1:5", ""}, {"1:4", "", ""}, {"1:-1", "", ""}},
		}, {
			"R170: dropped whole",
			Config{EventsPerSession: 3, Sessions: 1},
			func(w *writer) { w.put("s", "1:3 1:9 1:4"); w.put("t", "0:0") },
			resumes{{"1:8", "1:10", ""}, {"1:9", "", ""}, {"0:0", "1:10", ""}, {"1:-1", "", ""}},
		}, {
			"R170: dropped when it held nothing",
			Config{Sessions: 1},
			func(w *writer) { w.put("s", "1:3"); w.put("t", "0:0") },
			resumes{{"1:2", "1:4", ""}, {"1:3", "", ""}},
		}, {
			"R170: a new buffer ends the record",
			Config{EventsPerSession: 3, Sessions: 1},
			func(w *writer) { w.put("s", "1:50"); w.put("t", "0:0"); w.put("s", "1:10") },
			resumes{{"1:5", "1:10", "1:10"}, {"1:20", "", ""}},
		}, {
			"R170: the oldest record is forgotten",
			Config{EventsPerSession: 3, Sessions: 1},
			func(w *writer) { w.put("s", "1:50"); w.put("t", "0:0"); w.put("u", "0:0") },
			resumes{{"1:5", "", ""}},
		}, {
			"R162: exact 64-bit integers",
			Config{EventsPerSession: 9},
			func(w *writer) {
				w.put("s", "9007199254740993:0 9007199254740992:9223372036854775807 8192:1099511627776 8193:0")
			},
			resumes{
				{"0:-1", "", "8192:1099511627776 8193:0 9007199254740992:9223372036854775807 9007199254740993:0"},
				{"9007199254740992:9223372036854775806", "", "9007199254740992:9223372036854775807 9007199254740993:0"},
				{"9007199254740992:9223372036854775807", "", "9007199254740993:0"},
				{"9223372036854775807:9223372036854775807", "", ""},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.Sessions == 0 {
				c.cfg.Sessions = 10
			}
			b, _ := newBuffers(c.cfg)
			c.puts(&writer{t: t, b: b})
			for _, w := range c.want {
				earliest, delivered := resume(t, b, "s", at(t, w[0]))
				if earliest != w[1] || delivered != w[2] {
					t.Errorf("resume %s: earliest %q, delivered %q; want %q, %q", w[0], earliest, delivered, w[1], w[2])
				}
			}
		})
	}
}

// TestDedupe has the cases of R161.
func TestDedupe(t *testing.T) {
	b, log := newBuffers(Config{EventsPerSession: 2, Sessions: 10})
	for i, c := range []struct {
		why     string
		session string
		seq     int64
		key     uint64
		want    bool
	}{
		{"first", "s", 5, 1, true},
		{"the same again", "s", 5, 1, false},
		{"the same at another position", "s", 9, 1, false},
		{"another at the same position", "s", 5, 2, true},
		{"the same in another session (R160)", "S", 5, 1, true},
		{"a third, the first is trimmed", "s", 6, 3, true},
		{"the trimmed one is forgotten", "s", 7, 1, true},
		{"too low: not held (R163)", "s", 1, 4, false},
		{"too low and held: the floor stays", "s", 2, 3, false},
	} {
		e := newEntry(c.session, stream.Sequence{Seq: c.seq}, 0)
		if got := b.Put(e, keyOf(c.key)); got != c.want {
			t.Errorf("%s: Put = %v, want %v", c.why, got, c.want)
		}
		if got, err := log.At(stream.Pos(i + 1)); got != e {
			t.Errorf("%s: not appended (R190): %v", c.why, err)
		}
	}
	if _, got := resume(t, b, "s", stream.Sequence{Seq: -1}); got != "0:6 0:7" {
		t.Errorf("held %q", got)
	}
	if got := b.Events(); got != 3 {
		t.Errorf("Events = %d, want 3", got)
	}
}

// TestDuplicateBelowFloor: a duplicate of a held event that claims a position
// below all others is no lost event.
func TestDuplicateBelowFloor(t *testing.T) {
	b, _ := newBuffers(Config{EventsPerSession: 2, Sessions: 1})
	b.Put(newEntry("s", stream.Sequence{Seq: 4}, 0), keyOf(1))
	b.Put(newEntry("s", stream.Sequence{Seq: 9}, 0), keyOf(2))
	b.Put(newEntry("s", stream.Sequence{Seq: 8}, 0), keyOf(3)) // 4 goes
	b.Put(newEntry("s", stream.Sequence{Seq: 6}, 0), keyOf(2))
	if earliest, _ := resume(t, b, "s", stream.Sequence{Seq: 5}); earliest != "" {
		t.Errorf("announced %s, nothing is gone after 0:5", earliest)
	}
	b.Put(newEntry("s", stream.Sequence{Seq: 6}, 0), keyOf(5))
	if earliest, _ := resume(t, b, "s", stream.Sequence{Seq: 5}); earliest != "0:8" {
		t.Errorf("announced %q, 0:6 is gone", earliest)
	}
}

func TestEqualPositionsKeepArrivalOrder(t *testing.T) { // R162
	b, log := newBuffers(Config{EventsPerSession: 3, Sessions: 1})
	for n, seq := range []int64{7, 7, 3, 7} {
		b.Put(newEntry("s", stream.Sequence{Seq: seq}, 0), keyOf(uint64(n)))
	}
	r, _, _ := b.Start("s", stream.Sequence{Seq: -1}, log.Next())
	entries, _, _, _ := b.Next(&r, nil, 10, 0x1000)
	var got []stream.Pos
	for _, e := range entries {
		got = append(got, e.Pos())
	}
	if want := []stream.Pos{1, 2, 4}; !slices.Equal(got, want) {
		t.Errorf("positions %v, want %v", got, want)
	}
}

// TestSessionBound: R164, across shards.
func TestSessionBound(t *testing.T) {
	b, log := newBuffers(Config{EventsPerSession: 5, Sessions: 100})
	w := &writer{t: t, b: b}
	for i := range 100 {
		w.put(fmt.Sprint(i), "0:0")
	}
	for i := range 50 { // refreshed by a duplicate; reading does not count
		b.Put(newEntry(fmt.Sprint(i), stream.Sequence{}, 0), keyOf(uint64(i+1)))
		b.Start(fmt.Sprint(50+i), stream.Sequence{Seq: -1}, log.Next())
	}
	for i := range 50 {
		w.put(fmt.Sprint("new", i), "0:0")
		if got := b.Sessions(); got != 100 {
			t.Fatalf("Sessions = %d, want 100", got)
		}
		if slices.Contains(names(b), fmt.Sprint(50+i)) {
			t.Fatalf("session %d is still there", 50+i)
		}
	}
	for i := range 50 {
		if !slices.Contains(names(b), fmt.Sprint(i)) {
			t.Errorf("refreshed session %d was dropped", i)
		}
	}
	if got := b.Events(); got != 100 {
		t.Errorf("Events = %d, want 100", got)
	}
}

func TestRecordIsBounded(t *testing.T) { // R170, R473
	b, _ := newBuffers(Config{EventsPerSession: 5, Sessions: 7})
	w := &writer{t: t, b: b}
	for i := range 1000 {
		w.put(fmt.Sprint(i), "0:5")
	}
	if n, m := b.dropped.order.Len(), len(b.dropped.byName); n != 7 || m != 7 {
		t.Errorf("record has %d names in order and %d by name, want 7", n, m)
	}
	for i := 986; i < 993; i++ {
		if earliest, _ := resume(t, b, fmt.Sprint(i), stream.Sequence{}); earliest != "0:6" {
			t.Errorf("dropped session %d announced %q", i, earliest)
		}
	}
	w.put("990", "0:9")
	if n := b.dropped.order.Len(); n != 6 { // 993 came in for 986, 990 is back
		t.Errorf("record has %d names, want 6", n)
	}
}

// TestByteBound: R175.
func TestByteBound(t *testing.T) {
	const each = 100 + SlotBytes
	b, _ := newBuffers(Config{EventsPerSession: 100, Sessions: 10, Bytes: 10 * each})
	w := &writer{t: t, b: b}
	w.run("a", 0, 0, 3)
	w.run("b", 0, 0, 2)
	w.run("a", 0, 4, 6)
	if got := b.Bytes(); got != 10*each {
		t.Fatalf("Bytes = %d, want %d", got, 10*each)
	}
	w.put("c", "0:0") // b is the least recently written
	check := func(session, earliest, held string) {
		t.Helper()
		e, h := resume(t, b, session, stream.Sequence{})
		if e != earliest || h != held {
			t.Errorf("%s: earliest %q, held %q; want %q, %q", session, e, h, earliest, held)
		}
	}
	// One more than the bound, and the slack: two entries of b leave.
	check("b", "0:2", "0:2")
	check("a", "", "0:1 0:2 0:3 0:4 0:5 0:6")
	w.put("c", "0:1 0:2")
	check("b", "0:3", "")
	check("a", "", "0:1 0:2 0:3 0:4 0:5 0:6")
	if got := b.Sessions(); got != 3 {
		t.Errorf("Sessions = %d: b is empty, but not dropped", got)
	}
	w.put("b", "0:3")
	check("b", "0:3", "0:3")
	w.b.Put(newEntry("d", stream.Sequence{Seq: 8}, 20*each), keyOf(0)) // does not fit at all
	for s, earliest := range map[string]string{"a": "0:7", "b": "0:4", "c": "0:3", "d": "0:9"} {
		check(s, earliest, "")
	}
	if b.Bytes() != 0 || b.Events() != 0 {
		t.Errorf("Bytes %d, Events %d, want none", b.Bytes(), b.Events())
	}
}

func TestConfigOutOfRange(t *testing.T) {
	b, _ := newBuffers(Config{EventsPerSession: -1, Sessions: -1, Bytes: -1})
	w := &writer{t: t, b: b}
	w.put("a", "0:0")
	w.put("b", "0:0")
	if b.Sessions() != 1 || b.Events() != 0 || !slices.Equal(names(b), []string{"b"}) {
		t.Errorf("%d sessions %v, %d events", b.Sessions(), names(b), b.Events())
	}
}

// TestMemoryGivenBack: what is trimmed leaves no tables behind (R473).
func TestMemoryGivenBack(t *testing.T) {
	b, _ := newBuffers(Config{EventsPerSession: 10000, Sessions: 10, Bytes: 1 << 20})
	w := &writer{t: t, b: b}
	w.run("a", 0, 1, 5000)
	s := b.shard("a").sessions["a"]
	if s.order.count < 4000 {
		t.Fatalf("%d entries held", s.order.count)
	}
	name := "b"
	for s.order.count > 600 {
		w.put(name, "0:1 0:2 0:3 0:4 0:5 0:6 0:7 0:8")
	}
	if got, limit := len(s.keys.table), 8*s.order.count; got > limit {
		t.Errorf("dedupe table has %d slots for %d keys", got, s.order.count)
	}
	if got, limit := len(s.order.chunks), s.order.count/chunkSlots+2; got > limit {
		t.Errorf("%d chunks for %d entries", got, s.order.count)
	}
	for s.order.count > 0 {
		w.put(name, "0:1 0:2 0:3 0:4 0:5 0:6 0:7 0:8")
	}
	if s.keys.table != nil || s.order.chunks != nil || s.bytes != 0 {
		t.Errorf("an empty buffer keeps %d key slots, %d chunks, %d bytes",
			len(s.keys.table), len(s.order.chunks), s.bytes)
	}
}

// TestPanicLeavesNoLock: without a log every put panics, and nothing blocks
// after it.
func TestPanicLeavesNoLock(t *testing.T) {
	b := New(Config{EventsPerSession: 1, Sessions: 1, Bytes: 1}, nil)
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic without a log")
				}
			}()
			b.Put(newEntry("s", stream.Sequence{}, 0), Key{})
		}()
		names(b)
		b.Start("s", stream.Sequence{}, 1)
	}
}
