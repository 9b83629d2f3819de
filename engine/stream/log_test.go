package stream

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// sized returns an entry that counts so many bytes.
func sized(bytes int32) *Entry { return &Entry{SizeBytes: bytes} }

func TestSequenceOrder(t *testing.T) {
	ascending := []Sequence{
		{0, -1},
		{0, 0},
		{0, math.MaxInt64},
		{1, -1},
		{1, 0},
		{1, 1},
		{8192, 1 << 40},
		{8193, 0},
		{1<<53 + 1, 0},
		{math.MaxInt64, math.MaxInt64},
	}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want || a.Less(b) != (want < 0) {
				t.Errorf("%v against %v: Compare %d, Less %v, want %d", a, b, got, a.Less(b), want)
			}
		}
	}
}

func TestSequenceNext(t *testing.T) {
	for _, c := range []struct{ of, want Sequence }{
		{Sequence{2, -1}, Sequence{2, 0}},
		{Sequence{2, 7}, Sequence{2, 8}},
		{Sequence{2, math.MaxInt64 - 1}, Sequence{2, math.MaxInt64}},
		{Sequence{2, math.MaxInt64}, Sequence{2, math.MaxInt64}},
	} {
		if got := c.of.Next(); got != c.want {
			t.Errorf("%v.Next() = %v, want %v", c.of, got, c.want)
		}
	}
}

func TestCapacity(t *testing.T) {
	for _, c := range []struct{ ask, want int }{
		{-1, 2}, {0, 2}, {1, 2}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {1000, 1024}, {1024, 1024}, {1025, 2048},
	} {
		if entries, bytes := NewLog(c.ask, 77).Capacity(); entries != c.want || bytes != 77 {
			t.Errorf("NewLog(%d, 77): capacity %d, %d, want %d, 77", c.ask, entries, bytes, c.want)
		}
	}
}

func TestEmptyLog(t *testing.T) {
	l := NewLog(4, 100)
	if l.Next() != 1 || l.Oldest() != 1 || l.TotalBytes() != 0 {
		t.Errorf("next %d, oldest %d, total %d", l.Next(), l.Oldest(), l.TotalBytes())
	}
	for p := range Pos(9) {
		if e, err := l.At(p); err != ErrOverrun {
			t.Errorf("At(%d) = %v, %v", p, e, err)
		}
	}
}

// TestPositionsAreDense: S1, and what is held is what was appended.
func TestPositionsAreDense(t *testing.T) {
	l := NewLog(8, math.MaxInt64)
	var all []*Entry
	for n := Pos(1); n <= 100; n++ {
		e := sized(10)
		if e.Pos() != 0 {
			t.Fatalf("position %d before the append", e.Pos())
		}
		all = append(all, e)
		if got := l.Append(e); got != n || e.Pos() != n || l.Next() != n+1 {
			t.Fatalf("append %d: returned %d, entry has %d, next %d", n, got, e.Pos(), l.Next())
		}
		if want := max(n, 8) - 7; l.Oldest() != want {
			t.Fatalf("after %d appends: oldest %d, want %d", n, l.Oldest(), want)
		}
		for p := Pos(0); p < n+20; p++ {
			e, err := l.At(p)
			switch held := p >= l.Oldest() && p <= n; {
			case held && (err != nil || e != all[p-1]):
				t.Fatalf("At(%d) of %d..%d: %v, %v", p, l.Oldest(), n, e, err)
			case !held && err != ErrOverrun:
				t.Fatalf("At(%d) of %d..%d: error %v, want ErrOverrun", p, l.Oldest(), n, err)
			}
		}
	}
	if got := l.TotalBytes(); got != 1000 {
		t.Errorf("TotalBytes = %d, want 1000", got)
	}
}

// TestTrimByBytes has appended sizes and the oldest position after each.
func TestTrimByBytes(t *testing.T) {
	for _, c := range []struct {
		name   string
		sizes  []int32
		oldest []Pos
	}{
		{"up to the bound", []int32{50, 50, 1}, []Pos{1, 1, 2}},
		{"several leave for one", []int32{30, 30, 30, 80, 20}, []Pos{1, 1, 1, 4, 4}},
		{"one over the bound stays alone", []int32{10, 500, 1}, []Pos{1, 2, 3}},
		{"one over the bound after another", []int32{500, 500}, []Pos{1, 2}},
		{"without size", []int32{100, 0, 0, 1}, []Pos{1, 1, 1, 2}},
	} {
		l := NewLog(16, 100)
		for i, size := range c.sizes {
			p := l.Append(sized(size))
			if got := l.Oldest(); got != c.oldest[i] {
				t.Errorf("%s: after append %d oldest is %d, want %d", c.name, p, got, c.oldest[i])
			}
			if e, err := l.At(p); err != nil || e.Pos() != p {
				t.Errorf("%s: the last entry is not held: %v", c.name, err)
			}
		}
	}
}

// TestLogModel compares the window with a plain slice.
func TestLogModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		entries, bound := 1<<(1+rnd.IntN(6)), int64(rnd.IntN(2000))
		l := NewLog(entries, bound)
		var held []*Entry
		var bytes, total int64
		for range 500 {
			e := sized(rnd.Int32N(200))
			l.Append(e)
			held = append(held, e)
			bytes += int64(e.SizeBytes)
			total += int64(e.SizeBytes)
			for len(held) > 1 && (len(held) > entries || bytes > bound) {
				bytes -= int64(held[0].SizeBytes)
				held = held[1:]
			}
			if l.Oldest() != held[0].Pos() || l.Next() != e.Pos()+1 || l.TotalBytes() != total {
				t.Fatalf("log(%d, %d): holds %d to %d, %d in all; want %d to %d, %d", entries, bound,
					l.Oldest(), l.Next(), l.TotalBytes(), held[0].Pos(), e.Pos()+1, total)
			}
			for _, h := range held {
				if got, err := l.At(h.Pos()); got != h {
					t.Fatalf("log(%d, %d): At(%d) = %v, %v", entries, bound, h.Pos(), got, err)
				}
			}
		}
	}
}

// TestConcurrentReaders: readers that follow writers see each position once, as
// the writer made it, or are told of an overrun, and then it is one.
func TestConcurrentReaders(t *testing.T) {
	const writers, each, readers = 3, 5000, 2
	for _, c := range []struct {
		name    string
		entries int
		bytes   int64
	}{
		{"all held", writers * each, math.MaxInt64},
		{"a short window", 64, math.MaxInt64},
		{"few bytes", 1024, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLog(c.entries, c.bytes)
			var writing, reading sync.WaitGroup
			for w := range writers {
				writing.Go(func() {
					last := Pos(0)
					for n := range each {
						e := sized(int32(10 + n%7))
						e.Sequence = Sequence{int64(w), int64(n)}
						if p := l.Append(e); p <= last {
							t.Errorf("position %d after %d", p, last)
						} else {
							last = p
						}
					}
				})
			}
			for range readers {
				reading.Go(func() { follow(t, l, writers*each, c.entries >= writers*each) })
			}
			writing.Wait()
			reading.Wait()
			if got := l.Next(); got != writers*each+1 {
				t.Errorf("next is %d", got)
			}
		})
	}
}

// follow reads a log up to position last.
func follow(t *testing.T, l *Log, last Pos, complete bool) {
	seen := make(map[int64]int64) // by writer, the next number at least
	for cursor := Pos(1); cursor <= last; {
		next := l.Next()
		if oldest := l.Oldest(); oldest > l.Next() {
			t.Errorf("oldest %d is above next %d", oldest, l.Next())
		}
		if cursor == next {
			runtime.Gosched()
		}
		for cursor < next {
			e, err := l.At(cursor)
			if err != nil {
				if oldest := l.Oldest(); complete || oldest <= cursor {
					t.Errorf("overrun at %d, but the oldest is %d", cursor, oldest)
					return
				}
				cursor = l.Oldest()
				continue
			}
			if e.Pos() != cursor || e.Seq < seen[e.Epoch] || complete && e.Seq != seen[e.Epoch] {
				t.Errorf("at %d: entry %d of writer %d has position %d, number %d was due",
					cursor, e.Seq, e.Epoch, e.Pos(), seen[e.Epoch])
				return
			}
			seen[e.Epoch] = e.Seq + 1
			cursor++
		}
	}
}

func TestLogAllocations(t *testing.T) {
	l := NewLog(64, math.MaxInt64)
	entries := make([]Entry, 1002)
	if got := testing.AllocsPerRun(1000, func() {
		e := &entries[0]
		entries = entries[1:]
		if got, _ := l.At(l.Append(e)); got != e {
			t.Error("not held")
		}
	}); got != 0 {
		t.Errorf("%v allocations for an append and a read", got)
	}
}
