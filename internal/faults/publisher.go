package faults

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// PostTimeout is how long a batch may take to be acknowledged.
const PostTimeout = 60 * time.Second

// Publisher posts the events of one session, in order, over one connection that
// it keeps. Acked may be called by any goroutine.
type Publisher struct {
	Session string
	// Severity and PadBytes are asked for each event; nil stands for notice and
	// for no padding.
	Severity func(seq uint64) string
	PadBytes func(seq uint64) int
	// Stamp is asked for each event; nil stands for 0.
	Stamp func() int64

	addr  string
	conn  *relaytest.Conn
	body  []byte
	head  []byte
	next  uint64
	acked atomic.Uint64
}

// NewPublisher returns a publisher to addr that starts with sequence 0.
func NewPublisher(addr, session string) *Publisher {
	return &Publisher{addr: addr, Session: session}
}

// Acked returns how many events were acknowledged.
func (p *Publisher) Acked() uint64 { return p.acked.Load() }

// Publish posts the next n events in one body and waits for the 202. After an
// error the same events are due again.
func (p *Publisher) Publish(n int) error {
	if p.conn == nil {
		c, err := relaytest.Dial(p.addr)
		if err != nil {
			return err
		}
		p.conn = c
	}
	p.body = p.appendBody(p.body[:0], n)
	p.head = PostHead(p.head[:0], p.addr, len(p.body))
	err := p.conn.Send(p.head)
	if err == nil {
		err = p.conn.Send(p.body)
	}
	var r *relaytest.Response
	if err == nil {
		r, err = p.conn.ReadResponse("POST", PostTimeout)
	}
	if err == nil && r.Status != 202 {
		err = fmt.Errorf("answered %d %q", r.Status, r.Body)
	}
	if err != nil {
		p.Close()
		return fmt.Errorf("faults: post of %s %d to %d: %w", p.Session, p.next, p.next+uint64(n)-1, err)
	}
	p.next += uint64(n)
	p.acked.Store(p.next)
	return nil
}

// appendBody appends the next n events as NDJSON.
func (p *Publisher) appendBody(dst []byte, n int) []byte {
	for i := range uint64(n) {
		s := Sealing{Session: p.Session, Seq: p.next + i, Severity: "notice"}
		if p.Severity != nil {
			s.Severity = p.Severity(s.Seq)
		}
		if p.PadBytes != nil {
			s.PadBytes = p.PadBytes(s.Seq)
		}
		if p.Stamp != nil {
			s.Stamp = p.Stamp()
		}
		dst = append(Seal(dst, s), '\n')
	}
	return dst
}

// Close closes the connection; the next Publish opens another.
func (p *Publisher) Close() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

// PostHead appends the head of a POST /events with an NDJSON body of n octets.
// A negative n stands for a chunked body.
func PostHead(dst []byte, addr string, n int) []byte {
	dst = append(dst, "POST /events HTTP/1.1\r\nHost: "...)
	dst = append(dst, addr...)
	dst = append(dst, "\r\nAEP-Version: 0.1\r\nContent-Type: application/x-ndjson\r\n"...)
	if n < 0 {
		return append(dst, "Transfer-Encoding: chunked\r\n\r\n"...)
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, "\r\n\r\n"...)
}
