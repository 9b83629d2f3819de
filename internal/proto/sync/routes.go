package sync

import (
	"bytes"
	"crypto/subtle"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

// route is a row of S1: the methods of a path and what serves them.
type route struct {
	allow string // value of Allow
	// open routes need no token.
	open bool
	// serve is called once the token's shape is right. It is chosen by method.
	serve map[string]func(*Surface, *request)
}

// request is what the head of a request told, while it is served.
type request struct {
	x    *serve.Exchange
	head *http1.Head
	// token was sent, and auth is its stored form with the owner of the query,
	// where the route has it there.
	token  []byte
	auth   store.Auth
	tail   string // the hash of a chunk's path
	isHead bool
}

var (
	routes = map[string]*route{
		"/v1/events":          {allow: "GET, POST, OPTIONS", serve: map[string]func(*Surface, *request){"GET": (*Surface).pull, "POST": (*Surface).push}},
		"/v1/events/wait":     {allow: "GET, OPTIONS", serve: map[string]func(*Surface, *request){"GET": (*Surface).wait}},
		"/v1/streams/compact": {allow: "POST, OPTIONS", serve: map[string]func(*Surface, *request){"POST": (*Surface).compactStreams}},
		"/v1/owner/close":     {allow: "POST, OPTIONS", serve: map[string]func(*Surface, *request){"POST": (*Surface).closeOwner}},
		"/v1/status":          {allow: "GET, OPTIONS", serve: map[string]func(*Surface, *request){"GET": (*Surface).status}},
		"/v1/usage":           {allow: "GET, OPTIONS", serve: map[string]func(*Surface, *request){"GET": (*Surface).usage}},
		"/health":             {allow: "GET, OPTIONS", open: true, serve: map[string]func(*Surface, *request){"GET": (*Surface).health}},
	}
	blobRoute = &route{allow: "GET, HEAD, PUT, OPTIONS", serve: map[string]func(*Surface, *request){
		"GET": (*Surface).getBlob, "HEAD": (*Surface).getBlob, "PUT": (*Surface).putBlob,
	}}
	adminRoute = &route{allow: "POST, OPTIONS", serve: map[string]func(*Surface, *request){"POST": (*Surface).adminCompact}}
)

const (
	blobPrefix = "/v1/blobs/"
	adminPath  = "/v1/admin/compact"
)

// Owns tells whether a request's path, as sent, is this surface's, found or not
// (S2). Any goroutine.
func (s *Surface) Owns(path []byte) bool {
	_, ok := s.below(path)
	return ok
}

// below returns the path without the base path that it lies under.
func (s *Surface) below(path []byte) (rest []byte, ok bool) {
	if own(path) {
		return path, true
	}
	for _, base := range s.cfg.BasePaths {
		if rest, found := bytes.CutPrefix(path, []byte(base)); found && own(rest) {
			return rest, true
		}
	}
	return nil, false
}

func own(path []byte) bool {
	return bytes.HasPrefix(path, []byte("/v1/")) || string(path) == "/health"
}

// find returns the route of a path, nil if there is none, and what follows the
// path of a chunk's route.
func (s *Surface) find(path []byte) (r *route, tail string) {
	if r := routes[string(path)]; r != nil {
		return r, ""
	}
	if hash, ok := bytes.CutPrefix(path, []byte(blobPrefix)); ok && len(hash) > 0 && bytes.IndexByte(hash, '/') < 0 {
		return blobRoute, string(hash)
	}
	if string(path) == adminPath && s.cfg.AdminToken != "" {
		return adminRoute, ""
	}
	return nil, ""
}

// Serve implements serve.Handler for the paths of Owns. The order is S16's:
// route, method, token present; the rest is up to the route.
func (s *Surface) Serve(x *serve.Exchange) {
	s.requests.Add(1)
	h := x.Head
	method := string(h.Method)
	if method == "OPTIONS" {
		x.Respond(&http1.Response{Status: 204, Fields: preflightFields, KeepAlive: true})
		return
	}
	isHead := method == "HEAD"
	path, _ := s.below(h.Path)
	r, tail := s.find(path)
	if r == nil {
		s.refuseHead(x, isHead, syncwire.NotFound, "no such route")
		return
	}
	handler := r.serve[method]
	if handler == nil {
		fields := with(jsonFields, http1.Field{Name: "Allow", Value: r.allow})
		s.refusedWith(x, isHead, syncwire.MethodNotAllowed, fields, "the route has other methods: "+r.allow)
		return
	}
	rq := &request{x: x, head: h, tail: tail, isHead: isHead}
	if !r.open {
		if rq.token = bearer(h); rq.token == nil {
			s.refuseHead(x, isHead, syncwire.Unauthorized, "a bearer token is needed")
			return
		}
	}
	handler(s, rq)
}

// bearer returns the token of a request (S10), nil if it is missing or malformed.
func bearer(h *http1.Head) []byte {
	const name = "Authorization"
	if h.HeaderCount(name) != 1 {
		return nil
	}
	token, ok := syncwire.Bearer(h.Header(name))
	if !ok {
		return nil
	}
	return token
}

// withOwner takes the owner from the query, or answers 400 (S11). Then the
// request's auth is complete.
func (s *Surface) withOwner(rq *request) bool {
	owner, err := syncwire.ParseOwner(rq.head.RawQuery)
	if err != nil {
		s.refuseHead(rq.x, rq.isHead, syncwire.BadRequest, err.Error())
		return false
	}
	rq.auth = store.Auth{Owner: owner, Hash: syncwire.TokenHash(rq.token)}
	return true
}

// adminCompact implements S47.
func (s *Surface) adminCompact(rq *request) {
	if subtle.ConstantTimeCompare(rq.token, []byte(s.cfg.AdminToken)) != 1 {
		s.refuse(rq.x, syncwire.Unauthorized, "the token is not the administrator's")
		return
	}
	x, l := rq.x, rq.x.Loop()
	x.Keep()
	s.store.CompactAllAsync(func(r store.Reclaimed, err error) {
		post(l, func() { s.answerReclaimed(x, r, err) })
	})
}
