package aepws

import "time"

// sessionState is the state of a connection as section 6 has it.
type sessionState uint8

const (
	stateCreated sessionState = iota
	stateOpened
	stateReady
	stateClosed
	stateError
)

var stateNames = [...]string{"CREATED", "OPENED", "READY", "CLOSED", "ERROR"}

// String returns the state as it stands in details.state (B33).
func (s sessionState) String() string {
	if int(s) >= len(stateNames) {
		return "unknown"
	}
	return stateNames[s]
}

func (s sessionState) terminal() bool { return s == stateClosed || s == stateError }

// Bounds of an interval that a client wishes (B36).
const (
	minHeartbeat = time.Second
	maxHeartbeat = 300 * time.Second
)

// pongPatience is how many intervals may pass without a Pong (B37).
const pongPatience = 3

// sessionSettings is what all sessions of a relay have in common. Immutable.
type sessionSettings struct {
	source        string        // "relay:<name>" (B64)
	tokenRequired bool          // B7
	heartbeat     time.Duration // B36; 0 is none
	openTimeout   time.Duration // B40
}

// session is one connection, from its TCP start to its end: all that section 6
// knows of it. It is a value: step returns the one that follows. The zero value
// with settings set is CREATED. Owned by the loop.
type session struct {
	settings *sessionSettings

	state    sessionState
	admitted bool // a credential was shown, or none is needed
	naming   bool // actRegister is out; the state is still OPENED
	named    bool // was READY once: id is the session's

	id         string // of the session, or the one to be registered
	query      string // session_id of the handshake (B6)
	tenant     string
	credential credential
	heartbeat  time.Duration // in force (B36); 0 is none

	now    time.Duration // of the last input (M5)
	openBy time.Duration // OPENED: B40
	beatAt time.Duration // READY: next Ping and heartbeat
	pongBy time.Duration // READY: B37
}

// name returns the session_id of what the relay writes, empty for null.
func (s *session) name() string {
	if !s.named {
		return ""
	}
	return s.id
}

// step returns the session after an input, and appends what is to be done, in
// order, to do. now is the time since any fixed moment, the same for all calls;
// it should not run backwards. Pure; in is borrowed until return.
func (s session) step(in *input, now time.Duration, do []action) (session, []action) {
	s.now = max(s.now, now)
	switch {
	case s.state.terminal():
		if in.kind.message() {
			do = append(do, action{kind: actDiscard})
		}
	case s.state == stateCreated:
		do = s.stepCreated(in, do)
	case in.kind.message():
		do = s.stepMessage(in, do)
	default:
		do = s.stepEvent(in, do)
	}
	return s, do
}

// stepCreated waits for the 101. What fails before is no session yet.
func (s *session) stepCreated(in *input, do []action) []action {
	switch in.kind {
	case inUpgraded:
		return s.upgraded(in, do)
	case inLost, inPeerClose, inMessageFault, inShutdown, inInternalFault:
		s.state = stateClosed
	}
	return do
}

// stepEvent takes what is not a message, in OPENED and READY.
func (s *session) stepEvent(in *input, do []action) []action {
	switch in.kind {
	case inRegistered:
		return s.registered(in, do)
	case inPong:
		s.pong()
	case inTick:
		return s.tick(do)
	case inPeerClose:
		return s.peerClosed(in.closeCode, do)
	case inLost:
		return s.leave(stateError, recordLost, do)
	case inMessageFault:
		return s.faulted(in.fault, do)
	case inReplaced:
		return s.replaced(do)
	case inShutdown:
		do = s.leave(stateClosed, recordShutdown, do)
		return farewell(do, reasonPeerDisconnected, closeGoingAway)
	case inInternalFault:
		return s.failed(do)
	}
	return do
}

// stepMessage takes an event of the client, in OPENED and READY.
func (s *session) stepMessage(in *input, do []action) []action {
	switch in.kind {
	case inBadEnvelope:
		return append(do, action{kind: actSendRejected, code: in.code, reason: in.reason})
	case inOpen:
		return s.open(in, do)
	case inHeartbeat:
		return do
	case inClosed:
		do = s.leave(stateClosed, recordClientClosed, do)
		return append(do, action{kind: actClose, closeCode: closeNormal})
	case inClientError:
		return append(do, action{kind: actRecord, what: recordClientError})
	case inCapabilities:
		return append(do, action{kind: actSendCapabilities})
	}
	if s.state == stateOpened {
		return s.tooEarly(do)
	}
	switch in.kind {
	case inWrongControl:
		return append(do, action{kind: actSendRejected, code: codeProtocolError})
	case inSubscribe:
		return append(do, action{kind: actSubscribe})
	case inCancel:
		return append(do, action{kind: actCancel})
	case inAcknowledge:
		return append(do, action{kind: actAcknowledge})
	case inReject:
		return append(do, action{kind: actReject})
	case inDomain:
		return s.publish(in, do)
	}
	return do // session.ready of a client is accepted and ignored (section 5)
}

// tooEarly answers what OPENED does not take (B33).
func (s *session) tooEarly(do []action) []action {
	return append(do, action{kind: actSendRejected, code: codeProtocolError, state: stateOpened})
}

// publish lets an event of the session's tenant through, and none that claims
// to be the relay's (B46, B64).
func (s *session) publish(in *input, do []action) []action {
	foreign := len(in.eventTenant) > 0 && string(in.eventTenant) != s.tenant
	if foreign || string(in.eventSource) == s.settings.source {
		return append(do, action{kind: actSendRejected, code: codeUnauthorized})
	}
	return append(do, action{kind: actPublish, tenant: s.tenant})
}
