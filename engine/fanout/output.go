package fanout

import "slices"

// Batch is a run of whole frames that goes to sockets as one write. Its bytes
// are shared and immutable while anybody holds it; a batch whose bytes came
// from a Set's free list returns there with the last hold. Owned by the loop.
type Batch struct {
	bytes []byte
	ends  []uint32 // ends[i] is the end of frame i; empty when it is one frame
	buf   []byte   // pooled memory of bytes, kept for the next use
	recs  []Record // recs[i] tells of frame i; nil for frames that are no event

	home     *Set // takes bytes, ends and recs back with the last hold, nil for none
	refs     int
	own      bool // made by an output for small frames: it may grow while only that holds it
	recsHeld bool // a private queue refers to recs, so they are not reused
}

// frameEnd returns the end of the frame that holds the byte at off.
func (b *Batch) frameEnd(off int) int {
	if len(b.ends) == 0 {
		return len(b.bytes)
	}
	return int(b.ends[b.frameAt(off)])
}

// frameAt returns the index of the frame that holds the byte at off.
func (b *Batch) frameAt(off int) int {
	lo, hi := 0, len(b.ends)
	for lo < hi {
		if mid := (lo + hi) / 2; int(b.ends[mid]) <= off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// segment is the part [off, end) of a batch that is still to be written.
type segment struct {
	b        *Batch
	off, end int
}

// startsInside tells whether the segment begins inside a frame.
func (s segment) startsInside() bool {
	if s.off == 0 {
		return false
	}
	if len(s.b.ends) == 0 {
		return true
	}
	i := s.b.frameAt(s.off)
	return i == 0 || int(s.b.ends[i-1]) != s.off
}

// Output is one connection's output sequence: whole frames, in order, of which
// the kernel has taken a prefix. What it owes is references into batches, never
// a copy. Owned by the loop.
//
// After an error of the transport it swallows everything: the connection is
// gone and its loop will hear of it.
type Output struct {
	tr    Sink
	owed  *owed // nil when nothing is: most connections, most of the time
	taken int64 // bytes the kernel ever took
	dead  bool
}

// owed is what the kernel has not taken yet: at least one byte.
type owed struct {
	segs  []segment
	bytes int64 // in segs

	// Places in segs, kept so that a flood of frames costs constant time each.
	urgent  int32 // behind the last urgent frame, 0 when none is owed
	ordered int32 // behind the last frame that replies follow, 0 when none is owed

	one [1]segment // first memory of segs
}

// Sink is the part of a loop.Transport that an Output writes to: the methods
// are as described there.
type Sink interface {
	Write(p []byte) (n int, err error)
	WantWritable()
}

// Init sets the transport. It is called once, before anything else.
func (o *Output) Init(tr Sink) { o.tr = tr }

// OwedBytes returns the bytes that the kernel has not taken yet.
func (o *Output) OwedBytes() int64 {
	if o.owed == nil {
		return 0
	}
	return o.owed.bytes
}

// TakenBytes returns how many bytes the kernel has taken so far.
func (o *Output) TakenBytes() int64 { return o.taken }

// Dead tells that the transport has failed or was closed for good.
func (o *Output) Dead() bool { return o.dead }

// Send queues one frame behind everything owed and writes what the kernel
// takes. frame is shared from now on and must not change.
func (o *Output) Send(frame []byte) {
	if o.dead || len(frame) == 0 {
		return
	}
	q := o.owed
	if q == nil {
		if n := o.write(frame); n < len(frame) && !o.dead {
			o.push(&Batch{bytes: frame}, n)
		}
		return
	}
	// Urgent frames stay apart: others like them may still come before this one.
	o.insert(len(q.segs), frame, int(q.urgent) != len(q.segs))
}

// SendBorrowed is Send for a frame whose memory the caller wants back: what
// the kernel does not take at once is copied.
func (o *Output) SendBorrowed(frame []byte) {
	if o.dead || len(frame) == 0 {
		return
	}
	n := 0
	if o.owed == nil {
		if n = o.write(frame); n == len(frame) || o.dead {
			return
		}
	}
	o.push(&Batch{bytes: append([]byte(nil), frame...)}, n)
}

// SendFrames writes a batch of whole frames, if nothing is owed, and returns how
// many of them are accepted: those that the kernel took and the one behind them,
// of which it took a part or nothing and whose rest is owed. The others stay with
// the caller: no more than one frame is ever owed by it. batch is frames joined,
// none of them empty, and borrowed until return; a frame is shared from now on.
func (o *Output) SendFrames(batch []byte, frames [][]byte) (accepted int) {
	if o.dead {
		return len(frames)
	}
	if o.owed != nil || len(frames) == 0 {
		return 0
	}
	n := o.write(batch)
	if n == len(batch) || o.dead {
		return len(frames)
	}
	i := 0
	for n >= len(frames[i]) {
		n -= len(frames[i])
		i++
	}
	o.push(&Batch{bytes: frames[i]}, n)
	return i + 1
}

// SendUrgent queues one frame at the next frame boundary, before everything
// else that is owed but urgent frames before it. frame is shared from now on.
func (o *Output) SendUrgent(frame []byte) {
	if o.dead || len(frame) == 0 {
		return
	}
	if o.owed == nil {
		o.Send(frame)
		if q := o.owed; q != nil {
			q.urgent = int32(len(q.segs))
		}
		return
	}
	q := o.owed
	at := q.boundary()
	end := o.insert(at, frame, true)
	if int(q.ordered) > at {
		q.ordered += int32(end - at)
	}
	q.urgent = int32(end)
}

// sendReply is SendUrgent for a frame that overtakes none which was sent with
// sendOrdered or sendReply.
func (o *Output) sendReply(frame []byte) {
	if o.dead || len(frame) == 0 {
		return
	}
	q := o.owed
	if q == nil {
		o.sendOrdered(frame)
		return
	}
	boundary := q.boundary()
	at := max(boundary, int(q.ordered))
	end := o.insert(at, frame, true)
	if at == boundary {
		q.urgent = int32(end)
	}
	q.ordered = int32(end)
}

// sendOrdered is Send for a frame that replies must not overtake.
func (o *Output) sendOrdered(frame []byte) {
	o.Send(frame)
	if q := o.owed; q != nil {
		q.ordered = int32(len(q.segs))
	}
}

// boundary returns the index of the segment that the next urgent frame goes
// before. A segment that is written up to the middle of a frame is cut in two
// where that frame ends.
func (q *owed) boundary() int {
	if q.urgent > 0 {
		return int(q.urgent)
	}
	first := q.segs[0]
	if !first.startsInside() {
		return 0
	}
	if cut := first.b.frameEnd(first.off); cut < first.end {
		first.b.refs++
		q.segs[0].end = cut
		q.segs = slices.Insert(q.segs, 1, segment{b: first.b, off: cut, end: first.end})
		if q.ordered > 0 {
			q.ordered++
		}
	}
	return 1
}

const (
	// smallFrame is the longest frame that is put together with its
	// neighbours, and ownBytes the size up to which they grow. A peer that asks
	// and never reads would otherwise cost ten times what it is owed: 490,000
	// unread pongs of 17 bytes took 93 MB.
	smallFrame = 4 << 10
	ownBytes   = 64 << 10
)

// insert owes one frame before segment at, and returns the index behind it. A
// small frame is copied into the segment before, where merge allows it and that
// holds nothing but such frames.
func (o *Output) insert(at int, frame []byte, merge bool) (end int) {
	q := o.owed
	q.bytes += int64(len(frame))
	if merge && at > 0 && len(frame) <= smallFrame {
		if s := &q.segs[at-1]; s.b.own && s.b.refs == 1 && s.end == len(s.b.bytes) && s.end < ownBytes {
			s.b.appendFrame(frame)
			s.end = len(s.b.bytes)
			return at
		}
	}
	b := &Batch{bytes: frame, refs: 1}
	if len(frame) <= smallFrame {
		b = &Batch{refs: 1, own: true}
		b.appendFrame(frame)
	}
	q.segs = slices.Insert(q.segs, at, segment{b: b, end: len(b.bytes)})
	o.tr.WantWritable()
	return at + 1
}

// appendFrame appends a copy of one frame.
func (b *Batch) appendFrame(frame []byte) {
	b.bytes = append(b.bytes, frame...)
	b.ends = append(b.ends, uint32(len(b.bytes)))
}

// writeBatch writes b when nothing is owed, and owes what the kernel does not
// take. It tells whether b is out.
func (o *Output) writeBatch(b *Batch) bool {
	if o.dead {
		return true
	}
	n := 0
	if o.owed == nil {
		if n = o.write(b.bytes); n == len(b.bytes) || o.dead {
			return true
		}
	}
	o.push(b, n)
	return false
}

// push owes b from off on and asks for writability.
func (o *Output) push(b *Batch, off int) {
	b.refs++
	o.owe(segment{b: b, off: off, end: len(b.bytes)})
	o.tr.WantWritable()
}

func (o *Output) owe(s segment) {
	q := o.owed
	if q == nil {
		q = new(owed)
		q.segs = q.one[:0]
		o.owed = q
	}
	q.segs = append(q.segs, s)
	q.bytes += int64(s.end - s.off)
}

func (o *Output) write(p []byte) int {
	n, err := o.tr.Write(p)
	o.taken += int64(n)
	if err != nil {
		o.Discard()
		o.dead = true
	}
	return n
}

// writesAtOnce bounds how many writes one event of a socket may cost: half a
// turn, so that small frames or a fast peer do not hold up the loop (L1).
const writesAtOnce = 64

// Flush writes what is owed until the kernel's buffer is full or the loop has
// to see to others, and then asks for writability. It tells whether nothing is
// owed any more.
func (o *Output) Flush() bool {
	for n := 0; o.owed != nil && !o.dead; n++ {
		if n == writesAtOnce {
			o.tr.WantWritable()
			return false
		}
		q := o.owed
		s := &q.segs[0]
		n := o.write(s.b.bytes[s.off:s.end])
		if o.dead {
			break
		}
		q.bytes -= int64(n)
		if s.off += n; s.off < s.end {
			o.tr.WantWritable()
			return false
		}
		o.release(s.b)
		o.shift()
	}
	return true
}

// shift drops the first segment and gives memory back when none is left.
func (o *Output) shift() {
	q := o.owed
	q.segs[0] = segment{}
	q.segs = q.segs[1:]
	q.urgent, q.ordered = max(q.urgent-1, 0), max(q.ordered-1, 0)
	if len(q.segs) == 0 {
		o.owed = nil
	}
}

func (o *Output) release(b *Batch) {
	if b.refs--; b.refs == 0 && b.home != nil {
		b.home.recycle(b)
	}
}

// Discard forgets what is owed, memory included.
func (o *Output) Discard() {
	if q := o.owed; q != nil {
		o.owed = nil
		for _, s := range q.segs {
			o.release(s.b)
		}
	}
}

// Kill makes the output swallow everything from now on: its connection is gone.
func (o *Output) Kill() {
	o.Discard()
	o.dead = true
}

// DropUnsent forgets what is owed, except for the rest of a frame that the
// kernel has taken a part of.
func (o *Output) DropUnsent() {
	if o.owed == nil {
		return
	}
	keep := o.owed.segs[0]
	if !keep.startsInside() {
		o.Discard()
		return
	}
	keep.end = min(keep.end, keep.b.frameEnd(keep.off))
	keep.b.refs++
	o.Discard()
	o.owe(keep)
}

// unsent calls f, in output order, for each record of which the kernel has
// taken nothing. A frame that is partly written does not count: it is always
// finished before anything else is sent (R428).
func (o *Output) unsent(f func(*Record)) {
	if o.owed == nil {
		return
	}
	for _, s := range o.owed.segs {
		b := s.b
		first := 0
		if len(b.ends) > 0 {
			first = b.frameAt(s.off)
		}
		if s.startsInside() {
			first++
		}
		for i := first; i < len(b.recs) && (len(b.ends) == 0 || int(b.ends[i]) <= s.end); i++ {
			f(&b.recs[i])
		}
	}
}
