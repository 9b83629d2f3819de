package aep

import (
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

// AppendGap implements fanout.Owner (R322).
func (k *socket) AppendGap(dst []byte, sub *fanout.Sub, session string, at stream.Sequence) []byte {
	return wsframe.AppendText(dst, aep.AppendReplayExhausted(nil, idRawOf(sub), session, at.Epoch, at.Seq))
}

// AppendShed implements fanout.Owner (R424a).
func (k *socket) AppendShed(dst []byte, n int64) []byte {
	return wsframe.AppendText(dst, aep.AppendShed(nil, n))
}

// Replayed implements fanout.Owner. No socket is finite.
func (k *socket) Replayed() {}

// Cut implements fanout.Owner (R428).
func (k *socket) Cut(c fanout.Cut) {
	if c == fanout.CutPanic {
		k.farewell(cutPanic, 1011, cutPanic, serve.BackpressureTimeout)
		return
	}
	k.farewell(reasonOf(c), 1013, aep.ReasonBackpressure, serve.BackpressureTimeout)
}

// Overloaded implements serve.SocketHandler (R46).
func (k *socket) Overloaded() {
	k.peer.Member().StopLive()
	k.farewell(cutOverload, 1013, aep.ReasonBackpressure, serve.CloseTimeout)
}

// Stalled implements serve.StreamHandler (R424).
func (k *socket) Stalled() {
	k.peer.Member().StopLive()
	k.farewell(cutStalled, 1013, aep.ReasonBackpressure, serve.BackpressureTimeout)
}

// farewell finishes the frame that is partly written, drops the rest, and says
// what was delivered before it closes (R428, R430).
func (k *socket) farewell(why string, code int, reason string, patience time.Duration) {
	k.s.cut(k.peer, "websocket", why)
	closing := k.closingFrame(reason)
	k.peer.DropUnsent()
	k.peer.Send(closing)
	k.peer.CloseSocket(code, reason, patience)
}

func (k *socket) closingFrame(reason string) []byte {
	var delivered []aep.Delivered
	for _, p := range k.peer.Member().Delivered() {
		delivered = append(delivered, aep.Delivered{IDRaw: idRawOf(p.Sub), Session: p.Session, Epoch: p.Epoch, Seq: p.Seq})
	}
	return text(aep.AppendClosing(nil, reason, delivered))
}

// OnTimer implements serve.StreamHandler: the hello deadline, pings, silence,
// and the end of a farewell.
func (k *socket) OnTimer() {
	switch {
	case k.ending:
		k.shutDown()
	case k.greeting.Load() == nil:
		k.helloRequired()
	case k.peer.Now().Sub(k.peer.LastHeard()) >= silence:
		k.peer.Member().StopLive()
		k.farewell(cutSilent, 1001, "timeout", serve.CloseTimeout)
	default:
		now := k.peer.Now()
		k.peer.Urgent(text(aep.AppendPing(nil, now.UnixMilli())))
		k.peer.Urgent(wsframe.AppendPing(nil, nil))
		// The next look comes in time for the end of the silence.
		next := min(pingInterval, max(k.peer.LastHeard().Add(silence).Sub(now), time.Second))
		k.peer.SetTimer(next)
	}
}

// OnShutdown implements serve.StreamHandler (R462).
func (k *socket) OnShutdown() {
	if k.greeting.Load() == nil {
		k.peer.CloseSocket(1001, "shutting down", serve.CloseTimeout)
		return
	}
	k.ending = true
	k.peer.SetTimer(socketFarewell)
	k.peer.Member().Finish()
}

// Finished implements fanout.Owner.
func (k *socket) Finished() { k.peer.NotifyDrained() }

// OnDrained implements serve.StreamHandler.
func (k *socket) OnDrained() { k.shutDown() }

func (k *socket) shutDown() {
	k.peer.Member().StopLive()
	closing := k.closingFrame(aep.ReasonShuttingDown)
	k.peer.DropUnsent()
	k.peer.Send(closing)
	k.peer.CloseSocket(1001, "shutting down", serve.CloseTimeout)
}

// OnClose implements serve.StreamHandler: subscriptions, claims and counts go
// at once (R334). The count of sockets goes last: whoever sees it fall finds the
// rest gone.
func (k *socket) OnClose() {
	k.s.sockets.remove(k)
	k.countSubscriptions(-k.subscriptions.Load())
	if k.claimed != nil {
		for session := range k.claimed.sessions {
			k.s.claims.remove(session, k)
		}
	}
	k.claimed, k.subs = nil, nil
	k.s.open.Add(-1)
}
