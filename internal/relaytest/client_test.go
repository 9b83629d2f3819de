package relaytest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

const wait = 30 * time.Second

// serveRaw answers each connection to a port of its own with f.
func serveRaw(t *testing.T, f func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = nc.Close() }()
				f(nc, bufio.NewReader(nc))
			}()
		}
	}()
	return ln.Addr().String()
}

func readHead(br *bufio.Reader) string {
	var b strings.Builder
	for {
		line, err := br.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String()
		}
	}
}

func TestReadResponse(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/chunked":
			fmt.Fprint(w, "one")
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "two")
		case "/body":
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%d", len(b))
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer srv.Close()
	c, err := relaytest.Dial(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	get := "GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
	post := "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
	if err := c.SendString(fmt.Sprintf(get+get, "/none", "/chunked") + post); err != nil {
		t.Fatal(err)
	}
	want := []struct {
		status  int
		body    string
		chunked bool
	}{{204, "", false}, {200, "onetwo", true}, {100, "", false}}
	for i, w := range want {
		r, err := c.ReadResponse("GET", wait)
		if err != nil || r.Status != w.status || string(r.Body) != w.body || r.Chunked != w.chunked {
			t.Fatalf("answer %d: got %+v, %v; want %+v", i, r, err, w)
		}
	}
	if err := c.SendString("abcd"); err != nil {
		t.Fatal(err)
	}
	if r, err := c.ReadResponse("POST", wait); err != nil || string(r.Body) != "4" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if err := c.AwaitEOF(20 * time.Millisecond); !relaytest.IsTimeout(err) {
		t.Errorf("AwaitEOF on an open connection: %v", err)
	}
	srv.CloseClientConnections()
	if err := c.AwaitEOF(wait); err != nil {
		t.Errorf("AwaitEOF on a closed connection: %v", err)
	}
}

func TestReadResponseRefuses(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"HTTP/1.1 200",
	} {
		addr := serveRaw(t, func(nc net.Conn, br *bufio.Reader) {
			readHead(br)
			_, _ = io.WriteString(nc, answer)
		})
		if r, err := relaytest.Do(addr, "GET", "GET / HTTP/1.1\r\n\r\n", wait); err == nil || relaytest.IsTimeout(err) {
			t.Errorf("%q: got %+v, %v", answer, r, err)
		}
	}
}

func TestStreamBlocksAndEnds(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	const block = "event: a.b\ndata: {}\nid: s:0:1\n\n"
	frame := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	cases := []struct {
		name, answer string
		blocks       int
		misaligned   int
		end          error
	}{
		{"clean", head + frame(": open x\nretry: 1000\n\n") + frame(block) + "0\r\n\r\n", 2, 0, io.EOF},
		{"two in one chunk", head + frame(block+block) + "0\r\n\r\n", 2, 0, io.EOF},
		{"cut inside a block", head + frame(block[:9]) + frame(block[9:]) + "0\r\n\r\n", 1, 1, io.EOF},
		{"no last chunk", head + frame(block), 1, 0, relaytest.ErrTorn},
		{"torn block", head + frame(block[:9]) + "0\r\n\r\n", 0, 1, relaytest.ErrTorn},
		{"plain", "HTTP/1.1 200 OK\r\n\r\n" + block + block, 2, 0, io.EOF},
		{"plain, torn", "HTTP/1.1 200 OK\r\n\r\n" + block + block[:9], 1, 0, relaytest.ErrTorn},
	}
	for _, c := range cases {
		addr := serveRaw(t, func(nc net.Conn, br *bufio.Reader) {
			readHead(br)
			for i := range len(c.answer) {
				_, _ = io.WriteString(nc, c.answer[i:i+1])
			}
		})
		s, err := relaytest.OpenStream(addr, "/stream", relaytest.StreamOptions{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		n := 0
		for ; ; n++ {
			var b relaytest.Block
			if b, err = s.Next(wait); err != nil {
				break
			}
			if b.IsEvent() && (b.Event != "a.b" || b.Data != "{}" || b.ID != "s:0:1" || len(b.Fields) != 3) {
				t.Errorf("%s: block %+v", c.name, b)
			}
		}
		if n != c.blocks || s.Misaligned != c.misaligned || !errors.Is(err, c.end) {
			t.Errorf("%s: got %d blocks, %d misaligned, %v; want %+v", c.name, n, s.Misaligned, err, c)
		}
		_ = s.Close()
	}
}

func TestWSFrames(t *testing.T) {
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + relaytest.WSAccept + "\r\n\r\n"
	frames := "\x01\x02he" + "\x89\x01p" + "\x80\x03llo" + // fragments around a ping
		"\x81\x7e\x00\x80" + strings.Repeat("y", 128) + // 16-bit length
		"\x88\x07\x03\xf5later" // Close 1013
	got := make(chan string, 1)
	addr := serveRaw(t, func(nc net.Conn, br *bufio.Reader) {
		readHead(br)
		_, _ = io.WriteString(nc, answer+frames)
		b := make([]byte, 6+1+6+2)
		_, _ = io.ReadFull(br, b)
		for i := 6; i < 7; i++ {
			b[i] ^= b[2+(i-6)&3]
		}
		got <- string(b[:2]) + string(b[6:7])
		_, _ = io.Copy(io.Discard, br)
	})
	w, err := relaytest.DialWS(addr, "/socket", relaytest.WSOptions{Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	for _, want := range []struct {
		op     byte
		text   string
		code   int
		reason string
	}{
		{relaytest.OpPing, "p", 0, ""},
		{relaytest.OpText, "hello", 0, ""},
		{relaytest.OpText, strings.Repeat("y", 128), 0, ""},
		{relaytest.OpClose, "\x03\xf5later", 1013, "later"},
	} {
		m, err := w.Next(wait)
		if err != nil || m.Opcode != want.op || string(m.Data) != want.text ||
			m.Code != want.code || m.Reason != want.reason {
			t.Fatalf("got %+v, %v; want %+v", m, err, want)
		}
	}
	if err := w.SendClose(1000, ""); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "\x8a\x81p" {
		t.Errorf("pong was %q", s)
	}
}

func TestWSRefusesServerFaults(t *testing.T) {
	for _, frame := range []string{
		"\x81\x81aaaab", // masked
		"\xc1\x01a",     // RSV1
		"\x80\x01a",     // continuation of nothing
		"\x01\x01a\x81\x01b",
		"\x09\x00",  // fragmented ping
		"\x88\x01a", // Close of one byte
	} {
		addr := serveRaw(t, func(nc net.Conn, br *bufio.Reader) {
			readHead(br)
			_, _ = io.WriteString(nc, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"+
				"Sec-WebSocket-Accept: "+relaytest.WSAccept+"\r\n\r\n"+frame)
			_, _ = io.Copy(io.Discard, br)
		})
		w, err := relaytest.DialWS(addr, "/socket", relaytest.WSOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := w.Next(wait); err == nil || relaytest.IsTimeout(err) {
			t.Errorf("% x: got %+v, %v", frame, m, err)
		}
		_ = w.Close()
	}
}

func TestFrameBytes(t *testing.T) {
	for _, c := range []struct {
		f    relaytest.Frame
		want string
	}{
		{relaytest.Frame{Opcode: 1, Payload: []byte("a"), Unmasked: true}, "\x81\x01a"},
		{relaytest.Frame{Opcode: 1, NotFinal: true, RSV: 4, Unmasked: true}, "\x41\x00"},
		{relaytest.Frame{Opcode: 2, Declared: 1 << 34, Unmasked: true}, "\x82\x7f\x00\x00\x00\x04\x00\x00\x00\x00"},
		{relaytest.Frame{Opcode: 9, Payload: []byte{0x37}}, "\x89\x81\x37\xfa\x21\x3d\x00"},
	} {
		if got := string(c.f.Bytes()); got != c.want {
			t.Errorf("%+v: got % x, want % x", c.f, got, c.want)
		}
	}
}

func TestEventText(t *testing.T) {
	e := relaytest.Event{ID: "i", Session: "s\n", Epoch: 2, Seq: 3, Severity: "notice", Extra: `"x1":5`, Data: `{}`}
	want := `{"aep":"0.1","id":"i","type":"progress.status","time":"2026-07-03T10:00:00Z",` +
		`"source":"aep://test/agent/probe","agent":"probe","session":"s\n","epoch":2,"seq":3,` +
		`"severity":"notice","x1":5,"data":{}}`
	if got := e.JSON(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for typ, want := range map[string]bool{
		"control.cancel": true, "control.attention.respond": true, "control.accepted": false,
		"control.cancelled": false, "x.acme.control.zap": true, "x.acme.control": false,
		"x.acme.foo.control.zap": false, "tool.completed": false,
	} {
		if relaytest.IsCommand(typ) != want {
			t.Errorf("IsCommand(%q) = %v", typ, !want)
		}
	}
}
