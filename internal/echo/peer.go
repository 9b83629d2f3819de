package echo

import (
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

// OwedBytes is what a peer may be owed before its input waits (E1).
const OwedBytes = 1 << 20

// handler upgrades every request. Immutable.
type handler struct{ limitBytes int64 }

// Serve implements serve.Handler. What is no handshake gets the answer of the
// handshake's own checks.
func (h handler) Serve(x *serve.Exchange) {
	k := &peer{}
	if k.peer = x.Upgrade(k); k.peer != nil {
		k.peer.SetLimit(h.limitBytes)
	}
}

// peer is one socket that is echoed. It implements serve.SocketHandler. Owned
// by its loop.
type peer struct{ peer *serve.Peer }

// OnText implements serve.SocketHandler.
func (k *peer) OnText(text []byte) { k.echo(wsframe.OpText, text) }

// OnBinary implements serve.SocketHandler.
func (k *peer) OnBinary(data []byte) { k.echo(wsframe.OpBinary, data) }

// echo sends a message back as one frame. A peer that is owed too much is not
// listened to until it has read everything (E1).
func (k *peer) echo(op wsframe.Op, message []byte) {
	frame := make([]byte, 0, wsframe.HeaderLen(len(message))+len(message))
	frame = append(wsframe.AppendHeader(frame, op, len(message)), message...)
	k.peer.Send(frame)
	if k.peer.Member().QueuedBytes() > OwedBytes {
		k.peer.Hold()
		k.peer.NotifyDrained()
	}
}

// OnDrained implements serve.StreamHandler. It is called when the socket became
// writable, never inside echo, where something is owed.
func (k *peer) OnDrained() { k.peer.Release() }

// Overloaded implements serve.SocketHandler (E1, E2).
func (k *peer) Overloaded() { k.giveUp(wsframe.CloseTryAgainLater) }

// Stalled implements serve.StreamHandler (E3).
func (k *peer) Stalled() { k.giveUp(wsframe.CloseTryAgainLater) }

// Cut implements fanout.Owner. With the limits of a Server only a fault of its
// own leads here.
func (k *peer) Cut(fanout.Cut) { k.giveUp(wsframe.CloseInternal) }

// giveUp closes a peer without what it is owed.
func (k *peer) giveUp(code int) {
	k.peer.DropUnsent()
	k.peer.CloseSocket(code, "", serve.BackpressureTimeout)
}

// OnShutdown implements serve.StreamHandler. The Close goes behind what is
// owed.
func (k *peer) OnShutdown() {
	k.peer.CloseSocket(wsframe.CloseGoingAway, "shutting down", serve.CloseTimeout)
}

// OnClose implements serve.StreamHandler.
func (k *peer) OnClose() {}

// OnTimer implements serve.StreamHandler. No timer is ever set.
func (k *peer) OnTimer() {}

// AppendGap, AppendShed, Replayed and Finished implement fanout.Owner: an echo
// has no subscription, so that none of them is called.

func (k *peer) AppendGap(dst []byte, _ *fanout.Sub, _ string, _ stream.Sequence) []byte { return dst }

func (k *peer) AppendShed(dst []byte, _ int64) []byte { return dst }
func (k *peer) Replayed()                             {}
func (k *peer) Finished()                             {}
