package repos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	subscribePath = "/xrpc/com.atproto.sync.subscribeRepos"

	// handshakeTimeout bounds the handshake.
	handshakeTimeout = 30 * time.Second
	// pingEvery is how long nothing is heard before a ping, and how long its
	// answer is waited for.
	pingEvery = 20 * time.Second
	// skipBytes is the longest message that is read to its end although it is
	// too long for a frame. A longer one ends the connection.
	skipBytes = 64 << 20
)

// Address turns the address of a WebSocket (ws, wss) into that of its server
// (http, https). Others come back as they are.
func Address(address string) string {
	for from, to := range map[string]string{"ws://": "http://", "wss://": "https://"} {
		if len(address) >= len(from) && strings.EqualFold(address[:len(from)], from) {
			return to + address[len(from):]
		}
	}
	return address
}

// subscribeAdvice says what statuses before the upgrade mean (F2).
var subscribeAdvice = map[int]string{
	http.StatusNotFound:        "there is no repository stream at this address",
	http.StatusUpgradeRequired: "the request for a WebSocket did not reach the relay: does a proxy take it out?",
}

// dial opens the stream behind the cursor. The error is a Refusal, a busyError
// or that of the network.
func (f *follower) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	query := url.Values{}
	if f.hasCursor {
		query.Set("cursor", strconv.FormatInt(f.cursor, 10))
	}
	if len(f.o.Exclude) > 0 {
		query["exclude"] = f.o.Exclude
	}
	c, resp, err := websocket.Dial(ctx, f.o.Relay.URL(subscribePath, query), &websocket.DialOptions{
		HTTPClient: f.o.Relay.HTTP, HTTPHeader: f.o.Relay.Header(),
	})
	switch {
	case err == nil:
		c.SetReadLimit(skipBytes)
		return c, nil
	case resp == nil:
		return nil, plain(err)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, err
	}
	return nil, judge(resp, subscribeAdvice, time.Now())
}

// reader reads one connection.
type reader struct {
	conn *websocket.Conn
	box  *inbox
	most int // bytes of a frame
	// steps counts the beginnings and ends of reads: it is odd while the relay
	// is waited for, and the same only as long as nothing comes.
	steps atomic.Int64
}

// run reads messages into the inbox until the connection ends.
func (r *reader) run(ctx context.Context) error {
	buf := make([]byte, 0, 32<<10)
	for {
		r.steps.Add(1)
		kind, body, err := r.conn.Reader(ctx)
		r.steps.Add(1)
		if err != nil {
			return endOf(ctx, err)
		}
		faulty := ""
		if buf, err = r.message(body, buf[:0]); err != nil {
			return endOf(ctx, err)
		}
		if kind != websocket.MessageBinary {
			faulty = "it is text, not binary"
		} else if len(buf) > r.most {
			faulty = fmt.Sprintf("it is longer than %d bytes", r.most)
		}
		if faulty != "" {
			buf = buf[:0]
		}
		if err := r.box.put(ctx, buf, faulty); err != nil {
			return endOf(ctx, err)
		}
	}
}

// message reads a message to its end. Of one that is too long, one byte more
// than may be is kept.
func (r *reader) message(body io.Reader, buf []byte) ([]byte, error) {
	for {
		room := buf[len(buf):min(cap(buf), r.most+1)]
		if len(room) == 0 && len(buf) <= r.most {
			buf = append(buf, 0)[:len(buf)] // grows as append does
			continue
		}
		into := room
		if len(into) == 0 {
			into = buf[:min(len(buf), 4096)] // thrown away
		}
		r.steps.Add(1)
		n, err := body.Read(into)
		r.steps.Add(1)
		if len(room) > 0 {
			buf = buf[:len(buf)+n]
		}
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}

// watch pings the relay whenever nothing was heard for a while, and ends the
// connection when that has no answer. A reader that is not reading, because the
// sink takes its time, is no sign of a dead relay.
func (r *reader) watch(ctx context.Context, every time.Duration, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := int64(-1)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := r.steps.Load()
		if now%2 == 0 || now != last {
			last = now
			continue
		}
		pingCtx, done := context.WithTimeout(ctx, every)
		err := r.conn.Ping(pingCtx)
		done()
		if err != nil && ctx.Err() == nil && r.steps.Load() == now {
			cancel(errSilent)
			return
		}
	}
}

// endOf puts the end of a connection in words.
func endOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if closed, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Errorf("the relay has closed the connection with %d %s", closed.Code, clean(closed.Reason))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errEnded
	}
	return err
}
