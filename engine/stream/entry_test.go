package stream

import (
	"bytes"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
)

// testEvent builds frames that show how they were built, and counts them.
//
//	form 1: from the event alone   form 2: from form 1
//	form 3: is form 0              form 4: is form 2
//	form 5: from form 0            form 15: from form 2
type testEvent struct {
	built [MaxForms]atomic.Int32
}

func (*testEvent) AppendKeys(dst []uint64) []uint64 { return dst }

func (*testEvent) Resolve(f Form) (form, base Form) {
	switch f {
	case 1:
		return 1, 1
	case 2, 4:
		return 2, 1
	case 5:
		return 5, 0
	case 15:
		return 15, 2
	}
	return 0, 0
}

func (ev *testEvent) AppendFrame(dst []byte, f Form, base []byte) []byte {
	ev.built[f].Add(1)
	if base == nil {
		return fmt.Appendf(dst, "%d", f)
	}
	return fmt.Appendf(dst, "%d(%s)", f, base)
}

func (ev *testEvent) counts() (all [MaxForms]int32) {
	for i := range all {
		all[i] = ev.built[i].Load()
	}
	return all
}

var frames = []struct {
	form Form
	want string
}{
	{0, "base"},
	{1, "1"},
	{2, "2(1)"},
	{3, "base"},
	{4, "2(1)"},
	{5, "5(base)"},
	{15, "15(2(1))"},
}

func TestNewEntry(t *testing.T) {
	frame := make([]byte, 4, 10)
	ev := new(testEvent)
	e := NewEntry(ev, frame)
	if e.Event != ev || &e.Base()[0] != &frame[0] || len(e.Base()) != 4 || e.SizeBytes != 10 || e.Pos() != 0 {
		t.Errorf("NewEntry: %+v", e)
	}
}

func TestFrame(t *testing.T) {
	for _, c := range frames { // each form first
		ev := new(testEvent)
		e := NewEntry(ev, []byte("base"))
		if got := string(e.Frame(c.form)); got != c.want {
			t.Errorf("form %d: %q, want %q", c.form, got, c.want)
		}
		if got := string(e.AppendFrame([]byte("x"), c.form)); got != "x"+c.want {
			t.Errorf("form %d appended after Frame: %q", c.form, got)
		}
		fresh := NewEntry(ev, []byte("base"))
		if got := string(fresh.AppendFrame([]byte("x"), c.form)); got != "x"+c.want {
			t.Errorf("form %d appended: %q", c.form, got)
		}
		if fresh.derived.Load() != nil {
			t.Errorf("form %d: AppendFrame keeps frames", c.form)
		}
	}
}

// TestFrameIsBuiltOnce: R197, also for forms that others are derived from.
func TestFrameIsBuiltOnce(t *testing.T) {
	ev := new(testEvent)
	e := NewEntry(ev, []byte("base"))
	first := make(map[Form][]byte)
	for range 3 {
		for _, c := range frames {
			got := e.Frame(c.form)
			if before := first[c.form]; before != nil && &before[0] != &got[0] {
				t.Errorf("form %d: another frame than before (S3)", c.form)
			}
			first[c.form] = got
			e.AppendFrame(nil, c.form)
		}
	}
	if &first[3][0] != &e.Base()[0] || &first[4][0] != &first[2][0] {
		t.Error("forms that resolve to the same one do not share its frame")
	}
	if got, want := ev.counts(), [MaxForms]int32{1: 1, 2: 1, 5: 1, 15: 1}; got != want {
		t.Errorf("built %v, want %v", got, want)
	}
}

// TestFrameIsBuiltOnceConcurrently: the same with many subscribers at once.
func TestFrameIsBuiltOnceConcurrently(t *testing.T) {
	const goroutines, entries = 8, 200
	events := make([]testEvent, entries)
	all := make([]*Entry, entries)
	for i := range all {
		all[i] = NewEntry(&events[i], []byte("base"))
	}
	start := make(chan struct{})
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			<-start
			for _, e := range all {
				for i := range frames {
					c := frames[(i+g)%len(frames)]
					if got := string(e.Frame(c.form)); got != c.want {
						t.Errorf("form %d: %q, want %q", c.form, got, c.want)
					}
				}
			}
		})
	}
	close(start)
	wg.Wait()
	for i := range events {
		if got, want := events[i].counts(), ([MaxForms]int32{1: 1, 2: 1, 5: 1, 15: 1}); got != want {
			t.Fatalf("entry %d: built %v, want %v", i, got, want)
		}
	}
}

// TestDerivedFramesAreRetired: an entry that leaves the live window drops its
// derived frames, the base frame stays (R473).
func TestDerivedFramesAreRetired(t *testing.T) {
	for name, l := range map[string]*Log{
		"by count": NewLog(4, math.MaxInt64),
		"by bytes": NewLog(64, 4*4),
	} {
		var all []*Entry
		for range 20 {
			e := NewEntry(new(testEvent), []byte("base"))
			l.Append(e)
			for _, c := range frames {
				e.Frame(c.form)
			}
			all = append(all, e)
		}
		for _, e := range all {
			live := e.Pos() >= l.Oldest()
			for _, c := range frames { // asking late brings nothing back
				if got := string(e.Frame(c.form)); got != c.want {
					t.Errorf("%s: entry %d form %d: %q, want %q", name, e.Pos(), c.form, got, c.want)
				}
				if got := string(e.AppendFrame(nil, c.form)); got != c.want {
					t.Errorf("%s: entry %d form %d appended: %q, want %q", name, e.Pos(), c.form, got, c.want)
				}
				if d := e.derived.Load(); live == (d == retired) {
					t.Errorf("%s: entry %d of %d to %d: retired %v", name, e.Pos(), l.Oldest(), l.Next(), d == retired)
				}
			}
		}
	}
	for form, frame := range retired.frames {
		if frame != nil {
			t.Errorf("form %d is kept for all retired entries: %q", form, frame)
		}
	}
}

// TestFrameWhileRetired: a reader that still holds an entry gets right frames
// while the log retires it.
func TestFrameWhileRetired(t *testing.T) {
	l := NewLog(2, math.MaxInt64)
	entries := make(chan *Entry, 64)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for e := range entries {
				for _, c := range frames {
					if got := string(e.Frame(c.form)); got != c.want {
						t.Errorf("form %d: %q, want %q", c.form, got, c.want)
					}
					if got := e.AppendFrame(nil, c.form); !bytes.Equal(got, []byte(c.want)) {
						t.Errorf("form %d appended: %q, want %q", c.form, got, c.want)
					}
				}
			}
		})
	}
	for range 3000 {
		e := NewEntry(new(testEvent), []byte("base"))
		l.Append(e)
		entries <- e
	}
	close(entries)
	wg.Wait()
	for form, frame := range retired.frames {
		if frame != nil {
			t.Errorf("form %d is kept for all retired entries: %q", form, frame)
		}
	}
}

func TestFrameAllocations(t *testing.T) {
	e := NewEntry(new(testEvent), []byte("base"))
	dst := make([]byte, 0, 64)
	for _, c := range frames {
		e.Frame(c.form)
		if got := testing.AllocsPerRun(100, func() {
			e.Frame(c.form)
			e.AppendFrame(dst, c.form)
		}); got != 0 {
			t.Errorf("form %d: %v allocations for a frame that is there", c.form, got)
		}
	}
}
