package session

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

// TestReplayMeetsLive: a reader that takes H and then replays what is below it
// and reads the log from there on gets each entry once (B1, R192), whatever the
// order of sequences.
func TestReplayMeetsLive(t *testing.T) {
	const writers, each, sessions, readers = 4, 3000, 9, 3
	b, log := newBuffersKeeping(Config{EventsPerSession: writers * each, Sessions: sessions}, writers*each)
	var buffered [writers*each + 1]bool // by position
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 0))
			for n := range each {
				key := keyOf(uint64(w*each + n - n%2)) // every other one a duplicate
				e := newEntry("pairs", stream.Sequence{Seq: rnd.Int64N(1000)}, 0)
				if n%10 < 8 {
					key = keyOf(uint64(w*each + n))
					e.Session = fmt.Sprint(rnd.IntN(sessions - 1))
				}
				if b.Put(e, key) {
					buffered[e.Pos()] = true
				}
			}
		})
	}
	type view struct {
		from     stream.Pos
		replayed []*stream.Entry
	}
	var views [readers][]view
	for i := range readers {
		reading.Go(func() {
			for log.Next() <= writers*each {
				v := view{from: log.Next()}
				for shard := range Shards {
					for _, name := range b.AppendNames(nil, shard) {
						r, _, _ := b.Start(name, stream.Sequence{Seq: -1}, v.from)
						for done := false; !done; {
							var gap bool
							v.replayed, gap, _, done = b.Next(&r, v.replayed, 100, math.MaxInt)
							if gap {
								t.Error("gap, though nothing was trimmed")
							}
						}
					}
				}
				views[i] = append(views[i], v)
				runtime.Gosched()
			}
		})
	}
	reading.Wait()
	writing.Wait()
	count := 0
	for _, v := range slices.Concat(views[:]...) {
		count++
		var seen [writers*each + 1]bool
		for _, e := range v.replayed {
			if e.Pos() >= v.from || seen[e.Pos()] {
				t.Fatalf("replay below %d gave %d, seen before: %v", v.from, e.Pos(), seen[e.Pos()])
			}
			seen[e.Pos()] = true
		}
		for p := stream.Pos(1); p < v.from; p++ {
			if seen[p] != buffered[p] {
				t.Fatalf("replay below %d: entry %d seen %v, buffered %v", v.from, p, seen[p], buffered[p])
			}
		}
		for p := v.from; p < log.Next(); p++ {
			if e, err := log.At(p); err != nil || e.Pos() != p {
				t.Fatalf("live entry %d: %v", p, err)
			}
		}
	}
	t.Logf("%d views", count)
}

// TestConcurrentPutIsIngestOrder: whatever the interleaving, the buffers end up
// as if one goroutine had put the entries in the order of the log (R193, B6),
// drops and their record included.
func TestConcurrentPutIsIngestOrder(t *testing.T) {
	const writers, each = 4, 4000
	for _, c := range []struct {
		cfg   Config
		names int
	}{
		{Config{EventsPerSession: 20, Sessions: 1}, 3},
		{Config{EventsPerSession: 20, Sessions: 5}, 8},
		{Config{EventsPerSession: 5, Sessions: 40}, 60},
		{Config{EventsPerSession: 0, Sessions: 10}, 12},
		{Config{EventsPerSession: 300, Sessions: 3}, 3},
	} {
		b, log := newBuffersKeeping(c.cfg, writers*each)
		var keys [writers*each + 1]Key // by position
		var buffered [writers*each + 1]bool
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), uint64(c.names)))
				for range each {
					e := newEntry(fmt.Sprint(rnd.IntN(c.names)), stream.Sequence{Seq: rnd.Int64N(400)}, 0)
					key := keyOf(rnd.Uint64N(2000))
					held := b.Put(e, key)
					keys[e.Pos()], buffered[e.Pos()] = key, held
					if n := b.Sessions(); n > c.cfg.Sessions {
						t.Errorf("%d sessions, the bound is %d (B5)", n, c.cfg.Sessions)
					}
				}
			})
		}
		wg.Wait()
		m := newModel(b)
		for p := stream.Pos(1); p < log.Next(); p++ {
			e, err := log.At(p)
			if err != nil {
				t.Fatal(err)
			}
			if want := m.put(e, keys[p]); buffered[p] != want {
				t.Fatalf("%+v: entry %d was buffered %v, want %v", c.cfg, p, buffered[p], want)
			}
		}
		compare(t, b, m)
	}
}

// TestReplayUnderPressure: trimming by count and by bytes and drops go on while
// readers replay. Each session is written in order by one writer, so that what
// is delivered must be consecutive or a gap must have been told (S2, R423).
func TestReplayUnderPressure(t *testing.T) {
	const writers, each, readers = 3, 6000, 2
	b, log := newBuffers(Config{EventsPerSession: 64, Sessions: 6, Bytes: 40_000})
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			var next [3]int64 // three sessions a writer, nine in all
			for n := range each {
				i := rnd.IntN(len(next))
				e := newEntry(fmt.Sprint(w, i), stream.Sequence{Seq: next[i]}, 50)
				next[i]++
				b.Put(e, keyOf(uint64(w*each+n)))
			}
		})
	}
	var gaps [readers]int
	for i := range readers {
		reading.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 2))
			for log.Next() <= writers*each {
				for shard := range Shards {
					for _, name := range b.AppendNames(nil, shard) {
						gaps[i] += replayInOrder(t, b, name, log.Next(), 1+rnd.IntN(5))
					}
				}
			}
		})
	}
	reading.Wait()
	writing.Wait()
	if b.Bytes() > b.cfg.Bytes {
		t.Errorf("%d bytes held, the bound is %d", b.Bytes(), b.cfg.Bytes)
	}
	t.Logf("%v gaps", gaps)
}

// replayInOrder replays a session that is written in order from seq 0 on, and
// returns how many gaps it was told of.
func replayInOrder(t *testing.T, b *Buffers, session string, before stream.Pos, window int) (gaps int) {
	r, _, _ := b.Start(session, stream.Sequence{Seq: -1}, before)
	last := r.last.Seq
	if r.next.pos == 0 {
		return 0
	}
	next := r.next.Seq
	for {
		entries, gap, goesOn, done := b.Next(&r, nil, window, math.MaxInt)
		if gap {
			gaps++
			if goesOn.Seq <= next {
				t.Errorf("%s: goes on at %d, %d was due", session, goesOn.Seq, next)
			}
			next = goesOn.Seq
		}
		for _, e := range entries {
			if e.Session != session || e.Pos() >= before || e.Seq != next {
				t.Errorf("%s below %d: got %s %d at %d, %d is due", session, before, e.Session, e.Seq, e.Pos(), next)
			}
			next = e.Seq + 1
		}
		if done {
			if next != last+1 {
				t.Errorf("%s: done before %d, the last owed is %d", session, next, last)
			}
			return gaps
		}
		runtime.Gosched()
	}
}
