package aepws

// leave goes to a terminal state. Whatever is said to the peer comes after
// (M2, M3).
func (s *session) leave(to sessionState, what record, do []action) []action {
	if s.state == stateReady {
		do = append(do, action{kind: actEndSubscriptions})
	}
	if (s.state == stateReady && what != recordReplaced) || s.naming {
		do = append(do, action{kind: actUnregister, session: s.id, tenant: s.tenant})
	}
	if s.state == stateOpened || s.heartbeat > 0 {
		do = append(do, action{kind: actStopTimer})
	}
	s.state, s.naming = to, false
	return append(do, action{kind: actRecord, what: what})
}

// farewell says session.closed and closes (B43).
func farewell(do []action, reason string, code uint16) []action {
	return append(do,
		action{kind: actSendClosed, reason: reason},
		action{kind: actClose, closeCode: code})
}

// fault says session.error and closes (B43).
func fault(do []action, code errorCode, message string, closeCode uint16) []action {
	return append(do,
		action{kind: actSendError, code: code, reason: message},
		action{kind: actClose, closeCode: closeCode})
}

func (s *session) unauthorized(do []action) []action {
	do = s.leave(stateError, recordUnauthorized, do)
	return fault(do, codeUnauthorized, "the credential is missing or not valid for this session", closeUnauthorized)
}

func (s *session) failed(do []action) []action {
	do = s.leave(stateError, recordInternalFault, do)
	return fault(do, codeInternalError, "the relay failed; try again", closeInternal)
}

// replaced gives way to the connection that has the session now (B44). A
// connection without a name holds nothing that could be taken.
func (s *session) replaced(do []action) []action {
	if s.state != stateReady {
		return do
	}
	do = s.leave(stateClosed, recordReplaced, do)
	return farewell(do, reasonReplaced, closeNormal)
}

// faultEnd is how a message fault ends: with an event or, where the message is
// empty, without (B13, B14, B16).
var faultEnd = [faultCount]struct {
	message string
	code    uint16
}{
	faultBinary:    {"binary frames are not taken, events are text", closeProtocol},
	faultFragment:  {"fragmented messages are refused (AEPWS_FRAGMENTS=refuse)", closeProtocol},
	faultNotObject: {"a message is one JSON object", closeProtocol},
	faultUTF8:      {"", closeInvalidText},
	faultTooBig:    {"", closeTooBig},
	faultFrame:     {"", closeProtocol},
}

// faulted ends a connection whose message cannot be read (B11 to B16).
func (s *session) faulted(f messageFault, do []action) []action {
	if f >= faultCount {
		f = faultFrame
	}
	end := faultEnd[f]
	do = s.leave(stateError, recordMessageFault, do)
	if end.message == "" {
		return append(do, action{kind: actClose, closeCode: end.code})
	}
	return fault(do, codeProtocolError, end.message, end.code)
}

// peerClosed takes a close frame and answers it (B42).
func (s *session) peerClosed(code uint16, do []action) []action {
	answer := code
	switch {
	case code == 0 || code == closeNormal:
		answer = closeNormal
		do = s.leave(stateClosed, recordNormal, do)
	case code == closeGoingAway:
		do = s.leave(stateClosed, recordPeerDisconnected, do)
	case code == closeProtocol:
		do = s.leave(stateError, recordPeerProtocolError, do)
	case code == closeUnauthorized:
		do = s.leave(stateError, recordPeerUnauthorized, do)
	case code == closeInternal:
		do = s.leave(stateError, recordPeerInternalError, do)
	case !mayBeSent(code):
		answer = closeProtocol
		do = s.leave(stateError, recordBadCloseCode, do)
	default:
		do = s.leave(stateClosed, recordPeerCode, do)
		do[len(do)-1].closeCode = code
	}
	return append(do, action{kind: actClose, closeCode: answer})
}

// mayBeSent tells if a close frame may carry the code: RFC 6455, 7.4.2, and B42,
// which takes 1004 for a number like others; the reader of frames refuses that one
// before (RFC 6455 reserves it).
func mayBeSent(code uint16) bool {
	switch code {
	case 1005, 1006, 1015:
		return false
	}
	return code >= 1000 && code < 1015 || code >= 3000 && code < 5000
}
