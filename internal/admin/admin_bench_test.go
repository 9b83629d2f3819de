package admin

import "testing"

func BenchmarkObserve(b *testing.B) {
	h := NewHistogram(passBounds)
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(0.002)
	}
}

func BenchmarkMetricsOf(b *testing.B) {
	s := fullSnapshot()
	for len(s.Loops) < 8 {
		l := s.Loops[0]
		l.ID = len(s.Loops)
		s.Loops = append(s.Loops, l)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = metricsOf(s)
	}
}
