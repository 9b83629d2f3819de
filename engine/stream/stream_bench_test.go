package stream

import (
	"fmt"
	"math"
	"testing"
)

// BenchmarkAppend appends to a full window: one entry in, one out.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name    string
		entries int
		bytes   int64
	}{
		{"by count", 1 << 16, math.MaxInt64},
		{"by bytes", 1 << 16, 100 * 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			const batch = 10_000
			l := NewLog(c.entries, c.bytes)
			b.ReportAllocs()
			appends := 0
			for b.Loop() {
				b.StopTimer()
				entries := make([]Entry, batch)
				b.StartTimer()
				for i := range entries {
					entries[i].SizeBytes = 100
					l.Append(&entries[i])
				}
				appends += batch
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(appends), "ns/append")
		})
	}
}

// BenchmarkAppendParallel appends entries that are made for it, from all cores.
func BenchmarkAppendParallel(b *testing.B) {
	l := NewLog(1<<16, math.MaxInt64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Append(&Entry{SizeBytes: 100})
		}
	})
}

// BenchmarkAt reads a window of 64 Ki entries in order, with and without a
// writer beside it.
func BenchmarkAt(b *testing.B) {
	const entries = 1 << 16
	for _, writing := range []bool{false, true} {
		b.Run(fmt.Sprintf("writing=%v", writing), func(b *testing.B) {
			l := NewLog(entries, math.MaxInt64)
			for range entries {
				l.Append(&Entry{SizeBytes: 100})
			}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for writing {
					select {
					case <-stop:
						return
					default:
						l.Append(&Entry{SizeBytes: 100})
					}
				}
			}()
			b.ReportAllocs()
			cursor := l.Oldest()
			for b.Loop() {
				if _, err := l.At(cursor); err != nil || cursor+1 == l.Next() {
					cursor = l.Oldest()
				} else {
					cursor++
				}
			}
			close(stop)
			<-done
		})
	}
}

// BenchmarkFrame takes forms that are built already.
func BenchmarkFrame(b *testing.B) {
	e := NewEntry(new(testEvent), []byte("base"))
	for _, form := range []Form{0, 3, 1, 15} {
		b.Run(fmt.Sprintf("form=%d", form), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Frame(form)
			}
		})
	}
}
