package devicestore

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var benchData = strings.Repeat(`{"text":"some words"}`, 10)

func benchEdits(n, from int) []Edit {
	edits := make([]Edit, n)
	for i := range edits {
		edits[i] = Edit{Key{"notes", fmt.Sprintf("row-%08d", from+i)}, []byte(benchData)}
	}
	return edits
}

// benchPage is of other devices' events, half of them of rows that are there
// from the second page on.
func benchPage(n, page int) []Event {
	events := make([]Event, n)
	for i := range events {
		row := page*n/2 + i
		events[i] = upsert(hlcAt(time.Duration(page)*time.Millisecond, uint16(i), "dev-b"), fmt.Sprintf("row-%08d", row), benchData)
	}
	return events
}

func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint("edits=", n), func(b *testing.B) {
			s := fresh(b)
			addRelay(b, s, "http://a")
			edits := benchEdits(n, 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Write(noon, edits...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/event")
		})
	}
}

func BenchmarkApplyPage(b *testing.B) {
	for _, owing := range []bool{false, true} {
		b.Run(fmt.Sprint("owing=", owing), func(b *testing.B) {
			s := fresh(b)
			id := addRelay(b, s, "http://a")
			if owing {
				put(b, s, "x", "{}")
			}
			const n = 1000
			page := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				p := Page{Next: "x", Generation: 1, Events: benchPage(n, page)}
				if page > 0 {
					p.After = "x"
				}
				page++
				b.StartTimer()
				if a, err := s.ApplyPage(id, p, noon.Add(time.Hour)); err != nil || a.Rows != n {
					b.Fatalf("%+v, %v", a, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/event")
		})
	}
}

func BenchmarkPush(b *testing.B) {
	s := fresh(b)
	id := addRelay(b, s, "http://a")
	const n = 1000
	ids := make([]string, 0, n)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if _, err := s.Write(noon, benchEdits(n, 0)...); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Seal("owner-1", n, func(r Row) ([]byte, error) { return r.Data, nil }); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		owed, err := s.Owed(id, n, 4<<20)
		if err != nil || len(owed) != n {
			b.Fatalf("%d, %v", len(owed), err)
		}
		ids = ids[:0]
		for _, p := range owed {
			ids = append(ids, p.ID)
		}
		if err := s.Acknowledge(id, 1, ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/event")
}

func BenchmarkForget(b *testing.B) {
	s := fresh(b)
	id := addRelay(b, s, "http://a")
	const n = 100_000
	for i := range n / 1000 {
		r := relay(b, s, id)
		if _, err := s.ApplyPage(id, Page{After: r.Cursor, Next: "x", Generation: 1, Events: benchPage(1000, 2*i)}, noon.Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
	}
	generation := int64(1)
	for b.Loop() {
		if ok, err := s.Forget(id, generation, noon); !ok || err != nil {
			b.Fatal(ok, err)
		}
		generation++
	}
	if r := relay(b, s, id); r.Owed != n {
		b.Fatalf("%+v", r)
	}
}
