package syncmodel

import (
	"errors"
	"fmt"
	"maps"
	"testing"
)

// two returns two devices of one owner.
func (s *site) two() (w *world, a, b *device, both fleet) {
	w = newWorld(s.t)
	acc := s.account("owner")
	a, b = w.device(acc, "a"), w.device(acc, "b")
	return w, a, b, fleet{a, b}
}

func (d *device) writes(prefix string, count int) {
	for i := range count {
		d.write(fmt.Sprintf("%s-%04d", prefix, i), fmt.Sprintf("stream-%s-%04d", prefix, i), "c")
	}
}

func (d *device) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("%s: %v", d.name, err)
	}
}

// TestAutoGap is S35: what SEQ_FLOOR=auto promises to a store's first cursors,
// and what it does not.
func TestAutoGap(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=auto")
	w, a, b, both := s.two()
	a.writes("first", 5)
	b.writes("other", 3)
	both.settle()
	both.same()
	if a.cursor != "8" || b.cursor != "8" {
		t.Fatalf("S29: cursors %s and %s after 8 numbers of a fresh store", a.cursor, b.cursor)
	}
	s.stop()
	s.wipe()
	s.start()
	w.losses++
	a.writes("second", 1)

	// The push comes first and registers the owner: after=8 is then an empty page,
	// and the device believes that it is in sync. That is the seed's gap.
	a.must(a.sync())
	b.must(b.sync())
	if a.repairs+b.repairs != 0 || maps.Equal(a.rows, b.rows) || a.cursor != "8" || b.cursor != "8" {
		t.Fatalf("S35: the gap is not there: %d repairs, cursors %s and %s", a.repairs+b.repairs, a.cursor, b.cursor)
	}

	// It does not go beyond what came under numbers up to the cursor.
	a.writes("third", 8) // 2 to 9
	a.must(a.sync())
	b.must(b.sync())
	if b.cursor != "9" || !b.seen["third-0007"] || b.seen["third-0006"] {
		t.Fatalf("S32: cursor %s, %v", b.cursor, b.seen)
	}

	// A store with a history is raised at its start, and from then on every cursor
	// is protected.
	s.restart()
	a.writes("fourth", 1)
	both.settle()
	if number(t, a.cursor) < 1<<40 || a.cursor != b.cursor {
		t.Fatalf("S29: cursors %s and %s after a restart", a.cursor, b.cursor)
	}
	s.stop()
	s.wipe()
	s.start()
	w.losses++
	a.writes("fifth", 1)
	both.settle()
	both.same()
	if a.repairs != 1 || b.repairs != 1 {
		t.Errorf("S33: %d and %d repairs", a.repairs, b.repairs)
	}
}

// TestAutoOldSmallCursor is S35 once more: what counts is when a cursor was
// issued, not when the relay is wiped. Restarts between do not protect it.
func TestAutoOldSmallCursor(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=auto")
	_, a, b, both := s.two()
	a.writes("first", 5)
	both.settle()
	s.restart()
	both.settle()
	s.stop()
	s.wipe()
	s.start()
	a.writes("second", 1)
	both.settle()
	if b.seen["second-0000"] || a.repairs+b.repairs != 0 {
		t.Errorf("a cursor of %s was healed by %d repairs", b.cursor, a.repairs+b.repairs)
	}
}

// TestAutoRaised: 10,000 numbers raise a fresh store at once (S29). Cursors of
// later are protected, without any restart.
func TestAutoRaised(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=auto")
	r := &run{site: s, raise: true}
	w, a, b, both := s.two()
	r.raiseNumbers()
	a.writes("first", 5)
	both.settle()
	if n := number(t, a.cursor); n < 1<<40 {
		t.Fatalf("S29: cursor %d after 10,000 numbers", n)
	}
	s.stop()
	s.wipe()
	s.start()
	w.losses++
	r.raiseNumbers()
	b.writes("second", 1)
	both.settle()
	both.same()
	if a.repairs != 1 || b.repairs != 1 {
		t.Errorf("S33: %d and %d repairs", a.repairs, b.repairs)
	}
}

// TestAutoAloneHeals: with the owner unknown a small cursor is answered with
// 404 too, so a device that has nothing to push repairs.
func TestAutoAloneHeals(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=auto")
	w, a, _, both := s.two()
	a.writes("first", 5)
	both.settle()
	s.stop()
	s.wipe()
	s.start()
	w.losses++
	both.settle()
	both.same()
	if a.repairs != 1 {
		t.Errorf("%d repairs", a.repairs)
	}
	if ids, _ := a.drain(""); len(ids) != 5 {
		t.Errorf("the relay holds %q", ids)
	}
}

// TestStranded is the story of S33: a peer with a cursor of before the wipe is
// told, in whatever order the devices come, and both directions heal.
func TestStranded(t *testing.T) {
	for _, first := range []int{0, 1} {
		s := newSite(t, "SEQ_FLOOR=clock")
		w, a, b, both := s.two()
		a.writes("a", 4)
		b.writes("b", 3)
		both.settle()
		s.stop()
		s.wipe()
		s.start()
		w.losses++
		a.writes("late-a", 1)
		b.writes("late-b", 1)
		fleet{both[first], both[1-first]}.settle()
		both.same()
		if a.repairs != 1 || b.repairs != 1 {
			t.Errorf("M4: %d and %d repairs", a.repairs, b.repairs)
		}
	}
}

// TestRestoreBeforePull is the exception of M2: a device pushed, the relay lost
// that, and the device's cursor is from before. Nothing tells the device; it
// stays so until the device repairs or writes the row again.
func TestRestoreBeforePull(t *testing.T) {
	for _, pulled := range []bool{false, true} {
		s := newSite(t, "SEQ_FLOOR=clock")
		w, a, b, both := s.two()
		a.writes("first", 2)
		both.settle()
		path, _ := s.backup()
		a.writes("second", 1)
		a.must(a.push())
		if pulled {
			a.must(a.pullAll())
		}
		s.stop()
		s.restore(path)
		s.start()
		w.losses++
		both.settle()
		if missed := !b.seen["second-0000"]; missed == pulled || (a.repairs == 1) != pulled {
			t.Errorf("M2: pulled past it %v: missed %v, %d repairs", pulled, missed, a.repairs)
		}
		a.forget()
		both.settle()
		both.same()
	}
}

// TestReseed: a relay that knows the owner and holds nothing is told from the
// status, also where the cursor is too small to be stale.
func TestReseed(t *testing.T) {
	s := newSite(t, "SEQ_FLOOR=auto")
	w, a, _, both := s.two()
	a.writes("first", 4)
	both.settle()
	s.stop()
	s.wipe()
	s.start()
	w.losses++
	a.pushed(0, 0) // it registers the owner (S14)
	both.settle()
	both.same()
	if a.repairs != 1 {
		t.Errorf("%d repairs", a.repairs)
	}
	if ids, _ := a.drain(""); len(ids) != 4 {
		t.Errorf("the relay holds %q", ids)
	}
}

// TestTerminal: what a client may not repeat is answered as such, stores
// nothing, and ends nothing for others; 503 is no such answer.
func TestTerminal(t *testing.T) {
	s := newSite(t, "MAX_EVENTS_PER_PUSH=3")
	w, a, b, both := s.two()
	a.batch, b.batch = 4, 3
	a.writes("a", 4)
	b.writes("b", 4)
	if err := a.sync(); !errors.Is(err, errTerminal) || a.halted != 413 {
		t.Fatalf("S20: %v", err)
	}
	if len(a.outbox) != 4 {
		t.Errorf("S21: %d events left in the outbox", len(a.outbox))
	}
	b.must(b.sync())
	a.halted, a.batch = 0, 3 // five minutes later, with another setting
	both.settle()
	both.same()

	s.restart("WRITES_DISABLED=1")
	a.writes("c", 1)
	if err := a.sync(); !errors.Is(err, errRetry) {
		t.Fatalf("S16: %v", err)
	}
	b.must(b.sync())
	s.restart()
	both.settle()
	both.same()

	stranger := w.device(a.as("another token"), "stranger")
	stranger.writes("s", 1)
	if err := stranger.sync(); !errors.Is(err, errTerminal) || stranger.halted != 401 {
		t.Errorf("S15: %v", err)
	}
}
