package wsframe

import "github.com/gobwas/ws"

// Second byte of a header, RFC 6455, section 5.2.
const (
	maskBit    = 0x80
	lengthBits = 0x7f
	length16   = 126 // the length follows in 2 bytes
	length64   = 127 // the length follows in 8 bytes
	maskBytes  = 4
)

// headerBytes returns the size of a header by its second byte.
func headerBytes(second byte) int {
	n := ws.MinHeaderSize
	switch second & lengthBits {
	case length16:
		n += 2
	case length64:
		n += 8
	}
	if second&maskBit != 0 {
		n += maskBytes
	}
	return n
}

// readHeader reads a header from the start of in, together with what an earlier
// call kept of it, and returns the bytes it took. When the header is complete
// the frame is open. A rule is applied as soon as the length is there, also if
// the mask is not.
func (r *Reader) readHeader(in []byte, s *Scratch) (n int, broken *Error) {
	if r.partLen == 0 && len(in) >= ws.MinHeaderSize {
		if size := headerBytes(in[1]); len(in) >= size {
			return size, r.openFrame(in[:size], s)
		}
	}
	n = r.keepPart(in, ws.MinHeaderSize)
	if int(r.partLen) < ws.MinHeaderSize {
		return n, nil
	}
	size := headerBytes(r.part[1])
	n += r.keepPart(in[n:], size)
	part := r.part[:size]
	if int(r.partLen) == size {
		r.partLen = 0
		return n, r.openFrame(part, s)
	}
	if part[1]&maskBit != 0 && int(r.partLen) >= size-maskBytes {
		_, broken = r.checkHeader(part, s)
	}
	return n, broken
}

// keepPart moves bytes of in to part until it holds size of them.
func (r *Reader) keepPart(in []byte, size int) int {
	if int(r.partLen) >= size {
		return 0
	}
	n := copy(r.part[r.partLen:size], in)
	r.partLen += uint8(n)
	return n
}

// openFrame starts the frame whose complete header is b.
func (r *Reader) openFrame(b []byte, s *Scratch) *Error {
	h, broken := r.checkHeader(b, s)
	if broken != nil {
		return broken
	}
	r.open, r.fin, r.frame = true, h.Fin, Op(h.OpCode)
	r.mask, r.maskPos, r.left = h.Mask, 0, h.Length
	if h.OpCode.IsData() && h.OpCode != ws.OpContinuation {
		r.message = r.frame
	}
	return nil
}

// checkHeader decodes the header b and applies every rule that a header can
// break, in the state that the connection is in.
func (r *Reader) checkHeader(b []byte, s *Scratch) (ws.Header, *Error) {
	s.headers.Reset(b)
	h, err := ws.ReadHeaderBuffer(&s.headers, s.header[:])
	if err == nil {
		err = ws.CheckHeader(h, r.state())
	}
	// A lone continuation is told as a fragment, which is what its sender meant.
	if r.Whole && (err == nil && h.OpCode.IsData() && !h.Fin || err == ws.ErrProtocolContinuationUnexpected) {
		return h, ErrFragmented
	}
	if err != nil {
		return h, headerError(err)
	}
	switch length := b[1] & lengthBits; {
	case length == length16 && h.Length < length16,
		length == length64 && h.Length <= 1<<16-1:
		return h, ErrLengthNotMinimal
	case h.OpCode.IsData() && h.Length > r.limit()-int64(len(r.held)):
		return h, ErrMessageTooBig
	}
	return h, nil
}

// state is the reader's state in the library's words.
func (r *Reader) state() ws.State {
	state := ws.StateServerSide
	if r.Client {
		state = ws.StateClientSide
	}
	if r.message != OpContinuation {
		state = state.Set(ws.StateFragmented)
	}
	return state
}

// limit returns the limit in force.
func (r *Reader) limit() int64 {
	if r.Limit <= 0 {
		return DefaultLimit
	}
	return r.Limit
}
