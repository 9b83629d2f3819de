package aepws

import (
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/serve"
)

const (
	// maxAppends and maxAppendBytes bound what one socket has in the log's queue;
	// more of its input waits.
	maxAppends     = 256
	maxAppendBytes = 4 << 20
	// maxOwed bounds the answers that a socket has not taken, besides one event:
	// its input waits for it to read them.
	maxOwed = 256 << 10
	// leaveTime is how long a session that ends waits for the answers to what it
	// published: half of the second of B41.
	leaveTime = 500 * time.Millisecond
)

// socket is one connection of the binding. It implements serve.ControlHandler
// and outlet. Owned by its loop.
type socket struct {
	// Immutable after construction.
	s    *Surface
	l    *lane
	conn *serve.Peer

	// Owned by the loop.
	machine      session
	subscribed   subscriptions // the feed's
	unacked      *budget       // nil until the feed asks for it
	answers      []*publication
	pending      int   // appends without an answer
	pendingBytes int64 // of these
	busy         int   // of these, those that the log had no room for

	holding bool // input is held
	owing   bool // held until the socket has taken everything
	waking  bool // in l.waking
	leaving bool // waits for answers before it steps lastWord
	silent  bool // the connection closes by itself
	gone    bool

	lastWord inputKind
}

// Of outlet: what the feed sees of a socket.

func (k *socket) peer() *serve.Peer     { return k.conn }
func (k *socket) session() string       { return k.machine.name() }
func (k *socket) tenant() string        { return k.machine.tenant }
func (k *socket) author() *aepws.Author { return k.l.author }
func (k *socket) subs() *subscriptions  { return &k.subscribed }

// inflight returns the budget of the session's windows, which comes with the
// first use.
func (k *socket) inflight() *budget {
	if k.unacked == nil {
		k.unacked = newBudget(k.s.plan)
	}
	return k.unacked
}

// OnText implements serve.SocketHandler: one event of the client.
func (k *socket) OnText(msg []byte) {
	if k.leaving {
		k.s.counts.discarded.Add(1)
		return
	}
	l := k.l
	defer k.contain()
	if err := l.scanner.Scan(msg, &l.envelope); err != nil {
		k.step(&input{kind: inMessageFault, fault: faultNotObject})
		return
	}
	l.inHand = true
	in := k.inputOf(&l.envelope)
	if in.kind == inClosed && k.leave(inClosed) {
		return
	}
	k.step(&in)
	k.holdIfOverfull()
}

// contain ends what was done for a message. A panic ends this session alone
// (B43).
func (k *socket) contain() {
	k.l.inHand = false
	if r := recover(); r != nil {
		k.l.w.Loop().CountPanic(r)
		k.step(&input{kind: inInternalFault})
	}
}

// inputOf reads an event as an input of the session.
func (k *socket) inputOf(e *aepws.Envelope) input {
	switch {
	case len(e.Faults) > 0:
		return badEnvelope(e)
	case e.Kind == aepws.KindDomain:
		return input{kind: inDomain, eventTenant: e.TenantID, eventSource: e.Source}
	case e.Kind.RelayOnly():
		return input{kind: inWrongControl}
	}
	switch e.Kind {
	case aepws.KindSessionOpened:
		return k.openInput(e)
	case aepws.KindSessionHeartbeat:
		return input{kind: inHeartbeat}
	case aepws.KindSessionClosed:
		return input{kind: inClosed}
	case aepws.KindSessionError:
		return input{kind: inClientError}
	case aepws.KindCapabilitiesRequested:
		return input{kind: inCapabilities}
	case aepws.KindSubscriptionRequested:
		return input{kind: inSubscribe}
	case aepws.KindSubscriptionCancelled:
		return input{kind: inCancel}
	case aepws.KindEventAcknowledged:
		return input{kind: inAcknowledge}
	case aepws.KindEventRejected:
		return input{kind: inReject}
	}
	return input{kind: inReady} // and capabilities.changed: accepted and ignored
}

func badEnvelope(e *aepws.Envelope) input {
	return input{kind: inBadEnvelope, code: errorCode(e.Faults[0].Code.String()), reason: e.Faults[0].Reason}
}

// openInput reads session.opened (B31, B32, B36, B46).
func (k *socket) openInput(e *aepws.Envelope) input {
	var r aepws.OpenRequest
	if fault := k.l.scanner.ReadOpen(e, &r); fault != nil {
		e.Faults = append(e.Faults, *fault)
		return badEnvelope(e)
	}
	in := input{
		kind: inOpen, wrongVersion: r.UnsupportedVersion,
		session: string(r.SessionID), tenant: string(r.TenantID),
		wishes: r.HasHeartbeat, heartbeat: time.Duration(r.HeartbeatMillis) * time.Millisecond,
	}
	if k.s.tokens.Enabled() && r.Token != nil {
		in.proof = proofWrong
		if k.s.tokens.Allow(nil, string(r.Token)) {
			in.proof = proofRight
		}
		in.credential = credentialOf(in.proof)
	}
	return in
}

// OnBinary implements serve.SocketHandler (B11).
func (k *socket) OnBinary([]byte) {
	k.step(&input{kind: inMessageFault, fault: faultBinary})
}

// OnPong implements serve.ControlHandler (B37).
func (k *socket) OnPong() { k.step(&input{kind: inPong}) }

// OnPeerClose implements serve.ControlHandler (B42). The connection echoes the
// code.
func (k *socket) OnPeerClose(code int) {
	k.silent = true
	k.step(&input{kind: inPeerClose, closeCode: uint16(code)})
}

// OnFault implements serve.ControlHandler (B12 to B14, B16).
func (k *socket) OnFault(err *wsframe.Error) (last []byte) {
	fault := faultFrame
	switch err {
	case wsframe.ErrFragmented:
		fault = faultFragment
	case wsframe.ErrTextUTF8, wsframe.ErrCloseReasonUTF8:
		fault = faultUTF8
	case wsframe.ErrMessageTooBig:
		fault = faultTooBig
	}
	k.silent = true
	before := len(k.l.said)
	k.step(&input{kind: inMessageFault, fault: fault})
	last = k.l.said[before:]
	k.l.said = k.l.said[:before]
	return append([]byte(nil), last...)
}

// OnTimer implements serve.StreamHandler: the session's timer (B37, B39, B40),
// or the end of waiting for answers.
func (k *socket) OnTimer() {
	if k.leaving {
		k.sayLastWord()
		return
	}
	if k.holding {
		k.step(&input{kind: inPong}) // one may lie in what is held
	}
	k.step(&input{kind: inTick})
}

// OnDrained implements serve.StreamHandler.
func (k *socket) OnDrained() {
	if k.owing {
		k.owing = false
		k.wake()
	}
	k.l.feed.drained(k)
}

// holdIfOverfull holds the input that follows while too much of the socket is
// under way.
func (k *socket) holdIfOverfull() {
	if !k.owing && k.conn.QueuedBytes() > k.s.cfg.MaxMessageBytes+maxOwed {
		k.owing = true
		k.conn.NotifyDrained()
	}
	if !k.holding && k.overfull() && !k.gone {
		k.holding = true
		k.s.counts.held.Add(1)
		k.conn.Hold()
	}
}

// overfull tells whether input has to wait.
func (k *socket) overfull() bool {
	return k.owing || k.busy > 0 || k.pending >= maxAppends || k.pendingBytes >= maxAppendBytes
}

// wake lets the socket go on with its input in the loop's turn.
func (k *socket) wake() {
	if k.holding && !k.waking {
		k.waking = true
		k.l.waking = append(k.l.waking, k)
		k.l.w.Loop().Ring()
	}
}
