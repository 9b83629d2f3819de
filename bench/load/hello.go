//go:build linux

package load

import (
	"bytes"
	"fmt"
	"strconv"
)

// anyKind is the kind of a publisher: its answer may be 101 or 2xx.
const anyKind Kind = -1

// advance acts on the bytes of a handshake that are there.
func (h *hello) advance(cn *consumer, cl *Class) error {
	if cn.state == stateHead {
		i := bytes.Index(h.buf, []byte("\r\n\r\n"))
		if i < 0 {
			return nil
		}
		h.head = i + 4
		if err := judgeHead(h.buf[:h.head], cl.Kind); err != nil {
			return err
		}
		if cl.Kind == SSE && !isChunked(h.buf[:h.head]) {
			cn.parser.left, cn.parser.stage = identity, atPayload
		}
		if len(cl.After) > 0 {
			if n, e := rawWrite(int(cn.fd), cl.After); n < len(cl.After) {
				return fmt.Errorf("%w: byte %d of %d behind the head: %w", ErrRefused, n, len(cl.After), e)
			}
		}
		cn.state = stateReady
	}
	if cl.Ready == "" || bytes.Contains(h.buf[h.head:], []byte(cl.Ready)) {
		cn.state = stateOpen
	}
	return nil
}

// judgeHead tells whether an answer's head accepts the request.
func judgeHead(head []byte, k Kind) error {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	status := statusOf(line)
	upgraded, ok := status == 101, status >= 200 && status < 300
	switch {
	case k == WebSocket && !upgraded, k == SSE && !ok, !upgraded && !ok:
		return fmt.Errorf("%w: %q", ErrRefused, excerpt(line))
	}
	return nil
}

// statusOf returns the status code of a status line (RFC 9112, section 4), 0
// if it is none.
func statusOf(line []byte) int {
	version, rest, _ := bytes.Cut(line, []byte(" "))
	if !bytes.HasPrefix(version, []byte("HTTP/1.")) || len(rest) < 3 {
		return 0
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil {
		return 0
	}
	return status
}

// isChunked reports whether the body behind a head is in chunked coding.
func isChunked(head []byte) bool {
	return bytes.Contains(bytes.ToLower(field(head, "transfer-encoding")), []byte("chunked"))
}

// field returns the value of a header field, nil if it is absent. The name is
// given in lower case.
func field(head []byte, name string) []byte {
	for line := range bytes.Lines(head) {
		key, value, found := bytes.Cut(line, []byte(":"))
		if found && len(key) == len(name) && bytes.EqualFold(key, []byte(name)) {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}
