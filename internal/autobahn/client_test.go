package autobahn

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	// dropTime is how soon the server ends the TCP connection on a machine that
	// has time for it (V4). It is less than the time for which the relay reads
	// on behind its FIN, so that a forgotten FIN is noticed.
	dropTime = 1500 * time.Millisecond
	// patience bounds every other wait; nothing waits for it when all is well.
	patience = 60 * time.Second
)

// Opcodes (RFC 6455 section 5.2).
const (
	opMore   = 0x0
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opPong   = 0xA

	fin = 0x80
)

// item is one message or control frame.
type item struct {
	op   byte
	data string // of a close: its reason
	code int    // of a close: 0 for none
}

func text(s string) item               { return item{op: opText, data: s} }
func binaryOf(s string) item           { return item{op: opBinary, data: s} }
func pong(s string) item               { return item{op: opPong, data: s} }
func closing(code int) item            { return item{op: opClose, code: code} }
func messageOf(op byte, s string) item { return item{op: op, data: s} }
func (i item) broken() bool            { return i.op == opClose }
func equalItems(a, b []item) bool      { return describe(a) == describe(b) }
func describe(items []item) string     { return fmt.Sprint(items) }
func repeat(what string, octets int) (s string) {
	return strings.Repeat(what, octets/len(what)+1)[:octets]
}

// String shows an item; one that is long by its size and hash.
func (i item) String() string {
	name := map[byte]string{opText: "text", opBinary: "binary", opClose: "close", opPing: "ping", opPong: "pong"}[i.op]
	if i.op == opClose {
		name = fmt.Sprintf("close %d", i.code)
	}
	if len(i.data) <= 40 {
		return fmt.Sprintf("%s %q", name, i.data)
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, i.data)
	return fmt.Sprintf("%s %q... (%d octets, %x)", name, i.data[:20], len(i.data), h.Sum64())
}

// frame makes a client's frame: its first octet as given, masked, the length
// minimally encoded.
func frame(first byte, payload string) string {
	var b []byte
	switch n := len(payload); {
	case n < 126:
		b = append(b, first, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, first, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, first, 0x80|127), uint64(n))
	}
	return string(b) + masked(payload)
}

// masked is a masking key and the payload under it.
func masked(payload string) string {
	key := [4]byte{0x9d, 0x3c ^ byte(len(payload)), 0xe1, 0x57}
	b := make([]byte, 4+len(payload))
	copy(b, key[:])
	for i := range len(payload) {
		b[4+i] = payload[i] ^ key[i&3]
	}
	return string(b)
}

func whole(op byte, payload string) string { return frame(fin|op, payload) }
func first(op byte, payload string) string { return frame(op, payload) }
func more(payload string) string           { return frame(opMore, payload) }
func last(payload string) string           { return frame(fin|opMore, payload) }
func ping(payload string) string           { return whole(opPing, payload) }

// closeFrame carries a code and a reason; code 0 makes it empty.
func closeFrame(code int, reason string) string {
	if code == 0 {
		return whole(opClose, "")
	}
	return whole(opClose, string(binary.BigEndian.AppendUint16(nil, uint16(code)))+reason)
}

// fragments cuts a message into frames of size octets, so that each but the
// last is not final.
func fragments(op byte, payload string, size int) string {
	var b strings.Builder
	for {
		if len(payload) <= size {
			b.WriteString(frame(fin|op, payload))
			return b.String()
		}
		b.WriteString(frame(op, payload[:size]))
		op, payload = opMore, payload[size:]
	}
}

// client is a WebSocket client over a raw socket.
type client struct {
	nc net.Conn
	r  *bufio.Reader
}

// dial opens a WebSocket. It is closed at the end of the test.
func dial(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &client{nc, bufio.NewReaderSize(nc, 64<<10)}
	const key = "x3JJHMbDL1EzLkh9GBhXDw=="
	c.send("GET /any/path?x=1 HTTP/1.1\r\nHost: " + addr + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: " + key + "\r\nSec-WebSocket-Version: 13\r\n\r\n")
	c.within(patience)
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	if res.StatusCode != http.StatusSwitchingProtocols ||
		res.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Fatalf("handshake: %s %v", res.Status, res.Header)
	}
	return c
}

func (c *client) within(d time.Duration) { _ = c.nc.SetReadDeadline(time.Now().Add(d)) }

// send writes s at once. An error shows in what comes back.
func (c *client) send(s string) { _, _ = io.WriteString(c.nc, s) }

// chopped writes s in pieces of n octets, whole if n is 0.
func (c *client) chopped(s string, n int) {
	for n > 0 && len(s) > n {
		c.send(s[:n])
		s = s[n:]
	}
	c.send(s)
}

var errServer = errors.New("the server broke a rule of RFC 6455")

// next reads one message or control frame. Whatever a server must not send is
// errServer; a fragmented message counts as that too: an echo is one frame.
func (c *client) next() (item, error) {
	var h [10]byte
	if _, err := io.ReadFull(c.r, h[:2]); err != nil {
		return item{}, err
	}
	op, size := h[0]&0xf, uint64(h[1])
	least := uint64(0)
	switch h[1] {
	case 126, 127:
		n := map[byte]int{126: 2, 127: 8}[h[1]]
		if _, err := io.ReadFull(c.r, h[2:2+n]); err != nil {
			return item{}, err
		}
		size, least = uint64(binary.BigEndian.Uint16(h[2:])), 126
		if n == 8 {
			size, least = binary.BigEndian.Uint64(h[2:]), 1<<16
		}
	}
	control := op >= opClose
	switch {
	case h[0]&0xf0 != fin, h[1] > 127, size < least, size > 1<<30, control && size > 125,
		op != opText && op != opBinary && op != opClose && op != opPing && op != opPong:
		return item{}, fmt.Errorf("%w: header % x", errServer, h)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return item{}, fmt.Errorf("in a frame: %w", io.ErrUnexpectedEOF)
	}
	got := item{op: op, data: string(b)}
	if op != opClose || size == 0 {
		return got, nil
	}
	if size == 1 {
		return item{}, fmt.Errorf("%w: close of one octet", errServer)
	}
	got.code, got.data = int(binary.BigEndian.Uint16(b)), got.data[2:]
	if !mayBeSent(got.code) || firstBad(got.data) >= 0 {
		return item{}, fmt.Errorf("%w: %v", errServer, got)
	}
	return got, nil
}

// mayBeSent tells whether a close frame may carry a code (RFC 6455 section 7.4
// and the registry it founded).
func mayBeSent(code int) bool {
	return code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000 && code <= 4999
}
