//go:build linux

package load

import "errors"

// Kind is the transport of a consumer.
type Kind int

const (
	// WebSocket consumers get unmasked frames after an answer 101 (RFC 6455).
	WebSocket Kind = iota
	// SSE consumers get an event stream as the body of an answer 2xx, chunked
	// or until the connection ends (RFC 9112, section 7.1).
	SSE
)

// String returns the name of the transport.
func (k Kind) String() string {
	switch k {
	case WebSocket:
		return "WebSocket"
	case SSE:
		return "SSE"
	}
	return "unknown"
}

// Errors of a stream of frames. errClosed is an end that the server announced;
// the others are broken rules of the transport.
var (
	errClosed       = errors.New("the server ended the stream")
	errMasked       = errors.New("masked frame from the server (RFC 6455, 5.1)")
	errReserved     = errors.New("reserved bit or opcode (RFC 6455, 5.2)")
	errControl      = errors.New("control frame in fragments or over 125 bytes (RFC 6455, 5.5)")
	errFragments    = errors.New("fragments out of place (RFC 6455, 5.4)")
	errFrameLength  = errors.New("frame length of more than 63 bits (RFC 6455, 5.2)")
	errChunkSize    = errors.New("malformed chunk size (RFC 9112, 7.1)")
	errChunkEnd     = errors.New("no line end behind a chunk (RFC 9112, 7.1)")
	errChunkLine    = errors.New("chunk size line over 256 bytes")
	errUnknownFrame = errors.New("unknown kind of stream")
)

// stage is what a parser expects next.
type stage uint8

const (
	atHead      stage = iota // WebSocket: a frame's head; SSE: a chunk size
	atPayload                // bytes of a frame or chunk
	atExtension              // SSE: the rest of a chunk size line
	atChunkEnd               // SSE: the line end behind a chunk
	atEnd                    // SSE: the last chunk was seen
)

// parser is the state of one consumer's stream between two reads, about 70
// bytes. It keeps no payload: of a frame that straddles reads it remembers only
// the last bytes, in case they begin the marker. It never allocates, except
// once for a ping that straddles reads.
type parser struct {
	left    uint64 // bytes of the frame or chunk still to come
	stage   stage
	headLen uint8    // bytes of the head, or of the size line, seen
	head    [10]byte // WebSocket: the frame's head
	inside  bool     // WebSocket: between the fragments of a message; SSE: within an event
	line    lineKind // SSE: what the current line is
	scan    scan     // the text of the current message or event
	control *controlFrame
}

// found is what was found in the bytes of one read.
type found struct {
	numbers []int64 // the events' numbers, in order
	other   int64   // messages that are no events
	corrupt int64   // events with a damaged marker
	replies []byte  // bytes to be written back: pongs
}

// reset empties f and keeps its memory.
func (f *found) reset() {
	f.numbers, f.replies = f.numbers[:0], f.replies[:0]
	f.other, f.corrupt = 0, 0
}

// message counts the end of one message or SSE event.
func (f *found) message(n int64, isEvent bool) {
	switch {
	case !isEvent:
		f.other++
	case n == noNumber:
		f.corrupt++
	default:
		f.numbers = append(f.numbers, n)
	}
}

// parse takes the next bytes of a stream and appends to out what they complete.
// b is borrowed until return. After an error the stream is useless; what was
// found before it is in out.
func (p *parser) parse(k Kind, b []byte, s *shape, out *found) error {
	switch k {
	case WebSocket:
		return p.webSocket(b, s, out)
	case SSE:
		return p.sse(b, s, out)
	}
	return errUnknownFrame
}
