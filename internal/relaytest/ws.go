package relaytest

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Opcodes of RFC 6455, section 5.2.
const (
	OpContinuation = 0x0
	OpText         = 0x1
	OpBinary       = 0x2
	OpClose        = 0x8
	OpPing         = 0x9
	OpPong         = 0xA
)

// WSKey is the Sec-WebSocket-Key that this client sends, and WSAccept the
// answer due to it (RFC 6455, section 1.3).
const WSKey = "dGhlIHNhbXBsZSBub25jZQ=="

// WSAccept is the Sec-WebSocket-Accept value that belongs to WSKey.
var WSAccept = func() string {
	sum := sha1.Sum([]byte(WSKey + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}()

// WSOptions say how a WebSocket is opened.
type WSOptions struct {
	Token     string   // sent as Authorization: Bearer
	Headers   []string // further raw header lines, without line end
	RecvBytes int      // receive buffer of the socket
	Glued     []byte   // sent in one write with the handshake
}

// Message is one message or control frame from the server.
type Message struct {
	Opcode byte
	Data   []byte // owned by the caller
	Code   int    // close code, 0 when the Close frame is empty
	Reason string // close reason
	Frames int    // number of frames that carried it
}

// WS is a WebSocket client. It answers protocol pings inside Next and reports
// them too; it answers nothing else by itself, a Close included.
type WS struct {
	*Conn
	Response *Response
	NoPong   bool // leave pings unanswered

	partial []byte
	partOp  byte
	partLen int
}

// HandshakeRequest is the text of an upgrade request to target.
func HandshakeRequest(addr, target string, o WSOptions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n", target, addr, WSKey)
	if o.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.Token)
	}
	for _, h := range o.Headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// DialWS opens a WebSocket at target. An answer other than a right 101 is an
// error.
func DialWS(addr, target string, o WSOptions) (*WS, error) {
	c, err := DialRecvBuf(addr, o.RecvBytes)
	if err != nil {
		return nil, err
	}
	if err := c.Send(append([]byte(HandshakeRequest(addr, target, o)), o.Glued...)); err != nil {
		_ = c.Close()
		return nil, err
	}
	w, err := c.Upgraded(headTimeout)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return w, nil
}

// Upgraded reads the answer to a handshake that was sent on c and checks it.
func (c *Conn) Upgraded(timeout time.Duration) (*WS, error) {
	r, err := c.ReadHead(timeout)
	if err != nil {
		return nil, fmt.Errorf("relaytest: handshake: %w", err)
	}
	switch {
	case r.Status != 101:
		return nil, fmt.Errorf("relaytest: handshake answered %d", r.Status)
	case r.Header.Get("Sec-WebSocket-Accept") != WSAccept,
		!strings.EqualFold(r.Header.Get("Upgrade"), "websocket"),
		!strings.EqualFold(r.Header.Get("Connection"), "upgrade"):
		return nil, fmt.Errorf("relaytest: handshake answer %q", r.Head)
	}
	return &WS{Conn: c, Response: r}, nil
}

// Frame is one client frame, right or wrong.
type Frame struct {
	Opcode   byte
	Payload  []byte
	NotFinal bool   // FIN = 0
	RSV      byte   // three bits
	Unmasked bool   // a fault: clients must mask
	Declared uint64 // length to declare instead of len(Payload), when not 0
}

// Bytes is the frame as sent.
func (f Frame) Bytes() []byte {
	b := []byte{f.Opcode | f.RSV<<4, 0}
	if !f.NotFinal {
		b[0] |= 0x80
	}
	n := uint64(len(f.Payload))
	if f.Declared != 0 {
		n = f.Declared
	}
	switch {
	case n > 0xFFFF:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, n)
	case n > 125:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b[1] = byte(n)
	}
	if f.Unmasked {
		return append(b, f.Payload...)
	}
	b[1] |= 0x80
	mask := [4]byte{0x37, 0xFA, 0x21, 0x3D}
	b = append(b, mask[:]...)
	for i, p := range f.Payload {
		b = append(b, p^mask[i&3])
	}
	return b
}

// SendFrame sends f.
func (w *WS) SendFrame(f Frame) error { return w.Send(f.Bytes()) }

// SendText sends one text message in one frame.
func (w *WS) SendText(s string) error {
	return w.SendFrame(Frame{Opcode: OpText, Payload: []byte(s)})
}

// SendJSON sends v as one text message.
func (w *WS) SendJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.SendText(string(b))
}

// SendClose sends a Close frame. Code 0 sends an empty one.
func (w *WS) SendClose(code int, reason string) error {
	var p []byte
	if code != 0 {
		p = append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	}
	return w.SendFrame(Frame{Opcode: OpClose, Payload: p})
}

// Next returns the next message or control frame. io.EOF or another read error
// tells that the connection ended, IsTimeout that nothing came in time.
func (w *WS) Next(timeout time.Duration) (Message, error) {
	deadline := time.Now().Add(timeout)
	for {
		op, fin, payload, err := w.readFrame(deadline)
		if err != nil {
			return Message{}, err
		}
		if op >= OpClose {
			return w.control(op, fin, payload)
		}
		if (op == OpContinuation) == (w.partLen == 0) {
			return Message{}, fmt.Errorf("relaytest: server frame with opcode %d inside or outside a message", op)
		}
		if w.partLen == 0 {
			w.partOp = op
		}
		w.partLen++
		w.partial = append(w.partial, payload...)
		if fin {
			m := Message{Opcode: w.partOp, Data: w.partial, Frames: w.partLen}
			w.partial, w.partLen = nil, 0
			return m, nil
		}
	}
}

func (w *WS) control(op byte, fin bool, payload []byte) (Message, error) {
	if !fin || len(payload) > 125 {
		return Message{}, fmt.Errorf("relaytest: illegal server control frame %d of %d bytes", op, len(payload))
	}
	m := Message{Opcode: op, Data: append([]byte(nil), payload...), Frames: 1}
	if op == OpClose && len(payload) == 1 {
		return Message{}, errors.New("relaytest: server Close with one byte")
	}
	if op == OpClose && len(payload) > 1 {
		m.Code, m.Reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
	}
	if op == OpPing && !w.NoPong {
		return m, w.SendFrame(Frame{Opcode: OpPong, Payload: payload})
	}
	return m, nil
}

// readFrame reads one whole frame, or nothing of it. payload is borrowed until
// the next read.
func (w *WS) readFrame(deadline time.Time) (op byte, fin bool, payload []byte, err error) {
	if err := w.need(2, deadline); err != nil {
		return 0, false, nil, err
	}
	h := w.rest()
	if h[0]&0x70 != 0 || h[1]&0x80 != 0 {
		return 0, false, nil, fmt.Errorf("relaytest: server frame header % x is masked or has RSV bits", h[:2])
	}
	op, fin = h[0]&0x0F, h[0]&0x80 != 0
	size, head := uint64(h[1]), 2
	switch size {
	case 126:
		head = 4
	case 127:
		head = 10
	}
	if err := w.need(head, deadline); err != nil {
		return 0, false, nil, err
	}
	switch h = w.rest(); head {
	case 4:
		size = uint64(binary.BigEndian.Uint16(h[2:]))
	case 10:
		size = binary.BigEndian.Uint64(h[2:])
	}
	if size > 1<<30 {
		return 0, false, nil, fmt.Errorf("relaytest: server frame of %d bytes", size)
	}
	if err := w.need(head+int(size), deadline); err != nil {
		return 0, false, nil, err
	}
	payload = w.rest()[head : head+int(size)]
	w.skip(head + int(size))
	return op, fin, payload, nil
}
