package stream

import (
	"sort"
	"sync/atomic"
)

// segmentFrames is how many frames one segment holds: so few that little is
// kept of a segment whose frames went, and so many that the window is
// replaced rarely.
const segmentFrames = 256

// segment is a run of positions of a ring. Numbers and kinds are written once,
// before the ring's next passes their position, and read only below next.
type segment struct {
	seqs  [segmentFrames]int64
	kinds [segmentFrames]uint8

	// Atomic.
	frames [segmentFrames]atomic.Pointer[Frame] // nil once gone
	mask   atomic.Uint32                        // a bit for each kind in it
}

// window is the segments that hold frames, in order. Immutable; appending may
// write behind the length of an older window, where nobody reads.
type window struct {
	first    Pos // number of the first segment: its positions / segmentFrames
	segments []*segment
}

// at returns the segment of a position, or nil if the window lacks it.
func (w *window) at(p Pos) *segment {
	i := p/segmentFrames - w.first
	if p/segmentFrames < w.first || i >= Pos(len(w.segments)) {
		return nil
	}
	return w.segments[i]
}

// putLocked stores a frame at next.
func (r *Ring) putLocked(p Pos, f *Frame) {
	w := r.window.Load()
	s := w.at(p)
	if s == nil {
		s = new(segment)
		first := w.first
		if len(w.segments) == 0 {
			first = p / segmentFrames
		}
		r.window.Store(&window{first: first, segments: append(w.segments, s)})
	}
	i := p % segmentFrames
	s.seqs[i], s.kinds[i] = f.Seq, f.Kind
	s.mask.Store(s.mask.Load() | 1<<f.Kind)
	s.frames[i].Store(f)
}

// Kinds is a set of kinds of frames, a bit for each.
type Kinds uint32

// KindsOf returns the set of the kinds given, which are below MaxKinds.
func KindsOf(kinds ...uint8) Kinds {
	var k Kinds
	for _, kind := range kinds {
		k |= 1 << kind
	}
	return k
}

// Fetch copies references to held frames from p on into dst, without the
// excluded kinds, and returns how many and the position to go on from. It
// returns ErrOverrun when a frame at or after p that is not excluded is gone,
// and not before (F32). Any goroutine; it takes no lock and allocates nothing.
func (r *Ring) Fetch(p Pos, dst []*Frame, exclude Kinds) (int, Pos, error) {
	for {
		if oldest := r.Oldest(); p < oldest {
			if r.lost(p, exclude) {
				return 0, p, ErrOverrun
			}
			p = oldest
		}
		n, q, whole := r.read(p, dst, exclude)
		if whole || n > 0 {
			return n, q, nil
		}
		p = q
	}
}

// Seek returns the position of the first frame at or after p that is not
// excluded, or Next. It is how a stalled stream passes over what it excludes,
// so that it needs none of it (F38). It returns ErrOverrun as Fetch does.
func (r *Ring) Seek(p Pos, exclude Kinds) (Pos, error) {
	var one [1]*Frame
	n, q, err := r.Fetch(p, one[:], exclude)
	if err != nil {
		return p, err
	}
	return q - Pos(n), nil
}

// lost reports whether a frame at or after p that is not excluded is gone.
func (r *Ring) lost(p Pos, exclude Kinds) bool {
	for kind := range r.gone {
		if exclude&(1<<kind) == 0 && Pos(r.gone[kind].Load()) >= p {
			return true
		}
	}
	return false
}

// read is Fetch without the question what is gone. It reports false when it
// met a frame that went meanwhile, at the position it returns.
func (r *Ring) read(p Pos, dst []*Frame, exclude Kinds) (n int, at Pos, whole bool) {
	next := r.Next() // before the window, which then covers it
	w := r.window.Load()
	for p < next && n < len(dst) {
		s := w.at(p)
		if s == nil {
			return n, p, false
		}
		end := min(next, (p/segmentFrames+1)*segmentFrames)
		if Kinds(s.mask.Load())&^exclude == 0 {
			p = end
			continue
		}
		for ; p < end && n < len(dst); p++ {
			i := p % segmentFrames
			if exclude&(1<<s.kinds[i]) != 0 {
				continue
			}
			f := s.frames[i].Load()
			if f == nil {
				return n, p, false
			}
			dst[n] = f
			n++
		}
	}
	return n, p, true
}

// afterLocked returns the first held position whose number is above seq, and
// whether seq is the number of a held frame.
func (r *Ring) afterLocked(seq int64) (p Pos, held bool) {
	w := r.window.Load()
	oldest, next := Pos(r.oldest.Load()), Pos(r.next.Load())
	n := sort.Search(int(next-oldest), func(i int) bool {
		q := oldest + Pos(i)
		return w.at(q).seqs[q%segmentFrames] > seq
	})
	p = oldest + Pos(n)
	return p, n > 0 && w.at(p - 1).seqs[(p-1)%segmentFrames] == seq
}
