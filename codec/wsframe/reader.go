package wsframe

import (
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// DefaultLimit is the limit of a Reader whose Limit is not set: 64 KiB, what
// R332 allows before hello.
const DefaultLimit = 64 << 10

// Message is one complete item that a peer sent: a data message, reassembled,
// or a control frame. The zero value stands for none.
type Message struct {
	// Op is OpText, OpBinary, OpPing, OpPong or OpClose; OpContinuation, the
	// zero value, says that no item was complete.
	Op Op
	// Code is the close code of an OpClose, 0 when the frame carried none.
	Code int
	// Payload is what the item carries; of an OpClose, the reason. It is
	// borrowed until the next Feed with the same Scratch; in a client-side
	// reader it may lie in the input and is borrowed no longer than that.
	Payload []byte
}

// Complete tells if there is an item at all.
func (m Message) Complete() bool { return m.Op != OpContinuation }

// Reader turns the bytes of one connection into messages and control frames.
// It never blocks, and is small because it holds payload only while a message
// is unfinished (W2). The zero value reads a client's frames. Loop only.
type Reader struct {
	// Limit bounds one data message in bytes, fragments summed (R332); zero or
	// less means DefaultLimit. It may be changed at any time and applies from
	// the next header on.
	Limit int64
	// Client makes this the client's side: frames must come unmasked. Set it
	// before the first Feed.
	Client bool
	// Whole refuses messages in fragments with ErrFragmented. Set it before the
	// first Feed.
	Whole bool

	open    bool  // header of a frame is read, left payload bytes to come
	fin     bool  // that frame is the last of its message
	closed  bool  // a close frame was delivered
	frame   Op    // that frame's opcode
	message Op    // opcode of the unfinished message, OpContinuation if none
	pending uint8 // bytes at the end of held that start a UTF-8 sequence
	maskPos uint8 // payload bytes of that frame seen, modulo 4
	mask    [4]byte

	partLen uint8 // bytes of an incomplete header in part
	part    [ws.MaxHeaderSize]byte

	left    int64
	held    []byte       // payload of the unfinished message
	control *controlPart // payload of an unfinished control frame
	failed  *Error
}

// AtRest tells whether nothing of a next message or frame was seen, and neither
// a Close nor an error before: then the reader is as it was at first, and another
// one with the same Limit, Client and Whole may take its place. Loop only.
func (r *Reader) AtRest() bool {
	return !r.open && !r.closed && r.message == OpContinuation && r.partLen == 0 && r.failed == nil && r.HeldBytes() == 0
}

// controlPart is the payload of a control frame that came in pieces.
type controlPart struct {
	n     uint8
	bytes [MaxControlBytes]byte
}

// HeldBytes returns the memory that the unfinished message occupies (W1), for
// the sum over all connections (R46).
func (r *Reader) HeldBytes() int {
	n := cap(r.held)
	if r.control != nil {
		n += 1 + MaxControlBytes
	}
	return n
}

// Feed consumes a prefix of in and returns its length and at most one complete
// item. Call it with the rest until everything is consumed: with bytes in hand
// it always consumes some. in is borrowed until return and is not written to.
//
// Control frames between fragments are returned where they stand and leave the
// message as it is (RFC 6455, section 5.4). After a close frame everything is
// consumed and nothing returned (section 1.4).
//
// err is nil or an *Error; the reader then stays failed, holds nothing and
// returns the same error forever. A limit is applied when the header is there,
// before any payload is held; text is refused with the first bytes that cannot
// be UTF-8, also inside an unfinished fragment.
func (r *Reader) Feed(in []byte, s *Scratch) (n int, msg Message, err error) {
	s.trim()
	switch {
	case r.failed != nil:
		return 0, Message{}, r.failed
	case r.closed:
		return len(in), Message{}, nil
	}
	for {
		if !r.open {
			k, broken := r.readHeader(in[n:], s)
			n += k
			if broken != nil {
				return n, Message{}, r.fail(broken, s)
			}
			if !r.open {
				return n, Message{}, nil
			}
		}
		k := int(min(r.left, int64(len(in)-n)))
		item, broken := r.readPayload(in[n:n+k], s)
		n += k
		if broken != nil {
			return n, Message{}, r.fail(broken, s)
		}
		if r.open || item.Complete() {
			return n, item, nil
		}
	}
}

// fail ends the reader: W5.
func (r *Reader) fail(broken *Error, s *Scratch) error {
	r.release(s)
	r.failed = broken
	return broken
}

// release gives up whatever is held.
func (r *Reader) release(s *Scratch) {
	s.recycle(r.held)
	r.held, r.control = nil, nil
}

// readPayload works off chunk, the next bytes of the open frame's payload: all
// that the input has of it.
func (r *Reader) readPayload(chunk []byte, s *Scratch) (Message, *Error) {
	r.left -= int64(len(chunk))
	r.open = r.left > 0
	if r.frame.IsControl() {
		return r.readControl(chunk, s)
	}
	if !r.open && r.fin && len(r.held) == 0 {
		return r.wholeMessage(chunk, s)
	}
	if broken := r.hold(chunk, s); broken != nil {
		return Message{}, broken
	}
	if r.open || !r.fin {
		return Message{}, nil
	}
	if r.pending > 0 {
		return Message{}, ErrTextUTF8
	}
	msg := Message{Op: r.message, Payload: r.held}
	r.message = OpContinuation
	r.release(s) // lent all the same: only a later Feed can borrow it
	return msg, nil
}

// wholeMessage returns the message that chunk is, without holding anything.
func (r *Reader) wholeMessage(chunk []byte, s *Scratch) (Message, *Error) {
	msg := Message{Op: r.message, Payload: r.unmask(chunk, s)}
	r.message = OpContinuation
	if msg.Op == OpText && !utf8.Valid(msg.Payload) {
		return Message{}, ErrTextUTF8
	}
	return msg, nil
}

// unmask returns the payload that chunk carries: chunk itself on the client's
// side, else bytes of s.
func (r *Reader) unmask(chunk []byte, s *Scratch) []byte {
	if r.Client || len(chunk) == 0 {
		return chunk
	}
	p := s.take(len(chunk))
	copy(p, chunk)
	r.cipher(p)
	return p
}

// cipher unmasks p, the next bytes of the open frame's payload, in place.
func (r *Reader) cipher(p []byte) {
	if r.Client {
		return
	}
	ws.Cipher(p, r.mask, int(r.maskPos))
	r.maskPos = uint8(int(r.maskPos)+len(p)) % 4
}

// hold appends chunk to the unfinished message.
func (r *Reader) hold(chunk []byte, s *Scratch) *Error {
	if len(chunk) == 0 {
		return nil
	}
	most := r.limit()
	if r.fin {
		most = int64(len(r.held)+len(chunk)) + r.left
	}
	r.held = s.grow(r.held, len(chunk), most)
	from := len(r.held)
	r.held = append(r.held, chunk...)
	r.cipher(r.held[from:])
	if r.message != OpText {
		return nil
	}
	pending, ok := checkPrefix(r.held[from-int(r.pending):])
	r.pending = uint8(pending)
	if !ok {
		return ErrTextUTF8
	}
	return nil
}

// checkPrefix tells if p can be the beginning of UTF-8 text, and how many bytes
// at its end start a sequence that is not complete, 0 to 3.
func checkPrefix(p []byte) (pending int, ok bool) {
	for i := 1; i <= min(utf8.UTFMax-1, len(p)); i++ {
		if utf8.RuneStart(p[len(p)-i]) {
			// FullRune is true as well for what no byte can make valid, so
			// such a tail is left to Valid.
			if !utf8.FullRune(p[len(p)-i:]) {
				pending = i
			}
			break
		}
	}
	return pending, utf8.Valid(p[:len(p)-pending])
}

// readControl works off the next bytes of a control frame.
func (r *Reader) readControl(chunk []byte, s *Scratch) (Message, *Error) {
	if r.control == nil && !r.open {
		p := s.control[:copy(s.control[:], chunk)]
		r.cipher(p)
		return r.controlMessage(p, s)
	}
	if len(chunk) > 0 {
		if r.control == nil {
			r.control = new(controlPart)
		}
		c := r.control
		p := c.bytes[c.n : int(c.n)+len(chunk)]
		copy(p, chunk)
		r.cipher(p)
		c.n += uint8(len(chunk))
	}
	if r.open {
		return Message{}, nil
	}
	c := r.control
	r.control = nil
	return r.controlMessage(c.bytes[:c.n], s)
}

// controlMessage returns the control frame with payload p; a close frame is
// checked and ends the reading (RFC 6455, sections 5.5.1 and 7.4).
func (r *Reader) controlMessage(p []byte, s *Scratch) (Message, *Error) {
	if r.frame != OpClose {
		return Message{Op: r.frame, Payload: p}, nil
	}
	msg := Message{Op: OpClose}
	switch len(p) {
	case 0:
	case 1:
		return Message{}, ErrClosePayload
	default:
		code, _ := ws.ParseCloseFrameDataUnsafe(p)
		msg.Code, msg.Payload = int(code), p[2:]
		if !closeCodeOnWire(msg.Code) {
			return Message{}, ErrCloseCode
		}
		if !utf8.Valid(msg.Payload) {
			return Message{}, ErrCloseReasonUTF8
		}
	}
	r.release(s)
	r.closed = true
	return msg, nil
}
