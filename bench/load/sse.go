//go:build linux

package load

import (
	"bytes"
	"math"
)

// maxSizeLine bounds a chunk size line with its extensions.
const maxSizeLine = 255

// identity is the length of a body that ends with the connection.
const identity = math.MaxUint64

// lineKind is what is known of a line of an event stream.
type lineKind uint8

const (
	lineStart   lineKind = iota // nothing of it was seen
	lineReturn                  // a carriage return alone: blank so far
	lineField                   // a field
	lineComment                 // a colon began it
)

var newline = []byte{'\n'}

// sse takes the next bytes of an event stream in chunked coding, or as it is if
// left is identity. Events may be cut by chunks in any way. Lines end with LF
// or CRLF.
func (p *parser) sse(b []byte, s *shape, out *found) error {
	for len(b) > 0 {
		if p.stage == atHead && p.headLen == 0 && !p.inside && p.line == lineStart {
			if body, rest := wholeChunk(b); body != nil {
				p.chunk(body, s, out)
				b = rest
				continue
			}
		}
		var err error
		if b, err = p.step(b, out); err != nil {
			return err
		}
	}
	if p.stage == atEnd {
		return errClosed
	}
	return nil
}

// wholeChunk splits b behind the chunk that it begins with. body is nil if the
// chunk is not complete, the last, or in any way unusual.
func wholeChunk(b []byte) (body, rest []byte) {
	size, at := 0, 0
	for ; at < len(b) && at < 7; at++ {
		d := hexDigit(b[at])
		if d < 0 {
			break
		}
		size = size<<4 | d
	}
	end := at + 2 + size
	if size == 0 || end+2 > len(b) || b[at] != '\r' || b[at+1] != '\n' || b[end] != '\r' || b[end+1] != '\n' {
		return nil, nil
	}
	return b[at+2 : end], b[end+2:]
}

// hexDigit returns the value of a hexadecimal digit, -1 for another byte.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// chunk takes a whole chunk that begins with an event. A chunk that is as long
// as one that was found to be a single event, has the marker at the same place
// and ends an event is taken to be one too; all others are read by line.
func (p *parser) chunk(body []byte, s *shape, out *found) {
	n := len(body)
	if n == s.chunkBytes && s.at+markerBytes <= n && body[n-1] == '\n' && body[n-2] == '\n' {
		if number, isEvent := numberAt(body[s.at : s.at+markerBytes]); isEvent {
			out.message(number, true)
			return
		}
	}
	events, others := len(out.numbers), out.other
	p.text(body, out)
	if len(out.numbers) == events+1 && out.other == others && !p.inside && p.line == lineStart {
		if _, isEvent := s.search(body); isEvent {
			s.chunkBytes = n
		}
	}
}

// step takes a step with a chunk of any kind, cut anywhere, and returns what
// is left of b.
func (p *parser) step(b []byte, out *found) ([]byte, error) {
	switch p.stage {
	case atHead, atExtension:
		return p.sizeLine(b)
	case atChunkEnd:
		want := byte('\r')
		if p.headLen == 1 {
			want = '\n'
		}
		if b[0] != want {
			return nil, errChunkEnd
		}
		if p.headLen++; p.headLen == 2 {
			p.stage, p.headLen = atHead, 0
		}
		return b[1:], nil
	case atEnd:
		return nil, errClosed
	}
	n := int(min(p.left, uint64(len(b))))
	if p.left != identity {
		p.left -= uint64(n)
	}
	p.text(b[:n], out)
	if p.left == 0 {
		p.stage, p.headLen = atChunkEnd, 0
	}
	return b[n:], nil
}

// sizeLine takes one byte of a chunk size line. The carriage return is part of
// the extension here, and a bare line feed is accepted.
func (p *parser) sizeLine(b []byte) ([]byte, error) {
	c := b[0]
	if p.headLen == 0 {
		p.left = 0
	}
	digit := hexDigit(c)
	switch {
	case c == '\n' && p.headLen > 0:
		p.stage, p.headLen = atPayload, 0
		if p.left == 0 {
			p.stage = atEnd
		}
		return b[1:], nil
	case p.headLen == maxSizeLine:
		return nil, errChunkLine
	case p.stage == atExtension:
	case digit >= 0 && p.left>>56 == 0:
		p.left = p.left<<4 | uint64(digit)
	case p.headLen > 0 && (c == '\r' || c == ';' || c == ' ' || c == '\t'):
		p.stage = atExtension
	default:
		return nil, errChunkSize
	}
	p.headLen++
	return b[1:], nil
}

// text takes bytes of the event stream itself.
func (p *parser) text(m []byte, out *found) {
	for {
		i := bytes.IndexByte(m, '\n')
		if i < 0 {
			p.linePart(m)
			return
		}
		p.linePart(m[:i])
		p.lineEnd(out)
		m = m[i+1:]
	}
}

// linePart takes bytes of a line.
func (p *parser) linePart(m []byte) {
	if len(m) == 0 {
		return
	}
	if p.line == lineStart {
		switch m[0] {
		case ':':
			p.line = lineComment
		case '\r':
			p.line = lineReturn
			m = m[1:]
		default:
			p.line = lineField
		}
	}
	if len(m) > 0 && p.line == lineReturn {
		p.line = lineField
	}
	if p.line == lineField {
		p.inside = true
		p.scan.feed(m)
	}
}

// lineEnd ends a line. A blank one ends the event.
func (p *parser) lineEnd(out *found) {
	switch p.line {
	case lineField:
		p.scan.feed(newline)
	case lineStart, lineReturn:
		if p.inside {
			n, isEvent := p.scan.end()
			out.message(n, isEvent)
			p.inside = false
		}
	}
	p.line = lineStart
}
