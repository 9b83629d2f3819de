//go:build linux

package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Every bucket's bounds meet those of its neighbours.
func TestHistogramBuckets(t *testing.T) {
	for b := range buckets - 1 {
		if upper := upperOf(b); bucketOf(upper) != b || bucketOf(upper+1) != b+1 {
			t.Fatalf("bucket %d: upper %d is in %d, the next value in %d", b, upper, bucketOf(upper), bucketOf(upper+1))
		}
	}
	if bucketOf(maxValue) != buckets-1 || upperOf(buckets-1) != maxValue {
		t.Fatalf("the last bucket is %d of %d", bucketOf(maxValue), buckets)
	}
}

// Quantiles are within 0.4 % of the exact ones, also after a merge.
func TestHistogramQuantiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var h, other Histogram
	var all []time.Duration
	for i := range 5000 {
		d := time.Duration(rnd.ExpFloat64() * float64(time.Millisecond))
		if i == 17 {
			d = 3 * time.Second
		}
		all = append(all, d)
		if i%3 == 0 {
			other.Record(d)
		} else {
			h.Record(d)
		}
	}
	h.Merge(&other)
	h.Merge(new(Histogram))
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, min(len(all)-1, int(q*float64(len(all))+0.9999)-1))]
		got := h.Quantile(q)
		if got < want || float64(got-want) > 0.004*float64(want)+1 {
			t.Errorf("quantile %v: %v, exact %v", q, got, want)
		}
	}
	if h.Count() != 5000 || h.Max() != 3*time.Second || h.Min() != all[0] || h.Mean() <= 0 {
		t.Errorf("count %d, min %v, max %v, mean %v", h.Count(), h.Min(), h.Max(), h.Mean())
	}
	var count int64
	last := time.Duration(-1)
	for _, s := range h.Steps() {
		if s.Upper <= last || s.Count <= 0 {
			t.Fatalf("step %+v behind %v", s, last)
		}
		last = s.Upper
		count += s.Count
	}
	if count != 5000 || last != h.Max() {
		t.Errorf("steps have %d, up to %v", count, last)
	}
}

// What is out of range is counted at the nearer end; nothing has no quantile.
func TestHistogramEnds(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 || h.Steps() != nil {
		t.Error("an empty histogram has values")
	}
	h.Record(-time.Second)
	h.Record(100 * time.Hour)
	if h.Min() != 0 || h.Max() != maxValue || h.Quantile(0) != 0 || h.Quantile(1) != maxValue {
		t.Errorf("min %v, max %v", h.Min(), h.Max())
	}
}
