package wsframe

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// finBit marks the last frame of a message (RFC 6455, section 5.2).
const finBit = 0x80

// HeaderLen returns the size in bytes of the header that AppendHeader writes
// for a payload of payloadLen bytes: 2, 4 or 10. payloadLen is not negative.
func HeaderLen(payloadLen int) int {
	return ws.HeaderSize(ws.Header{Length: int64(payloadLen)})
}

// AppendHeader appends the header of a server's frame: final, unmasked, with
// the length minimally encoded. payloadLen is not negative. It is pure.
//
// It does not use ws.WriteHeaderBuffer, which writes through an interface and
// so moves the destination to the heap; a test holds the two together.
func AppendHeader(dst []byte, op Op, payloadLen int) []byte {
	return appendHeader(dst, finBit|byte(op), 0, payloadLen)
}

// appendHeader appends the first byte, and the length with the mask bit in
// mask.
func appendHeader(dst []byte, first, mask byte, payloadLen int) []byte {
	switch {
	case payloadLen < length16:
		return append(dst, first, mask|byte(payloadLen))
	case payloadLen < 1<<16:
		dst = append(dst, first, mask|length16)
		return binary.BigEndian.AppendUint16(dst, uint16(payloadLen))
	}
	dst = append(dst, first, mask|length64)
	return binary.BigEndian.AppendUint64(dst, uint64(payloadLen))
}

// AppendText appends text, which must be UTF-8, as one server's frame. text is
// borrowed until return.
func AppendText(dst, text []byte) []byte {
	return append(AppendHeader(dst, OpText, len(text)), text...)
}

// AppendPing appends a ping. A payload over MaxControlBytes is cut, so that the
// frame is always valid. payload is borrowed until return.
func AppendPing(dst, payload []byte) []byte {
	return appendControl(dst, OpPing, payload)
}

// AppendPong appends a pong, by contract with the payload of the ping that it
// answers (RFC 6455, section 5.5.3). A payload over MaxControlBytes is cut.
// payload is borrowed until return.
func AppendPong(dst, payload []byte) []byte {
	return appendControl(dst, OpPong, payload)
}

func appendControl(dst []byte, op Op, payload []byte) []byte {
	payload = payload[:min(len(payload), MaxControlBytes)]
	return append(AppendHeader(dst, op, len(payload)), payload...)
}

// AppendClose appends a close frame. The reason is cut to MaxReasonBytes
// between characters; what is not UTF-8 in it becomes U+FFFD. Code 0, and any
// code that must not be on the wire (1005, 1006, 1015, ...), gives an empty
// payload (RFC 6455, sections 5.5.1 and 7.4).
func AppendClose(dst []byte, code int, reason string) []byte {
	if !closeCodeOnWire(code) {
		return AppendHeader(dst, OpClose, 0)
	}
	reason = cutReason(reason)
	dst = AppendHeader(dst, OpClose, 2+len(reason))
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	return append(dst, reason...)
}

// cutReason returns the longest prefix of reason, as UTF-8, that fits.
func cutReason(reason string) string {
	reason = strings.ToValidUTF8(reason, string(utf8.RuneError))
	if len(reason) <= MaxReasonBytes {
		return reason
	}
	end := MaxReasonBytes
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// AppendMasked appends a client's frame: header, mask, and payload masked with
// it. Nothing is checked, so that tests can break the rules. Random masks are
// the caller's duty (RFC 6455, section 5.3). payload is borrowed until return
// and is not written to.
func AppendMasked(dst []byte, op Op, fin bool, mask [4]byte, payload []byte) []byte {
	first := byte(op)
	if fin {
		first |= finBit
	}
	dst = appendHeader(dst, first, maskBit, len(payload))
	dst = append(dst, mask[:]...)
	from := len(dst)
	dst = append(dst, payload...)
	ws.Cipher(dst[from:], mask, 0)
	return dst
}
