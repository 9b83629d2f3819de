package firehoseload

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455, section 4.2.2, says so
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// serverKey is what a server puts behind a client's key (RFC 6455, section
	// 4.2.2).
	serverKey = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	// connected is what a source says when somebody subscribed.
	connected = "connected"
	// sourceWrite is how much a source writes at a time.
	sourceWrite = 64 << 10
)

// Source is a host whose stream is to be taken: count commits of many
// repositories, made before it listens. It names its address in a line on out,
// says "connected" there when somebody has subscribed, and sends the frames
// behind the cursor, as fast as they are taken, once a line was read from in. A
// subscriber that comes later gets them at once. It serves until the context
// ends.
func Source(ctx context.Context, count int, in io.Reader, out io.Writer) error {
	s := source{out: out, released: make(chan struct{})}
	c := newCommits(time.Now().Add(-time.Hour))
	for n := range count {
		var err error
		if s.messages, err = c.appendMessage(s.messages, n, firstSeq+int64(n)); err != nil {
			return err
		}
		if n == 0 {
			s.size = len(s.messages)
			s.messages = append(make([]byte, 0, count*s.size), s.messages...)
		}
	}
	if len(s.messages) != count*s.size {
		return fmt.Errorf("firehoseload: %d messages of %d bytes have %d", count, s.size, len(s.messages))
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		if _, err := bufio.NewReader(in).ReadString('\n'); err == nil {
			close(s.released)
		}
	}()
	server := &http.Server{Handler: &s, ReadHeaderTimeout: patience}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if _, err := fmt.Fprintf(out, "%s%s\n", listening, listener.Addr()); err != nil {
		return err
	}
	err = server.Serve(listener)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// source is a http.Handler. Immutable.
type source struct {
	messages []byte
	size     int // of each
	out      io.Writer
	released chan struct{}
}

// ServeHTTP serves the stream, whatever the path.
func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var cursor int64
	if text := r.URL.Query().Get("cursor"); text != "" {
		var err error
		if cursor, err = strconv.ParseInt(text, 10, 64); err != nil {
			http.Error(w, `{"error":"InvalidRequest"}`, http.StatusBadRequest)
			return
		}
	}
	key := r.Header.Get("Sec-WebSocket-Key")
	if key == "" {
		http.Error(w, `{"error":"InvalidRequest"}`, http.StatusUpgradeRequired)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	sum := sha1.Sum([]byte(key + serverKey)) //nolint:gosec // see above
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	if err != nil {
		return
	}
	gone := make(chan struct{})
	go func() { // its pings and its close are read and not answered
		_, _ = io.Copy(io.Discard, conn)
		close(gone)
	}()
	if _, err := fmt.Fprintln(s.out, connected); err != nil {
		return
	}
	select {
	case <-s.released:
	case <-gone:
		return
	}
	total := int64(len(s.messages) / s.size)
	rest := s.messages[int64(s.size)*min(max(cursor-firstSeq+1, 0), total):]
	for len(rest) > 0 {
		n, err := conn.Write(rest[:min(len(rest), sourceWrite)])
		if err != nil {
			return
		}
		rest = rest[n:]
	}
	<-gone // it keeps the stream open
}
