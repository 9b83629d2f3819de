package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
)

const (
	path      = "/xrpc/com.atproto.sync.subscribeRepos"
	userAgent = "sluice"

	// A server that has this in its Server header relays other streams (F56).
	relayMark = "atproto-relay"
)

// connect serves one connection. It returns whether a frame was done and why
// the connection ended, never nil.
func (h *host) connect(ctx context.Context) (progressed bool, err error) {
	ws, cursor, err := h.dial(ctx)
	if err != nil {
		return false, err
	}
	// Reads take no context of their own: that costs a registration each.
	stop := context.AfterFunc(ctx, func() { _ = ws.CloseNow() })
	defer func() {
		stop()
		_ = ws.CloseNow()
	}()
	h.connected.Store(true)
	defer h.connected.Store(false)
	h.m.cfg.Log.Info("upstream connected", "host", h.name, "cursor", cursor)

	c := newConnection(h, ws)
	ctx, cancel := context.WithCancel(ctx)
	pinging := make(chan struct{})
	go func() {
		defer close(pinging)
		c.keepAlive(ctx)
	}()
	defer func() {
		cancel()
		<-pinging
	}()
	err = c.readAll(ctx)
	return c.progressed, err
}

// dial opens the WebSocket (F54) and looks at who answers (F56).
func (h *host) dial(ctx context.Context) (ws *websocket.Conn, cursor int64, err error) {
	noSSL, cursor := h.target()
	url := "wss://" + h.name + path
	if noSSL {
		url = "ws://" + h.name + path
	}
	if cursor > 0 {
		url += "?cursor=" + strconv.FormatInt(cursor, 10)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient:      h.m.client,
		HTTPHeader:      http.Header{"User-Agent": {userAgent}},
		CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err != nil && response != nil && response.StatusCode != http.StatusSwitchingProtocols:
		return nil, 0, failed(failRefused, fmt.Errorf("answer is %d", response.StatusCode))
	case err != nil:
		return nil, 0, failed(failDial, err)
	case !h.listed && strings.Contains(strings.Join(response.Header.Values("Server"), ","), relayMark):
		_ = ws.CloseNow()
		return nil, 0, failed(failLoop, errors.New("the host is a relay"))
	}
	ws.SetReadLimit(int64(h.m.cfg.MaxFrameBytes))
	return ws, cursor, nil
}

// keepAlive ends a connection on which nothing comes, not even an answer to two
// pings. Time that the reader spends on a frame does not count: while it
// publishes, nothing is read (back-pressure).
func (c *connection) keepAlive(ctx context.Context) {
	if !c.m.wait(ctx, c.m.ping) {
		return
	}
	for unanswered := 0; unanswered < maxUnanswered; {
		seen := c.received.Load() // it grows when the reader has begun with another
		answered := c.busy.Load()
		if !answered {
			var err error
			if answered, err = c.pinged(ctx); err != nil {
				return // the connection is broken, which the reader sees
			}
		}
		if !answered && c.received.Load() == seen {
			unanswered++
			continue
		}
		unanswered = 0
		if !c.m.wait(ctx, c.m.ping) {
			return
		}
	}
	c.silent.Store(true)
	_ = c.ws.CloseNow()
}

// pinged reports whether a ping is answered in time. The error is that the
// connection or ctx has ended.
func (c *connection) pinged(ctx context.Context) (bool, error) {
	pingCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- c.ws.Ping(pingCtx) }()
	select {
	case err := <-answered:
		return err == nil, err
	case <-c.m.cfg.After(c.m.answer):
		cancel()
		return <-answered == nil, ctx.Err()
	}
}

// reactionFailure turns a refusal of the scanner into the end of a connection.
func reactionFailure(err error) error { return failed(firehose.Reason(err), err) }
