//go:build linux

package load

// WebSocket opcodes and bits of the first two bytes (RFC 6455, section 5.2).
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xa

	finBit       = 0x80
	reservedBits = 0x70
	opcodeBits   = 0x0f
	maskBit      = 0x80

	length16 = 126
	length64 = 127

	maxControl = 125
	// maxReplies bounds the pongs owed after one read. More pings than that in
	// 256 KiB are not answered; RFC 6455, 5.5.3, allows it.
	maxReplies = 4096
)

// controlFrame keeps the payload of a control frame that straddles reads.
type controlFrame struct {
	payload [maxControl]byte
	n       int
}

// webSocket takes the next bytes of a stream of frames.
func (p *parser) webSocket(b []byte, s *shape, out *found) error {
	for len(b) > 0 {
		if p.stage == atHead && p.headLen == 0 && !p.inside {
			// The usual case: a whole data frame, with a length of 7 or 16 bits.
			if head, end := wholeFrame(b); end > 0 {
				n, isEvent := s.find(b[head:end])
				out.message(n, isEvent)
				b = b[end:]
				continue
			}
		}
		var err error
		if b, err = p.frame(b, out); err != nil {
			return err
		}
	}
	return nil
}

// wholeFrame returns the bounds of the payload if b begins with a whole
// unfragmented data frame of less than 64 KiB; else end is 0.
func wholeFrame(b []byte) (head, end int) {
	if len(b) < 4 || b[0] != finBit|opText && b[0] != finBit|opBinary {
		return 0, 0
	}
	head, length := 2, int(b[1])
	if length == length16 {
		head, length = 4, int(b[2])<<8|int(b[3])
	} else if length > length16 {
		return 0, 0
	}
	if head+length > len(b) {
		return 0, 0
	}
	return head, head + length
}

// frame takes a step with a frame of any kind, cut anywhere, and returns what
// is left of b.
func (p *parser) frame(b []byte, out *found) ([]byte, error) {
	if p.stage == atHead {
		for need := p.headBytes(); int(p.headLen) < need; need = p.headBytes() {
			if len(b) == 0 {
				return nil, nil
			}
			n := copy(p.head[p.headLen:need], b)
			p.headLen += uint8(n)
			b = b[n:]
		}
		if err := p.beginFrame(); err != nil {
			return nil, err
		}
		p.stage = atPayload
	}
	n := int(min(p.left, uint64(len(b))))
	piece := b[:n]
	p.left -= uint64(n)
	switch {
	case p.head[0]&opcodeBits < opClose:
		p.scan.feed(piece)
	case n > 0 && (p.left > 0 || p.control != nil && p.control.n > 0):
		if p.control == nil {
			p.control = new(controlFrame)
		}
		p.control.n += copy(p.control.payload[p.control.n:], piece)
		piece = p.control.payload[:p.control.n]
	}
	if p.left > 0 {
		return nil, nil
	}
	p.stage, p.headLen = atHead, 0
	return b[n:], p.endFrame(piece, out)
}

// headBytes returns how long the frame's head is, as far as is known.
func (p *parser) headBytes() int {
	if p.headLen < 2 {
		return 2
	}
	switch p.head[1] &^ maskBit {
	case length16:
		return 4
	case length64:
		return 10
	}
	return 2
}

// beginFrame judges a frame's head and sets what is left of it.
func (p *parser) beginFrame() error {
	first, second := p.head[0], p.head[1]
	p.left = uint64(second)
	if second >= length16 {
		p.left = 0
		for _, c := range p.head[2:p.headLen] {
			p.left = p.left<<8 | uint64(c)
		}
	}
	switch op := first & opcodeBits; {
	case second&maskBit != 0:
		return errMasked
	case first&reservedBits != 0:
		return errReserved
	case p.left>>63 != 0:
		return errFrameLength
	case op == opClose || op == opPing || op == opPong:
		if first&finBit == 0 || p.left > maxControl {
			return errControl
		}
		if p.control != nil {
			p.control.n = 0
		}
	case op == opContinuation && !p.inside, (op == opText || op == opBinary) && p.inside:
		return errFragments
	case op > opBinary:
		return errReserved
	}
	return nil
}

// endFrame acts on a frame that is complete. payload is that of a control
// frame.
func (p *parser) endFrame(payload []byte, out *found) error {
	switch p.head[0] & opcodeBits {
	case opClose:
		return errClosed
	case opPing:
		if len(out.replies)+len(payload)+6 <= maxReplies {
			out.replies = appendMasked(out.replies, finBit|opPong, payload)
		}
	case opPong:
	default:
		p.inside = p.head[0]&finBit == 0
		if !p.inside {
			n, isEvent := p.scan.end()
			out.message(n, isEvent)
		}
	}
	return nil
}

// appendMasked appends a client's frame of at most 125 bytes. Its masking key
// is zero, so that the payload stands as it is (RFC 6455, 5.3, wants a random
// key against proxies in between; there are none here).
func appendMasked(dst []byte, first byte, payload []byte) []byte {
	dst = append(dst, first, maskBit|byte(len(payload)), 0, 0, 0, 0)
	return append(dst, payload...)
}
