package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// Fault is one way of misusing a connection of one's own.
type Fault struct {
	Name string
	// send writes what is wrong to a fresh connection. Errors do not matter:
	// the relay may have cut it already.
	send func(r *Rand, addr string, nc *net.TCPConn)
	// recvBytes is the receive buffer of the connection.
	recvBytes int
}

// Do commits the fault once and then leaves, in one of the ways of Leave. The
// error is that of a dial which failed: the relay takes no connections.
func (f Fault) Do(r *Rand, addr string) error {
	nc, err := Dial(addr, f.recvBytes)
	if err != nil {
		return err
	}
	_ = nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
	f.send(r, addr, nc)
	Leave(r, nc)
	return nil
}

// Leave ends a connection: with FIN, with RST, with a half-close and reading to
// the end, or after a stall.
func Leave(r *Rand, nc *net.TCPConn) {
	switch r.IntN(5) {
	case 0:
		_ = nc.Close()
	case 1:
		reset(nc)
	case 2:
		_ = nc.CloseWrite()
		_ = nc.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.Copy(io.Discard, nc)
		_ = nc.Close()
	case 3: // reads for a while
		_ = nc.SetReadDeadline(time.Now().Add(r.Between(time.Millisecond, 300*time.Millisecond)))
		_, _ = io.Copy(io.Discard, nc)
		reset(nc)
	default: // stalls for a while
		time.Sleep(r.Between(time.Millisecond, 300*time.Millisecond)) // the fault itself
		reset(nc)
	}
}

// faultSession is a session that only faults publish to.
const faultSession = "fault"

// Faults has every fault. They publish, if anything, to the session "fault".
var Faults = []Fault{
	{Name: "head cut", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, r.Cut(Subscription{}.Request(addr)))
	}},
	{Name: "handshake cut", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, r.Cut([]byte(relaytest.HandshakeRequest(addr, "/socket", relaytest.WSOptions{}))))
	}},
	{Name: "frame cut", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true}.Request(addr))
		write(nc, r.Cut(text(string(faultEvent(r, 64<<10)))))
	}},
	{Name: "message cut between fragments", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true}.Request(addr))
		whole := faultEvent(r, 64<<10)
		part := r.Cut(whole)
		write(nc, relaytest.Frame{Opcode: relaytest.OpText, Payload: part, NotFinal: true}.Bytes())
		write(nc, relaytest.Frame{Opcode: relaytest.OpPing, Payload: []byte("in between")}.Bytes())
	}},
	{Name: "body cut", send: func(r *Rand, addr string, nc *net.TCPConn) {
		body := faultBatch(r)
		write(nc, PostHead(nil, addr, len(body)))
		write(nc, r.Cut(body))
	}},
	{Name: "chunk cut", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, PostHead(nil, addr, -1))
		write(nc, r.Cut(Chunks(r, faultBatch(r))))
	}},
	{Name: "garbage", send: func(r *Rand, _ string, nc *net.TCPConn) {
		write(nc, r.Bytes(1+r.IntN(64<<10)))
	}},
	{Name: "garbage after a handshake", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true}.Request(addr))
		write(nc, r.Bytes(1+r.IntN(64<<10)))
	}},
	{Name: "garbage in a body", send: func(r *Rand, addr string, nc *net.TCPConn) {
		body := r.Bytes(1 + r.IntN(64<<10))
		write(nc, PostHead(nil, addr, len(body)))
		write(nc, body)
	}},
	{Name: "illegal frame", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true}.Request(addr))
		write(nc, relaytest.Frame{
			Opcode: byte(r.IntN(16)), RSV: byte(r.IntN(8)), NotFinal: r.IntN(2) == 0, Unmasked: r.IntN(2) == 0,
			Payload: r.Bytes(r.IntN(300)), Declared: r.Uint64() >> r.IntN(64),
		}.Bytes())
	}},
	{Name: "head without end", send: func(_ *Rand, addr string, nc *net.TCPConn) {
		write(nc, []byte("GET /stream HTTP/1.1\r\nHost: "+addr+"\r\n"))
		write(nc, bytes.Repeat([]byte("X-Filler: "+strings.Repeat("y", 100)+"\r\n"), 4000))
	}},
	{Name: "pipelined flood", recvBytes: 4 << 10, send: func(_ *Rand, addr string, nc *net.TCPConn) {
		write(nc, bytes.Repeat([]byte("GET /healthz HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"), 2000))
	}},
	{Name: "flood of frames", recvBytes: 4 << 10, send: func(_ *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true}.Request(addr))
		write(nc, bytes.Repeat(text(`{"type":"ping","t":1}`), 20_000))
	}},
	{Name: "flood of refused events", recvBytes: 4 << 10, send: func(_ *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true}.Request(addr))
		write(nc, bytes.Repeat(text(`{"type":"x.y.z","id":"refused"}`), 5000))
	}},
	{Name: "stream left", recvBytes: 4 << 10, send: func(_ *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{From: `"all"`}.Request(addr))
	}},
	{Name: "replay left", recvBytes: 4 << 10, send: func(_ *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true, From: `"all"`}.Request(addr))
	}},
	{Name: "subscriptions on and off", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, Subscription{Socket: true}.Request(addr))
		for i := range 50 {
			id := r.IntN(10)
			write(nc, text(fmt.Sprintf(`{"type":"subscribe","id":%d,"from":"all","filter":{"run":"r%d"}}`, id, i)))
			write(nc, text(fmt.Sprintf(`{"type":"unsubscribe","id":%d}`, r.IntN(10))))
		}
	}},
	{Name: "claims left", send: func(r *Rand, addr string, nc *net.TCPConn) {
		write(nc, []byte(relaytest.HandshakeRequest(addr, "/socket", relaytest.WSOptions{})))
		write(nc, text(`{"type":"hello","versions":["0.1"],"role":"emitter","identity":{"agent":"fault"}}`))
		write(nc, text(string(faultEvent(r, 200))))
	}},
}

func write(nc *net.TCPConn, b []byte) { _, _ = nc.Write(b) }

// faultEvent returns a valid event of about so many bytes at most.
func faultEvent(r *Rand, most int) []byte {
	return Seal(nil, Sealing{
		Session: faultSession, Seq: r.Uint64() >> 2, Severity: "info", PadBytes: r.IntN(most),
	})
}

// faultBatch returns valid NDJSON.
func faultBatch(r *Rand) []byte {
	var b []byte
	for range 1 + r.IntN(20) {
		b = append(append(b, faultEvent(r, 4<<10)...), '\n')
	}
	return b
}

// Chunks returns body in the chunked coding, in chunks of any size.
func Chunks(r *Rand, body []byte) []byte {
	var b []byte
	for len(body) > 0 {
		n := 1 + r.IntN(min(len(body), 4<<10))
		b = fmt.Appendf(b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return append(b, "0\r\n\r\n"...)
}
