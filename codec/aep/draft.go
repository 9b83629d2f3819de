package aep

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-relay/sluice/codec/jsontext"

	"github.com/sluice-relay/sluice/codec/wsframe"
)

// maxHeaderLength is the longest header of an unmasked frame (RFC 6455,
// section 5.2).
const maxHeaderLength = 10

// draft is the scratch in which Scanner.Event collects an event.
type draft struct {
	event     Event // without body, attrs and index, which are made last
	index     *nameIndex
	attrs     []attr
	tail      []byte // decoded strings, to follow the text
	compacted []byte
	seen      uint32 // one bit for each core attribute
	shift     uint32 // add to an offset in Scanner.text for one in Event.body
}

// shrink gives scratch back that one large event has left.
func (d *draft) shrink() {
	d.event, d.index = Event{}, nil
	if cap(d.attrs) > keepMembers {
		d.attrs = nil
	}
	if cap(d.tail) > keepBytes {
		d.tail = nil
	}
	if cap(d.compacted) > keepBytes {
		d.compacted = nil
	}
}

// Event checks the envelope of the scanned text (R100 to R118) and makes the
// event of it. The error is an *EnvelopeError with the first broken rule.
// Nothing of the scanned text is retained. Cost is linear in the text; a plain
// event takes two allocations, one with extension attributes three.
func (s *Scanner) Event() (*Event, error) {
	if !s.object {
		return nil, refuse("R100", "an event is a JSON object")
	}
	if bytes.IndexByte(s.text[s.start:s.end], '\n') >= 0 ||
		bytes.IndexByte(s.text[s.start:s.end], '\r') >= 0 {
		s.compact()
	}
	s.begin()
	for i := range s.members {
		if err := s.admit(&s.members[i]); err != nil {
			return nil, err
		}
	}
	if err := s.draft.checkPresence(); err != nil {
		return nil, err
	}
	return s.build(), nil
}

// begin sets the draft to an event without attributes.
func (s *Scanner) begin() {
	d := &s.draft
	length := s.end - s.start
	head := wsframe.HeaderLen(length)
	d.event = Event{
		textEnd:  uint32(head + length),
		head:     uint8(head),
		severity: SeverityInfo,
		capture:  LevelMetadata,
	}
	d.index, d.attrs, d.tail, d.seen = nil, d.attrs[:0], d.tail[:0], 0
	d.shift = uint32(head - s.start) // wraps; so does adding it
}

// build makes the event of a draft that has passed. The builder's memory is
// not cleared first, and becomes the string without a copy.
func (s *Scanner) build() *Event {
	d := &s.draft
	e := new(Event)
	*e = d.event
	length := s.end - s.start
	var header [maxHeaderLength]byte
	var body strings.Builder
	body.Grow(int(e.head) + length + len(d.tail))
	body.Write(wsframe.AppendHeader(header[:0], wsframe.OpText, length))
	body.Write(s.text[s.start:s.end])
	body.Write(d.tail)
	e.body = body.String()
	size := int(unsafe.Sizeof(*e)) + body.Cap()
	if len(d.attrs) > 0 {
		e.attrs = slices.Clone(d.attrs)
		size += cap(e.attrs) * int(unsafe.Sizeof(attr{}))
	}
	if d.index != nil {
		e.index, d.index = d.index, nil
		size += int(unsafe.Sizeof(nameIndex{})) + 4*cap(e.index.slots)
	}
	e.sizeBytes = uint32(min(size, math.MaxUint32))
	return e
}

// place returns the place in Event.body of the string content from start to
// end of the text, which it decodes if need be.
func (s *Scanner) place(start, end uint32, escaped bool) span {
	d := &s.draft
	if !escaped {
		return span{start + d.shift, end - start}
	}
	from := len(d.tail)
	d.tail = jsontext.AppendUnescaped(d.tail, s.text[start:end])
	return span{d.event.textEnd + uint32(from), uint32(len(d.tail) - from)}
}

// at returns the bytes of a place in the body that is still to be built.
func (s *Scanner) at(p span) []byte {
	if end := s.draft.event.textEnd; p.offset >= end {
		return s.draft.tail[p.offset-end:][:p.length]
	}
	return s.text[p.offset-s.draft.shift:][:p.length]
}

// stringValue returns the decoded value of a string member and its place, or
// nothing when the value is of another kind.
func (s *Scanner) stringValue(m *member) ([]byte, span) {
	if s.text[m.value] != '"' {
		return nil, span{}
	}
	p := s.place(m.value+1, m.valueEnd-1, m.valueEscaped)
	return s.at(p), p
}
