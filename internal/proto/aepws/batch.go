package aepws

import (
	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/serve"
)

const (
	// batchFrames and batchBytes bound what goes to a socket in one write, and so
	// what a pass puts together once for all who are live.
	batchFrames = 64
	batchBytes  = 128 << 10
	// chunkBytes is what frames are cut from. Whoever owes the rest of a frame
	// keeps its chunk, so that a chunk is not much larger than an event.
	chunkBytes = 4 << 10
	// frameBytes is about what a frame has beside its text and two ids.
	frameBytes = 160
)

// batch is events for subscriptions that get the same bytes: whole frames in the
// order of their numbers. Its memory is used again unless somebody owes a part of
// a frame. Owned by the loop.
type batch struct {
	marks  []mark
	frames [][]byte // of the marks
	joined []byte   // the frames; in the chunk where they all are in it
	firm   int      // frames that have to be acknowledged

	chunks [][]byte // in use: used of them, and the last of these has room
	used   int
	memory []byte
	lent   bool // a socket owes a part of a frame
}

// mark tells of one frame. ord and firm are how many of the batch's events, and
// of those that may not be dropped, come before it.
type mark struct {
	e         *entry
	ord, firm int32
	mode      aepws.Mode
	end       int // of the frame in batch.joined
}

// reset empties the batch.
func (b *batch) reset() {
	clear(b.marks)
	clear(b.frames)
	b.marks, b.frames, b.joined, b.firm, b.used = b.marks[:0], b.frames[:0], nil, 0, 0
	if b.lent || len(b.chunks) > batchBytes/chunkBytes {
		clear(b.chunks)
		b.chunks, b.lent = b.chunks[:0], false
	}
	if cap(b.memory) > 2*batchBytes {
		b.memory = nil
	}
}

// room returns the chunk for a frame of about so many bytes.
func (b *batch) room(bytes int) *[]byte {
	if b.used > 0 {
		if c := &b.chunks[b.used-1]; cap(*c)-len(*c) >= bytes {
			return c
		}
	}
	switch {
	case b.used == len(b.chunks):
		b.chunks = append(b.chunks, nil)
		fallthrough
	case cap(b.chunks[b.used]) < bytes, cap(b.chunks[b.used]) > chunkBytes:
		b.chunks[b.used] = make([]byte, 0, max(chunkBytes, bytes))
	}
	b.chunks[b.used] = b.chunks[b.used][:0]
	b.used++
	return &b.chunks[b.used-1]
}

// add notes an event to be sent; build makes its frame.
func (b *batch) add(e *entry, wish aepws.Mode, ord, firm int32) {
	mode := aepws.Effective(e.mode, wish)
	b.marks = append(b.marks, mark{e: e, ord: ord, firm: firm, mode: mode})
	if mode != aepws.BestEffort {
		b.firm++
	}
}

// build makes the frames, for the subscriptions with an id. dropped is told by
// the first of them (B60).
func (b *batch) build(id string, dropped int64) {
	size := 0
	for i := range b.marks {
		m := &b.marks[i]
		d := aepws.Delivery{Mode: m.mode, Sequence: m.e.number, ID: m.e.id, SubscriptionID: id, Dropped: dropped}
		dropped = 0
		c := b.room(len(m.e.text) + len(m.e.id) + len(id) + frameBytes)
		start := len(*c)
		*c = aepws.AppendDeliveryFrame(*c, m.e.text, &d)
		b.frames = append(b.frames, (*c)[start:len(*c):len(*c)])
		size += len(*c) - start
		m.end = size
	}
	switch b.used {
	case 0:
	case 1:
		b.joined = b.chunks[0]
	default:
		b.memory = b.memory[:0]
		for _, frame := range b.frames {
			b.memory = append(b.memory, frame...)
		}
		b.joined = b.memory
	}
}

// cut returns the end of the frames from first on of which at most room have to
// be acknowledged.
func (b *batch) cut(first, room int) int {
	if b.firm <= room {
		return len(b.frames)
	}
	for i := first; i < len(b.marks); i++ {
		if b.marks[i].mode == aepws.BestEffort {
			continue
		}
		if room--; room < 0 {
			return i
		}
	}
	return len(b.marks)
}

// send sends the frames from first on to one subscription, as far as its socket
// and its session's budget go, and returns how many of the batch it has then. One
// that has not all, and whose socket owes nothing, has to acknowledge first.
func (b *batch) send(f *feed, peer *serve.Peer, s *sub, first int) (end int) {
	to := len(b.frames)
	if b.firm > 0 {
		to = b.cut(first, s.room())
	}
	if first == to {
		return to
	}
	begin := 0
	if first > 0 {
		begin = b.marks[first-1].end
	}
	end = first + peer.SendFrames(b.joined[begin:b.marks[to-1].end], b.frames[first:to])
	if end > first && peer.Owes() {
		b.lent = true
	}
	if b.firm > 0 {
		f.note(s, b.marks[first:end])
	}
	return end
}
