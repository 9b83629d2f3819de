package aepws

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestDirectory: B44 and B46.
func TestDirectory(t *testing.T) {
	d := newDirectory[int](3)
	open := func(name, tenant, id string, c credential, conn int, wantOld int, want verdict) {
		t.Helper()
		if old, v := d.open(sessionKey{tenant, id}, c, conn); v != want || old != wantOld {
			t.Errorf("%s: got %d, %d, want %d, %d", name, old, v, wantOld, want)
		}
	}
	held := func(name, tenant, id string, want int) {
		t.Helper()
		if conn, ok := d.holder(sessionKey{tenant, id}); conn != want || ok != (want != 0) {
			t.Errorf("%s: held by %d, %v, want %d", name, conn, ok, want)
		}
	}
	open("new", "", "s", 1, 10, 0, verdictOpened)
	open("B44 another credential", "", "s", 2, 11, 0, verdictTaken)
	held("B44 the old one is untouched", "", "s", 10)
	open("B44 same credential", "", "s", 1, 12, 10, verdictReplaced)
	held("B44 the new one wins", "", "s", 12)
	if d.close(sessionKey{"", "s"}, 10) {
		t.Error("the one that was replaced gave the session up")
	}
	held("the one that was replaced leaves", "", "s", 12)
	open("B46 another tenant", "x", "s", 2, 13, 0, verdictOpened)
	held("B46 each has its own", "", "s", 12)
	open("third", "x", "t", 1, 14, 0, verdictOpened)
	open("full", "x", "u", 1, 15, 0, verdictFull)
	open("full, but a known one is replaced", "x", "t", 1, 16, 14, verdictReplaced)
	open("again by itself", "x", "t", 1, 16, 16, verdictReplaced)
	if !d.close(sessionKey{"", "s"}, 12) || d.close(sessionKey{"", "s"}, 12) {
		t.Error("the holder gives the session up once")
	}
	held("given up", "", "s", 0)
	open("room again", "x", "u", 1, 15, 0, verdictOpened)
	open("B32 an id used before", "", "s", 2, 17, 0, verdictFull)
	if d.size() != 3 {
		t.Errorf("%d held", d.size())
	}
}

// TestDirectoryProperty compares with one plain map, at the bound too.
func TestDirectoryProperty(t *testing.T) {
	seeds(50, func(seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		limit := 1 + rnd.IntN(8)
		d, model := newDirectory[int](limit), map[sessionKey]holder[int]{}
		for range 400 {
			key := sessionKey{[]string{"", "x"}[rnd.IntN(2)], fmt.Sprint("s", rnd.IntN(8))}
			conn, c := rnd.IntN(6), credential(rnd.IntN(2))
			h, ok := model[key]
			if rnd.IntN(3) == 0 {
				if want := ok && h.conn == conn; d.close(key, conn) != want {
					t.Fatalf("seed %d: close %v of %d is not %v", seed, key, conn, want)
				} else if want {
					delete(model, key)
				}
				continue
			}
			want := verdictOpened
			switch {
			case ok && h.credential != c:
				want = verdictTaken
			case ok:
				want = verdictReplaced
			case len(model) == limit:
				want = verdictFull
			}
			old, v := d.open(key, c, conn)
			if v != want || v == verdictReplaced && old != h.conn {
				t.Fatalf("seed %d: open %v: %d, %d, want %d, %d", seed, key, v, old, want, h.conn)
			}
			if v == verdictOpened || v == verdictReplaced {
				model[key] = holder[int]{conn, c}
			}
			if d.size() != len(model) {
				t.Fatalf("seed %d: %d held, want %d", seed, d.size(), len(model))
			}
		}
	})
}

// TestDirectoryConcurrent: whoever opens is replaced or closes, exactly once,
// and the bound holds all the time.
func TestDirectoryConcurrent(t *testing.T) {
	const limit, workers, rounds = 5, 8, 3000
	d := newDirectory[int64](limit)
	var conns, opened, replaced, closed, over atomic.Int64
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 4))
			for range rounds {
				key, conn := sessionKey{id: fmt.Sprint(rnd.IntN(8))}, conns.Add(1)
				switch _, v := d.open(key, 1, conn); v {
				case verdictFull:
					continue
				case verdictReplaced:
					replaced.Add(1)
				}
				opened.Add(1)
				if d.countAll() > limit {
					over.Add(1)
				}
				if d.close(key, conn) {
					closed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if over.Load() > 0 || d.size() != 0 || opened.Load() != replaced.Load()+closed.Load() {
		t.Errorf("%d opened, %d replaced, %d closed, %d left, %d over the bound",
			opened.Load(), replaced.Load(), closed.Load(), d.size(), over.Load())
	}
}

// countAll counts with all shards locked at once.
func (d *directory[C]) countAll() int {
	count := 0
	for i := range d.shards {
		d.shards[i].mu.Lock()
		defer d.shards[i].mu.Unlock()
		count += len(d.shards[i].sessions)
	}
	return count
}
