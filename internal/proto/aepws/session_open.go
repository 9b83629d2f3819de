package aepws

import "time"

// upgraded opens the connection, and the session too if the handshake had all
// that it takes (B6, B7).
func (s *session) upgraded(in *input, do []action) []action {
	s.state = stateOpened
	s.query, s.tenant = in.session, in.tenant
	s.heartbeat = s.settings.heartbeat
	s.openBy = s.now + s.settings.openTimeout
	do = append(do, action{kind: actSetTimer, at: s.openBy})
	if s.settings.tokenRequired && in.proof == proofWrong {
		return s.unauthorized(do)
	}
	s.show(in)
	if s.admitted && s.query != "" {
		return s.register(s.query, do)
	}
	return do
}

// show takes a credential into account.
func (s *session) show(in *input) {
	switch {
	case !s.settings.tokenRequired:
		s.admitted = true
	case in.proof == proofRight:
		s.admitted, s.credential = true, in.credential
	}
}

// open takes session.opened (B31, B32, B34).
func (s *session) open(in *input, do []action) []action {
	switch {
	case in.wrongVersion:
		do = s.leave(stateError, recordUnsupportedVersion, do)
		return fault(do, codeUnsupportedVersion, "the version of this session is 0.1", closeProtocol)
	case s.settings.tokenRequired && (in.proof == proofWrong || in.proof == proofNone && !s.admitted):
		return s.unauthorized(do)
	case s.naming:
		return s.tooEarly(do)
	case s.state == stateReady && in.session != "" && in.session != s.id:
		return append(do, action{kind: actSendRejected, code: codeProtocolError})
	case s.state == stateReady:
		return append(do, action{kind: actSendReady})
	}
	s.show(in)
	if in.tenant != "" {
		s.tenant = in.tenant
	}
	if in.wishes {
		s.heartbeat = clampHeartbeat(in.heartbeat)
	}
	id := in.session
	if id == "" {
		id = s.query
	}
	return s.register(id, do)
}

// clampHeartbeat returns the interval that a client gets for its wish (B36).
func clampHeartbeat(wish time.Duration) time.Duration {
	if wish == 0 {
		return 0
	}
	return min(max(wish, minHeartbeat), maxHeartbeat)
}

// register asks for the session; an empty id lets the relay make one (B32).
func (s *session) register(id string, do []action) []action {
	s.naming, s.id = true, id
	return append(do, action{kind: actRegister, session: id, tenant: s.tenant, credential: s.credential})
}

// registered takes the directory's answer (B44): READY, or the end.
func (s *session) registered(in *input, do []action) []action {
	if !s.naming {
		return do
	}
	if in.verdict == verdictTaken || in.verdict == verdictFull {
		s.naming = false // there is nothing to unregister
	}
	switch {
	case in.verdict == verdictTaken:
		return s.unauthorized(do)
	case in.verdict == verdictFull:
		return s.failed(do)
	case in.session != "":
		s.id = in.session
	case s.id == "":
		return s.failed(do) // the relay had to make a name
	}
	s.state, s.naming, s.named = stateReady, false, true
	do = append(do,
		action{kind: actSendReady},
		action{kind: actRecord, what: recordOpened})
	if s.heartbeat <= 0 {
		s.heartbeat = 0
		return append(do, action{kind: actStopTimer})
	}
	s.beatAt = s.now + s.heartbeat
	s.pongBy = s.now + pongPatience*s.heartbeat
	return append(do, action{kind: actSetTimer, at: s.beatAt})
}
