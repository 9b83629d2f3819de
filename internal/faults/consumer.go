package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// ErrEnded tells that a stream or socket ended in an orderly way: the last
// chunk, or a Close frame.
var ErrEnded = errors.New("faults: ended by the relay")

// Subscription says what a consumer asks for.
type Subscription struct {
	Socket      bool   // a WebSocket instead of a stream
	Filter      string // JSON, "" for all
	From        string // JSON, "" for live only, `"all"` for every session
	LastEventID string // streams only
	ReplayOnly  bool   // streams only: live=0

	RecvBytes   int // receive buffer of the kernel, 0 for its default
	BufferBytes int // of the reader, 0 for 4 KiB
}

// Consumer reads one subscription. It holds a few KiB, whatever passes through
// it, unless one event is larger.
type Consumer struct {
	nc     *net.TCPConn
	br     *bufio.Reader
	socket bool
	text   []byte // of the last item
	due    time.Time

	// Boot is the id of the relay's run, known once OpenConsumer has returned.
	Boot string
}

// Item is one event, or one note: a comment of a stream, a frame of a socket.
type Item struct {
	Event []byte // text, borrowed until the next read; nil for a note
	ID    string // of a stream's event
	Note  Note
}

// OpenConsumer subscribes. When it returns, whatever is published from then on
// will be delivered if it matches: it has read the stream's first block, or the
// answer to the subscribe.
func OpenConsumer(addr string, s Subscription) (*Consumer, error) {
	c, err := AskConsumer(addr, s)
	if err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		c.Reset()
		return nil, err
	}
	return c, nil
}

// AskConsumer sends the request of a subscription and reads nothing.
func AskConsumer(addr string, s Subscription) (*Consumer, error) {
	nc, err := Dial(addr, s.RecvBytes)
	if err != nil {
		return nil, err
	}
	size := s.BufferBytes
	if size == 0 {
		size = 4 << 10
	}
	c := &Consumer{nc: nc, br: bufio.NewReaderSize(nc, size), socket: s.Socket}
	_ = nc.SetWriteDeadline(time.Now().Add(DialTimeout))
	if _, err := nc.Write(s.Request(addr)); err != nil {
		c.Reset()
		return nil, fmt.Errorf("faults: %w", err)
	}
	return c, nil
}

// Request returns what a client sends for a subscription: on a socket the
// handshake, hello and subscribe in one piece.
func (s Subscription) Request(addr string) []byte {
	if s.Socket {
		b := []byte(relaytest.HandshakeRequest(addr, "/socket", relaytest.WSOptions{}))
		b = append(b, text(`{"type":"hello","versions":["0.1"],"role":"consumer"}`)...)
		return append(b, text(s.frame())...)
	}
	q := url.Values{}
	for name, value := range map[string]string{"filter": s.Filter, "from": strings.Trim(s.From, `"`)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if s.ReplayOnly {
		q.Set("live", "0")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "GET /stream?%s HTTP/1.1\r\nHost: %s\r\n", q.Encode(), addr)
	if s.LastEventID != "" {
		fmt.Fprintf(&b, "Last-Event-ID: %s\r\n", s.LastEventID)
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// frame returns the subscribe frame.
func (s Subscription) frame() string {
	f := `{"type":"subscribe","id":"s"`
	if s.Filter != "" {
		f += `,"filter":` + s.Filter
	}
	if s.From != "" {
		f += `,"from":` + s.From
	}
	return f + "}"
}

// text returns one text message as a client's frame.
func text(s string) []byte {
	return relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(s)}.Bytes()
}

// begin reads up to where events start.
func (c *Consumer) begin() error {
	_ = c.nc.SetReadDeadline(time.Now().Add(DialTimeout))
	status, err := c.br.ReadString('\n')
	if err != nil {
		return fmt.Errorf("faults: answer to a subscription: %q: %w", status, err)
	}
	for line := ""; line != "\r\n"; {
		if line, err = c.br.ReadString('\n'); err != nil {
			return fmt.Errorf("faults: head of an answer: %w", err)
		}
	}
	want := "HTTP/1.1 200 "
	if c.socket {
		want = "HTTP/1.1 101 "
	}
	if !strings.HasPrefix(status, want) {
		return fmt.Errorf("faults: answer to a subscription: %q", status)
	}
	for {
		it, err := c.next()
		switch {
		case err != nil:
			return fmt.Errorf("faults: first item: %w", err)
		case it.Event != nil:
			return fmt.Errorf("faults: event before the subscription was answered: %.200q", it.Event)
		case it.Note.Kind == "open":
			c.Boot = it.Note.Boot
			return nil
		case it.Note.Kind == "hello":
			c.Boot = it.Note.Boot
		case it.Note.Kind == "subscribed":
			return nil
		default:
			return fmt.Errorf("faults: first item is %+v", it.Note)
		}
	}
}

// Next reads the next item, for timeout or half of it. After an error the consumer is
// of no further use: a read that ran out of time has lost its place.
func (c *Consumer) Next(timeout time.Duration) (Item, error) {
	// Moved only when it has come nearer by half: it costs more than an event.
	if now := time.Now(); c.due.Sub(now) < timeout/2 {
		c.due = now.Add(timeout)
		_ = c.nc.SetReadDeadline(c.due)
	}
	return c.next()
}

// Close closes the connection with FIN. A read that waits ends.
func (c *Consumer) Close() { _ = c.nc.Close() }

// Reset closes the connection with RST. A read that waits ends.
func (c *Consumer) Reset() { reset(c.nc) }

// HalfClose sends FIN and leaves the other direction open.
func (c *Consumer) HalfClose() { _ = c.nc.CloseWrite() }

func (c *Consumer) next() (Item, error) {
	if c.socket {
		return c.nextFrame()
	}
	return c.nextBlock()
}

// fill reads n octets into c.text.
func (c *Consumer) fill(n int) error {
	if cap(c.text) < n {
		c.text = make([]byte, n, n+n/4)
	}
	c.text = c.text[:n]
	_, err := io.ReadFull(c.br, c.text)
	return err
}
