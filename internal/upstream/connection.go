package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// keptBytes is what a buffer for messages may keep between two of them.
const keptBytes = 1 << 20

// connection reads one connection. It belongs to the goroutine of its host, but
// for what is atomic.
type connection struct {
	// Immutable after construction.
	m  *Manager
	h  *host
	id int64 // of the host's row
	ws *websocket.Conn

	// Owned by the goroutine.
	scanner    firehose.Scanner
	frame      firehose.Frame // borrows message
	message    []byte
	last       int64 // number of the last frame that was not below one before (F60)
	progressed bool
	told       bool // an #info was logged

	// Atomic.
	busy     atomic.Bool  // the reader is at work on a message
	received atomic.Int64 // messages
	silent   atomic.Bool  // given up by keepAlive
}

// newConnection returns a connection before its first message. Without ws it
// can handle messages, and not read.
func newConnection(h *host, ws *websocket.Conn) *connection {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return &connection{m: h.m, h: h, id: h.row.ID, ws: ws, scanner: firehose.Scanner{MaxFrameBytes: h.m.cfg.MaxFrameBytes}}
}

// readAll reads and handles messages until something ends that. The
// error is never nil.
func (c *connection) readAll(ctx context.Context) error {
	for {
		if err := c.read(); err != nil {
			return err
		}
		c.busy.Store(true)
		c.received.Add(1)
		err := c.handle(ctx)
		c.busy.Store(false)
		if err != nil {
			return err
		}
	}
}

// read reads the next message.
func (c *connection) read() error {
	kind, r, err := c.ws.Reader(context.Background())
	switch {
	case err != nil && c.silent.Load():
		return failed(failSilent, err)
	case err != nil:
		return failed(failLost, err)
	case kind != websocket.MessageBinary:
		return failed(failText, errors.New("message is not binary"))
	}
	if cap(c.message) > keptBytes {
		c.message = nil
	}
	c.message, err = appendAll(c.message[:0], r)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, websocket.ErrMessageTooBig):
		return reactionFailure(firehose.ErrFrameTooBig)
	case c.silent.Load():
		return failed(failSilent, err)
	}
	return failed(failLost, err)
}

// appendAll appends what r has. The reader of a message has a limit.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// handle does all that the message asks for (F58 to F62). An error ends the
// connection.
func (c *connection) handle(ctx context.Context) error {
	f := &c.frame
	c.h.counts.frames.Add(1)
	err := c.scanner.Scan(c.message, f)
	switch firehose.ReactionTo(err) {
	case firehose.DropConnection:
		return reactionFailure(err)
	case firehose.SkipFrame:
		c.h.counts.drop(firehose.Reason(err))
		c.pass(f.Seq)
		return nil
	}
	switch f.Kind() {
	case firehose.KindInfo:
		c.h.counts.infos.Add(1)
		if !c.told {
			c.told = true
			c.m.cfg.Log.Info("upstream tells", "host", c.h.name, "name", clip(string(f.Name)), "message", clip(string(f.Message)))
		}
		return nil
	case firehose.KindError:
		reason := failError
		if string(f.Name) == firehose.FutureCursor {
			reason = failFuture
		}
		return failed(reason, fmt.Errorf("host says %.100q: %.100q", f.Name, f.Message))
	}
	if f.Seq <= c.last {
		c.h.counts.drop(dropOldSeq)
		return nil
	}
	return c.take(ctx)
}

// pass goes past a frame that is dropped, if its number could be read.
func (c *connection) pass(seq int64) {
	if seq <= c.last {
		return
	}
	c.last, c.progressed = seq, true
	c.m.note(c.h, seq, nil)
}
