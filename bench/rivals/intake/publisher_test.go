package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"
)

// recorder is a sink that keeps copies.
type recorder struct {
	mu      sync.Mutex
	events  []string // "topic|payload"
	batches []int
}

func (r *recorder) Publish(batch []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, len(batch))
	for _, e := range batch {
		r.events = append(r.events, e.Topic+"|"+string(e.Payload))
	}
}

// script is a connection that brings its pieces one read each.
type script struct {
	net.Conn
	pieces  [][]byte
	written bytes.Buffer
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

func (s *script) Write(p []byte) (int, error) { return s.written.Write(p) }

// masked returns a client's frame.
func masked(f ws.Frame) []byte {
	return ws.MustCompileFrame(ws.MaskFrameWith(f, [4]byte{1, 2, 3, 4}))
}

func text(payload string) []byte { return masked(ws.NewTextFrame([]byte(payload))) }

func join(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

// TestPublisherSplitReads cuts a stream at each byte.
func TestPublisherSplitReads(t *testing.T) {
	long := `{"session":"b","text":"` + strings.Repeat("y", 300) + `"}`
	stream := join(text(`{"session":"a"}`), masked(ws.NewPingFrame([]byte("hi"))), text(long), text("{}"))
	want := fmt.Sprint([]string{`a|{"session":"a"}`, "b|" + long, "|{}"})
	pong := ws.MustCompileFrame(ws.NewPongFrame([]byte("hi")))
	for cut := range len(stream) + 1 {
		// Each run gets bytes of its own: unmasking is done in place.
		whole := bytes.Clone(stream)
		conn := &script{}
		if cut < len(whole) {
			conn.pieces = [][]byte{whole[cut:]}
		}
		var r recorder
		if err := ServePublisher(conn, whole[:cut], true, &r); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if got := fmt.Sprint(r.events); got != want {
			t.Fatalf("cut at %d: got %s, want %s", cut, got, want)
		}
		if !bytes.Equal(conn.written.Bytes(), pong) {
			t.Fatalf("cut at %d: wrote %x, want %x", cut, conn.written.Bytes(), pong)
		}
	}
}

// TestPublisherBatches checks that one read is one batch (I1).
func TestPublisherBatches(t *testing.T) {
	conn := &script{pieces: [][]byte{join(text("1"), text("2"), text("3")), text("4")}}
	var r recorder
	if err := ServePublisher(conn, nil, false, &r); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.batches); got != "[3 1]" {
		t.Errorf("batches %s, want [3 1]", got)
	}
}

// TestPublisherLongMessage sends what does not fit the first buffer.
func TestPublisherLongMessage(t *testing.T) {
	long := strings.Repeat("z", maxMessageBytes)
	stream := join(text("1"), text(long), text("2"))
	var r recorder
	if err := ServePublisher(&script{pieces: [][]byte{stream}}, nil, false, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.events) != 3 || r.events[1] != "|"+long || r.events[2] != "|2" {
		t.Errorf("%d events", len(r.events))
	}
}

// TestPublisherRefuses lists what ends a publisher, after what was good.
func TestPublisherRefuses(t *testing.T) {
	header := func(h ws.Header) []byte {
		h.Masked = true
		var b bytes.Buffer
		if err := ws.WriteHeader(&b, h); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	cases := []struct {
		name   string
		stream []byte
		want   error
	}{
		{"unmasked (5.1)", ws.MustCompileFrame(ws.NewTextFrame([]byte("x"))), ErrUnmasked},
		{"reserved bit (5.2)", header(ws.Header{Fin: true, Rsv: ws.Rsv(true, false, false), OpCode: ws.OpText}), ErrReserved},
		{"fragment (5.4)", header(ws.Header{OpCode: ws.OpText, Length: 1}), ErrFragmented},
		{"continuation (5.4)", header(ws.Header{Fin: true, OpCode: ws.OpContinuation}), ErrFragmented},
		{"binary", header(ws.Header{Fin: true, OpCode: ws.OpBinary}), ErrOpcode},
		{"reserved opcode (5.2)", header(ws.Header{Fin: true, OpCode: 0x3}), ErrOpcode},
		{"long ping (5.5)", header(ws.Header{Fin: true, OpCode: ws.OpPing, Length: 126}), ErrControl},
		{"fragmented ping (5.5)", header(ws.Header{OpCode: ws.OpPing}), ErrControl},
		{"too long", header(ws.Header{Fin: true, OpCode: ws.OpText, Length: maxMessageBytes + 1}), ErrTooLong},
		{"a cut frame", text("cut")[:7], io.EOF},
	}
	for _, c := range cases {
		var r recorder
		err := ServePublisher(&script{pieces: [][]byte{join(text("good"), c.stream)}}, nil, false, &r)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got := fmt.Sprint(r.events); got != "[|good]" {
			t.Errorf("%s: events %s", c.name, got)
		}
	}
}

// TestPublisherCloses checks that a close frame is answered and ends it.
func TestPublisherCloses(t *testing.T) {
	body := ws.NewCloseFrameBody(ws.StatusNormalClosure, "bye")
	conn := &script{pieces: [][]byte{join(text("1"), masked(ws.NewCloseFrame(body)), text("2"))}}
	var r recorder
	if err := ServePublisher(conn, nil, false, &r); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.events); got != "[|1]" {
		t.Errorf("events %s", got)
	}
	want := ws.MustCompileFrame(ws.NewCloseFrame(body[:2]))
	if !bytes.Equal(conn.written.Bytes(), want) {
		t.Errorf("wrote %x, want %x", conn.written.Bytes(), want)
	}
}

func TestTopic(t *testing.T) {
	for payload, want := range map[string]string{
		`{"id":"1","session":"s1","seq":1}`: "s1",
		`{"session":""}`:                    "",
		`{"session":"cut`:                   "",
		`{"id":"1"}`:                        "",
		``:                                  "",
	} {
		if got := Topic([]byte(payload)); got != want {
			t.Errorf("%s: topic %q, want %q", payload, got, want)
		}
	}
}

func TestTextFrame(t *testing.T) {
	for _, size := range []int{0, 125, 126, 65535, 65536} {
		payload := bytes.Repeat([]byte("p"), size)
		r := bytes.NewReader(TextFrame(payload))
		head, err := ws.ReadHeader(r)
		rest, _ := io.ReadAll(r)
		want := ws.Header{Fin: true, OpCode: ws.OpText, Length: int64(size)}
		if err != nil || head != want || !bytes.Equal(rest, payload) {
			t.Errorf("%d bytes: %+v, %v", size, head, err)
		}
	}
}

// FuzzPublisher checks that no stream panics and that how it is cut does not
// matter.
func FuzzPublisher(f *testing.F) {
	f.Add(join(text(`{"session":"a"}`), masked(ws.NewPingFrame(nil)), text("{}")), 3)
	f.Add(text("x")[:4], 1)
	f.Add([]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, 2)
	f.Add([]byte{0x88, 0x80, 0, 0, 0, 0}, 5)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		if cut < 0 || cut > len(stream) {
			cut = len(stream)
		}
		var whole, parts recorder
		errWhole := ServePublisher(&script{pieces: pieces(stream)}, nil, true, &whole)
		errParts := ServePublisher(&script{pieces: pieces(stream[:cut], stream[cut:])}, nil, true, &parts)
		if fmt.Sprint(whole.events) != fmt.Sprint(parts.events) || fmt.Sprint(errWhole) != fmt.Sprint(errParts) {
			t.Errorf("whole: %q %v, cut at %d: %q %v", whole.events, errWhole, cut, parts.events, errParts)
		}
	})
}

// pieces copies the parts that are not empty.
func pieces(parts ...[]byte) (list [][]byte) {
	for _, p := range parts {
		if len(p) > 0 {
			list = append(list, bytes.Clone(p))
		}
	}
	return list
}
