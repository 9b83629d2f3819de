package hub

import (
	"errors"
	"io"
	"net"

	"github.com/gobwas/ws"
)

// maxClientBytes is the longest message that a consumer may send.
const maxClientBytes = 64 << 10

var errClientFrame = errors.New("consumer frame is too long, or a control frame breaks RFC 6455, 5.5")

// readClient reads a consumer's frames until its connection ends, answers
// control frames and hands over text; text is borrowed until return. Writes of
// others may come between its own, each of which is one whole frame. It returns
// nil after a close frame.
func readClient(conn net.Conn, text func([]byte) bool) error {
	for {
		head, err := ws.ReadHeader(conn)
		if err != nil {
			return err
		}
		if head.Length > maxClientBytes ||
			head.OpCode.IsControl() && head.Length > ws.MaxControlFramePayloadSize {
			return errClientFrame
		}
		payload := make([]byte, head.Length)
		if _, err = io.ReadFull(conn, payload); err != nil {
			return err
		}
		if head.Masked {
			ws.Cipher(payload, head.Mask, 0)
		}
		switch head.OpCode {
		case ws.OpText:
			if !text(payload) {
				return nil
			}
		case ws.OpPing:
			_, err = conn.Write(ws.MustCompileFrame(ws.NewPongFrame(payload)))
		case ws.OpClose:
			_, err = conn.Write(ws.MustCompileFrame(ws.NewCloseFrame(payload[:min(2, len(payload))])))
			return err
		}
		if err != nil {
			return err
		}
	}
}
