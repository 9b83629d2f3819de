package firehose

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"math"
	"strconv"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

const (
	subscribePath = "/xrpc/com.atproto.sync.subscribeRepos"
	healthPath    = "/xrpc/_health"
	statusPath    = "/xrpc/com.atproto.sync.getRepoStatus"
	publishPath   = "/firehose/publish"
	hostPath      = "/admin/firehose/host"
	accountPath   = "/admin/firehose/account"
)

// Owns tells whether a request's path, as sent, is this surface's, found or not.
// Any goroutine.
func (s *Surface) Owns(path []byte) bool {
	for _, base := range [...]string{"/xrpc", "/firehose", "/admin/firehose"} {
		if rest, ok := bytes.CutPrefix(path, []byte(base)); ok && (len(rest) == 0 || rest[0] == '/') {
			return true
		}
	}
	return false
}

// Serve implements serve.Handler for the paths of Owns.
func (s *Surface) Serve(x *serve.Exchange) {
	upstream := s.parts.Upstream != nil
	switch path := string(x.Head.Path); {
	case path == subscribePath:
		if s.allow(x, "GET") {
			s.subscribe(x)
		}
	case path == healthPath:
		if s.allow(x, "GET", "HEAD") {
			s.health(x)
		}
	case path == publishPath && s.parts.PublishToken != "":
		if s.allow(x, "POST") && s.authorized(x, s.parts.PublishToken) {
			s.publish(x)
		}
	case path == statusPath && upstream:
		if s.allow(x, "GET", "HEAD") {
			s.repoStatus(x)
		}
	case path == hostPath && upstream && s.parts.AdminToken != "":
		if s.allow(x, "POST") && s.authorized(x, s.parts.AdminToken) {
			s.admin(x, hostAction)
		}
	case path == accountPath && upstream && s.parts.AdminToken != "":
		if s.allow(x, "POST") && s.authorized(x, s.parts.AdminToken) {
			s.admin(x, accountAction)
		}
	default:
		s.refuse(x, refusedRequest, 404, "NotFound", "no such route")
	}
}

// allow refuses a request with another method than the route's.
func (s *Surface) allow(x *serve.Exchange, methods ...string) bool {
	list := ""
	for _, method := range methods {
		if string(x.Head.Method) == method {
			return true
		}
		if list != "" {
			list += ", "
		}
		list += method
	}
	s.refuse(x, refusedRequest, 405, "InvalidRequest", "the route has another method", http1.Field{Name: "Allow", Value: list})
	return false
}

// authorized refuses a request that does not bear the route's token.
func (s *Surface) authorized(x *serve.Exchange, token string) bool {
	scheme, sent, _ := bytes.Cut(x.Head.Header("Authorization"), []byte(" "))
	if bytes.EqualFold(scheme, []byte("Bearer")) && subtle.ConstantTimeCompare(bytes.TrimSpace(sent), []byte(token)) == 1 {
		return true
	}
	s.refuse(x, refusedToken, 401, "AuthenticationRequired", "the route's token is needed",
		http1.Field{Name: "WWW-Authenticate", Value: "Bearer"})
	return false
}

var retryField = http1.Field{Name: "Retry-After", Value: "1"}

// refuseClosed answers while the stream is not open (F2, F40).
func (s *Surface) refuseClosed(x *serve.Exchange) {
	s.refuse(x, refusedPhase, 503, "NotListening", "the stream is not open now", retryField)
}

// refusePlain answers a GET of the stream that is no upgrade (F2).
func (s *Surface) refusePlain(x *serve.Exchange) {
	s.refuse(x, refusedRequest, 426, "InvalidRequest", "the stream is a WebSocket", http1.Field{Name: "Upgrade", Value: "websocket"})
}

// health implements GET /xrpc/_health (F70).
func (s *Surface) health(x *serve.Exchange) {
	if s.parts.Health == nil {
		s.answer(x, 200, []byte(`{"status":"ok"}`))
		return
	}
	x.Keep()
	err := x.Go(func() func(*serve.Exchange) {
		err := s.parts.Health()
		return func(x *serve.Exchange) {
			if err != nil {
				s.parts.Log.Error("firehose health", "error", err)
				s.answer(x, 500, []byte(`{"status":"error"}`))
				return
			}
			s.answer(x, 200, []byte(`{"status":"ok"}`))
		}
	})
	if err != nil {
		s.answer(x, 500, []byte(`{"status":"error"}`))
	}
}

// errCursor tells of a cursor that is no number (F3).
var errCursor = errors.New("cursor is not a decimal number")

// cursorOf reads the cursor of a query: stream.NoCursor for none or an empty one.
func cursorOf(query []byte) (int64, error) {
	text, ok := http1.QueryValue(query, "cursor")
	if !ok || text == "" {
		return stream.NoCursor, nil
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, errCursor
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, nil // the future (F23)
	}
	return n, nil
}

// excluded reads the kinds that a query excludes (F4).
func excluded(query []byte) (kinds stream.Kinds) {
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		name, ok := http1.QueryValue(pair, "exclude")
		if !ok {
			continue
		}
		for kind := range firehose.KindInfo {
			if name == firehose.KindName(kind) {
				kinds |= stream.KindsOf(uint8(kind))
			}
		}
	}
	return kinds
}

// subscribe implements the stream (F1 to F5, F19 to F23). The consumer is
// registered, with its position, before the 101 is written (F35).
func (s *Surface) subscribe(x *serve.Exchange) {
	h := x.Head
	if len(h.Header("Upgrade")) == 0 {
		s.refusePlain(x)
		return
	}
	cursor, err := cursorOf(h.RawQuery)
	if err != nil {
		s.refuse(x, refusedCursor, 400, "InvalidRequest", err.Error())
		return
	}
	if s.parts.Producer.Phase() != PhaseListening {
		s.refuseClosed(x)
		return
	}
	if s.consumers.Add(1) > int64(s.cfg.MaxConsumers) {
		s.consumers.Add(-1)
		s.refuse(x, refusedConsumers, 429, "TooManyConsumers", "too many consumers", retryField)
		return
	}
	f := s.feeds[x.Loop().ID]
	pos, answer, err := s.parts.Producer.Join(f.pin, cursor)
	if err != nil {
		s.consumers.Add(-1)
		s.refuseClosed(x)
		return
	}
	c := &consumer{s: s, f: f, exclude: excluded(h.RawQuery), at: notBehind}
	c.peer = x.UpgradeWith(c, serve.UpgradeOptions{
		Fields: s.fields,
		Refuse: func(x *serve.Exchange, status int, why string, field http1.Field) {
			if status == 404 { // Connection does not name the upgrade
				s.refusePlain(x)
				return
			}
			s.refuse(x, refusedRequest, status, "InvalidRequest", why, field)
		},
	})
	if c.peer == nil { // refused, and answered
		s.consumers.Add(-1)
		f.setPin()
		return
	}
	s.total.Add(1)
	c.begin(pos, answer)
}
