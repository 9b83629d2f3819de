package aep

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/serve"
)

var (
	corsField = http1.Field{Name: "Access-Control-Allow-Origin", Value: "*"}
	jsonType  = http1.Field{Name: "Content-Type", Value: "application/json"}
	textType  = http1.Field{Name: "Content-Type", Value: "text/plain; charset=utf-8"}

	preflightFields = []http1.Field{
		corsField,
		{Name: "Access-Control-Allow-Methods", Value: "GET, OPTIONS"},
		{Name: "Access-Control-Allow-Headers", Value: "authorization, accept, content-type, last-event-id"},
		{Name: "Access-Control-Max-Age", Value: "86400"},
	}
	unauthorizedFields = []http1.Field{corsField, {Name: "WWW-Authenticate", Value: "Bearer"}}
	jsonFields         = []http1.Field{jsonType}
	jsonCORSFields     = []http1.Field{jsonType, corsField}
	textFields         = []http1.Field{textType}
	textCORSFields     = []http1.Field{textType, corsField}
)

// Serve implements serve.Handler: the order of decisions of R30, the route
// table of R31.
func (s *Surface) Serve(x *serve.Exchange) {
	h := x.Head
	method, path := string(h.Method), string(h.Path)
	switch {
	case method == "GET" && path == "/healthz":
		s.healthz(x)
	case method == "OPTIONS" && (path == "/stream" || path == "/connections"):
		respond(x, 204, preflightFields, nil)
	case !s.authorized(h):
		// An upgrade that is refused ends its connection (R300).
		x.Respond(&http1.Response{Status: 401, Fields: unauthorizedFields, KeepAlive: !h.IsWebSocketUpgrade()})
	case path == "/socket" && h.IsWebSocketUpgrade():
		if s.guarded(x) {
			s.upgrade(x)
		}
	case method == "GET":
		s.get(x, path)
	case method == "POST" && path == "/events":
		if s.guarded(x) {
			s.post(x)
		}
	default:
		respond(x, 404, nil, nil)
	}
}

func (s *Surface) get(x *serve.Exchange, path string) {
	switch path {
	case "/events", "/.well-known/aep":
		respond(x, 200, jsonFields, s.discovery)
	case "/connections":
		if s.guarded(x) {
			s.connections(x)
		}
	case "/stream":
		if s.guarded(x) {
			s.stream(x)
		}
	default:
		respond(x, 404, nil, nil)
	}
}

func respond(x *serve.Exchange, status int, fields []http1.Field, body []byte) {
	x.Respond(&http1.Response{Status: status, Fields: fields, Body: body, KeepAlive: true})
}

// authorized implements R40. The query value of a repeated name counts first.
func (s *Surface) authorized(h *http1.Head) bool {
	if !s.cfg.Auth.Enabled() {
		return true
	}
	token, _ := http1.QueryValue(h.RawQuery, "access_token")
	return s.cfg.Auth.Allow(h.Header("Authorization"), token)
}

// guarded lets a request pass the guard of a relay without a token, or answers
// 403 with what to set (R38).
func (s *Surface) guarded(x *serve.Exchange) bool {
	if s.cfg.Auth.Enabled() || s.cfg.Guard == nil {
		return true
	}
	origin := x.Head.Header("Origin")
	if err := s.cfg.Guard.Check(origin, origin != nil, x.Head.Host, x.Head.HasHost); err != nil {
		respond(x, 403, textFields, []byte(err.Error()+"\n"))
		return false
	}
	return true
}

// healthz implements R50: counts are for those who pass the token check.
func (s *Surface) healthz(x *serve.Exchange) {
	body := []byte(`{"ok":true`)
	if s.authorized(x.Head) {
		body = append(body, ',')
		body = appendCounts(body, s.Counts())
	}
	respond(x, 200, jsonFields, append(body, '}'))
}

func appendCounts(dst []byte, c Counts) []byte {
	dst = append(dst, `"sessions":`...)
	dst = strconv.AppendInt(dst, int64(c.Sessions), 10)
	dst = append(dst, `,"subscribers":`...)
	dst = strconv.AppendInt(dst, c.Subscribers, 10)
	dst = append(dst, `,"connections":`...)
	dst = strconv.AppendInt(dst, c.Connections, 10)
	dst = append(dst, `,"uptime_s":`...)
	return strconv.AppendInt(dst, c.UptimeS, 10)
}

// connections implements R52. The list may be long, so it is made off the loop.
func (s *Surface) connections(x *serve.Exchange) {
	counts := s.Counts()
	err := x.Go(func() func(*serve.Exchange) {
		body, err := s.connectionsBody(counts)
		return func(x *serve.Exchange) {
			if err != nil {
				respond(x, 500, textCORSFields, []byte("cannot list connections\n"))
				return
			}
			respond(x, 200, jsonCORSFields, body)
		}
	})
	if err != nil {
		busy(x)
	}
}

// busy answers a request for which there is no room now, and closes: a body that
// is still to come must not keep what was taken for it (R46).
func busy(x *serve.Exchange) {
	x.Respond(&http1.Response{Status: 503, Fields: []http1.Field{{Name: "Retry-After", Value: "1"}}})
}

type connectionJSON struct {
	Role          string          `json:"role"`
	Identity      json.RawMessage `json:"identity"`
	Accepts       json.RawMessage `json:"accepts"`
	Sessions      []string        `json:"sessions"`
	Subscriptions int64           `json:"subscriptions"`
}

func (s *Surface) connectionsBody(c Counts) ([]byte, error) {
	list := s.sockets.greeted()
	sessions := s.claims.bySocket()
	body := append([]byte(`{"ok":true,"relay":{`), appendCounts(nil, c)...)
	body = append(body, `,"control":`...)
	body = strconv.AppendBool(body, s.cfg.Auth.Enabled())
	body = append(body, `},"connections":[`...)
	for i, k := range list {
		if i > 0 {
			body = append(body, ',')
		}
		one, err := encodeConnection(k, sessions[k])
		if err != nil {
			return nil, err
		}
		body = append(body, one...)
	}
	body = append(body, `],"sse_subscribers":`...)
	body = strconv.AppendInt(body, c.Streams, 10)
	return append(body, '}'), nil
}

func encodeConnection(k *socket, sessions []string) ([]byte, error) {
	h := k.greeting.Load()
	c := connectionJSON{Role: h.Role, Identity: h.Identity, Sessions: sessions, Subscriptions: int64(k.subscriptions.Load())}
	if sessions == nil {
		c.Sessions = []string{}
	}
	if accepts, ok := acceptsRaw(h); ok {
		c.Accepts = accepts
	}
	return sonicAPI.Marshal(&c)
}

// acceptsRaw returns the declared `accepts` as it was written.
func acceptsRaw(h *aep.Hello) (json.RawMessage, bool) {
	if h.Control == nil {
		return nil, false
	}
	var sc aep.Scanner
	if sc.Scan(h.Control) != nil {
		return nil, false
	}
	raw, ok := sc.RawMember("accepts")
	return bytes.Clone(raw), ok
}
