package aepws

// pong puts the end off (B37). The timer stays: it comes no later than the next
// Ping, and that is before any Pong could be missed.
func (s *session) pong() {
	if s.state == stateReady && s.heartbeat > 0 {
		s.pongBy = s.now + pongPatience*s.heartbeat
	}
}

// tick does what is due and sets the timer anew. A tick that comes early, or
// when nothing is awaited, does no harm.
func (s *session) tick(do []action) []action {
	switch {
	case s.state == stateOpened && s.now >= s.openBy:
		do = s.leave(stateError, recordOpenTimeout, do)
		return fault(do, codeSessionTimeout, "no session.opened came in time", closeGoingAway)
	case s.state == stateOpened:
		return append(do, action{kind: actSetTimer, at: s.openBy})
	case s.heartbeat == 0:
		return do
	case s.now >= s.pongBy:
		do = s.leave(stateError, recordPongTimeout, do)
		return fault(do, codeSessionTimeout, "no Pong came for three heartbeat intervals", closeGoingAway)
	}
	if s.now >= s.beatAt {
		do = append(do, action{kind: actSendPing}, action{kind: actSendHeartbeat})
		if s.beatAt += s.heartbeat; s.beatAt <= s.now {
			s.beatAt = s.now + s.heartbeat
		}
	}
	return append(do, action{kind: actSetTimer, at: min(s.beatAt, s.pongBy)})
}
