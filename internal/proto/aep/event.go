package aep

import (
	"hash/maphash"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/sse"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
)

// A form is a ceiling and a wire. What is really sent under a ceiling is one of
// three levels, so that an event has at most nine frames (R197).
const (
	wireSocket  = iota // WebSocket text frame
	wireChunked        // SSE, one HTTP chunk a message
	wirePlain          // SSE for HTTP/1.0
	wires
)

// Index of a ceiling, and of a level that is really sent, in a form.
const (
	asReceived = iota
	atNone
	atMetadata
	ceilingRedacted // resolves to one of the others
)

var ceilings = [...]aep.Ceiling{
	asReceived:      aep.NoCeiling,
	atNone:          aep.CeilingAt(aep.LevelNone),
	atMetadata:      aep.CeilingAt(aep.LevelMetadata),
	ceilingRedacted: aep.CeilingAt(aep.LevelRedacted),
}

// formOf returns the form for a subscription with a ceiling on a wire. A
// ceiling of full lets everything pass, as none at all does (R242).
func formOf(c aep.Ceiling, wire int) stream.Form {
	for i, known := range ceilings {
		if c == known {
			return stream.Form(i*wires + wire)
		}
	}
	return stream.Form(wire)
}

// logged is an event as the engine sees it.
type logged aep.Event

// AppendKeys implements stream.Event.
func (l *logged) AppendKeys(dst []uint64) []uint64 { return (*aep.Event)(l).AppendKeys(dst) }

// Resolve implements stream.Event (R242).
func (l *logged) Resolve(f stream.Form) (form, base stream.Form) {
	ev := (*aep.Event)(l)
	wire, ceiling := f%wires, f/wires
	level := stream.Form(asReceived)
	if to, rewrite := aep.ResultLevel(ev.Capture(), ev.HasData(), ceilings[ceiling]); rewrite {
		level = atMetadata
		if to == aep.LevelNone {
			level = atNone
		}
	}
	return level*wires + wire, level * wires
}

// AppendFrame implements stream.Event.
func (l *logged) AppendFrame(dst []byte, f stream.Form, base []byte) []byte {
	ev := (*aep.Event)(l)
	if f%wires == wireSocket {
		to := aep.LevelMetadata
		if f/wires == atNone {
			to = aep.LevelNone
		}
		return wsframe.AppendText(dst, ev.AppendDownlevel(nil, to))
	}
	return appendSSE(dst, ev, socketText(base), f%wires == wireChunked)
}

// socketText returns the payload of a whole unmasked frame.
func socketText(frame []byte) []byte {
	switch frame[1] & 0x7f {
	case 127:
		return frame[10:]
	case 126:
		return frame[4:]
	}
	return frame[2:]
}

// appendSSE appends one event as an SSE message, whole in one chunk where the
// stream is chunked (R272, R272a, R273).
func appendSSE(dst []byte, ev *aep.Event, text []byte, chunked bool) []byte {
	var id []byte
	if seq, ok := ev.Seq(); ok {
		id, _ = sse.AppendID(nil, ev.Session(), ev.Epoch(), seq)
	}
	if !chunked {
		return sse.AppendEvent(dst, ev.Type(), text, id)
	}
	return http1.AppendChunk(dst, sse.AppendEvent(nil, ev.Type(), text, id))
}

// entryBytes is what an entry weighs besides its event: the stream.Entry and
// its slot.
const entryBytes = 128

// newEntry makes the log entry of an event.
func newEntry(ev *aep.Event) *stream.Entry {
	e := stream.NewEntry((*logged)(ev), ev.Frame())
	e.Session = ev.Session()
	if seq, ok := ev.Seq(); ok {
		e.Sequence, e.Sequenced = stream.Sequence{Epoch: ev.Epoch(), Seq: seq}, true
	}
	e.Droppable = ev.Severity() <= aep.SeverityInfo
	e.SizeBytes = int32(min(ev.SizeBytes()+entryBytes, 1<<31-1))
	return e
}

// keySeeds make dedupe keys that nobody outside can aim at.
var keySeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// dedupeKey is the key of the pair (source, id): the pair, not a joined string
// (R161). The separator is no UTF-8, so that no two pairs run together.
func dedupeKey(ev *aep.Event) (k session.Key) {
	for i, seed := range keySeeds {
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.WriteString(ev.Source())
		_ = h.WriteByte(0xff)
		_, _ = h.WriteString(ev.ID())
		sum := h.Sum64()
		for j := range 8 {
			k[i*8+j] = byte(sum >> (8 * j))
		}
	}
	return k
}

// selector is a filter as the engine sees it.
type selector struct{ *aep.Filter }

var _ fanout.Selector = selector{}

// Match implements fanout.Selector: the filter sees the event as received
// (R225).
func (s selector) Match(ev stream.Event) bool {
	return s.Filter.Match((*aep.Event)(ev.(*logged)))
}
