//go:build linux

package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testTimeout bounds every wait of a test; none is expected to last.
const testTimeout = time.Minute

// payload returns the text of one event.
func payload(n int) []byte {
	return fmt.Appendf(nil, `{"type":"x","id":"bench-%010d","data":{"text":"0123456789"}}`, n)
}

// frame returns an unmasked frame, as a server sends it.
func frame(first byte, body []byte) []byte {
	switch n := len(body); {
	case n < length16:
		return append([]byte{first, byte(n)}, body...)
	case n < 1<<16:
		return append(binary.BigEndian.AppendUint16([]byte{first, length16}, uint16(n)), body...)
	default:
		return append(binary.BigEndian.AppendUint64([]byte{first, length64}, uint64(n)), body...)
	}
}

// event returns the frame of one event.
func event(n int) []byte { return frame(0x81, payload(n)) }

// chunk returns one HTTP chunk.
func chunk(body []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(body), body) }

// sseEvent returns one event of an event stream.
func sseEvent(n int) []byte {
	return fmt.Appendf(nil, "event: message\nid: %d\ndata: %s\n\n", n, payload(n))
}

// encodeEvent is the publisher's Encode of the tests.
func encodeEvent(dst []byte, n int) []byte { return appendMasked(dst, 0x81, payload(n)) }

// upgrade and get return the request for a path.
func upgrade(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
}

func get(path string) []byte { return []byte("GET " + path + " HTTP/1.1\r\nHost: t\r\n\r\n") }

const (
	answer101 = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
	answerSSE = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)

var testPublisher = Publisher{Request: upgrade("/pub"), Encode: encodeEvent}

// peer is a consumer as the hub sees it.
type peer struct {
	net.Conn
	in   *bufio.Reader
	path string
}

// hub is a server which does what a test says. Its functions are called under
// mu, one at a time.
type hub struct {
	t     testing.TB
	ln    net.Listener
	wg    sync.WaitGroup
	start sync.Once

	mu        sync.Mutex
	conns     []net.Conn
	consumers []*peer

	behindPub []byte // sent behind the answer to the publisher
	pubPong   string // the last pong of the publisher

	// greet answers a consumer; at first with the usual answer.
	greet func(p *peer)
	// publish gets an event from the publisher, and how many bytes of others
	// are there already; at first it is sent to all consumers.
	publish func(n, buffered int, body []byte)
}

// newHub makes a hub that ends with the test. It begins to accept with the
// first client; after that, what it does is changed under mu.
func newHub(t testing.TB) *hub {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, ln: ln}
	h.publish = func(n, _ int, _ []byte) { h.broadcast(n) }
	h.greet = func(p *peer) { p.accept() }
	t.Cleanup(func() {
		_ = ln.Close()
		h.mu.Lock()
		for _, nc := range h.conns {
			_ = nc.Close()
		}
		h.mu.Unlock()
		h.wg.Wait()
	})
	return h
}

func (h *hub) addr() string { return h.ln.Addr().String() }

// send writes, and forgives a peer that is gone.
func (p *peer) send(b []byte) { _, _ = p.Write(b) }

// isSSE tells the transport that the peer asked for.
func (p *peer) isSSE() bool { return strings.HasPrefix(p.path, "/sse") }

// accept sends the usual answer, and more behind it in the same write.
func (p *peer) accept(behind ...[]byte) {
	answer := answer101
	if p.isSSE() {
		answer = answerSSE
	}
	p.send(append([]byte(answer), join(behind...)...))
}

// event sends one event in the peer's transport.
func (p *peer) event(n int) {
	if p.isSSE() {
		p.send(chunk(sseEvent(n)))
		return
	}
	p.send(event(n))
}

// broadcast sends one event to all consumers.
func (h *hub) broadcast(n int) {
	for _, p := range h.consumers {
		p.event(n)
	}
}

func (h *hub) accept() {
	for {
		nc, err := h.ln.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.conns = append(h.conns, nc)
		h.mu.Unlock()
		h.wg.Go(func() { h.serve(nc) })
	}
}

// serve reads a request's head and does what its path says.
func (h *hub) serve(nc net.Conn) {
	in := bufio.NewReader(nc)
	path := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if path == "" {
			path = strings.Fields(line)[1]
		}
		if line == "\r\n" {
			break
		}
	}
	if path == "/pub" {
		_, _ = nc.Write(append([]byte(answer101), h.behindPub...))
		h.readPublisher(nc, in)
		return
	}
	p := &peer{Conn: nc, in: in, path: path}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.consumers = append(h.consumers, p)
	h.greet(p)
}

// readPublisher hands every event over.
func (h *hub) readPublisher(nc net.Conn, in *bufio.Reader) {
	for {
		first, body, err := readMasked(in)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
				h.t.Errorf("publisher: %v", err)
			}
			return
		}
		if first == 0x8a {
			h.mu.Lock()
			h.pubPong = string(body)
			h.mu.Unlock()
			continue
		}
		n, isMarker := numberAt(body[bytes.Index(body, marker):])
		if !isMarker {
			h.t.Errorf("published %q", body)
			return
		}
		h.mu.Lock()
		h.publish(int(n), in.Buffered(), body)
		h.mu.Unlock()
	}
}

// readMasked reads one short masked frame whose key is zero.
func readMasked(in *bufio.Reader) (first byte, body []byte, err error) {
	var head [6]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	if head[1]&maskBit == 0 || head[1]&^maskBit > maxControl || [4]byte(head[2:]) != [4]byte{} {
		return 0, nil, fmt.Errorf("head % x", head)
	}
	body = make([]byte, head[1]&^maskBit)
	_, err = io.ReadFull(in, body)
	return head[0], body, err
}

// connect connects a client with classes to the hub.
func (h *hub) connect(classes ...Class) *Client {
	h.t.Helper()
	c := h.client(Options{})
	stats, err := c.Connect(context.Background(), classes)
	if err != nil {
		h.t.Fatal(err)
	}
	count := 0
	for _, cl := range classes {
		count += cl.Count
	}
	if stats.Consumers != count || stats.Latency.Count() != int64(count) || count > 0 && stats.Wall <= 0 {
		h.t.Fatalf("connected: %+v, want %d", stats, count)
	}
	return c
}

// client makes a client that ends with the test.
func (h *hub) client(o Options) *Client {
	h.t.Helper()
	h.start.Do(func() { h.wg.Go(h.accept) })
	o.Addr = h.addr()
	if o.Timeout == 0 {
		o.Timeout = testTimeout
	}
	c, err := New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

// ws and sse are classes of n consumers.
func ws(n int) Class  { return Class{Name: "ws", Count: n, Request: upgrade("/ws")} }
func sse(n int) Class { return Class{Name: "sse", Count: n, Kind: SSE, Request: get("/sse")} }

// faults are the counts of an outcome that should be zero.
type faults struct{ Lost, Repeated, Disordered, Foreign, Corrupt, ConnsLost int64 }

func faultsOf(o Outcome) faults {
	return faults{o.Lost, o.Repeated, o.Disordered, o.Foreign, o.Corrupt, o.ConnsLost}
}

// mustRun runs a load and fails on an error.
func mustRun(t testing.TB, c *Client, l Load) Outcome {
	t.Helper()
	if l.Timeout == 0 {
		l.Timeout = testTimeout
	}
	out, err := c.Run(context.Background(), l)
	if err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	return out
}
