package firehose

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

func open(t testing.TB, d *disk, c *clock, mode FloorMode, floor, block int64) *Numbers {
	t.Helper()
	n, err := OpenNumbers(d, NumbersConfig{Mode: mode, Floor: floor, Block: block, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func take(n *Numbers) (int64, error) { return n.Use(func(int64) error { return nil }) }

// F26, F27: where each mode starts, and which cursor is live.
func TestFirstNumber(t *testing.T) {
	c := newClock()
	floor := c.floor()
	ago := func(d time.Duration) State {
		return State{Reserved: 500, Clean: true, Last: 300, Outdated: 200, At: c.now().Add(-d)}
	}
	for _, tc := range []struct {
		rule         string
		mode         FloorMode
		floor        int64
		state        State
		want, resume int64
	}{
		{"auto, never issued, case 37", FloorAuto, 0, State{}, 1, 0},
		{"auto, stopped clean without a number", FloorAuto, 0, State{Clean: true, At: c.now()}, 1, 0},
		{"auto, crash", FloorAuto, 0, State{Reserved: 500}, floor, 0},
		{"auto, crash above the floor, F25", FloorAuto, 0, State{Reserved: floor + 5}, floor + 6, 0},
		{"auto, clean, case 9", FloorAuto, 0, ago(2 * time.Minute), 301, 300},
		{"auto, clean an hour ago, case 9", FloorAuto, 0, ago(time.Hour), floor, 0},
		{"auto, clean just now 10 minutes ago", FloorAuto, 0, ago(10 * time.Minute), floor, 0},
		{"auto, clean in the future", FloorAuto, 0, ago(-time.Minute), floor, 0},
		{"clock, never issued", FloorClock, 0, State{}, floor, 0},
		{"clock, clean, F27", FloorClock, 0, ago(2 * time.Minute), floor, 300},
		{"clock, restored, case 11", FloorClock, 0, ago(time.Hour), floor, 0},
		{"number", FloorNumber, 1, State{}, 1, 0},
		{"number below", FloorNumber, 1, State{Reserved: 500}, 501, 0},
		{"number above", FloorNumber, 9000, ago(time.Minute), 9000, 300},
	} {
		n := open(t, &disk{t: t, state: tc.state}, c, tc.mode, tc.floor, 10)
		last, resume := n.Start()
		seq, err := take(n)
		if last != tc.want-1 || resume != tc.resume || seq != tc.want || err != nil {
			t.Errorf("%s: L %d, resume %d, first %d, %v; want first %d, resume %d", tc.rule, last, resume, seq, err, tc.want, tc.resume)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, cfg := range []NumbersConfig{
		{Mode: 3}, {Mode: FloorNumber}, {Mode: FloorNumber, Floor: MaxNumber + 1}, {Block: -1}, {Block: 1 << 41},
	} {
		if _, err := OpenNumbers(&disk{t: t}, cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	for _, s := range []State{{Reserved: -1}, {Reserved: MaxNumber + 1}, {Clean: true, Last: -1}, {Clean: true, Last: MaxNumber + 1}} {
		if _, err := OpenNumbers(&disk{t: t, state: s}, NumbersConfig{}); !errors.Is(err, ErrState) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := OpenNumbers(&disk{t: t, fail: errDisk}, NumbersConfig{}); !errors.Is(err, errDisk) {
		t.Errorf("load: %v", err)
	}
}

// F26: a fresh state rises after 10,000 numbers or 10 minutes, once.
func TestFreshRise(t *testing.T) {
	c := newClock()
	n := open(t, &disk{t: t}, c, FloorAuto, 0, 100)
	for want := int64(1); want <= 10_000; want++ {
		if seq, err := take(n); seq != want || err != nil {
			t.Fatalf("%d, %v, want %d", seq, err, want)
		}
	}
	first := c.floor()
	for want := first; want < first+300; want++ {
		if seq, err := take(n); seq != want || err != nil {
			t.Fatalf("%d, %v, want %d", seq, err, want)
		}
	}

	n = open(t, &disk{t: t}, c, FloorAuto, 0, 100)
	for _, wait := range []time.Duration{0, 10*time.Minute - 1} {
		c.add(wait)
		if seq, err := take(n); seq > 2 || err != nil {
			t.Fatalf("%d, %v", seq, err)
		}
	}
	c.add(1)
	if seq, err := take(n); seq != c.floor() || err != nil {
		t.Fatalf("%d, %v, want the floor", seq, err)
	}

	// A clean restart in between does not keep numbers small for good.
	n = open(t, &disk{t: t, state: State{Clean: true, Last: 7, At: c.now()}}, c, FloorAuto, 0, 100)
	if seq, err := take(n); seq != 8 || err != nil {
		t.Fatalf("%d, %v, want 8", seq, err)
	}
	c.add(10 * time.Minute)
	if seq, err := take(n); seq != c.floor() || err != nil {
		t.Fatalf("%d, %v after a restart, want the floor", seq, err)
	}
}

// F26, last sentence.
func TestRaise(t *testing.T) {
	c := newClock()
	d := &disk{t: t}
	n := open(t, d, c, FloorAuto, 0, 100)
	for range 3 {
		if _, err := take(n); err != nil {
			t.Fatal(err)
		}
	}
	never := func(int64) { t.Error("skipped") }
	for _, cursor := range []int64{2, 99, 1<<40 - 1, c.floor() + 1, MaxNumber} {
		if n.Raise(cursor, never) {
			t.Errorf("%d raised", cursor)
		}
	}
	cursor := c.floor() - 7
	var last int64
	if !n.Raise(cursor, func(l int64) { last = l }) || last != c.floor()-1 || last <= cursor {
		t.Errorf("cursor %d: L %d, floor %d", cursor, last, c.floor())
	}
	if n.Raise(cursor, never) {
		t.Error("raised twice by one cursor")
	}
	if seq, err := take(n); seq != last+1 || err != nil || d.reserved() < seq+raiseAhead-1 {
		t.Errorf("%d, %v, reserved %d", seq, err, d.reserved())
	}
	c.add(time.Millisecond)
	if !n.Raise(c.floor(), func(l int64) { last = l }) || last <= c.floor() {
		t.Errorf("cursor at the floor %d: L %d", c.floor(), last)
	}
	lowest := open(t, &disk{t: t}, c, FloorAuto, 0, 100)
	if !lowest.Raise(1<<40, func(int64) {}) {
		t.Error("2^40 is not taken for a cursor of a lost state")
	}
	fixed := open(t, &disk{t: t}, c, FloorNumber, 1, 100)
	if fixed.Raise(cursor, never) {
		t.Error("a fixed floor was raised")
	}
}

// F28: a failing record stops publishing; a failed publish takes no number.
func TestFailingRecord(t *testing.T) {
	c := newClock()
	d := &disk{t: t}
	n := open(t, d, c, FloorNumber, 1, 4)
	var used int64
	take := func() error {
		seq, err := n.Use(func(seq int64) error {
			if seq > d.reserved() {
				t.Errorf("number %d is used, reserved is %d", seq, d.reserved())
			}
			return nil
		})
		if err == nil && seq != used+1 {
			t.Errorf("%d after %d", seq, used)
		}
		if err == nil {
			used = seq
		}
		return err
	}
	if err := take(); err != nil {
		t.Fatal(err)
	}
	d.setFail(errDisk)
	for range 20 {
		if err := take(); err != nil && !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
	}
	if err := take(); !errors.Is(err, errDisk) {
		t.Errorf("F28: %v", err)
	}
	if used > d.state.Reserved {
		t.Errorf("used %d, reserved %d", used, d.state.Reserved)
	}
	d.setFail(nil)
	if err := take(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Use(func(int64) error { return errCrash }); !errors.Is(err, errCrash) {
		t.Errorf("publish failed: %v", err)
	}
	if err := take(); err != nil { // checks that no number was taken
		t.Fatal(err)
	}
	exhausted := open(t, &disk{t: t, state: State{Reserved: MaxNumber - 1}}, c, FloorNumber, 1, 4)
	if err := func() error { _, err := exhausted.Use(func(int64) error { return nil }); return err }(); err != nil {
		t.Errorf("the last number: %v", err)
	}
	if _, err := exhausted.Use(func(int64) error { return nil }); !errors.Is(err, ErrExhausted) {
		t.Errorf("past the last number: %v", err)
	}
}

// F25: while the next block is being recorded, the rest of this one is used.
func TestReservesAhead(t *testing.T) {
	c := newClock()
	d := &disk{t: t, gate: make(chan struct{}, 1)}
	n := open(t, d, c, FloorNumber, 1, 100)
	d.gate <- struct{}{}
	for want := int64(1); want <= 100; want++ { // would hang if it waited at half
		if seq, err := take(n); seq != want || err != nil {
			t.Fatalf("%d, %v", seq, err)
		}
	}
	got := make(chan int64)
	go func() { seq, _ := take(n); got <- seq }()
	select {
	case seq := <-got:
		t.Errorf("number %d was used before its record", seq)
	default:
	}
	d.gate <- struct{}{}
	if seq := <-got; seq != 101 || d.reserved() != 200 {
		t.Errorf("%d, reserved %d", seq, d.reserved())
	}
	close(d.gate)
	if err := n.Stop(0, true); err != nil {
		t.Fatal(err)
	}
	if d.state.Last != 101 || !d.state.Clean {
		t.Errorf("stored %+v", d.state)
	}
	if _, err := take(n); !errors.Is(err, ErrStopped) {
		t.Errorf("after the stop: %v", err)
	}
	if err := n.Stop(0, true); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

// Cases 9, 10, 11, 37 and F25: whatever write the program dies at, before or
// after it lands, no number comes twice and all ascend; and a cursor that is
// told it missed nothing did miss nothing.
func TestCrashes(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newClock()
		d := &disk{t: t}
		mode, highest := FloorMode(rng.IntN(3)), int64(0)
		for run := range 8 {
			d.dead, d.writes, d.lands = false, 0, rng.IntN(2) == 0
			d.crashAt = rng.IntN(6)
			c.add(time.Duration(rng.IntN(900)) * time.Second)
			n := open(t, d, c, mode, 1, int64(1+rng.IntN(20)))
			last, resume := n.Start()
			if last < highest || resume != 0 && resume < highest {
				t.Fatalf("seed %d, run %d: L %d, resume %d, but %d was used", seed, run, last, resume, highest)
			}
			for range rng.IntN(60) {
				seq, err := n.Use(func(seq int64) error {
					if reserved := d.reserved(); seq > reserved {
						t.Fatalf("seed %d, run %d: %d used, reserved %d", seed, run, seq, reserved)
					}
					return nil
				})
				if err != nil {
					if !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
					break
				}
				if seq <= highest {
					t.Fatalf("seed %d, run %d: %d after %d", seed, run, seq, highest)
				}
				highest = seq
				if rng.IntN(40) == 0 {
					n.Raise(c.floor()-int64(rng.IntN(1<<20)), func(int64) {})
				}
			}
			_ = n.Stop(0, rng.IntN(2) == 0) // also waits for the background
		}
	}
}
