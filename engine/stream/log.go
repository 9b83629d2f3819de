package stream

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
)

// ErrOverrun tells that a position is older than the oldest held one.
var ErrOverrun = errors.New("stream: position is no longer held")

// Log is an append-only sequence of entries in arrival order with bounded
// retention: a live window, not history.
//
// Positions are dense (S1) and oldest <= next. Append needs mu; readers never
// lock: a slot is published by storing it before next, and a reader which finds
// another entry in a slot than it asked for has been overrun.
type Log struct {
	// Immutable after construction.
	slots    []atomic.Pointer[Entry]
	mask     Pos
	maxBytes int64

	// Guarded by mu.
	mu    sync.Mutex
	bytes int64

	// Atomic.
	next   atomic.Uint64
	oldest atomic.Uint64
	total  atomic.Int64 // bytes ever appended
}

// NewLog returns a log that holds at most entries entries (rounded up to a
// power of two) and at most bytes bytes, one entry excepted.
func NewLog(entries int, bytes int64) *Log {
	n := 1 << bits.Len(uint(max(entries, 2)-1))
	l := &Log{slots: make([]atomic.Pointer[Entry], n), mask: Pos(n - 1), maxBytes: bytes}
	l.next.Store(1)
	l.oldest.Store(1)
	return l
}

// Append gives e the next position and publishes it. Any goroutine. An entry
// is appended once.
func (l *Log) Append(e *Entry) Pos {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Pos(l.next.Load())
	e.pos = p
	size := int64(e.SizeBytes)
	for o := Pos(l.oldest.Load()); o < p && (p-o > l.mask || l.bytes+size > l.maxBytes); o++ {
		l.trimLocked(o)
	}
	l.bytes += size
	l.total.Add(size)
	l.slots[p&l.mask].Store(e)
	l.next.Store(uint64(p) + 1)
	return p
}

// trimLocked drops the oldest entry, at o. It needs mu.
func (l *Log) trimLocked(o Pos) {
	old := l.slots[o&l.mask].Load()
	l.oldest.Store(uint64(o) + 1)
	l.slots[o&l.mask].Store(nil)
	l.bytes -= int64(old.SizeBytes)
	old.retire()
}

// Next returns the position that the next append will get. Any goroutine.
func (l *Log) Next() Pos { return Pos(l.next.Load()) }

// Oldest returns the first position held; it equals Next when the log is
// empty. Any goroutine.
func (l *Log) Oldest() Pos { return Pos(l.oldest.Load()) }

// TotalBytes returns the bytes ever appended. The difference of two readings
// is what was appended in between. Any goroutine.
func (l *Log) TotalBytes() int64 { return l.total.Load() }

// Capacity returns how many entries and bytes the log holds at most.
func (l *Log) Capacity() (entries int, bytes int64) { return len(l.slots), l.maxBytes }

// At returns the entry at p, which must be below Next. It returns ErrOverrun
// when the log no longer holds p. Any goroutine.
func (l *Log) At(p Pos) (*Entry, error) {
	if e := l.slots[p&l.mask].Load(); e != nil && e.pos == p {
		return e, nil
	}
	return nil, ErrOverrun
}
