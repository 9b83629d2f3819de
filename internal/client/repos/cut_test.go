package repos

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"testing"
)

// A frame that is cut with its connection is not told as malformed: it comes
// again (T2). The cut is tried at each byte of the message.
func TestCutInsideAMessage(t *testing.T) {
	frame := identity(t, 2)
	whole := append([]byte{0x82, byte(len(frame))}, frame...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		first := append([]byte{0x82, byte(len(identity(t, 1)))}, identity(t, 1)...)
		for cut := 0; ; cut++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				t.Error(err)
				return
			}
			sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
			head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
				base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
			answer := []byte(head)
			if cut == 0 {
				answer = append(answer, first...)
			} else if got := req.URL.Query().Get("cursor"); got != "1" {
				t.Errorf("cut at %d: cursor %q", cut, got)
			}
			_, _ = conn.Write(append(answer, whole[:min(cut, len(whole))]...))
			if cut >= len(whole) {
				return // the test closes the listener, the client the connection
			}
			_ = conn.Close()
		}
	}()
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, "http://"+ln.Addr().String()), Count: 2}, c)
	if err := r.wait(t); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if r.got != (Stats{Frames: 2, Connected: int64(len(whole)) + 1}) {
		t.Errorf("%+v of %d bytes\n%s", r.got, len(whole), c.lines())
	}
}
