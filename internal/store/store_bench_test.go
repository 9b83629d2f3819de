package store

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkPush stores one event of 400 bytes a push, with synchronous=FULL:
// "alone" is one transaction for each, "grouped" the store's way.
func BenchmarkPush(b *testing.B) {
	for _, callers := range []int{1, 16, 128} {
		for name, group := range map[string]int{"alone": 1, "grouped": groupCount} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, name), func(b *testing.B) {
				s := open(b, func(c *Config) { c.Synchronous = "FULL" })
				if err := <-script(b, s, func(w *writer) error { w.maxGroup = group; return nil }); err != nil {
					b.Fatal(err)
				}
				var n atomic.Int64
				b.SetParallelism(callers / 2)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						i := n.Add(1)
						if _, err := s.Push(pushOf(alice, sized(fmt.Sprintf("%09d", i), fmt.Sprint("s", i%1000), 400))); err != nil {
							b.Error(err)
						}
					}
				})
				st := s.Stats()
				b.ReportMetric(float64(st.Requests)/float64(st.Groups), "pushes/commit")
			})
		}
	}
}

// BenchmarkPushBatch stores batches of 1,000 events of 400 bytes.
func BenchmarkPushBatch(b *testing.B) {
	s := open(b, func(c *Config) { c.OwnerBytes = 1 << 40; c.TotalBytes = Unlimited; c.Synchronous = "FULL" })
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		push(b, s, alice, 1000, 0, sizedAll(ids(fmt.Sprintf("%06d-", i), 1000, fmt.Sprint("s", i)), 400)...)
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkPull reads pages of 500 events of 400 bytes.
func BenchmarkPull(b *testing.B) {
	s := open(b)
	for i := range 20 {
		push(b, s, alice, 1000, 0, sizedAll(ids(fmt.Sprint(i, "-"), 1000, ""), 400)...)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		page, err := s.Pull(Pull{Auth: alice, After: int64(i*500) % 19_000, Limit: 500}, func([]byte) {})
		if err != nil || page.Events != 500 {
			b.Fatal(page, err)
		}
	}
	b.SetBytes(500 * 400)
}

// BenchmarkEmptyPull is the poll of a device that is up to date.
func BenchmarkEmptyPull(b *testing.B) {
	s := open(b)
	push(b, s, alice, 1, 0, ev("1", ""))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Pull(Pull{Auth: alice, After: 1, Limit: 500}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompactAll walks 100,000 events of which nothing goes.
func BenchmarkCompactAll(b *testing.B) {
	s := open(b)
	for i := range 100 {
		events := make([]Event, 1000)
		for j := range events {
			id := fmt.Sprint(i*1000 + j)
			events[j] = ev(id, id)
		}
		push(b, s, alice, 1000, 0, events...)
	}
	b.ReportAllocs()
	for b.Loop() {
		compactAllNow(b, s)
	}
}
