package aepws

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
)

// IDs makes fresh ids: a prefix and a ULID, whose 80 random bits rise within a
// millisecond. One loop, never two goroutines at once: the generator keeps
// state without a lock. Two loops share nothing and may make ids in the same
// millisecond; the random bits keep them apart. Ids are no secrets: one says
// much about the next.
type IDs struct {
	entropy *ulid.MonotonicEntropy
	last    ulid.ULID // here, because a local one would go to the heap
}

// NewIDs returns a generator that draws from crypto/rand.
func NewIDs() *IDs { return newIDs(rand.Reader) }

func newIDs(entropy io.Reader) *IDs {
	return &IDs{entropy: ulid.Monotonic(entropy, 0)}
}

// AppendEvent appends a fresh event id, evt_ and a ULID (section 5). It does
// not allocate if dst has room.
func (g *IDs) AppendEvent(dst []byte, now time.Time) []byte { return g.append(dst, "evt_", now) }

// AppendSession appends a fresh session id, sess_ and a ULID (B32).
func (g *IDs) AppendSession(dst []byte, now time.Time) []byte { return g.append(dst, "sess_", now) }

// append never fails. A time that a ULID cannot hold is moved to the nearest
// that it can. The generator refuses when a step would pass the last of the 80
// bits; then, or when its source fails, the bits are drawn anew from
// crypto/rand, which cannot fail.
func (g *IDs) append(dst []byte, prefix string, now time.Time) []byte {
	ms := uint64(min(max(now.UnixMilli(), 0), int64(ulid.MaxTime())))
	_ = g.last.SetTime(ms) // which the line above made legal
	random := g.last[6:]
	if g.entropy.MonotonicRead(ms, random) != nil {
		rand.Read(random)
	}
	dst = append(dst, prefix...)
	start := len(dst)
	dst = append(dst, make([]byte, ulid.EncodedSize)...)
	// The one error is for a buffer of another size.
	_ = g.last.MarshalTextTo(dst[start:])
	return dst
}
