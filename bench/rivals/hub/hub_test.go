package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/gobwas/ws"
)

// TestRegistry checks who gets what after joins and leaves in mixed order.
func TestRegistry(t *testing.T) {
	var r registry[int]
	var entries []*entry[int]
	for i := range 9 {
		e, err := r.join([]string{"", "a", "b"}[i%3], func() (int, error) { return i, nil })
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	failed := errors.New("no upgrade")
	if _, err := r.join("a", func() (int, error) { return 0, failed }); err != failed {
		t.Errorf("join: %v, want %v", err, failed)
	}
	of := func(topic string) string {
		var list []int
		r.eachLocked(topic, func(c int) { list = append(list, c) })
		slices.Sort(list)
		return fmt.Sprint(list)
	}
	check := func(topic, want string) {
		t.Helper()
		if got := of(topic); got != want {
			t.Errorf("topic %q: %s, want %s", topic, got, want)
		}
	}
	check("", "[0 3 6]")
	check("a", "[0 1 3 4 6 7]")
	for _, i := range []int{0, 7, 1, 6} {
		r.leave(entries[i])
	}
	check("", "[3]")
	check("a", "[3 4]")
	check("b", "[2 3 5 8]")
	r.leave(entries[4])
	r.leave(entries[3])
	if r.wantedLocked("a") || r.wantedLocked("") || !r.wantedLocked("b") {
		t.Errorf("wanted is wrong with %v", r.groups)
	}
	if got := len(r.all()); got != 3 || len(r.groups) != 1 {
		t.Errorf("%d consumers in %d groups, want 3 in 1", got, len(r.groups))
	}
}

// TestFullQueue checks that a full queue makes the hub wait (H2), until the
// consumer takes a frame or goes.
func TestFullQueue(t *testing.T) {
	c := &gobwasConsumer{queue: make(chan *frame, queueFrames), gone: make(chan struct{})}
	for range queueFrames {
		c.put(&frame{})
	}
	put := func() chan struct{} {
		done := make(chan struct{})
		go func() { c.put(&frame{}); close(done) }()
		return done
	}
	done := put()
	<-c.queue
	<-done
	done = put()
	close(c.gone)
	<-done
	if len(c.queue) != queueFrames {
		t.Errorf("%d frames wait, want %d", len(c.queue), queueFrames)
	}
}

// TestReadClient lists what a consumer may send and what is answered.
func TestReadClient(t *testing.T) {
	mask := func(f ws.Frame) []byte { return ws.MustCompileFrame(ws.MaskFrameWith(f, [4]byte{9, 8, 7, 6})) }
	long := ws.Header{Fin: true, OpCode: ws.OpText, Masked: true, Length: maxClientBytes + 1}
	badPing := ws.Header{Fin: true, OpCode: ws.OpPing, Masked: true, Length: 126}
	head := func(h ws.Header) []byte {
		var b bytes.Buffer
		_ = ws.WriteHeader(&b, h)
		return b.Bytes()
	}
	closing := ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusNormalClosure, ""))
	cases := []struct {
		name   string
		sent   []byte
		text   string
		answer []byte
		want   error
	}{
		{"text", mask(ws.NewTextFrame([]byte("hi"))), "hi", nil, io.EOF},
		{"ping", mask(ws.NewPingFrame([]byte("p"))), "", ws.MustCompileFrame(ws.NewPongFrame([]byte("p"))), io.EOF},
		{"pong", mask(ws.NewPongFrame(nil)), "", nil, io.EOF},
		{"close", mask(closing), "", ws.MustCompileFrame(closing), nil},
		{"too long", head(long), "", nil, errClientFrame},
		{"long ping (5.5)", head(badPing), "", nil, errClientFrame},
	}
	for _, c := range cases {
		near, far := net.Pipe()
		answer := make(chan []byte)
		go func() {
			_, _ = far.Write(c.sent)
			b := make([]byte, len(c.answer))
			_, _ = io.ReadFull(far, b)
			_ = far.Close()
			answer <- b
		}()
		var text string
		err := readClient(near, func(b []byte) bool { text = string(b); return true })
		_ = near.Close()
		if got := <-answer; !errors.Is(err, c.want) || text != c.text || !bytes.Equal(got, c.answer) {
			t.Errorf("%s: %v, text %q, answer %x; want %v, %q, %x", c.name, err, text, got, c.want, c.text, c.answer)
		}
	}
}
