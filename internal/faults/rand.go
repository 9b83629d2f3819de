package faults

import (
	"math/rand/v2"
	"time"
)

// Rand is a source of chance with a seed (F1).
type Rand struct{ *rand.Rand }

// NewRand returns the source of a seed. Sources of different numbers with one
// seed are independent.
func NewRand(seed, number uint64) *Rand { return &Rand{rand.New(rand.NewPCG(seed, number))} }

// Between returns a duration in [low, high).
func (r *Rand) Between(low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// Bytes returns n random octets.
func (r *Rand) Bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Cut returns a part of b that lacks at least one octet and may be empty.
func (r *Rand) Cut(b []byte) []byte { return b[:r.IntN(len(b))] }
