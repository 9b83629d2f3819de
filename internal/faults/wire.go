package faults

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// errWire tells that the relay has broken a rule of its wire format.
var errWire = errors.New("faults: malformed answer")

// isTimeout tells whether nothing came in time.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errWire}, args...)...)
}

// maxItem bounds what the relay may send in one piece.
const maxItem = 8 << 20

// nextBlock reads one chunk of a stream, which is one block (R272a).
func (c *Consumer) nextBlock() (Item, error) {
	line, err := c.br.ReadSlice('\n')
	if err != nil {
		return Item{}, err
	}
	size, err := strconv.ParseUint(string(bytes.TrimSuffix(line, []byte("\r\n"))), 16, 31)
	if err != nil || size > maxItem {
		return Item{}, malformed("chunk size %q", line)
	}
	if err := c.fill(int(size) + 2); err != nil {
		return Item{}, err
	}
	block, end := c.text[:size], c.text[size:]
	if string(end) != "\r\n" {
		return Item{}, malformed("chunk of %d octets ends in %q", size, end)
	}
	if size == 0 {
		return Item{}, ErrEnded
	}
	body, whole := bytes.CutSuffix(block, []byte("\n\n"))
	if !whole || bytes.Contains(body, []byte("\n\n")) {
		return Item{}, malformed("chunk is not one block: %.200q", block)
	}
	return parseBlock(body)
}

// parseBlock reads the lines of a block. body is borrowed by the item.
func parseBlock(body []byte) (Item, error) {
	var it Item
	for len(body) > 0 {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte("\n"))
		name, value, ok := bytes.Cut(line, []byte(": "))
		if !ok {
			return it, malformed("line of a stream: %.200q", line)
		}
		switch string(name) {
		case "":
			it.Note = parseComment(string(value))
		case "data":
			it.Event = value
		case "id":
			it.ID = string(value)
		}
	}
	if it.Event == nil && it.Note.Kind == "" {
		return it, malformed("block is neither an event nor a comment")
	}
	return it, nil
}

// nextFrame reads one message of a socket, which is one frame. Pings are
// answered and not told.
func (c *Consumer) nextFrame() (Item, error) {
	for {
		op, err := c.readFrame()
		if err != nil {
			return Item{}, err
		}
		switch op {
		case relaytest.OpText:
			if bytes.HasPrefix(c.text, []byte(`{"aep"`)) {
				return Item{Event: c.text}, nil
			}
			note, err := parseFrame(c.text)
			return Item{Note: note}, err
		case relaytest.OpPing:
			pong := relaytest.Frame{Opcode: relaytest.OpPong, Payload: c.text}
			_ = c.nc.SetWriteDeadline(time.Now().Add(DialTimeout))
			if _, err := c.nc.Write(pong.Bytes()); err != nil {
				return Item{}, err
			}
		case relaytest.OpClose:
			if len(c.text) < 2 {
				return Item{}, malformed("Close of %d octets", len(c.text))
			}
			return Item{}, fmt.Errorf("%w: close %d %s", ErrEnded, binary.BigEndian.Uint16(c.text), c.text[2:])
		default:
			return Item{}, malformed("frame with opcode %d", op)
		}
	}
}

// readFrame reads one frame into c.text.
func (c *Consumer) readFrame() (op byte, err error) {
	var h [8]byte
	if _, err := io.ReadFull(c.br, h[:2]); err != nil {
		return 0, err
	}
	if h[0]&0xF0 != 0x80 || h[1] > 127 {
		return 0, malformed("frame header % x is masked, split or has RSV bits", h[:2])
	}
	op = h[0] & 0x0F
	size := uint64(h[1])
	switch size {
	case 126:
		_, err = io.ReadFull(c.br, h[:2])
		size = uint64(binary.BigEndian.Uint16(h[:2]))
	case 127:
		_, err = io.ReadFull(c.br, h[:8])
		size = binary.BigEndian.Uint64(h[:8])
	}
	if err == nil && size > maxItem {
		err = malformed("frame of %d octets", size)
	}
	if err != nil {
		return 0, err
	}
	return op, c.fill(int(size))
}

// Note is what is not an event: a comment of a stream or a frame of a socket.
type Note struct {
	// Kind is the type of the frame, or the first word of the comment.
	Kind string
	// Text is the comment after that word.
	Text string
	// Boot is the id of the relay's run, of an open or a hello (R55).
	Boot string
	// Session and Earliest are those of a replay-exhausted.
	Session  string
	Earliest uint64
	// Count is that of a shed.
	Count uint64
	// Reason and Delivered are those of a closing.
	Reason    string
	Delivered []relaytest.DeliveredPosition
}

func parseComment(s string) Note {
	n := Note{}
	n.Kind, n.Text, _ = strings.Cut(s, " ")
	switch n.Kind {
	case "open":
		n.Boot = n.Text
	case "replay-exhausted":
		var position string
		n.Session, position, _ = strings.Cut(n.Text, " ")
		_, seq, _ := strings.Cut(position, ":")
		n.Earliest, _ = strconv.ParseUint(seq, 10, 64)
	case "shed":
		n.Count, _ = strconv.ParseUint(n.Text, 10, 64)
	}
	return n
}

func parseFrame(text []byte) (Note, error) {
	e, err := relaytest.ParseEnvelope(string(text))
	if err != nil {
		return Note{}, malformed("%w", err)
	}
	n := Note{
		Kind: e.Type, Session: e.Session, Count: e.Count, Reason: e.Reason,
		Delivered: e.Closing, Text: e.Detail,
	}
	if e.Earliest != nil {
		n.Earliest, _ = strconv.ParseUint(string(e.Earliest.Seq), 10, 64)
	}
	if n.Kind == "hello" {
		n.Boot, err = bootOf(text)
	}
	return n, err
}

// bootOf reads the id of a run out of a document or frame with capabilities.
func bootOf(text []byte) (string, error) {
	var d struct {
		Capabilities struct {
			Experimental struct{ Boot string }
		}
	}
	err := json.Unmarshal(text, &d)
	if err == nil && d.Capabilities.Experimental.Boot == "" {
		err = malformed("R55: no boot id in %.200q", text)
	}
	return d.Capabilities.Experimental.Boot, err
}
