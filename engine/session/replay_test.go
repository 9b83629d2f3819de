package session

import (
	"math"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

func TestNextBounds(t *testing.T) { // R423: a bounded window or one entry
	b, log := newBuffers(Config{EventsPerSession: 1000, Sessions: 1})
	w := &writer{t: t, b: b}
	w.run("s", 0, 0, 999)
	for _, c := range []struct{ maxEntries, maxBytes, want int }{
		{10, math.MaxInt, 10},
		{math.MaxInt, 1000, 10},
		{math.MaxInt, 1099, 10},
		{7, 1000, 7},
		{10, 99, 1},
		{10, 0, 1},
		{0, 1000, 1},
		{-1, -1, 1},
		{math.MaxInt, math.MaxInt, 1000},
	} {
		r, _, _ := b.Start("s", stream.Sequence{Seq: -1}, log.Next())
		var all []*stream.Entry
		for done := false; !done; {
			before := len(all)
			all, _, _, done = b.Next(&r, all, c.maxEntries, c.maxBytes)
			if n := len(all) - before; n != c.want && !done || n > c.want || n == 0 {
				t.Fatalf("Next(%d, %d) gave %d entries, want %d", c.maxEntries, c.maxBytes, n, c.want)
			}
		}
		if len(all) != 1000 || all[0].Seq != 0 || all[999].Seq != 999 {
			t.Fatalf("Next(%d, %d): %d entries in all", c.maxEntries, c.maxBytes, len(all))
		}
		if again, gap, _, done := b.Next(&r, nil, 1, 1); len(again) != 0 || gap || !done {
			t.Errorf("Next after done: %d entries, gap %v, done %v", len(again), gap, done)
		}
	}
	var none Replay
	if e, gap, _, done := b.Next(&none, nil, 1, 1); len(e) != 0 || gap || !done {
		t.Errorf("zero Replay: %d entries, gap %v, done %v", len(e), gap, done)
	}
}

// TestOvertaken: R423 and R192, what a replay tells when things change under
// it. The replay starts at 0:-1 and takes two entries before the change.
func TestOvertaken(t *testing.T) {
	for _, c := range []struct {
		name    string
		cfg     Config
		puts    string
		change  func(*writer)
		goesOn  string // "" for no gap
		entries string
	}{
		{
			"nothing happens",
			Config{EventsPerSession: 4},
			"0:1 0:2 0:3 0:4",
			func(*writer) {}, "", "0:3 0:4",
		}, {
			"what was delivered is trimmed",
			Config{EventsPerSession: 4},
			"0:1 0:2 0:3 0:4",
			func(w *writer) { w.put("s", "0:5 0:6") }, "", "0:3 0:4",
		}, {
			"one owed is trimmed",
			Config{EventsPerSession: 4},
			"0:1 0:2 0:3 0:4",
			func(w *writer) { w.put("s", "0:5 0:6 0:7") }, "0:4", "0:4",
		}, {
			"all owed are trimmed",
			Config{EventsPerSession: 4},
			"0:1 0:2 0:3 0:4",
			func(w *writer) { w.run("s", 0, 5, 50) }, "0:5", "",
		}, {
			"live entries in between are trimmed",
			Config{EventsPerSession: 4},
			"0:1 0:2 0:8 0:9",
			func(w *writer) { w.put("s", "0:3 0:4 0:5 0:6") }, "", "0:8 0:9",
		}, {
			"late backfill was held below the floor",
			Config{EventsPerSession: 4},
			"0:10 0:3 0:1 0:2",
			func(w *writer) { w.put("s", "0:11 0:12 0:13") }, "0:10", "0:10",
		}, {
			"live backfill between owed ones",
			Config{EventsPerSession: 9},
			"0:1 0:2 0:6 0:8",
			func(w *writer) { w.put("s", "0:3 0:7 0:6 0:9") }, "", "0:6 0:8",
		}, {
			"dropped",
			Config{EventsPerSession: 4, Sessions: 1},
			"0:1 0:2 0:3 0:4",
			func(w *writer) { w.put("t", "0:0") }, "0:5", "",
		}, {
			"dropped and made again",
			Config{EventsPerSession: 4, Sessions: 1},
			"0:1 0:2 0:3 0:4",
			func(w *writer) { w.put("t", "0:0"); w.put("s", "0:3 0:4 0:5") }, "0:5", "",
		}, {
			"dropped and forgotten",
			Config{EventsPerSession: 4, Sessions: 1},
			"0:1 0:2 0:3 0:4",
			func(w *writer) { w.put("t", "0:0"); w.put("u", "0:0") }, "0:5", "",
		}, {
			"dropped when nothing was owed",
			Config{EventsPerSession: 4, Sessions: 1},
			"0:1 0:2",
			func(w *writer) { w.put("t", "0:0") }, "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.Sessions == 0 {
				c.cfg.Sessions = 10
			}
			b, log := newBuffers(c.cfg)
			w := &writer{t: t, b: b}
			w.put("s", c.puts)
			r, _, _ := b.Start("s", stream.Sequence{Seq: -1}, log.Next())
			b.Next(&r, nil, 2, math.MaxInt)
			c.change(w)
			entries, gap, goesOn, done := b.Next(&r, nil, 10, math.MaxInt)
			if gap != (c.goesOn != "") || gap && text(goesOn) != c.goesOn {
				t.Errorf("gap %v, goes on %s; want %q", gap, text(goesOn), c.goesOn)
			}
			if got := texts(entries); got != c.entries || !done {
				t.Errorf("delivered %q, done %v; want %q", got, done, c.entries)
			}
		})
	}
}

// TestStartLate: what a reader gets whose bound is older than the session's
// present buffer (R169, R170, R192).
func TestStartLate(t *testing.T) {
	b, log := newBuffers(Config{EventsPerSession: 4, Sessions: 1})
	w := &writer{t: t, b: b}
	early := log.Next()
	w.put("s", "0:5 0:50")
	r, exhausted, _ := b.Start("s", stream.Sequence{}, early)
	if e, _, _, _ := b.Next(&r, nil, 9, 999); exhausted || len(e) != 0 {
		t.Errorf("not held as of then: exhausted %v, %d entries", exhausted, len(e))
	}
	dropped := log.Next() + 1
	w.put("t", "0:0")
	w.put("s", "0:9")
	for _, c := range []struct {
		after  string
		before stream.Pos
		want   string // announced
	}{
		{"0:20", dropped, "0:51"},       // the record of then
		{"0:50", dropped, ""},           // nothing after it was lost
		{"0:-1", dropped, ""},           // R168
		{"0:20", log.Next(), ""},        // the new buffer ended the record
		{"0:3", log.Next(), "0:9"},      // and has its own floor
		{"0:3", log.Next() - 1, "0:51"}, // its only entry is live
	} {
		_, exhausted, earliest := b.Start("s", at(t, c.after), c.before)
		if exhausted != (c.want != "") || exhausted && text(earliest) != c.want {
			t.Errorf("after %s before %d: exhausted %v at %s, want %q",
				c.after, c.before, exhausted, text(earliest), c.want)
		}
	}
}
