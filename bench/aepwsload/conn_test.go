package aepwsload

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/wsframe"
)

// text is a server's text frame.
func text(s string) string { return string(wsframe.AppendText(nil, []byte(s))) }

// scripted is a session whose relay has sent these bytes, and nothing else.
func scripted(t *testing.T, sent string) (k *conn, far net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return &conn{Conn: near, in: bufio.NewReader(strings.NewReader(sent))}, far
}

// TestNext: messages of each form of length come whole (RFC 6455, section 5.2),
// and what a relay must not send is an error (B10 of the contract).
func TestNext(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 127, 128, 1 << 16, maxMessage} {
		want := strings.Repeat("x", n)
		k, _ := scripted(t, text(want)+text("next"))
		for _, want := range []string{want, "next"} {
			if got, err := k.next(); err != nil || string(got) != want {
				t.Errorf("%d bytes: %d, %v", n, len(got), err)
			}
		}
	}
	for name, c := range map[string]struct {
		sent string
		want error
	}{
		"too long":       {text(strings.Repeat("x", maxMessage+1)), errAnswer},
		"length of 2^64": {"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", errAnswer},
		"masked":         {"\x81\x81\x00\x00\x00\x00x", errAnswer},
		"binary":         {"\x82\x01x", errAnswer},
		"a fragment":     {"\x01\x01x", errAnswer},
		"reserved bits":  {"\xc1\x01x", errAnswer},
		"closed":         {string(wsframe.AppendClose(nil, wsframe.CloseGoingAway, "")), errAnswer},
		"cut":            {"\x81\x05abc", io.ErrUnexpectedEOF},
		"the end":        {"", io.EOF},
	} {
		k, _ := scripted(t, c.sent)
		if got, err := k.next(); !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v; want %v", name, got, err, c.want)
		}
	}
}

// TestPing: a ping is answered before the message behind it is given out (B38).
func TestPing(t *testing.T) {
	k, far := scripted(t, string(wsframe.AppendPing(nil, []byte("42")))+text("after"))
	want := wsframe.AppendMasked(nil, wsframe.OpPong, true, [4]byte{}, []byte("42"))
	pong := make(chan []byte, 1)
	go func() {
		b := make([]byte, len(want))
		_, _ = io.ReadFull(far, b)
		pong <- b
	}()
	if got, err := k.next(); err != nil || string(got) != "after" {
		t.Fatalf("%q, %v", got, err)
	}
	if got := <-pong; !bytes.Equal(got, want) {
		t.Errorf("pong %q, want %q", got, want)
	}
}

// TestDial: what is not the session that was asked for is an error.
func TestDial(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   error
	}{
		"ready":        {"HTTP/1.1 101 Switching Protocols\r\n\r\n" + text(`{"type":"session.ready"}`), nil},
		"refused":      {"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", errAnswer},
		"an error":     {"HTTP/1.1 101 Switching Protocols\r\n\r\n" + text(`{"type":"session.error"}`), errAnswer},
		"no answer":    {"HTTP/1.1 101 Switching Protocols\r\n\r\n", io.EOF},
		"not even one": {"", io.ErrUnexpectedEOF},
	} {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			far, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = far.Close() }()
			_ = far.SetDeadline(time.Now().Add(patience))
			in := bufio.NewReader(far)
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			hello := make([]byte, len(message(quiet)))
			if _, err := io.ReadFull(in, hello); err == nil && bytes.Equal(hello, message(quiet)) {
				_, _ = io.WriteString(far, c.answer)
			}
		}()
		k, err := dial(l.Addr().String())
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err == nil {
			_ = k.Close()
		}
		_ = l.Close()
	}
}

// TestMembers: what is looked for in the relay's messages.
func TestMembers(t *testing.T) {
	const sample = `{"id":"a","delivery":{"sequence":12,"cursor":"a:12"},"open":"x`
	for name, want := range map[string]string{"id": "a", "cursor": "a:12", "open": "", "none": "", "sequence": ""} {
		if got := member([]byte(sample), name); string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]int64{"sequence": 12, "id": -1, "none": -1} {
		if got := number([]byte(sample), name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := number([]byte(`"n":99999999999999999999`), "n"); got != -1 {
		t.Errorf("a number beyond 63 bits is %d", got)
	}
}

// TestEvents: the events are envelopes that the contract takes, all of one length
// and each with its own id and key (B18 to B24).
func TestEvents(t *testing.T) {
	p := publisher{event: binding.event}
	for _, key := range []int{0, 42, nobody} {
		got := p.event.append(nil, 1234567890, key)[messageHeader:]
		if len(got) != eventBytes-deliveryBytes {
			t.Errorf("%d bytes", len(got))
		}
		var e codec.Envelope
		var s codec.Scanner
		if fault := s.Scan(got, &e); fault != nil {
			t.Fatalf("%s: %v", got, fault)
		}
		if want := (map[int]string{0: "s00000", 42: "s00042", nobody: "s99999"})[key]; string(member(got, "target")) != want ||
			string(member(got, "id")) != "bench-1234567890" {
			t.Errorf("target not %s in %s", want, got)
		}
	}
	if got := neighbour.event.append(nil, 7, 3)[messageHeader:]; len(got) != eventBytes ||
		number(got, "seq") != firstSeq+7 || string(member(got, "session")) != "s00003" {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// messageHeader is that of a client's message of 126 to 65,535 bytes.
const messageHeader = 8

// TestReceive: acknowledgements come in order, with rising numbers, or the run
// fails (B2).
func TestReceive(t *testing.T) {
	ack := func(id string, cursor string) string {
		return text(`{"type":"event.acknowledged","payload":{"acknowledged_event_id":"` + id + `","cursor":"` + cursor + `"}}`)
	}
	const a, b = "bench-0000000000", "bench-0000000001"
	for name, c := range map[string]struct {
		sent string
		want error
	}{
		"in order":        {ack(a, a+":4") + ack(b, b+":6"), nil},
		"the same number": {ack(a, a+":4") + ack(b, b+":4"), errWrong},
		"falling":         {ack(a, a+":4") + ack(b, b+":3"), errWrong},
		"out of order":    {ack(b, b+":4") + ack(a, a+":5"), errAnswer},
		"twice":           {ack(a, a+":4") + ack(a, a+":4"), errAnswer},
		"another cursor":  {ack(a, b+":4"), errAnswer},
		"no cursor":       {ack(a, "4"), errAnswer},
		"a refusal":       {text(`{"type":"event.rejected","payload":{"acknowledged_event_id":"` + a + `"}}`), errAnswer},
		"an end":          {ack(a, a+":4"), io.EOF},
	} {
		k, _ := scripted(t, c.sent)
		p := publisher{conn: k, sent: 2, keepsNumbers: true}
		var err error
		for err == nil && p.acked < p.sent {
			_, err = p.receive()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestDense: a number that is missing, or given twice, is found (B2).
func TestDense(t *testing.T) {
	of := func(numbers ...int64) *publisher { return &publisher{acked: len(numbers), numbers: numbers} }
	for name, c := range map[string]struct {
		all  []*publisher
		want error
	}{
		"all":     {[]*publisher{of(1, 4), of(2, 3)}, nil},
		"none":    {nil, nil},
		"missing": {[]*publisher{of(1, 4), of(2, 5)}, errWrong},
		"twice":   {[]*publisher{of(1, 3), of(2, 3)}, errWrong},
		"zero":    {[]*publisher{of(0, 1)}, errWrong},
	} {
		n, err := dense(c.all)
		if !errors.Is(err, c.want) || err == nil && n != 2*len(c.all) {
			t.Errorf("%s: %d, %v; want %v", name, n, err, c.want)
		}
	}
}
