package firehose

import (
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

const (
	// messageBytes bounds a consumer's messages, which are read and dropped (F5).
	messageBytes = 64 << 10
	// slowPatience is how long the end of a consumer that was too slow may take
	// (F34).
	slowPatience = 5 * time.Second
	// missedPings is how many pings in a row may go unanswered (F6).
	missedPings = 2
	// pingSteps is how often in a ping interval it is looked at what was written.
	pingSteps = 4

	closePolicy = 1008 // after an error frame (F49)
)

// consumer is one open stream. It implements serve.SocketHandler. Owned by its
// loop.
type consumer struct {
	s       *Surface
	f       *feed
	peer    *serve.Peer
	exclude stream.Kinds
	pos     stream.Pos // next to send, while it is behind
	group   *group     // of one that is live
	at      int        // in its group, or in f.behind, or notBehind
	ready   bool       // in f.ready
	leaving bool       // to be ended when it has what there is

	taken  int64     // bytes that its socket had taken at the last look
	moved  time.Time // when that was seen to change
	missed int       // pings
	pinged time.Time
}

// notBehind is the place of a consumer that is nowhere: it ends, or is gone.
const notBehind = -1

// headerBytes is the longest header of a message that a server sends (RFC 6455).
const headerBytes = 10

var pingFrame = wsframe.AppendPing(nil, nil)

// asMessage returns a frame as one binary message (F9).
func asMessage(frame []byte) []byte {
	return append(wsframe.AppendHeader(make([]byte, 0, headerBytes+len(frame)), wsframe.OpBinary, len(frame)), frame...)
}

// begin starts the stream behind its 101, at what its cursor met.
func (c *consumer) begin(pos stream.Pos, answer stream.Answer) {
	cfg := &c.s.cfg
	c.peer.SetLimit(messageBytes)
	c.peer.SetStallTimeout(cfg.WriteTimeout)
	switch answer {
	case stream.Future:
		c.s.future.Add(1)
		c.end(firehose.FutureCursor, "the cursor is above every number of this stream")
		return
	case stream.Outdated:
		c.s.outdated.Add(1)
		info := firehose.Info{Name: firehose.OutdatedCursor, Message: "frames behind the cursor are not held any more"}
		c.peer.Send(asMessage(info.Append(nil)))
	}
	c.peer.SetTimer(cfg.PingInterval / pingSteps)
	c.f.add(c, pos)
}

// OnDrained implements serve.StreamHandler: the socket has taken everything.
func (c *consumer) OnDrained() { c.f.wake(c) }

// tooSlow ends a consumer whose next frame is gone (F32, F34, F49): the frame
// under way is finished, then the error frame follows.
func (c *consumer) tooSlow() {
	c.s.slow.Add(1)
	c.end(firehose.ConsumerTooSlow, "the next frame is not held any more")
}

// end sends an error frame and closes.
func (c *consumer) end(name, message string) {
	c.f.remove(c)
	e := firehose.Error{Name: name, Message: message}
	c.peer.Send(asMessage(e.Append(nil)))
	c.peer.CloseSocket(closePolicy, name, slowPatience)
}

// OnText implements serve.SocketHandler (F5).
func (c *consumer) OnText([]byte) {}

// OnBinary implements serve.SocketHandler (F5).
func (c *consumer) OnBinary([]byte) {}

// Overloaded implements serve.SocketHandler.
func (c *consumer) Overloaded() { c.peer.Abort() }

// OnTimer implements serve.StreamHandler: a ping after a time without a write,
// and the end of a peer that answers none (F6).
func (c *consumer) OnTimer() {
	interval, now := c.s.cfg.PingInterval, c.peer.Now()
	c.peer.SetTimer(interval / pingSteps)
	if !c.peer.LastHeard().Before(c.pinged) {
		c.missed = 0
	}
	if taken := c.peer.TakenBytes(); taken != c.taken || c.moved.IsZero() { // there were writes
		c.taken, c.moved = taken, now
		return
	}
	if now.Sub(c.moved) < interval {
		return
	}
	if c.missed == missedPings {
		c.s.unanswered.Add(1)
		c.peer.Abort()
		return
	}
	c.missed++
	c.pinged, c.moved = now, now
	c.peer.Urgent(pingFrame)
	c.taken = c.peer.TakenBytes()
}

// Stalled implements serve.StreamHandler: one write took too long.
func (c *consumer) Stalled() {
	c.s.stalled.Add(1)
	c.peer.Abort()
}

// OnShutdown implements serve.StreamHandler (F48).
func (c *consumer) OnShutdown() { c.f.leave(c) }

// OnClose implements serve.StreamHandler.
func (c *consumer) OnClose() {
	c.s.consumers.Add(-1)
	c.f.remove(c)
}

// AppendGap implements fanout.Owner. No subscription is used.
func (c *consumer) AppendGap(dst []byte, _ *fanout.Sub, _ string, _ stream.Sequence) []byte {
	return dst
}

// AppendShed implements fanout.Owner.
func (c *consumer) AppendShed(dst []byte, _ int64) []byte { return dst }

// Replayed implements fanout.Owner.
func (c *consumer) Replayed() {}

// Finished implements fanout.Owner.
func (c *consumer) Finished() {}

// Cut implements fanout.Owner.
func (c *consumer) Cut(fanout.Cut) { c.peer.Abort() }
