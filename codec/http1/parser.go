package http1

import "bytes"

// Limits of the parser.
const (
	// HeadBytes is the longest head that is accepted, from the first octet of
	// the request line to the empty line. R47 asks for at least 128 KiB of
	// request line and headers; the slack keeps a client that counts its
	// fields in another way on the safe side.
	HeadBytes = 136 << 10
	// ChunkLineBytes is the longest chunk size line, its CRLF included.
	ChunkLineBytes = 1 << 10
	// TrailerBytes is the longest trailer section, its line ends included.
	TrailerBytes = 8 << 10

	maxBlankLines  = 4   // before a request line; old clients send one
	minHoldBytes   = 512 // first buffer of a head that came in pieces
	maxSpareBytes  = 4 << 10
	maxChunkDigits = 7 // sizes below 2^28, far over any body limit
)

// Step is what Feed found.
type Step uint8

const (
	// NeedMore means that all of the input was consumed.
	NeedMore Step = iota
	// GotHead means that a head is complete: Parser.Head returns it.
	GotHead
	// GotBody means that data holds the next octets of the body.
	GotBody
	// GotEnd means that the request is complete.
	GotEnd
)

type state uint8

// The order matters: InBody and Feed compare ranges.
const (
	stateIdle        state = iota
	stateBlankLF           // CR of an empty line was seen
	stateHead              // inside a head
	stateEnd               // the end is known but not reported yet
	stateFixed             // body of known length
	stateChunkSize         // digits of a chunk size
	stateChunkExt          // chunk extension
	stateChunkLineLF       // LF of the size line
	stateChunkData         // octets of a chunk
	stateChunkCR           // CR after the data
	stateChunkLF           // LF after the data
	stateTrailer           // start of a trailer line
	stateTrailerName       // name of a trailer field
	stateTrailerText       // value of a trailer field
	stateTrailerLF         // LF of a trailer line
	stateFinalLF           // LF of the last empty line
)

// Parser reads the requests of one connection. The zero value is ready. It
// holds no memory of its own unless a head is incomplete (H2). Loop only.
type Parser struct {
	// Owned by the loop.

	buf  []byte // the head so far, when it came in pieces
	head *Head  // set by the call that returned GotHead, nil after the next
	fail *Error // first error, returned for ever after (H3)

	needBytes     int64 // octets left of the body, or of the current chunk
	lineBytes     int32 // octets of the current line, or of all trailers
	overheadBytes int32 // chunk framing beyond what the data excuses
	state         state
	blankCount    uint8 // empty lines before the request line
	digitCount    uint8 // digits of the chunk size
	sawCR         bool  // the last octet of the head so far is CR
}

// Feed reads a prefix of in and returns after the first thing it found; n is
// the length of that prefix. Call it again with in[n:], which may be empty,
// until it returns NeedMore, with which n is always len(in).
//
// Steps come as GotHead, any number of GotBody, GotEnd. GotEnd follows each
// GotHead sooner or later, also when the request has no body; it may consume
// nothing. With GotBody data is a slice of in (borrowed), never empty and
// already free of chunk framing. After GotHead, Head is valid until the next
// call on s, by any parser.
//
// err is always an *Error; what it says must be answered and the connection
// closed (H3). in is borrowed until return. Loop only.
func (p *Parser) Feed(s *Scratch, in []byte) (n int, step Step, data []byte, err error) {
	p.head = nil
	if p.fail != nil {
		return 0, NeedMore, nil, p.fail
	}
	var fail *Error
	switch {
	case p.state <= stateHead:
		n, step, fail = p.feedHead(s, in)
	case p.state == stateEnd:
		*p = Parser{}
		return 0, GotEnd, nil, nil
	case p.state == stateFixed:
		n, step, data = p.feedFixed(in)
	default:
		n, step, data, fail = p.feedChunked(in)
	}
	if fail != nil {
		*p = Parser{fail: fail}
		return n, NeedMore, nil, fail
	}
	return n, step, data, nil
}

// Head returns the head that the last call of Feed found, nil if it found
// none. It lies in the scratch and is valid until the next Feed on that
// scratch. Loop only.
func (p *Parser) Head() *Head { return p.head }

// InHead tells whether a head was begun and is not complete; the deadline for
// heads counts from the moment this becomes true (R47). Loop only.
func (p *Parser) InHead() bool { return p.state == stateHead }

// Idle tells whether nothing of a next request was seen. Empty lines before a
// request line are nothing. False after an error. Loop only.
func (p *Parser) Idle() bool { return p.state < stateHead && p.fail == nil }

// InBody tells whether octets of a body, or of its framing, are still to come.
// Loop only.
func (p *Parser) InBody() bool { return p.state >= stateFixed }

// HeldBytes returns the memory that the parser holds for an incomplete head;
// it may be more than the octets seen. Loop only.
func (p *Parser) HeldBytes() int { return cap(p.buf) }

// feedHead skips empty lines and collects a head up to its end.
func (p *Parser) feedHead(s *Scratch, in []byte) (int, Step, *Error) {
	skipped := 0
	if p.state != stateHead {
		var fail *Error
		if skipped, fail = p.skipBlank(in); fail != nil || skipped == len(in) {
			return skipped, NeedMore, fail
		}
		if !is(in[skipped], classToken) {
			return skipped, NeedMore, ErrMethod
		}
		p.state = stateHead
	}
	rest := in[skipped:]
	rest = rest[:min(len(rest), HeadBytes-len(p.buf))]
	end, fail := p.scan(rest)
	switch {
	case fail != nil:
		return skipped, NeedMore, fail
	case end == 0 && len(p.buf)+len(rest) == HeadBytes:
		return skipped, NeedMore, ErrHeadTooLarge
	case end == 0:
		p.hold(s, rest)
		return len(in), NeedMore, nil
	}
	block := rest[:end]
	if len(p.buf) > 0 {
		p.hold(s, block)
		block = p.buf
	}
	fail = s.readHead(block)
	p.drop(s)
	if fail != nil {
		return skipped, NeedMore, fail
	}
	p.begin(&s.head)
	return skipped + end, GotHead, nil
}

// skipBlank reads empty lines before a request line (RFC 9112 section 2.2).
func (p *Parser) skipBlank(in []byte) (int, *Error) {
	for i, c := range in {
		switch {
		case p.state == stateBlankLF && c == '\n':
			p.state = stateIdle
		case p.state == stateBlankLF:
			return i, ErrRequestLine
		case c == '\n':
			return i, ErrBareLF
		case c != '\r':
			return i, nil
		case p.blankCount == maxBlankLines:
			return i, ErrBlankLines
		default:
			p.blankCount++
			p.state = stateBlankLF
		}
	}
	return len(in), nil
}

// scan looks at octets that were not looked at before. It returns the length up
// to and with the empty line that ends the head, 0 if that is not in b.
func (p *Parser) scan(b []byte) (end int, fail *Error) {
	for at := 0; ; {
		j := bytes.IndexByte(b[at:], '\n')
		if j < 0 {
			if at < len(b) {
				p.lineBytes += int32(len(b) - at)
				p.sawCR = b[len(b)-1] == '\r'
			}
			return 0, nil
		}
		if j > 0 {
			p.sawCR = b[at+j-1] == '\r'
		}
		if !p.sawCR {
			return 0, ErrBareLF
		}
		lineBytes := p.lineBytes + int32(j)
		p.lineBytes, p.sawCR = 0, false
		if at += j + 1; lineBytes == 1 {
			return at, nil
		}
	}
}

// hold appends b to the buffered head. The buffer doubles, so a head that comes
// octet by octet is copied a bounded number of times.
func (p *Parser) hold(s *Scratch, b []byte) {
	if p.buf == nil {
		p.buf, s.spare = s.spare, nil
	}
	if p.buf == nil {
		p.buf = make([]byte, 0, max(minHoldBytes, len(b)))
	}
	p.buf = append(p.buf, b...)
}

// drop gives up the buffered head; a small buffer serves the loop's next one.
func (p *Parser) drop(s *Scratch) {
	if c := cap(p.buf); c > 0 && c <= maxSpareBytes {
		s.spare = p.buf[:0]
	}
	p.buf = nil
}

// begin enters the state that the framing of h asks for.
func (p *Parser) begin(h *Head) {
	*p = Parser{head: h}
	switch {
	case h.ContentLength < 0:
		p.state = stateChunkSize
	case h.ContentLength == 0:
		p.state = stateEnd
	default:
		p.state, p.needBytes = stateFixed, h.ContentLength
	}
}
