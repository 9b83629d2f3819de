package aepws

import (
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/stream"
)

// leave ends the subscriptions and puts the end of the session off until what it
// published is answered, for leaveTime at most. It tells whether there is
// anything to wait for.
func (k *socket) leave(last inputKind) bool {
	if k.pending == 0 || k.leaving || k.machine.state.terminal() {
		return k.leaving
	}
	k.leaving, k.lastWord = true, last
	k.l.feed.closed(k)
	k.conn.SetTimer(leaveTime)
	return true
}

// sayLastWord ends a session that was leaving.
func (k *socket) sayLastWord() {
	k.leaving = false
	k.step(&input{kind: k.lastWord})
}

// replaced gives way to another connection (B44).
func (k *socket) replaced() {
	if !k.gone {
		k.step(&input{kind: inReplaced})
	}
}

// OnShutdown implements serve.StreamHandler (B43).
func (k *socket) OnShutdown() {
	if !k.leave(inShutdown) {
		k.step(&input{kind: inShutdown})
		return
	}
	k.lastWord = inShutdown // also of one that was about to leave by itself
}

// Overloaded implements serve.SocketHandler: there is no memory for its input.
func (k *socket) Overloaded() { k.step(&input{kind: inInternalFault}) }

// Stalled implements serve.StreamHandler: one write took too long.
func (k *socket) Stalled() {
	k.s.counts.stalled.Add(1)
	k.conn.Abort()
}

// OnClose implements serve.StreamHandler (B42). What was published stays so.
func (k *socket) OnClose() {
	k.gone = true
	k.step(&input{kind: inLost})
	k.s.open.Add(-1)
}

// Cut implements fanout.Owner: the peer takes no control frames.
func (k *socket) Cut(fanout.Cut) { k.Stalled() }

// AppendGap implements fanout.Owner. No subscription of that package is used.
func (k *socket) AppendGap(dst []byte, _ *fanout.Sub, _ string, _ stream.Sequence) []byte {
	return dst
}

// AppendShed implements fanout.Owner.
func (k *socket) AppendShed(dst []byte, _ int64) []byte { return dst }

// Replayed implements fanout.Owner.
func (k *socket) Replayed() {}

// Finished implements fanout.Owner.
func (k *socket) Finished() {}
