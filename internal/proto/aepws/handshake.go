package aepws

import (
	"bytes"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/serve"
)

// Fields of answers to handshakes.
var (
	allowField       = http1.Field{Name: "Allow", Value: "GET"}
	upgradeField     = http1.Field{Name: "Upgrade", Value: "websocket"}
	versionField     = http1.Field{Name: "Sec-WebSocket-Version", Value: "13"}
	subprotocolField = http1.Field{Name: "Sec-WebSocket-Protocol", Value: aepws.Subprotocol}
	bearerField      = http1.Field{Name: "WWW-Authenticate", Value: "Bearer"}
)

// Serve implements serve.Handler for the surface's path (section 2). Who may not
// be here at all is told so first.
func (s *Surface) Serve(x *serve.Exchange) {
	h := x.Head
	if origin := h.Header("Origin"); origin != nil {
		if s.parts.Guard.Check(origin, true, h.Host, h.HasHost) != nil {
			s.refuse(x, refusedOrigin, 403, aepws.Unauthorized,
				"a relay without a token takes pages of loopback and of AEP_ORIGINS only")
			return
		}
	}
	shown := s.proofOf(h)
	switch {
	case string(h.Method) != "GET":
		s.refuse(x, refusedRequest, 405, aepws.ProtocolError, "the method is not GET", allowField)
	case !h.IsWebSocketUpgrade():
		s.refuse(x, refusedRequest, 426, aepws.ProtocolError, "this is a WebSocket", upgradeField)
	case string(h.Header("Sec-WebSocket-Version")) != versionField.Value:
		s.refuse(x, refusedRequest, 426, aepws.ProtocolError, "the WebSocket version is not 13", versionField)
	case shown == proofWrong:
		s.refuse(x, refusedToken, 401, aepws.Unauthorized, "the credential is not valid", bearerField)
	case !offers(h, aepws.Subprotocol):
		s.refuse(x, refusedSubprotocol, 400, aepws.UnsupportedVersion,
			"the subprotocol "+aepws.Subprotocol+" is not offered", subprotocolField)
	default:
		s.upgrade(x, shown)
	}
}

// refuse answers a handshake with an error and counts it.
func (s *Surface) refuse(x *serve.Exchange, reason, status int, code aepws.Code, message string, more ...http1.Field) {
	s.counts.refused[reason].Add(1)
	res := refusal(status, code, message, more...)
	res.KeepAlive = true
	res.NoBody = string(x.Head.Method) == "HEAD"
	x.Respond(&res)
}

// proofOf judges the credentials of a handshake (B7): each that is shown must be
// right. A header of another scheme than Bearer is no credential beside a token
// in the query, and a wrong one alone.
func (s *Surface) proofOf(h *http1.Head) proof {
	if !s.tokens.Enabled() {
		return proofNone
	}
	header := h.Header("Authorization")
	query, inQuery := http1.QueryValue(h.RawQuery, "access_token")
	scheme, _, _ := bytes.Cut(header, []byte(" "))
	if header != nil && (!inQuery || bytes.EqualFold(scheme, []byte("bearer"))) && !s.tokens.Allow(header, "") {
		return proofWrong
	}
	if inQuery && !s.tokens.Allow(nil, query) {
		return proofWrong
	}
	if header == nil && !inQuery {
		return proofNone
	}
	return proofRight
}

// offers tells whether a handshake offers a subprotocol: anywhere in its lists,
// exactly as it is written (B2).
func offers(h *http1.Head, protocol string) bool {
	for _, list := range h.Values("Sec-WebSocket-Protocol") {
		for entry := range bytes.SplitSeq(list, []byte(",")) {
			if string(bytes.Trim(entry, " \t")) == protocol {
				return true
			}
		}
	}
	return false
}

// upgrade opens the socket, and the session if the query names it (B1, B6, B9).
func (s *Surface) upgrade(x *serve.Exchange, shown proof) {
	session, _ := http1.QueryValue(x.Head.RawQuery, "session_id")
	if session != "" && !aepws.ValidSessionID(session) {
		s.refuse(x, refusedRequest, 400, aepws.ProtocolError, "session_id is not 1 to 128 visible ASCII characters")
		return
	}
	if s.open.Add(1) > int64(s.cfg.MaxConnections) {
		s.open.Add(-1)
		s.refuse(x, refusedConnections, 503, aepws.InternalError, "too many connections", retryField)
		return
	}
	k := &socket{s: s, l: s.lanes[x.Loop().ID]}
	k.machine.settings = &s.sessions
	k.conn = x.UpgradeWith(k, serve.UpgradeOptions{
		Protocol: func([]byte) string { return aepws.Subprotocol },
		Whole:    !s.cfg.AcceptFragments,
		Refuse: func(x *serve.Exchange, _ int, why string, _ http1.Field) {
			s.refuse(x, refusedRequest, 400, aepws.ProtocolError, why)
		},
	})
	if k.conn == nil { // refused, and answered
		s.open.Add(-1)
		return
	}
	s.counts.connected.Add(1)
	k.conn.SetLimit(s.cfg.MaxMessageBytes)
	k.conn.SetStallTimeout(s.cfg.WriteTimeout)
	k.step(&input{kind: inUpgraded, session: session, proof: shown, credential: credentialOf(shown)})
}

// credentialOf tells the one token from none.
func credentialOf(p proof) credential {
	if p == proofRight {
		return 1
	}
	return 0
}
