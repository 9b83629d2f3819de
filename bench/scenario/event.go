package scenario

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// firstSeq is the sequence of event 0: with it all have the same number of
// digits, so that all events of a load have the same length.
const firstSeq = 1_000_000

const (
	idDigits   = 10 // of "bench-0000000042", what bench/load looks for
	nameDigits = 5  // of the session "s00042"
)

// shape makes the texts of a load's events: event e belongs to session
// e % sessions. Immutable.
type shape struct {
	text             []byte // of event 0
	id, session, seq int    // offsets of their digits in text
	sessions         int
}

// newShape returns the shape of events of sizeBytes each.
func newShape(sizeBytes, sessions int) (*shape, error) {
	head := `{"aep":"0.1","id":"bench-` + strings.Repeat("0", idDigits) + `","type":"message.delta",` +
		`"time":"2026-01-01T00:00:00Z","source":"urn:bench","agent":"b","severity":"notice",` +
		`"session":"s` + strings.Repeat("0", nameDigits) + `","seq":` + strconv.Itoa(firstSeq)
	const middle, tail = `,"data":{"text":"`, `"}}`
	pad := sizeBytes - len(head) - len(middle) - len(tail)
	if pad < 0 {
		return nil, fmt.Errorf("scenario: an event has at least %d bytes, not %d", sizeBytes-pad, sizeBytes)
	}
	if sessions < 1 || sessions >= 100_000 {
		return nil, fmt.Errorf("scenario: %d sessions are not 1 to 99999", sessions)
	}
	return &shape{
		text:     []byte(head + middle + strings.Repeat("x", pad) + tail),
		id:       strings.Index(head, "bench-") + len("bench-"),
		session:  strings.Index(head, `"s0`) + 2,
		seq:      len(head) - len(strconv.Itoa(firstSeq)),
		sessions: sessions,
	}, nil
}

// appendText appends the text of one event.
func (s *shape) appendText(dst []byte, event int) []byte {
	at := len(dst)
	dst = append(dst, s.text...)
	t := dst[at:]
	digits(t[s.id:s.id+idDigits], event)
	digits(t[s.session:s.session+nameDigits], event%s.sessions)
	digits(t[s.seq:s.seq+7], firstSeq+event/s.sessions)
	return dst
}

// appendMessage appends one event as a WebSocket text message of a client.
func (s *shape) appendMessage(dst []byte, event int) []byte {
	return s.appendText(appendHeader(dst, len(s.text)), event)
}

// digits writes v into p, with leading zeros.
func digits(p []byte, v int) {
	for i := len(p) - 1; i >= 0; i-- {
		p[i] = byte('0' + v%10)
		v /= 10
	}
}

// appendHeader appends the header of a client's text message of n bytes. The
// mask is zero, which is as good as any other to the server that has to apply
// it, and leaves the payload as it is (RFC 6455, section 5.3).
func appendHeader(dst []byte, n int) []byte {
	const final, text, masked = 0x80, 0x1, 0x80
	dst = append(dst, final|text)
	switch {
	case n < 126:
		dst = append(dst, masked|byte(n))
	case n < 1<<16:
		dst = append(dst, masked|126)
		dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	default:
		dst = append(dst, masked|127)
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	return append(dst, 0, 0, 0, 0)
}

// message returns one client's text message.
func message(text string) []byte {
	return append(appendHeader(nil, len(text)), text...)
}
