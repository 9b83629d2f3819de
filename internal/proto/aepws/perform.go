package aepws

import (
	"context"
	"log/slog"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/serve"
)

var pingFrame = wsframe.AppendPing(nil, nil)

// step steps the session and does what follows.
func (k *socket) step(in *input) {
	l := k.l
	do := l.actions
	l.actions = nil // a step inside this one gets memory of its own
	k.machine, do = k.machine.step(in, l.now(), do[:0])
	for i := range do {
		k.perform(&do[i], in)
	}
	clear(do)
	l.actions = do[:0]
}

// perform does one action of a step.
func (k *socket) perform(a *action, in *input) {
	l := k.l
	switch a.kind {
	case actSendReady:
		k.say(l.author.AppendReady(l.buf[:0], k.head(), k.capabilities()))
	case actSendClosed:
		k.say(l.author.AppendClosed(l.buf[:0], k.head(), a.reason))
	case actSendError:
		x := aepws.Error{Code: aepws.CodeOf([]byte(a.code)), Message: a.reason}
		k.say(l.author.AppendError(l.buf[:0], k.head(), x))
	case actSendRejected:
		k.sayRejected(a, in)
	case actSendHeartbeat:
		k.say(l.author.AppendHeartbeat(l.buf[:0], k.head()))
	case actSendPing:
		k.conn.Urgent(pingFrame)
	case actSendCapabilities:
		k.say(l.author.AppendCapabilities(l.buf[:0], k.head(), k.capabilities()))
	case actClose:
		if !k.silent {
			k.conn.CloseSocket(int(a.closeCode), "", serve.CloseTimeout)
		}
	case actEndSubscriptions:
		l.feed.closed(k)
	case actSubscribe:
		k.subscribe()
	case actCancel:
		k.cancel()
	case actAcknowledge:
		k.acknowledge()
	case actReject:
		var r aepws.RejectRequest
		l.scanner.ReadReject(&l.envelope, &r)
		l.feed.reject(k, &r)
	case actPublish:
		k.publish(a.tenant)
	case actRegister:
		k.register(a)
	case actUnregister:
		k.s.holders.close(sessionKey{a.tenant, a.session}, k)
	case actSetTimer:
		k.conn.SetTimer(a.at - l.now())
	case actStopTimer: // a tick that comes all the same does no harm
	case actRecord:
		k.record(a)
	case actDiscard:
		k.s.counts.discarded.Add(1)
	}
}

// record counts what a session did, and tells it to the log: how it ended, and
// faults so that they are seen (B42).
func (k *socket) record(a *action) {
	k.s.counts.records[a.what].Add(1)
	level := slog.LevelDebug
	if a.what == recordInternalFault {
		level = slog.LevelError
	}
	ctx, log := context.Background(), k.s.parts.Log
	if !log.Enabled(ctx, level) {
		return
	}
	log.Log(ctx, level, "aepws session", "what", a.what.String(), "session", k.machine.name(), "remote", k.conn.RemoteAddr(), "code", a.closeCode)
}

// head is the head of an event of the relay: an answer while a message is in
// hand.
func (k *socket) head() aepws.Head {
	now := k.l.w.Loop().Now()
	if k.l.inHand {
		return k.l.envelope.Answer(k.machine.name(), now)
	}
	return aepws.Head{Now: now, SessionID: k.machine.name()}
}

// capabilities are those of B35.
func (k *socket) capabilities() *aepws.Capabilities {
	cfg := &k.s.cfg
	return &aepws.Capabilities{
		MaxPayloadBytes:    cfg.MaxMessageBytes,
		HeartbeatMillis:    int(k.machine.heartbeat.Milliseconds()),
		ReplayWindow:       cfg.RetentionAge,
		MaxRetentionEvents: cfg.RetentionEvents,
		AuthRequired:       k.s.sessions.tokenRequired,
	}
}

// say sends an event whose text lies in the loop's scratch. Where the connection
// closes by itself, it is kept for the last frame.
func (k *socket) say(text []byte) {
	k.l.buf = text[:0]
	if cap(text) > maxOwed {
		k.l.buf = nil
	}
	if k.silent {
		k.l.said = wsframe.AppendText(k.l.said, text)
		return
	}
	k.conn.Send(wsframe.AppendText(make([]byte, 0, wsframe.HeaderLen(len(text))+len(text)), text))
}

// Messages of refusals, by what was refused.
var refusalTexts = [inputCount]string{
	inOpen:         "the session has another id",
	inWrongControl: "this event is the relay's to send",
	inDomain:       "the tenant is not the session's, or the source is the relay's",
}

// sayRejected answers the message in hand with event.rejected (B25, B29).
func (k *socket) sayRejected(a *action, in *input) {
	l := k.l
	k.s.counts.rejected.Add(1)
	if in.kind == inBadEnvelope {
		k.say(l.author.AppendFaults(l.buf[:0], k.machine.name(), l.w.Loop().Now(), &l.envelope))
		return
	}
	x := aepws.Error{Code: aepws.CodeOf([]byte(a.code)), Message: refusalTexts[in.kind], Reason: a.reason}
	if a.state != stateCreated {
		x.State, x.Message = a.state.String(), "the session is not open"
	}
	k.reject(x)
}

// reject answers the message in hand with an error.
func (k *socket) reject(x aepws.Error) {
	h := k.head()
	k.say(k.l.author.AppendRejected(k.l.buf[:0], h, h.CausationID, x, nil))
}

// rejectFault is reject for what a request lacks.
func (k *socket) rejectFault(f *aepws.Fault) {
	k.s.counts.rejected.Add(1)
	k.reject(f.Answer())
}

// because is the message in hand, as the feed answers it.
func (k *socket) because() cause {
	h := k.head()
	return cause{id: h.CausationID, correlation: h.CorrelationID}
}

func (k *socket) subscribe() {
	l, req := k.l, new(aepws.FilterRequest)
	if fault := l.scanner.ReadFilter(&l.envelope, k.machine.tenant, l.w.Loop().Now(), req); fault != nil {
		k.say(l.author.AppendSubscriptionRejected(l.buf[:0], k.head(), req.Raw, fault.Answer()))
		return
	}
	l.feed.subscribe(k, req, k.because())
}

func (k *socket) cancel() {
	id, fault := k.l.scanner.ReadCancel(&k.l.envelope)
	if fault != nil {
		k.rejectFault(fault)
		return
	}
	k.l.feed.cancel(k, string(id), k.because())
}

func (k *socket) acknowledge() {
	var r aepws.AckRequest
	if fault := k.l.scanner.ReadAck(&k.l.envelope, &r); fault != nil {
		k.rejectFault(fault)
		return
	}
	k.l.feed.acknowledge(k, &r)
}

// register takes the session in the directory, and tells the connection that
// had it, on its own loop (B32, B44).
func (k *socket) register(a *action) {
	id := a.session
	if id == "" {
		id = string(k.l.ids.AppendSession(nil, k.l.w.Loop().Now()))
	}
	old, verdict := k.s.holders.open(sessionKey{a.tenant, id}, a.credential, k)
	if verdict == verdictReplaced && old != k {
		if to := old.l.w.Loop(); to.Post(old.replaced) != nil {
			to.Later(old.replaced) // its mailbox is full: behind what is there
		}
	}
	k.step(&input{kind: inRegistered, verdict: verdict, session: id})
}
