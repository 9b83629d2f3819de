package stream

import (
	"sync"
	"sync/atomic"
)

// Pos is the engine's own number of an entry in one log. Positions count from
// 1, are dense and are never reused within a run (S1). The zero value names no
// entry.
type Pos uint64

// Sequence is a protocol's own position of an event inside one session: the
// pair (epoch, seq), ordered lexicographically. Seq may be -1, which is below
// every real position of its epoch.
type Sequence struct {
	Epoch, Seq int64
}

// Compare returns -1, 0 or 1 as s is before, at or after t.
func (s Sequence) Compare(t Sequence) int {
	switch {
	case s.Epoch < t.Epoch:
		return -1
	case s.Epoch > t.Epoch:
		return 1
	case s.Seq < t.Seq:
		return -1
	case s.Seq > t.Seq:
		return 1
	}
	return 0
}

// Less tells whether s is before t.
func (s Sequence) Less(t Sequence) bool { return s.Compare(t) < 0 }

// Next returns the position right after s in the same epoch. At the largest
// Seq it returns s itself.
func (s Sequence) Next() Sequence {
	if s.Seq < 1<<63-1 {
		s.Seq++
	}
	return s
}

// Form names one encoding of an entry: a wire (WebSocket, SSE, ...) and
// whatever else the protocol varies per subscription, such as a capture level.
// Form 0 is the base form, the one that an entry carries from the start.
type Form uint8

// MaxForms bounds the number of forms that one protocol may use.
const MaxForms = 16

// Event is what a protocol appends to a log. The engine sees no more of it.
// Implementations are immutable; every method may be called by any goroutine.
type Event interface {
	// AppendKeys appends the index keys of the event's attributes to dst. A
	// selector that is filed under one of its own keys is only tried for
	// events that yield this key.
	AppendKeys(dst []uint64) []uint64

	// Resolve returns the form that really has to be sent to a subscriber that
	// asked for f, and the form which that one is derived from. When both are
	// equal the form is built from the event alone. Resolve(0) is (0, 0).
	Resolve(f Form) (form, base Form)

	// AppendFrame appends the frame of the resolved form f to dst. base holds
	// the frame of f's base form, nil where f is built from the event alone.
	AppendFrame(dst []byte, f Form, base []byte) []byte
}

// Entry is one event with a position in a log. It is immutable after
// construction, except for its position, which the log sets before it
// publishes the entry, and for its cached frames.
type Entry struct {
	// Immutable after construction.

	Event   Event
	Session string // the protocol's session, "" for none
	// Sequence orders the entry in its session. It means something only when
	// Sequenced is set.
	Sequence
	Sequenced bool
	// Droppable entries may be shed for a consumer that lags.
	Droppable bool
	// SizeBytes is what the entry retains, text and bookkeeping.
	SizeBytes int32

	frame []byte // form 0; shared, immutable (S3)
	pos   Pos    // set by Log.Append before publication

	// Atomic. Nil while nothing is derived, retired after the entry has left
	// the live window.
	derived atomic.Pointer[derived]
}

// derived holds the forms that were built for an entry while it is live.
type derived struct {
	mu     sync.Mutex
	frames [MaxForms][]byte
}

// NewEntry returns an entry for ev whose base frame is frame. The frame is
// shared from now on and must not change (S3).
func NewEntry(ev Event, frame []byte) *Entry {
	return &Entry{Event: ev, frame: frame, SizeBytes: int32(cap(frame))}
}

// Pos returns the entry's position in its log, 0 before it was appended.
func (e *Entry) Pos() Pos { return e.pos }

// Base returns the frame of form 0: shared, immutable.
func (e *Entry) Base() []byte { return e.frame }

// Frame returns the frame to send to a subscriber that asked for form f:
// shared, immutable. Each resolved form is built at most once while the entry
// is live, however many subscribers share it. Any goroutine.
func (e *Entry) Frame(f Form) []byte {
	form, base := Form(0), Form(0)
	if f != 0 {
		form, base = e.Event.Resolve(f)
	}
	if form == 0 {
		return e.frame
	}
	d := e.derived.Load()
	if d == nil {
		e.derived.CompareAndSwap(nil, new(derived))
		d = e.derived.Load()
	}
	if d == retired {
		return e.AppendFrame(nil, f)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.frameLocked(e, form, base)
}

// frameLocked needs d.mu.
func (d *derived) frameLocked(e *Entry, form, base Form) []byte {
	if form == 0 {
		return e.frame
	}
	if fr := d.frames[form]; fr != nil {
		return fr
	}
	var from []byte
	if base != form {
		_, under := e.Event.Resolve(base)
		from = d.frameLocked(e, base, under)
	}
	fr := e.Event.AppendFrame(nil, form, from)
	d.frames[form] = fr
	return fr
}

// AppendFrame appends the frame for a subscriber that asked for form f to dst
// and keeps nothing: for replay, where an entry is no longer live. Any
// goroutine.
func (e *Entry) AppendFrame(dst []byte, f Form) []byte {
	form, base := Form(0), Form(0)
	if f != 0 {
		form, base = e.Event.Resolve(f)
	}
	if form == 0 {
		return append(dst, e.frame...)
	}
	if d := e.derived.Load(); d != nil && d != retired {
		return append(dst, e.Frame(f)...)
	}
	var from []byte
	switch {
	case base == form:
	case base == 0:
		from = e.frame
	default:
		from = e.AppendFrame(nil, base)
	}
	return e.Event.AppendFrame(dst, form, from)
}

// retired marks entries that left the live window: nothing is kept for them.
var retired = new(derived)

// retire drops the derived frames of an entry that leaves the live window.
func (e *Entry) retire() { e.derived.Store(retired) }
