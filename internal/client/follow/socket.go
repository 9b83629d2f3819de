package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aep"
)

// socketTimeout bounds the handshake, and each message that is sent.
const socketTimeout = 30 * time.Second

// subscription is the id of the one subscription.
const subscription = `"tail"`

// frame has the members of the frames that a relay sends (section 12.6).
type frame struct {
	Type         string          `json:"type"`
	T            json.RawMessage `json:"t"`
	Session      string          `json:"session"`
	Earliest     wire            `json:"earliest"`
	Count        int64           `json:"count"`
	Reason       string          `json:"reason"`
	Code         string          `json:"code"`
	Detail       string          `json:"detail"`
	Capabilities struct {
		Experimental struct {
			Boot string `json:"boot"`
		} `json:"experimental"`
	} `json:"capabilities"`
}

// socket reads a WebSocket until it ends, and never returns nil.
func (f *follower) socket(ctx context.Context, r *request, emit emitter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := f.dial(ctx, len(r.from))
	if err != nil {
		return err
	}
	defer func() { _ = c.CloseNow() }() // nothing is owed to the relay
	c.SetReadLimit(int64(f.o.MaxEventBytes))
	for _, text := range [][]byte{[]byte(`{"type":"hello","versions":["0.1"],"role":"consumer"}`), f.subscribe(r)} {
		if err := say(ctx, c, text); err != nil {
			return err
		}
	}
	s := socketReader{conn: c, watch: newWatch(cancel, f.o.Silence), req: r, emit: emit}
	defer s.watch.timer.Stop()
	for {
		if err := s.next(ctx); err != nil {
			return socketError(err)
		}
	}
}

// dial opens the socket.
func (f *follower) dial(ctx context.Context, sent int) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, socketTimeout)
	defer cancel()
	c, resp, err := websocket.Dial(ctx, f.o.Relay.URL("/socket", nil), &websocket.DialOptions{
		HTTPClient: f.o.Relay.HTTP, HTTPHeader: f.o.Relay.Header(),
	})
	switch {
	case err == nil:
		return c, nil
	case resp == nil:
		return nil, plain(err)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, err
	case resp.StatusCode < 300:
		return nil, &Refusal{Status: resp.StatusCode, Text: "the answer is no WebSocket: is this a relay?"}
	}
	return nil, f.refused(resp, sent)
}

// subscribe returns the subscribe frame (section 12.4).
func (f *follower) subscribe(r *request) []byte {
	b := []byte(`{"type":"subscribe","id":` + subscription)
	if f.o.Filter != "" {
		b = append(append(b, `,"filter":`...), f.o.Filter...)
	}
	if f.o.Ceiling != "" {
		b = append(append(b, `,"capture":`...), encode(f.o.Ceiling)...)
	}
	switch {
	case r.all:
		b = append(b, `,"from":"all"`...)
	case len(r.from) > 0:
		b = append(append(b, `,"from":`...), fromJSON(r.from)...)
	}
	return append(b, '}')
}

func say(ctx context.Context, c *websocket.Conn, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, socketTimeout)
	defer cancel()
	return c.Write(ctx, websocket.MessageText, text)
}

// socketReader reads the messages of one socket.
type socketReader struct {
	conn  *websocket.Conn
	watch *watch
	req   *request
	emit  emitter
	scan  aep.Scanner
}

// next reads one message and hands on what it tells.
func (s *socketReader) next(ctx context.Context) error {
	kind, text, err := s.message(ctx)
	if err != nil || kind != websocket.MessageText {
		return err
	}
	// The library gives a message out as whole if the connection is cut behind
	// its header; no JSON object is one without its end (R305).
	if s.scan.Scan(text) != nil {
		return errTorn
	}
	b := &batch{req: s.req}
	if typ, _ := s.scan.Type(); !bytes.ContainsRune(typ, '.') {
		if err := s.frame(ctx, b, text); err != nil {
			return err
		}
		return s.emit(b)
	}
	b.data, b.items = text, append(b.items, item{what: isEvent, end: len(text)})
	return s.emit(b)
}

// message reads one message. Any byte of it shows that the relay is there.
func (s *socketReader) message(ctx context.Context) (websocket.MessageType, []byte, error) {
	s.watch.begin()
	kind, r, err := s.conn.Reader(ctx)
	if err := s.watch.end(err); err != nil {
		return 0, nil, err
	}
	text := make([]byte, 0, 1024)
	for {
		text = slices.Grow(text, 512)
		s.watch.begin()
		n, err := r.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch err := s.watch.end(err); {
		case err == io.EOF:
			return kind, text, nil
		case err != nil:
			return 0, nil, err
		}
	}
}

// frame reads a frame into b. One that is not known is a sign of life.
func (s *socketReader) frame(ctx context.Context, b *batch, text []byte) error {
	var m frame
	if err := json.Unmarshal(text, &m); err != nil {
		b.add(item{what: isOther})
		return nil
	}
	it := item{what: isOther}
	switch m.Type {
	case "hello":
		if boot := m.Capabilities.Experimental.Boot; boot != "" {
			it = item{what: isBoot, text: boot}
		}
	case "subscribed":
		b.add(item{what: isUp})
	case "replay-exhausted":
		it = item{what: isGap, session: m.Session, at: point{m.Earliest.Epoch, m.Earliest.Seq}}
	case "shed":
		it = item{what: isShed, n: m.Count}
	case "closing":
		it = item{what: isClosing, text: m.Reason}
	case "ping":
		pong := []byte(`{"type":"pong"`)
		if len(m.T) > 0 {
			pong = append(append(pong, `,"t":`...), m.T...)
		}
		if err := say(ctx, s.conn, append(pong, '}')); err != nil {
			return err
		}
	case "error":
		if m.Code == "limit-exceeded" && len(s.req.from) > 0 {
			return errTooMany
		}
		return &Refusal{Text: clean(m.Code + ": " + m.Detail)}
	}
	b.add(it)
	return nil
}

// socketError puts the end of a socket in words.
func socketError(err error) error {
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return fmt.Errorf("%w: %w", ErrTooLong, err)
	}
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Errorf("the relay has closed the socket with %d %s", closed.Code, clean(closed.Reason))
	}
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return err
}
