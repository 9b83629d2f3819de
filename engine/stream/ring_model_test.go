package stream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// model is what section 6 of the contract says, done plainly.
type model struct {
	frames, bytes int64 // the bounds
	held          []modelFrame
	next          Pos
	gone          []modelFrame
	last, e       int64
	resume        int64
	booting       bool
	mins          []Pos // 0 is none
}

type modelFrame struct {
	pos       Pos
	seq, size int64
	kind      uint8
	boot      bool
}

// sum returns the count and bytes of held frames, of boot frames or the rest.
func (m *model) sum(boot bool) (count, size int64) {
	for _, f := range m.held {
		if f.boot == boot {
			count, size = count+1, size+f.size
		}
	}
	return count, size
}

// past is F41's formula: all frames against boot frames + times the bounds.
func (m *model) past(times int64) bool {
	bootCount, bootBytes := m.sum(true)
	count, size := m.sum(false)
	return count+bootCount > bootCount+times*m.frames || size+bootBytes > bootBytes+times*m.bytes
}

func (m *model) mayGo() bool {
	if len(m.held) < 2 || !m.past(1) {
		return false
	}
	needed := slices.ContainsFunc(m.mins, func(p Pos) bool { return p != 0 && p <= m.held[0].pos })
	return !needed || m.past(2)
}

func (m *model) drop() {
	m.gone = append(m.gone, m.held[0])
	m.e, m.resume = max(m.e, m.held[0].seq), 0
	m.held = m.held[1:]
}

func (m *model) trim(publishing bool) {
	if m.booting {
		return
	}
	for boot := 0; m.mayGo(); {
		if m.held[0].boot {
			if boot++; boot > 2 || !publishing {
				return
			}
		}
		m.drop()
	}
}

// join is the table of section 4.
func (m *model) join(c int64) (Pos, Answer) {
	oldest := m.next
	if len(m.held) > 0 {
		oldest = m.held[0].pos
	}
	issued := c == m.last || c == m.e || slices.ContainsFunc(m.held, func(f modelFrame) bool { return f.seq == c })
	after := m.next
	for _, f := range slices.Backward(m.held) {
		if f.seq > c {
			after = f.pos
		}
	}
	switch {
	case c < 0:
		return m.next, Live
	case c > m.last:
		return 0, Future
	case c == 0 && m.e > 0:
		return oldest, Outdated
	case c == m.last:
		return m.next, Live
	case c == m.resume && c != 0:
		return oldest, Replay
	case c < m.e || !issued:
		return oldest, Outdated
	}
	return after, Replay
}

// read is what a fetch from p gives.
func (m *model) read(p Pos, exclude Kinds) (seqs []int64, overrun bool) {
	for _, f := range m.gone {
		if f.pos >= p && exclude&(1<<f.kind) == 0 {
			return nil, true
		}
	}
	for _, f := range m.held {
		if f.pos >= p && exclude&(1<<f.kind) == 0 {
			seqs = append(seqs, f.seq)
		}
	}
	return seqs, false
}

// S1, F20 to F23, F29 to F33, F37, F38, F40, F41: any sequence of publishes,
// pins, joins, ticks and skips does what the model does.
func TestRingAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := &model{frames: 1 + rng.Int64N(20), bytes: 1 + rng.Int64N(300), next: 1, booting: true, mins: make([]Pos, 3)}
		r := NewRing(Bounds{Frames: int(m.frames), Bytes: m.bytes})
		pins := []*Pin{r.Pin(), r.Pin(), r.Pin()}
		if rng.IntN(2) == 0 {
			m.last = rng.Int64N(50)
			m.e = m.last
			m.resume = rng.Int64N(m.last + 1)
			r.Start(m.last, m.resume)
		}
		for step := range 1500 {
			modelStep(t, rng, m, r, pins)
			count, size := m.sum(false)
			bootCount, bootBytes := m.sum(true)
			frames, held := r.Held()
			last, e := r.Numbers()
			if int64(frames) != count+bootCount || held != size+bootBytes || last != m.last || e != m.e || r.Next() != m.next {
				t.Fatalf("seed %d, step %d: %d frames, %d bytes, L %d, E %d, next %d; want %d, %d, %d, %d, %d",
					seed, step, frames, held, last, e, r.Next(), count+bootCount, size+bootBytes, m.last, m.e, m.next)
			}
			p, exclude := 1+Pos(rng.Int64N(int64(m.next))), Kinds(rng.IntN(16))
			want, overrun := m.read(p, exclude)
			got, err := numbers(t, r, p, exclude)
			if errors.Is(err, ErrOverrun) != overrun || !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: from %d without %b: %v, %v; want %v, %v", seed, step, p, exclude, got, err, want, overrun)
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

// modelStep does one random thing to both.
func modelStep(t *testing.T, rng *rand.Rand, m *model, r *Ring, pins []*Pin) {
	t.Helper()
	k := rng.IntN(len(pins))
	switch rng.IntN(12) {
	case 0:
		m.mins[k] = 0
		pins[k].None()
	case 1:
		m.mins[k] = max(m.mins[k], 1) + Pos(rng.IntN(10))
		pins[k].SetMin(m.mins[k])
	case 2, 3:
		cursor := rng.Int64N(m.last+5) - 1
		p, answer := pins[k].Join(cursor)
		if wantPos, want := m.join(cursor); p != wantPos || answer != want {
			t.Errorf("cursor %d: %d, %d; want %d, %d; L %d, E %d, resume %d", cursor, p, answer, wantPos, want, m.last, m.e, m.resume)
		}
		if answer != Future && (m.mins[k] == 0 || p < m.mins[k]) {
			m.mins[k] = p
		}
	case 4:
		r.Tick()
		m.trim(false)
	case 5:
		if rng.IntN(20) == 0 && m.booting {
			m.booting = false
			if err := r.Listening(); err != nil {
				t.Error(err)
			}
		} else if rng.IntN(10) == 0 {
			m.last += rng.Int64N(5)
			r.Skip(m.last)
		}
	default:
		f := modelFrame{pos: m.next, seq: m.last + 1 + rng.Int64N(3)/2, size: 1 + rng.Int64N(40), kind: uint8(rng.IntN(4)), boot: m.booting}
		p, err := r.Publish(f.seq, f.kind, make([]byte, f.size))
		if p != f.pos || err != nil {
			t.Errorf("published at %d, %v, want %d", p, err, f.pos)
		}
		m.held = append(m.held, f)
		m.next++
		m.last = f.seq
		m.trim(true)
	}
}

// Case 12 at the level of the ring, F32, F35, F36: readers that join at random
// cursors while frames are published get a gapless ascending run. In the wide
// ring all of them reach the end; in the narrow one a reader may lose, but only
// a frame that is gone.
func TestConcurrentRingReaders(t *testing.T) {
	const frames = 10_000
	for _, bound := range []int{frames, 16} {
		r := listening(t, bound, 1<<20)
		var readers, publishers sync.WaitGroup
		for reader := range 50 {
			readers.Go(func() {
				err := readAll(r, rand.New(rand.NewPCG(uint64(reader), 3)), frames)
				if err != nil && (!errors.Is(err, ErrOverrun) || bound == frames) {
					t.Errorf("bound %d, reader %d: %v", bound, reader, err)
				}
			})
		}
		var mu sync.Mutex
		seq := int64(0)
		for range 2 {
			publishers.Go(func() {
				mu.Lock()
				defer mu.Unlock()
				for seq < frames {
					seq++
					if _, err := r.Publish(seq, uint8(seq%4), []byte{byte(seq)}); err != nil {
						t.Error(err)
					}
					mu.Unlock()
					runtime.Gosched()
					mu.Lock()
				}
			})
		}
		publishers.Wait()
		readers.Wait()
	}
}

// readAll joins at a random number and reads to the last frame.
func readAll(r *Ring, rng *rand.Rand, frames int64) error {
	pin := r.Pin()
	defer pin.Close()
	// Joined at some moment between the first and the last publish.
	for start := rng.Int64N(frames * 9 / 10); ; runtime.Gosched() {
		if last, _ := r.Numbers(); last >= start {
			break
		}
	}
	last, e := r.Numbers()
	cursor := e + rng.Int64N(last-e+1)
	p, answer := pin.Join(cursor)
	expect := cursor + 1
	dst := make([]*Frame, 1+rng.IntN(64))
	if answer == Outdated { // E has moved in between, or the cursor is 0
		n, _, err := r.Fetch(p, dst, 0)
		if err != nil {
			return err
		}
		if n == 0 || dst[0].Seq <= cursor {
			return fmt.Errorf("outdated cursor %d: %d frames", cursor, n)
		}
		expect = dst[0].Seq
	}
	for expect <= frames {
		n, next, err := r.Fetch(p, dst, 0)
		if err != nil {
			if r.Oldest() <= p {
				return fmt.Errorf("overrun at %d, and oldest is %d", p, r.Oldest())
			}
			return err
		}
		for _, f := range dst[:n] {
			if f.Seq != expect || f.Bytes[0] != byte(f.Seq) {
				return fmt.Errorf("number %d with byte %d, want %d", f.Seq, f.Bytes[0], expect)
			}
			expect++
		}
		p = next
		pin.SetMin(p)
		if n == 0 {
			runtime.Gosched()
		}
	}
	return nil
}
