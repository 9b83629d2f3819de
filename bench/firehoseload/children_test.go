package firehoseload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serveScript answers one consumer with a 101 and then pieces of bytes, and
// closes.
func serveScript(t *testing.T, pieces ...[]byte) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		for i, p := range pieces {
			if i > 0 { // so that the pieces are read apart, as a rule
				time.Sleep(time.Millisecond)
			}
			if _, err := conn.Write(p); err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

// TestConsumersCheck: a stream that is not what was published is an error (B1).
func TestConsumersCheck(t *testing.T) {
	s, err := newSample()
	if err != nil {
		t.Fatal(err)
	}
	of := func(numbers ...int64) (b []byte) {
		for _, n := range numbers {
			b = s.append(b, firstSeq+n)
		}
		return b
	}
	other := of(0)
	other[len(other)-1] ^= 1
	pieces := func(b []byte, size int) (all [][]byte) {
		for len(b) > 0 {
			n := min(size, len(b))
			all, b = append(all, b[:n]), b[n:]
		}
		return all
	}
	for name, c := range map[string]struct {
		want   error
		pieces [][]byte
	}{
		"two frames":         {nil, [][]byte{of(0, 1)}},
		"cut anywhere":       {nil, pieces(of(0, 1), 177)},
		"a gap":              {errStream, [][]byte{of(0, 2)}},
		"a frame again":      {errStream, [][]byte{of(0, 0)}},
		"a frame too many":   {errStream, [][]byte{of(0, 1, 2)}},
		"other bytes":        {errStream, [][]byte{other}},
		"no frame":           {errStream, [][]byte{bytes.Repeat([]byte{0x88, 0}, len(s.message))}},
		"an early end":       {errLost, [][]byte{of(0)}},
		"an end in a frame":  {errLost, [][]byte{of(0, 1)[:len(s.message)+5]}},
		"an end before that": {errLost, nil},
	} {
		all, err := newConsumers(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := all.connect(serveScript(t, c.pieces...), 1, firstSeq); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all.expect(2)
		if err := all.await(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		all.close()
	}
}

// TestAnswers: the numbers of a burst come each once, in any order (F51).
func TestAnswers(t *testing.T) {
	answer := func(status, body string) string {
		return "HTTP/1.1 " + status + "\r\nContent-Length: " + string(rune('0'+len(body)/10)) + string(rune('0'+len(body)%10)) + "\r\n\r\n" + body
	}
	for name, c := range map[string]struct {
		first, second string
		want          error
	}{
		"in order":   {answer("200 OK", `{"seq":7}`), answer("200 OK", `{"seq":8}`), nil},
		"or not":     {answer("200 OK", `{"seq":8}`), answer("200 OK", `{"seq":7}`), nil},
		"one twice":  {answer("200 OK", `{"seq":7}`), answer("200 OK", `{"seq":7}`), errAnswer},
		"another":    {answer("200 OK", `{"seq":7}`), answer("200 OK", `{"seq":9}`), errAnswer},
		"a refusal":  {answer("503 No", `{"error":"NotListening"}`), "", errAnswer},
		"no number":  {answer("200 OK", `ok`), "", errAnswer},
		"cut answer": {"HTTP/1.1 200 OK\r\n", "", io.ErrUnexpectedEOF},
	} {
		p := &posts{}
		for _, text := range []string{c.first, c.second} {
			near, far := net.Pipe()
			defer func() { _, _ = near.Close(), far.Close() }()
			p.conns, p.in = append(p.conns, near), append(p.in, bufio.NewReader(strings.NewReader(text)))
		}
		if err := p.published(7, 2); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestFloor: each blob reaches each consumer, whole and in order, and what is no
// blob ends the publisher and nobody else (B2).
func TestFloor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Floor(ctx, 2, in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(strings.TrimPrefix(line, listening))
	s, err := newSample()
	if err != nil {
		t.Fatal(err)
	}
	all, err := newConsumers(s)
	if err != nil {
		t.Fatal(err)
	}
	defer all.close()
	if err := all.connect(addr, 5, firstSeq); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := newBlobs(addr, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, parts := range []int{1, 3, 40} {
			p.parts = parts
			// 800 KiB at once are more than a socket takes: the floor waits.
			for _, n := range []int{1, 2, 7, 700} {
				if err := burst(t.Context(), p, all, n, 1); err != nil {
					t.Fatalf("%d frames in %d parts: %v", n, parts, err)
				}
			}
		}
		if _, err := p.conn.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
			t.Fatal(err)
		}
		_ = p.conn.SetReadDeadline(time.Now().Add(patience))
		if n, err := p.conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("a blob of 4 GiB: read %d, %v; want the end", n, err)
		}
		p.close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSource: nothing comes before it is told to go, and a cursor is exclusive
// (F24).
func TestSource(t *testing.T) {
	const frames = 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdin, tell := io.Pipe()
	stdout, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Source(ctx, frames, stdin, out) }()
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(strings.TrimPrefix(line, listening))
	s, err := newSample()
	if err != nil {
		t.Fatal(err)
	}
	subscribe := func(query string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp4", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, strings.Replace(upgrade, " HTTP", query+" HTTP", 1)); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols ||
			res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" { // RFC 6455, section 1.3
			t.Fatalf("%q: %v, %v", query, res, err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != connected+"\n" {
			t.Fatalf("%q: %q, %v", query, line, err)
		}
		return conn, in
	}
	first, in := subscribe("")
	_ = first.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := in.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes before it may send", n)
	}
	if _, err := io.WriteString(tell, "go\n"); err != nil {
		t.Fatal(err)
	}
	_, later := subscribe("?cursor=" + "1099511627779") // firstSeq + 3
	_ = first.SetReadDeadline(time.Now().Add(patience))
	for at, in := range map[int]*bufio.Reader{0: in, 4: later} {
		got := make([]byte, (frames-at)*len(s.message))
		if _, err := io.ReadFull(in, got); err != nil {
			t.Fatal(err)
		}
		for i := range frames - at {
			message := got[i*len(s.message):][:len(s.message)]
			want := s.append(nil, firstSeq+int64(at+i))
			if !bytes.Equal(message[s.at:s.at+8], want[s.at:s.at+8]) {
				t.Errorf("from %d, frame %d: number %x", at, i, message[s.at:s.at+8])
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
