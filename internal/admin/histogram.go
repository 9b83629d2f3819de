package admin

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrBounds tells of a histogram whose bounds do not ascend, are not finite,
// do not fit its counts, or differ from those it is merged with.
var ErrBounds = errors.New("admin: histogram bounds do not fit")

// Bounds for the histograms of a snapshot. Shared, immutable.
var (
	// UnsentBounds are in bytes. 1 MiB is where shedding starts, 8 MiB where
	// a consumer is cut (section 15 of the contract).
	UnsentBounds = []float64{0, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20}
	// LagBounds are in events.
	LagBounds = []float64{0, 1, 10, 100, 1_000, 10_000, 65_536}
)

// Histogram counts observations by size. It is owned by one goroutine at a
// time; a source hands out a Clone. The zero value has one bucket, which takes
// everything.
type Histogram struct {
	// Bounds are the upper bounds of the buckets, inclusive, ascending and
	// finite. Shared, immutable.
	Bounds []float64
	// Counts has one element a bound and one for what is above the last. They
	// are not cumulative. nil stands for zeros.
	Counts []uint64
	// Sum is that of all observations.
	Sum float64
}

// NewHistogram returns an empty histogram. bounds are shared and must not be
// changed any more.
func NewHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

// Observe adds one observation; one that is not a number is left out. It does
// not allocate, but for the first observation of a histogram without Counts.
func (h *Histogram) Observe(v float64) {
	if math.IsNaN(v) {
		return
	}
	if len(h.Counts) != len(h.Bounds)+1 {
		h.Counts = append(h.Counts, make([]uint64, len(h.Bounds)+1)...)[:len(h.Bounds)+1]
	}
	// A dozen bounds: a scan beats a search.
	i := 0
	for i < len(h.Bounds) && v > h.Bounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += v
}

// Merge adds the observations of other, which is not changed and not kept. A
// histogram without bounds and counts takes over those of other. The error is
// ErrBounds, and then h is as before.
func (h *Histogram) Merge(other Histogram) error {
	if err := other.validate(); err != nil {
		return err
	}
	if len(h.Bounds) == 0 && len(h.Counts) == 0 {
		*h = NewHistogram(other.Bounds)
	}
	if err := h.validate(); err != nil {
		return err
	}
	if !slices.Equal(h.Bounds, other.Bounds) {
		return fmt.Errorf("%w: %v and %v", ErrBounds, h.Bounds, other.Bounds)
	}
	if len(h.Counts) == 0 {
		h.Counts = make([]uint64, len(h.Bounds)+1)
	}
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.Sum += other.Sum
	return nil
}

// Clone returns a copy that shares only the bounds.
func (h Histogram) Clone() Histogram {
	h.Counts = slices.Clone(h.Counts)
	return h
}

// validate returns ErrBounds unless h is as its fields are documented.
func (h Histogram) validate() error {
	if n := len(h.Counts); n != 0 && n != len(h.Bounds)+1 {
		return fmt.Errorf("%w: %d bounds, %d counts", ErrBounds, len(h.Bounds), n)
	}
	for i, b := range h.Bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= h.Bounds[i-1] {
			return fmt.Errorf("%w: %v", ErrBounds, h.Bounds)
		}
	}
	return nil
}

// cumulative returns the number of observations and, by bound, how many were
// not above it. h is valid.
func (h Histogram) cumulative() (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.Bounds))
	for _, b := range h.Bounds {
		buckets[b] = 0
	}
	for i, n := range h.Counts {
		count += n
		if i < len(h.Bounds) {
			buckets[h.Bounds[i]] = count
		}
	}
	return count, buckets
}
