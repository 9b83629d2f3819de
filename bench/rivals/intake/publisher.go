package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/gobwas/ws"
)

const (
	// maxMessageBytes is the longest payload that a publisher may send.
	maxMessageBytes = 1 << 20
	// readBytes is how much one read(2) of a publisher's connection takes, so
	// that a burst of events comes as one batch.
	readBytes = 256 << 10
)

// What a publisher may not send.
var (
	ErrUnmasked   = errors.New("publisher frame is not masked (RFC 6455, 5.1)")
	ErrFragmented = errors.New("publisher message is fragmented")
	ErrOpcode     = errors.New("publisher frame is neither text nor control")
	ErrTooLong    = errors.New("publisher message is longer than 1 MiB")
	ErrReserved   = errors.New("publisher frame has reserved bits set")
	ErrControl    = errors.New("control frame breaks RFC 6455, 5.5")
)

// Event is one published event.
type Event struct {
	// Payload is the event's text. Borrowed until the sink returns.
	Payload []byte
	// Topic is the name of the event's session if topics are asked for, else
	// empty.
	Topic string
}

// Sink takes events for all their consumers. Any goroutine.
type Sink interface {
	// Publish hands over a batch in order. The slice and the payloads are
	// borrowed until return.
	Publish(batch []Event)
}

// ServePublisher reads a publisher's masked text messages until the connection
// ends and hands to the sink, in one call, all events that one read brought.
// buffered is what was read behind the handshake already. With topics, the
// member "session" of a payload names its topic. It returns nil after a close
// frame, a clean end, a reset or a Close of the connection by others, and closes
// nothing itself.
func ServePublisher(conn net.Conn, buffered []byte, topics bool, sink Sink) error {
	p := publisher{conn: conn, topics: topics, sink: sink, buf: make([]byte, readBytes)}
	p.grow(len(buffered))
	p.end = copy(p.buf, buffered)
	for {
		closed, err := p.take()
		if err != nil || closed {
			return err
		}
		n, err := conn.Read(p.buf[p.end:])
		p.end += n
		switch {
		case err == io.EOF && p.end == 0,
			errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET):
			return nil
		case err != nil:
			return fmt.Errorf("read publisher: %w", err)
		}
	}
}

// publisher is the state of one publisher connection. Owned by its goroutine.
type publisher struct {
	conn   net.Conn
	topics bool
	sink   Sink

	buf   []byte // buf[:end] is not yet taken
	end   int
	batch []Event
}

// grow makes room for n bytes in the buffer.
func (p *publisher) grow(n int) {
	if n > len(p.buf) {
		p.buf = append(make([]byte, 0, n), p.buf[:p.end]...)[:n]
	}
}

// take publishes all complete frames of the buffer and keeps the rest.
func (p *publisher) take() (closed bool, err error) {
	at := 0
	p.batch = p.batch[:0]
	for !closed && err == nil {
		var size int
		if size, closed, err = p.frame(p.buf[at:p.end]); size == 0 {
			break
		}
		at += size
	}
	if len(p.batch) > 0 {
		p.sink.Publish(p.batch)
	}
	p.end = copy(p.buf, p.buf[at:p.end])
	return closed, err
}

// frame takes the frame at the start of b. Its size is 0 if it is incomplete.
func (p *publisher) frame(b []byte) (size int, closed bool, err error) {
	r := bytes.NewReader(b)
	h, err := ws.ReadHeader(r)
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if err = check(h); err != nil {
		return 0, false, err
	}
	head := len(b) - r.Len()
	size = head + int(h.Length)
	if size > len(b) {
		p.grow(size)
		return 0, false, nil
	}
	payload := b[head:size]
	ws.Cipher(payload, h.Mask, 0)
	switch h.OpCode {
	case ws.OpText:
		p.batch = append(p.batch, Event{Payload: payload, Topic: p.topic(payload)})
	case ws.OpPing:
		err = writeFrame(p.conn, ws.NewPongFrame(payload))
	case ws.OpClose:
		closed = true
		err = writeFrame(p.conn, ws.NewCloseFrame(payload[:min(2, len(payload))]))
	}
	return size, closed, err
}

// check says what is wrong with a publisher's frame header.
func check(h ws.Header) error {
	switch {
	case !h.Masked:
		return ErrUnmasked
	case h.Rsv != 0:
		return ErrReserved
	case h.OpCode.IsControl():
		if !h.Fin || h.Length > ws.MaxControlFramePayloadSize {
			return ErrControl
		}
		return nil
	case !h.Fin || h.OpCode == ws.OpContinuation:
		return ErrFragmented
	case h.OpCode != ws.OpText:
		return ErrOpcode
	case h.Length > maxMessageBytes:
		return ErrTooLong
	}
	return nil
}

// topic finds the event's topic.
func (p *publisher) topic(payload []byte) string {
	if !p.topics {
		return ""
	}
	return Topic(payload)
}

// sessionKey stands before the name of a session in a payload.
var sessionKey = []byte(`"session":"`)

// Topic returns the member "session" of an event's text, found by a plain
// search as the bench protocol says, or "" if there is none.
func Topic(payload []byte) string {
	at := bytes.Index(payload, sessionKey)
	if at < 0 {
		return ""
	}
	name := payload[at+len(sessionKey):]
	end := bytes.IndexByte(name, '"')
	if end < 0 {
		return ""
	}
	return string(name[:end])
}

// writeFrame writes a control frame in one write.
func writeFrame(w io.Writer, f ws.Frame) error {
	b, err := ws.CompileFrame(f)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// TextFrame returns the unmasked text frame of a payload, in bytes of its own.
func TextFrame(payload []byte) []byte {
	return ws.MustCompileFrame(ws.NewTextFrame(payload))
}
