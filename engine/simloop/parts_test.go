package simloop

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/stream"
)

// handler notes what a socket tells.
type handler struct {
	writable, closed int
	err              error
}

func (h *handler) OnData([]byte)     {}
func (h *handler) OnWritable()       { h.writable++ }
func (h *handler) OnClose(err error) { h.closed++; h.err = err }

// TestSocket: a kernel takes what it has room for, tells of writability once
// per request, and of the end once.
func TestSocket(t *testing.T) {
	l := NewLoop(0, NewClock())
	h := &handler{}
	s := l.NewSocket(10, h)
	write := func(size, want int) {
		t.Helper()
		if n, err := s.Write(make([]byte, size)); n != want || err != nil {
			t.Errorf("wrote %d of %d (%v), want %d", n, size, err, want)
		}
	}
	write(6, 6)
	write(6, 4)
	write(6, 0)
	s.WantWritable()
	if s.WantWritable(); l.Poll() != 0 {
		t.Error("writable with no room")
	}
	s.Room(5)
	s.Room(5)
	if l.Poll(); h.writable != 1 {
		t.Errorf("told %d times that it is writable", h.writable)
	}
	write(7, 7)
	s.Room(Unlimited)
	write(1000, 1000)
	if l.Busy() || s.UnackedBytes() != 1017 || len(s.Received()) != 1017 {
		t.Errorf("busy %v, %d unacknowledged, %d received", l.Busy(), s.UnackedBytes(), len(s.Received()))
	}
	s.Ack(1000)
	if s.UnackedBytes() != 17 {
		t.Errorf("%d unacknowledged", s.UnackedBytes())
	}
	s.Reset()
	if _, err := s.Write(nil); !errors.Is(err, ErrReset) {
		t.Errorf("after a reset: %v", err)
	}
	l.Poll()
	l.Poll()
	if h.closed != 1 || !errors.Is(h.err, ErrReset) {
		t.Errorf("told %d times of the end: %v", h.closed, h.err)
	}
	if _, _ = s.Write(nil); s.Misuse != 1 {
		t.Error("a write after the end is not noted")
	}
}

// TestClock: timers fire in order, each at its time, and once.
func TestClock(t *testing.T) {
	c := NewClock()
	start := c.Now()
	var fired []time.Duration
	note := func() { fired = append(fired, c.Now().Sub(start)) }
	c.AfterFunc(3*time.Second, note)
	c.AfterFunc(time.Second, func() { note(); c.AfterFunc(time.Second, note) })
	stopped := c.AfterFunc(time.Second, note)
	if !stopped.Stop() || stopped.Stop() {
		t.Error("a timer stops once")
	}
	c.Advance(2500 * time.Millisecond)
	c.Jump(time.Hour)
	want := []time.Duration{time.Second, 2 * time.Second, time.Hour + 2500*time.Millisecond}
	if len(fired) != 3 || fired[0] != want[0] || fired[1] != want[1] || fired[2] != want[2] {
		t.Errorf("fired at %v, want %v", fired, want)
	}
	c.SetLook(time.Second)
	if a, b := c.Now(), c.Now(); b.Sub(a) != time.Second {
		t.Errorf("a look costs %v", b.Sub(a))
	}
}

// TestFrames: each form is padded to its size, read back, and cut from a stream
// at any byte.
func TestFrames(t *testing.T) {
	ev := &Event{Session: "s1", Seq: stream.Sequence{Epoch: 2, Seq: 7}, Name: "e1", Bytes: 40}
	e := ev.Entry()
	var all []byte
	for _, form := range []stream.Form{0, 3, 8, 11} {
		frame := e.Frame(form)
		if form < firstOnBase && len(frame) != 40 {
			t.Errorf("form %d has %d bytes", form, len(frame))
		}
		all = append(all, frame...)
	}
	for cut := range len(all) + 1 {
		frames, rest, err := ParseFrames(all[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		taken := len(rest)
		for i, f := range frames {
			taken += f.Bytes
			name, session, seq, form, ok := f.Event()
			if !ok || name != "e1" || session != "s1" || seq != ev.Seq || form != []stream.Form{0, 3, 8, 11}[i] {
				t.Errorf("frame %d reads as %v", i, f)
			}
		}
		if taken != cut {
			t.Errorf("%d of %d bytes accounted for", taken, cut)
		}
	}
	for _, bad := range []string{"x", "[a]b", "[a[b]]"} {
		if _, _, err := ParseFrames([]byte(bad)); err == nil {
			t.Errorf("%q is no sequence of frames", bad)
		}
	}
}

// TestSelectors: what each term selects.
func TestSelectors(t *testing.T) {
	ev := &Event{Session: "s1", Name: "e1", Attrs: []string{"k=v"}, Severity: Info}
	ev.Entry()
	f := func(filter string, want bool) {
		t.Helper()
		s, err := ParseFilter(filter)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Match(ev); got != want {
			t.Errorf("%s: %v, want %v", filter, got, want)
		}
	}
	f("all", true)
	f("session:s1", true)
	f("session:s2|s1", true)
	f("session:s2", false)
	f("attr:k=v", true)
	f("attr:k=w|k=x", false)
	f("session:s1&attr:k=v", true)
	f("session:s1&attr:k=w", false)
	f("sev:debug", true)
	f("sev:notice", false)
	f("panic:k=w", true)
}

// TestTurnGoesOn: a turn that has work left asks for another one.
func TestTurnGoesOn(t *testing.T) {
	l := NewLoop(0, NewClock())
	left := 3
	l.AddDrainer(counter{&left})
	l.Ring()
	if !l.Turn(0) || l.Executes != 2 || !l.Rung() {
		t.Fatalf("turns were asked for %d times", l.Executes)
	}
	if !l.Run(2) || left != 0 {
		t.Errorf("%d turns are left", left)
	}
}

type counter struct{ left *int }

func (c counter) Drain(time.Time) bool {
	*c.left--
	return *c.left > 0
}
