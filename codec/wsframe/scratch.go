package wsframe

import (
	"bytes"
	"math/bits"

	"github.com/gobwas/ws"
)

const (
	// keepWholeBytes is the largest unmasking buffer a Scratch keeps. A loop
	// reads at most a few hundred KiB at once, so more is an exception.
	keepWholeBytes = 256 << 10
	minWholeBytes  = 4 << 10

	// A Scratch keeps freeCount used buffers of at most keepFreeBytes each,
	// so that messages cut by a read cost no allocation in the steady state.
	freeCount     = 8
	keepFreeBytes = 64 << 10
	minHeldBytes  = 512
)

// Scratch is the memory that all readers of one loop share: it stands for the
// buffers which they do not have at rest. The zero value is ready. Loop only.
type Scratch struct {
	whole   []byte // unmasked message that lay whole in the input
	control [MaxControlBytes]byte
	free    [freeCount][]byte
	oldest  uint8 // next place in free to overwrite, modulo freeCount

	header  [ws.MaxHeaderSize]byte
	headers bytes.Reader
}

// trim drops what an exceptionally large message left behind, once its loan is
// over.
func (s *Scratch) trim() {
	if cap(s.whole) > keepWholeBytes {
		s.whole = nil
	}
}

// take returns the unmasking buffer with length n.
func (s *Scratch) take(n int) []byte {
	if n > cap(s.whole) {
		s.whole = make([]byte, max(minWholeBytes, 1<<bits.Len(uint(n-1))))
	}
	return s.whole[:n]
}

// grow returns held with room for n more bytes: twice as large as before, but
// not larger than most, the size that the message cannot exceed (W1).
func (s *Scratch) grow(held []byte, n int, most int64) []byte {
	need := len(held) + n
	if need <= cap(held) {
		return held
	}
	size := max(need, 2*cap(held), minHeldBytes)
	size = int(min(int64(size), max(int64(need), most, minHeldBytes)))
	next := append(s.borrow(need, size), held...)
	s.recycle(held)
	return next
}

// borrow returns an empty buffer of capacity need to size, a used one if there
// is one.
func (s *Scratch) borrow(need, size int) []byte {
	for i, b := range s.free {
		if cap(b) >= need && cap(b) <= size {
			s.free[i] = nil
			return b[:0]
		}
	}
	return make([]byte, 0, size)
}

// recycle keeps b for a later borrow, in place of the one kept longest if all
// places are taken, so that the sizes follow the traffic.
func (s *Scratch) recycle(b []byte) {
	if cap(b) < minHeldBytes || cap(b) > keepFreeBytes {
		return
	}
	for i := range s.free {
		if s.free[i] == nil {
			s.free[i] = b
			return
		}
	}
	s.free[s.oldest%freeCount] = b
	s.oldest++
}
