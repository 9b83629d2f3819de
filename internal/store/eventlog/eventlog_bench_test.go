package eventlog

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkAppend stores events of 600 bytes, with so many of them unanswered:
// "alone" is one commit for each, "grouped" the log's way, "evicting" the same
// with the log at its bound. "ratio" runs the first two and reports how many
// times as many events the second stores.
func BenchmarkAppend(b *testing.B) {
	grouped := func(*Config) {}
	alone := func(c *Config) { c.GroupCount = 1 }
	evicting := func(c *Config) { c.MaxEvents = 5000 }
	for _, open := range []int{1, 16, 128, 1024} {
		for _, c := range []struct {
			name   string
			change func(*Config)
		}{{"alone", alone}, {"grouped", grouped}, {"evicting", evicting}} {
			b.Run(fmt.Sprintf("open=%d/%s", open, c.name), func(b *testing.B) {
				l := filled(b, c.change)
				before := l.Stats()
				b.ReportAllocs()
				b.ResetTimer()
				flood(b, l, b.N, open)
				b.StopTimer()
				st := l.Stats()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64(st.Requests-before.Requests)/float64(st.Groups-before.Groups), "events/commit")
			})
		}
	}
	b.Run("ratio", func(b *testing.B) {
		one, many := filled(b, alone), filled(b, grouped)
		var slow, fast time.Duration
		for b.Loop() {
			began := time.Now()
			flood(b, one, 1024, 1024)
			slow += time.Since(began)
			began = time.Now()
			flood(b, many, 1024, 1024)
			fast += time.Since(began)
		}
		b.ReportMetric(slow.Seconds()/fast.Seconds(), "times")
	})
}

// filled has as many events as "evicting" keeps.
func filled(b *testing.B, change func(*Config)) *Log {
	l := fresh(b, change)
	group := func(n int) error {
		return <-script(b, l, func(w *writer) error { w.maxGroup = n; return nil })
	}
	wantErr(b, "group", group(DefaultGroupCount), nil)
	addAll(b, l, many(1<<24, 5000, 600)...)
	wantErr(b, "group", group(l.cfg.GroupCount), nil)
	return l
}

// flood appends n events, open of them at a time.
func flood(b *testing.B, l *Log, n, open int) {
	base := l.Newest() // ids of an earlier flood are others
	free := make(chan struct{}, open)
	var waiting sync.WaitGroup
	waiting.Add(n)
	for i := range n {
		free <- struct{}{}
		l.Append(sized(fmt.Sprintf("evt_%012d", base+int64(i)), 600), func(_ Result, err error) {
			if err != nil {
				b.Error(err)
			}
			<-free
			waiting.Done()
		})
	}
	waiting.Wait()
}

// BenchmarkPage reads pages of 1,000 events of 600 bytes: one reader, and as many
// as there are connections.
func BenchmarkPage(b *testing.B) {
	l := fresh(b, func(c *Config) { c.QueueCount = 20_000 })
	addAll(b, l, many(0, 20_000, 600)...)
	page := func(b *testing.B, i int, dst []Stored) []Stored {
		got, err := l.Page(int64(i*1000)%19_000, 1000, 1<<30, dst[:0])
		if err != nil || len(got) != 1000 {
			b.Error(len(got), err)
		}
		return got
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(1000 * 600)
		var dst []Stored
		for i := 0; b.Loop(); i++ {
			dst = page(b, i, dst)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetBytes(1000 * 600)
		b.SetParallelism(readerCount)
		b.RunParallel(func(p *testing.PB) {
			var dst []Stored
			for i := 0; p.Next(); i++ {
				dst = page(b, i, dst)
			}
		})
	})
}

// BenchmarkAt is the check of a cursor's id.
func BenchmarkAt(b *testing.B) {
	l := fresh(b)
	addAll(b, l, many(0, 5000, 600)...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, found, err := l.At(1 + int64(i)%5000); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}
