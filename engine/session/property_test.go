package session

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

// trial runs the same operations on Buffers and on the model.
type trial struct {
	t       testing.TB
	b       *Buffers
	m       *model
	pick    func(n int) int // chooses 0..n-1
	names   []string
	seqs    int64 // bound of what seqs are put
	serial  uint64
	recent  []Key
	replays []*trialReplay

	gaps, exhausted, delivered int // how much the trial has seen
}

type trialReplay struct {
	real  Replay
	model modelReplay
}

func newTrial(t testing.TB, cfg Config, names int, seqs int64, pick func(int) int) *trial {
	b, _ := newBuffers(cfg)
	tr := &trial{t: t, b: b, m: newModel(b), pick: pick, seqs: seqs}
	for i := range names {
		tr.names = append(tr.names, fmt.Sprint("s", i))
	}
	return tr
}

// step runs one operation.
func (tr *trial) step() {
	switch op := tr.pick(20); {
	case op < 14:
		tr.put()
	case op < 17 && len(tr.replays) > 0:
		tr.next(tr.pick(len(tr.replays)))
	default:
		tr.start()
	}
}

func (tr *trial) put() {
	tr.serial++
	key := keyOf(tr.serial)
	if n := len(tr.recent); n > 0 && tr.pick(6) == 0 {
		key = tr.recent[tr.pick(n)]
	} else if tr.serial == 1 {
		key = Key{}
	}
	if tr.recent = append(tr.recent, key); len(tr.recent) > 32 {
		tr.recent = tr.recent[1:]
	}
	seq := stream.Sequence{Epoch: int64(tr.pick(3)), Seq: int64(tr.serial) % tr.seqs}
	switch tr.pick(4) {
	case 0:
		seq.Seq = int64(tr.pick(int(tr.seqs)))
	case 1:
		seq.Seq = tr.seqs - 1 - seq.Seq
	}
	e := newEntry(tr.name(), seq, tr.pick(300))
	got := tr.b.Put(e, key)
	if want := tr.m.put(e, key); got != want {
		tr.t.Fatalf("Put %s %s at %d = %v, want %v", e.Session, text(seq), e.Pos(), got, want)
	}
	if got, want := tr.b.Sessions(), len(tr.m.sessions); got != want {
		tr.t.Fatalf("%d sessions, want %d", got, want)
	}
}

// name is mostly one of so many sessions as there may be, so that they fill,
// and seldom one that costs another its place.
func (tr *trial) name() string {
	n := len(tr.names)
	if tr.pick(tr.b.cfg.EventsPerSession+5) > 0 {
		n = min(n, tr.b.cfg.Sessions)
	}
	return tr.names[tr.pick(n)]
}

func (tr *trial) start() {
	name := tr.name()
	after := stream.Sequence{Epoch: int64(tr.pick(4)), Seq: int64(tr.pick(int(tr.seqs)+2) - 1)}
	if tr.pick(3) == 0 {
		after = stream.Sequence{Seq: -1}
	}
	before := tr.b.log.Next()
	if tr.pick(4) == 0 { // late
		before -= min(before-1, stream.Pos(tr.pick(50)))
	}
	real, exhausted, earliest := tr.b.Start(name, after, before)
	owed, wantExhausted, wantEarliest := tr.m.start(name, after, before)
	if exhausted != wantExhausted || exhausted && earliest != wantEarliest {
		tr.t.Fatalf("Start %s after %s before %d: exhausted %v at %s, want %v at %s", name, text(after), before,
			exhausted, text(earliest), wantExhausted, text(wantEarliest))
	}
	if exhausted {
		tr.exhausted++
	}
	r := &trialReplay{real: real, model: modelReplay{owed: owed}}
	if len(owed) > 0 {
		r.model.last = owed[len(owed)-1].Sequence
	}
	tr.replays = append(tr.replays, r)
	if len(tr.replays) > 8 {
		tr.next(0)
	}
}

func (tr *trial) next(i int) {
	r := tr.replays[i]
	maxEntries, maxBytes := tr.pick(20), tr.pick(4000)
	if tr.pick(8) == 0 {
		maxEntries, maxBytes = math.MaxInt, math.MaxInt
	}
	entries, gap, goesOn, done := tr.b.Next(&r.real, nil, maxEntries, maxBytes)
	wantEntries, wantGap, wantGoesOn := r.model.next(tr.m, maxEntries, maxBytes)
	if !slices.Equal(entries, wantEntries) {
		tr.t.Fatalf("Next(%d, %d) gave %s\nwant %s", maxEntries, maxBytes, texts(entries), texts(wantEntries))
	}
	if gap != wantGap || goesOn != wantGoesOn || done != (len(r.model.owed) == 0) {
		tr.t.Fatalf("Next: gap %v at %s, done %v; want %v at %s, %d owed", gap, text(goesOn), done,
			wantGap, text(wantGoesOn), len(r.model.owed))
	}
	tr.delivered += len(entries)
	if gap {
		tr.gaps++
	}
	if done {
		tr.replays = slices.Delete(tr.replays, i, i+1)
	}
}

// compare compares everything that is held, and checks the invariants.
func compare(t testing.TB, b *Buffers, m *model) {
	t.Helper()
	if got, want := b.Sessions(), len(m.sessions); got != want {
		t.Fatalf("%d sessions, want %d", got, want)
	}
	if b.Events() != int64(m.events()) || b.Bytes() != m.bytes() {
		t.Fatalf("%d events and %d bytes, want %d and %d", b.Events(), b.Bytes(), m.events(), m.bytes())
	}
	for name, want := range m.sessions {
		s := b.shard(name).sessions[name]
		if s == nil {
			t.Fatalf("session %s is missing", name)
		}
		checkOrdered(t, &s.order, want.held)
		if s.floor != want.floor || s.written != want.written || s.created != want.created ||
			s.prior != want.prior || s.hasPrior != want.hasPrior {
			t.Fatalf("session %s: %+v\nwant %+v", name, s, want)
		}
		for _, sl := range want.held { // B4
			if !s.keys.has(sl.key) {
				t.Fatalf("session %s: a held key is missing", name)
			}
		}
		n := s.keys.count
		if s.keys.zero {
			n++
		}
		if n != len(want.held) {
			t.Fatalf("session %s: %d keys for %d entries", name, n, len(want.held))
		}
		if s.links[holdingSession].listed != (len(want.held) > 0) || !s.links[everySession].listed {
			t.Fatalf("session %s: holds %d entries, links %+v", name, len(want.held), s.links)
		}
	}
	checkLists(t, b)
	var dropped []droppedSession
	for e := b.dropped.order.Front(); e != nil; e = e.Next() {
		dropped = append(dropped, e.Value.(droppedSession))
	}
	if !slices.Equal(dropped, m.dropped) || len(b.dropped.byName) != len(dropped) {
		t.Fatalf("record %v, want %v", dropped, m.dropped)
	}
}

// checkLists checks that the recency lists ascend and are linked both ways.
func checkLists(t testing.TB, b *Buffers) {
	t.Helper()
	for i := range b.shards {
		sh := &b.shards[i]
		for l := range sh.lists {
			n := 0
			var prev *buffer
			for s := sh.lists[l].first; s != nil; prev, s = s, s.links[l].next {
				if s.links[l].prev != prev || prev != nil && prev.written >= s.written {
					t.Fatalf("shard %d list %d is broken at %s", i, l, s.name)
				}
				n++
			}
			if sh.lists[l].last != prev || l == everySession && n != len(sh.sessions) {
				t.Fatalf("shard %d list %d has %d of %d sessions", i, l, n, len(sh.sessions))
			}
		}
	}
}

// TestModel compares Buffers with the model over random operations.
func TestModel(t *testing.T) {
	base := rand.Uint64()
	for i, c := range []struct {
		cfg   Config
		names int
		seqs  int64
		steps int
	}{
		{Config{EventsPerSession: 0, Sessions: 4}, 7, 40, 3000},
		{Config{EventsPerSession: 1, Sessions: 1}, 3, 40, 3000},
		{Config{EventsPerSession: 3, Sessions: 5}, 6, 20, 5000},
		{Config{EventsPerSession: 12, Sessions: 3}, 9, 60, 5000},
		{Config{EventsPerSession: 30, Sessions: 8, Bytes: 20_000}, 10, 200, 5000},
		{Config{EventsPerSession: 100, Sessions: 20, Bytes: 3_000}, 25, 500, 5000},
		{Config{EventsPerSession: 10, Sessions: 2, Bytes: 200}, 4, 500, 2000},
		{Config{EventsPerSession: 700, Sessions: 2}, 3, 1 << 40, 4000},
		{Config{EventsPerSession: 5000, Sessions: 2, Bytes: 300_000}, 3, 1 << 20, 5000},
	} {
		seed := base + uint64(i)
		t.Run(fmt.Sprintf("%+v", c.cfg), func(t *testing.T) {
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			tr := newTrial(t, c.cfg, c.names, c.seqs, rnd.IntN)
			for n := range c.steps {
				tr.step()
				if n%197 == 0 {
					compare(t, tr.b, tr.m)
				}
			}
			for len(tr.replays) > 0 {
				tr.next(0)
			}
			compare(t, tr.b, tr.m)
			t.Logf("%d held, %d delivered, %d gaps, %d exhausted", tr.b.Events(), tr.delivered, tr.gaps, tr.exhausted)
		})
	}
}

// FuzzModel lets the input choose the bounds and the operations.
func FuzzModel(f *testing.F) {
	for _, n := range []int{40, 400, 4000} {
		rnd := rand.NewChaCha8([32]byte{byte(n)})
		seed := make([]byte, n)
		_, _ = rnd.Read(seed)
		f.Add(uint8(n), uint8(3), uint16(0), seed)
		f.Add(uint8(5), uint8(2), uint16(2000), seed)
	}
	f.Fuzz(func(t *testing.T, events, sessions uint8, bytes uint16, ops []byte) {
		pick := func(n int) int {
			if len(ops) < 2 {
				ops = nil
				return 0
			}
			v := int(binary.LittleEndian.Uint16(ops))
			ops = ops[2:]
			return v % n
		}
		cfg := Config{EventsPerSession: int(events), Sessions: int(sessions % 8), Bytes: int64(bytes)}
		tr := newTrial(t, cfg, 9, 50, pick)
		for len(ops) > 0 {
			tr.step()
		}
		compare(t, tr.b, tr.m)
	})
}
