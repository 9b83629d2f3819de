package aepwsload

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

const (
	// readBytes is how much of a connection is read at once.
	readBytes = 64 << 10
	// maxMessage bounds what is read of a message.
	maxMessage = 1 << 20
)

// errAnswer tells of an answer that was not expected.
var errAnswer = errors.New("aepwsload: unexpected answer")

// conn is a session of the binding that reads one message after another, and
// answers pings. Owned by one goroutine.
type conn struct {
	net.Conn
	in   *bufio.Reader
	text []byte // of the message that was read last
}

// dial opens a session without heartbeats.
func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp4", addr, patience)
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: c, in: bufio.NewReaderSize(c, readBytes)}
	if err := k.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return k, nil
}

func (k *conn) open() error {
	if err := k.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := k.Write(append(bytes.Clone(binding.request), message(binding.hello)...)); err != nil {
		return err
	}
	res, err := http.ReadResponse(k.in, nil)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("%w: %s", errAnswer, res.Status)
	}
	return k.expect(binding.opened)
}

// expect reads one message, which must have a text in it.
func (k *conn) expect(want string) error {
	text, err := k.next()
	if err == nil && !bytes.Contains(text, []byte(want)) {
		err = fmt.Errorf("%w: %.300q has no %s", errAnswer, text, want)
	}
	return err
}

// next reads the next message within patience. Its text is lent until the next
// call.
func (k *conn) next() ([]byte, error) {
	if k.in.Buffered() == 0 { // it takes a read(2)
		if err := k.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return nil, err
		}
	}
	for {
		op, err := k.frame()
		switch {
		case err != nil:
			return nil, err
		case op == wsframe.OpText:
			return k.text, nil
		case op == wsframe.OpPing:
			if _, err := k.Write(wsframe.AppendMasked(nil, wsframe.OpPong, true, [4]byte{}, k.text)); err != nil {
				return nil, err
			}
		case op == wsframe.OpPong:
		default:
			return nil, fmt.Errorf("%w: a frame of opcode %d: %.200q", errAnswer, op, k.text)
		}
	}
}

// frame reads a frame. The relay sends whole messages only, and masks nothing
// (B10 of the contract).
func (k *conn) frame() (wsframe.Op, error) {
	var head [8]byte
	if _, err := io.ReadFull(k.in, head[:2]); err != nil {
		return 0, err
	}
	const final, rest = 0x80, 0xf0
	if head[0]&rest != final {
		return 0, fmt.Errorf("%w: a frame that begins with %#x", errAnswer, head[:2])
	}
	op, n := wsframe.Op(head[0]&^rest), uint64(head[1])
	extended := 0
	switch n {
	case 126:
		extended = 2
	case 127:
		extended = 8
	}
	if extended > 0 {
		if _, err := io.ReadFull(k.in, head[8-extended:]); err != nil {
			return 0, err
		}
		clear(head[:8-extended])
		n = binary.BigEndian.Uint64(head[:])
	}
	if n > maxMessage || extended == 0 && n > 127 {
		return 0, fmt.Errorf("%w: a frame of %d bytes", errAnswer, n)
	}
	if uint64(cap(k.text)) < n {
		k.text = make([]byte, n)
	}
	k.text = k.text[:n]
	_, err := io.ReadFull(k.in, k.text)
	return op, err
}

// member returns the text of a string member of a message, which stands in it as
// it is, without blanks and escapes: as the relay writes its own.
func member(text []byte, name string) []byte {
	return until(text, `"`+name+`":"`, '"')
}

// number returns a member that is a number, and -1 if there is none.
func number(text []byte, name string) int64 {
	_, after, found := bytes.Cut(text, []byte(`"`+name+`":`))
	if !found {
		return -1
	}
	end := 0
	for end < len(after) && after[end] >= '0' && after[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(string(after[:end]), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func until(text []byte, head string, end byte) []byte {
	_, after, found := bytes.Cut(text, []byte(head))
	i := bytes.IndexByte(after, end)
	if !found || i < 0 {
		return nil
	}
	return after[:i]
}

// acknowledged reads the acknowledgement of an event, and returns its number in
// the log (B55 of the contract).
func (k *conn) acknowledged(id []byte) (int64, error) {
	text, err := k.next()
	if err != nil {
		return 0, err
	}
	if !bytes.Contains(text, []byte(`"type":"event.acknowledged"`)) || !bytes.Equal(member(text, "acknowledged_event_id"), id) {
		return 0, fmt.Errorf("%w: not the acknowledgement of %s: %.400q", errAnswer, id, text)
	}
	of, seq, err := codec.ParseCursor(member(text, "cursor"))
	if err != nil || !bytes.Equal(of, id) {
		return 0, fmt.Errorf("%w: no cursor of %s: %.400q", errAnswer, id, text)
	}
	return seq, nil
}
