package admin

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestHistogramObserve(t *testing.T) {
	f := func(name string, bounds, values []float64, want []uint64, sum float64) {
		t.Helper()
		for _, h := range []Histogram{NewHistogram(bounds), {Bounds: bounds}, {Bounds: bounds, Counts: make([]uint64, 1, 9)}} {
			for _, v := range values {
				h.Observe(v)
			}
			if !slices.Equal(h.Counts, want) || h.Sum != sum {
				t.Errorf("%s: %v, sum %v, want %v, sum %v", name, h.Counts, h.Sum, want, sum)
			}
		}
	}
	f("bounds are inclusive", []float64{1, 2}, []float64{0, 1, 1.5, 2, 2.5}, []uint64{2, 2, 1}, 7)
	f("below the first", []float64{0, 1}, []float64{-5}, []uint64{1, 0, 0}, -5)
	f("above the last", []float64{1}, []float64{math.MaxFloat64}, []uint64{0, 1}, math.MaxFloat64)
	f("no bounds", nil, []float64{3, 4}, []uint64{2}, 7)
	f("not a number", []float64{1}, []float64{math.NaN(), 1}, []uint64{1, 0}, 1)
}

func TestHistogramMerge(t *testing.T) {
	h := func(bounds []float64, values ...float64) Histogram {
		out := NewHistogram(bounds)
		for _, v := range values {
			out.Observe(v)
		}
		return out
	}
	one := []float64{1, 2}
	f := func(name string, into, other Histogram, want []uint64, wantErr error) {
		t.Helper()
		before := other.Clone()
		sum := into.Sum + other.Sum
		err := into.Merge(other)
		if !errors.Is(err, wantErr) {
			t.Errorf("%s: error %v, want %v", name, err, wantErr)
		}
		if err != nil {
			sum -= other.Sum
		}
		if !slices.Equal(into.Counts, want) || into.Sum != sum {
			t.Errorf("%s: %v, sum %v, want %v, sum %v", name, into.Counts, into.Sum, want, sum)
		}
		into.Observe(1)
		if !slices.Equal(other.Counts, before.Counts) {
			t.Errorf("%s: the argument was changed", name)
		}
	}
	f("both", h(one, 1, 3), h(one, 1.5, 3), []uint64{1, 1, 2}, nil)
	f("into the zero value", Histogram{}, h(one, 1, 3), []uint64{1, 0, 1}, nil)
	f("the zero value into itself", Histogram{}, Histogram{}, []uint64{0}, nil)
	f("into one without counts", Histogram{Bounds: one}, h(one, 3), []uint64{0, 0, 1}, nil)
	f("one without counts", h(one, 3), Histogram{Bounds: one}, []uint64{0, 0, 1}, nil)
	f("other bounds", h(one, 3), h([]float64{1, 3}, 3), []uint64{0, 0, 1}, ErrBounds)
	f("fewer bounds", h(one, 3), h([]float64{1}, 3), []uint64{0, 0, 1}, ErrBounds)
	f("counts that do not fit", h(one, 3), Histogram{Bounds: one, Counts: make([]uint64, 2)}, []uint64{0, 0, 1}, ErrBounds)
	f("into counts that do not fit", Histogram{Bounds: one, Counts: make([]uint64, 2)}, h(one, 3), []uint64{0, 0}, ErrBounds)
	f("bounds that do not ascend", h(one, 3), h([]float64{1, 1}), []uint64{0, 0, 1}, ErrBounds)
	f("endless bound", h(one, 3), h([]float64{math.Inf(1)}), []uint64{0, 0, 1}, ErrBounds)
}

func TestHistogramCumulative(t *testing.T) {
	h := NewHistogram([]float64{1, 2})
	for _, v := range []float64{1, 2, 2, 5} {
		h.Observe(v)
	}
	count, buckets := h.cumulative()
	if count != 4 || buckets[1] != 1 || buckets[2] != 3 || len(buckets) != 2 {
		t.Errorf("count %d, buckets %v", count, buckets)
	}
}

// passBounds are like those of a real histogram, in seconds.
var passBounds = []float64{0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1}

func TestBoundsAreValid(t *testing.T) {
	for _, bounds := range [][]float64{passBounds, UnsentBounds, LagBounds} {
		if err := NewHistogram(bounds).validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	h := NewHistogram(passBounds)
	if n := testing.AllocsPerRun(100, func() { h.Observe(0.002) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
