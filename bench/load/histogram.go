//go:build linux

package load

import (
	"math"
	"math/bits"
	"time"
)

const (
	// subBits has each power of two divided into 256 steps: a value is known
	// within 0.4 %.
	subBits = 8
	// maxOctave bounds recorded values to 2^40 ns, about 18 minutes.
	maxOctave = 40
	maxValue  = 1<<maxOctave - 1

	buckets = (maxOctave - subBits + 1) << subBits
)

// Histogram counts durations in log-linear steps of 0.4 %, from 0 to 18
// minutes; what is outside is counted at the nearer end. The zero value is
// empty and ready. It was written because recording happens for every delivery
// and costs 3 ns of CPU, against 8 with hdrhistogram-go at three digits. One
// goroutine at a time.
type Histogram struct {
	counts   [buckets]int64
	count    int64
	sum      int64 // nanoseconds
	min, max int64 // nanoseconds; min is valid while count > 0
}

// Record counts one duration.
func (h *Histogram) Record(d time.Duration) { h.record(int64(d)) }

// record counts one duration in nanoseconds.
func (h *Histogram) record(v int64) {
	v = max(v, 0)
	v = min(v, maxValue)
	h.counts[bucketOf(v)]++
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.count++
	h.sum += v
}

// bucketOf returns the bucket of a value in [0, maxValue]. Values below
// 2^(subBits+1) have a bucket each.
func bucketOf(v int64) int {
	shift := bits.Len64(uint64(v) >> (subBits + 1))
	return shift<<subBits + int(v>>shift)
}

// upperOf returns the greatest value of a bucket.
func upperOf(bucket int) int64 {
	if bucket < 2<<subBits {
		return int64(bucket)
	}
	shift := bucket>>subBits - 1
	return (int64(bucket-shift<<subBits)+1)<<shift - 1
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 { return h.count }

// Min returns the least duration, 0 if there is none.
func (h *Histogram) Min() time.Duration { return time.Duration(h.min) }

// Max returns the greatest duration, exactly.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Mean returns the arithmetic mean, 0 if there is none. Never report it alone.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / h.count)
}

// Quantile returns the least duration that at least the part q, in [0, 1], of
// all is not above, within 0.4 % and never above Max; 0 if there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(h.count)))
	rank = max(1, min(rank, h.count))
	var seen int64
	for b, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			return time.Duration(min(upperOf(b), h.max))
		}
	}
	return 0
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	if other.count == 0 {
		return
	}
	for b, n := range other.counts {
		h.counts[b] += n
	}
	if h.count == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.count += other.count
	h.sum += other.sum
}

// Step is one point of a distribution: Count durations are at most Upper and
// above the Upper of the step before.
type Step struct {
	Upper time.Duration
	Count int64
}

// Steps returns the distribution in ascending order, without empty steps. The
// counts add up to Count.
func (h *Histogram) Steps() []Step {
	var steps []Step
	for b, n := range h.counts {
		if n > 0 {
			steps = append(steps, Step{Upper: time.Duration(min(upperOf(b), h.max)), Count: n})
		}
	}
	return steps
}
