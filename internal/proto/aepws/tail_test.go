package aepws

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// The tail finds events by their numbers, and starts anew where they do not
// follow.
func TestTail(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	e := r.stored(eventOf{id: "x"})
	x := newTail(40, 4, 1<<20)
	f := func(what string, oldest, next int64, held ...int64) {
		t.Helper()
		if x.oldest() != oldest || x.next() != next {
			t.Errorf("%s: %d to %d, want %d to %d", what, x.oldest(), x.next(), oldest, next)
		}
		for n := int64(0); n < 60; n++ {
			if got := x.at(n); (got != nil) != slices.Contains(held, n) || got != nil && got.number != n {
				t.Errorf("%s: at %d: %+v", what, n, got)
			}
		}
	}
	put := func(numbers ...int64) {
		var batch []eventlog.Stored
		for _, n := range numbers {
			batch = append(batch, eventlog.Stored{Seq: n, Event: e})
		}
		x.append(batch)
	}
	f("empty", 41, 41)
	put(41, 42)
	f("two", 41, 43, 41, 42)
	put(42, 43, 44, 45)
	f("bounded, and none twice", 42, 46, 42, 43, 44, 45)
	put(50)
	f("a gap", 50, 51, 50)
	small := newTail(0, 64, 1000)
	for n := range int64(10) {
		small.append([]eventlog.Stored{{Seq: n + 1, Event: e}})
	}
	if held := small.next() - small.oldest(); held < 1 || held > 2 {
		t.Errorf("1,000 bytes hold %d events of %d", held, len(e.Text)+entryBytes)
	}
}

// B61: what had expired when it was stored goes to nobody, and neither does what
// cannot be read.
func TestStale(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	now := r.clock.Now()
	f := func(what string, expires time.Duration, text string, stale, expired bool) {
		t.Helper()
		s := eventlog.Stored{Seq: 1, StoredAt: now, Event: r.stored(eventOf{id: "x"})}
		if expires != 0 {
			s.ExpiresAt = now.Add(expires)
		}
		if text != "" {
			s.Text = []byte(text)
		}
		e := newEntry(new(codec.Scanner), &s)
		if e.stale != stale || e.expired(now.Add(time.Minute)) != expired {
			t.Errorf("%s: stale %v, expired a minute later %v", what, e.stale, e.expired(now.Add(time.Minute)))
		}
	}
	f("without", 0, "", false, false)
	f("an hour", time.Hour, "", false, false)
	f("a second", time.Second, "", false, true)
	f("now", time.Millisecond/2, "", true, true)
	f("past", -time.Hour, "", true, true)
	f("damaged", 0, `{"id":`, true, false)
}

// B48: the index finds the groups that a scan finds, whatever comes and goes.
func TestIndex(t *testing.T) {
	r := newFeedRig(t, feedConfig{})
	seeds(20, func(seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var x index
		var held []*group
		for n := int64(1); n < 400; n++ {
			if len(held) > 0 && rnd.IntN(3) == 0 {
				i := rnd.IntN(len(held))
				x.remove(&held[i].filed)
				held = slices.Delete(held, i, i+1)
			} else {
				g := newGroup(groupKey{}, r.filter(fmt.Sprintf([]string{
					`{"source":"agent:%[1]d"}`, `{"types":"*"}`, `{"types":["task.*","memory.updated"],"source":["agent:%[1]d","agent:%[2]d"]}`,
					`{"types":"task.progress"}`, `{"target":"t%[1]d"}`, `{"types":"*.progress"}`,
				}[rnd.IntN(6)], rnd.IntN(8), rnd.IntN(8))))
				held = append(held, g)
				x.add(&g.filed)
			}
			s := eventlog.Stored{Seq: n, Event: r.stored(eventOf{id: "x", source: fmt.Sprint("agent:", rnd.IntN(9)), typ: []string{"task.progress", "memory.updated", "a.b"}[rnd.IntN(3)]})}
			e := newEntry(&r.scanner, &s)
			got := map[*group]int{}
			for _, g := range x.match(e) {
				got[g]++
			}
			for _, g := range held {
				if want := g.filed.filter.Match(&e.attributes); want != (got[g] == 1) || got[g] > 1 {
					t.Fatalf("seed %d: %s of %s: found %d times, matches %v", seed, e.text, g.filed.filter.Canonical(), got[g], want)
				}
				delete(got, g)
			}
			if len(got) > 0 {
				t.Fatalf("seed %d: %d groups are found that are gone", seed, len(got))
			}
		}
		for _, g := range held {
			x.remove(&g.filed)
		}
		if x.byKey != nil || len(x.scan) != 0 {
			t.Errorf("seed %d: %d keys, %d scanned are left", seed, len(x.byKey), len(x.scan))
		}
	})
}

// filter compiles a filter.
func (r *feedRig) filter(payload string) *codec.Filter {
	r.t.Helper()
	var e codec.Envelope
	var req codec.FilterRequest
	text := `{"type":"subscription.requested","payload":` + strings.TrimSpace(strings.Split(payload, "%!")[0]) + `}`
	if err := r.scanner.Scan([]byte(text), &e); err != nil {
		r.t.Fatal(err)
	}
	if fault := r.scanner.ReadFilter(&e, "", r.clock.Now(), &req); fault != nil {
		r.t.Fatalf("%s: %s", payload, fault.Text)
	}
	return req.Filter
}
