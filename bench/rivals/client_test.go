package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sluice-relay/sluice/bench/rivals/floor"
)

// patience bounds every wait of a test; none is expected to need it.
const patience = 2 * time.Minute

// maxFrameBytes is more than any frame of the tests has.
const maxFrameBytes = 1 << 20

// startRival serves a rival in this process and returns its address.
func startRival(t *testing.T, name string) string {
	t.Helper()
	start, err := lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := start(options{loops: defaultLoops})
	if errors.Is(err, floor.ErrUringUnavailable) {
		t.Skipf("%s: %v", name, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String()
}

// dialect is what a rival's consumers send and get; README.md says the same.
type dialect struct {
	path  func(topic string) string
	after func(topic string) []string // text messages behind the handshake
	ready string                      // in the message that says "subscribed"
	frame func(topic, payload string) string
}

func dialectOf(name string) dialect {
	if !strings.HasPrefix(name, "centrifuge") {
		return dialect{
			path: func(topic string) string {
				if topic == "" {
					return "/ws"
				}
				return "/ws?topic=" + topic
			},
			after: func(string) []string { return nil },
			frame: func(_, payload string) string { return payload },
		}
	}
	channel := func(topic string) string {
		if topic == "" {
			return "all"
		}
		return "s:" + topic
	}
	return dialect{
		path: func(string) string { return "/ws" },
		after: func(topic string) []string {
			return []string{`{"id":1,"connect":{}}`, `{"id":2,"subscribe":{"channel":"` + channel(topic) + `"}}`}
		},
		ready: `"id":2,"subscribe"`,
		frame: func(topic, payload string) string {
			return `{"push":{"channel":"` + channel(topic) + `","pub":{"data":` + payload + `}}}`
		},
	}
}

// socket is a WebSocket client.
type socket struct {
	t    *testing.T
	conn net.Conn
	r    io.Reader
}

// dial opens a WebSocket, with a small receive buffer if it is to be slow.
func dial(t *testing.T, addr, path string, slow bool) *socket {
	t.Helper()
	d := ws.Dialer{NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var nd net.Dialer
		if slow {
			nd.Control = func(_, _ string, c syscall.RawConn) (err error) {
				ctlErr := c.Control(func(fd uintptr) {
					err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
				})
				return errors.Join(err, ctlErr)
			}
		}
		return nd.DialContext(ctx, network, addr)
	}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, br, _, err := d.Dial(ctx, "ws://"+addr+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	s := &socket{t: t, conn: conn, r: conn}
	if br != nil {
		s.r = br
	}
	return s
}

// subscribe opens a consumer and waits until it is subscribed.
func subscribe(t *testing.T, addr string, d dialect, topic string, slow bool) *socket {
	t.Helper()
	s := dial(t, addr, d.path(topic), slow)
	for _, m := range d.after(topic) {
		s.send(m)
	}
	for d.ready != "" {
		m, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m, d.ready) {
			break
		}
	}
	return s
}

// send writes messages as masked text frames in one write.
func (s *socket) send(messages ...string) {
	s.t.Helper()
	var b bytes.Buffer
	for _, m := range messages {
		if err := ws.WriteFrame(&b, ws.MaskFrame(ws.NewTextFrame([]byte(m)))); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.conn.Write(b.Bytes()); err != nil {
		s.t.Fatal(err)
	}
}

// next reads the next frame, which has to be one unmasked text message.
func (s *socket) next() (string, error) {
	head, err := ws.ReadHeader(s.r)
	if err != nil {
		return "", err
	}
	if head.OpCode != ws.OpText || !head.Fin || head.Masked || head.Length > maxFrameBytes {
		return "", fmt.Errorf("frame %+v", head)
	}
	payload := make([]byte, head.Length)
	_, err = io.ReadFull(s.r, payload)
	return string(payload), err
}

// expect reads one frame for each of want and compares.
func (s *socket) expect(want []string) error {
	for i, w := range want {
		got, err := s.next()
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		if got != w {
			return fmt.Errorf("event %d: got %.120q, want %.120q", i, got, w)
		}
	}
	return nil
}

// events returns payloads of the given length, the k-th of topics[k%len].
func events(count, size int, topics ...string) []string {
	list := make([]string, count)
	for i := range list {
		head := fmt.Sprintf(`{"id":"bench-%010d","type":"message.text","time":"2026-01-02T03:04:05Z","session":"%s","seq":%d,"data":{"text":"`,
			i, topics[i%len(topics)], i)
		list[i] = head + strings.Repeat("x", max(0, size-len(head)-3)) + `"}}`
	}
	return list
}
