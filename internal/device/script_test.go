package device

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

// script is a relay that answers what a test wants. Without more it knows no
// owner until the first push, takes all pushes and gives nothing back.
type script struct {
	*httptest.Server
	tb testing.TB

	mu sync.Mutex
	// Guarded by mu.
	answers map[string]func(w http.ResponseWriter, r *http.Request, body []byte)
	asked   map[string]int
}

// The routes, as a script calls them.
var routes = map[string]string{
	"GET /health": "health", "GET /v1/status": "status", "POST /v1/events": "push", "GET /v1/events": "pull",
	"GET /v1/events/wait": "wait", "POST /v1/streams/compact": "compact",
}

func newScript(tb testing.TB) *script {
	s := &script{tb: tb, asked: map[string]int{}}
	s.answers = map[string]func(http.ResponseWriter, *http.Request, []byte){
		"health":  say(200, `{"ok":true,"features":[]}`),
		"status":  say(404, `{"error":"unknown_owner","message":"no"}`),
		"push":    take,
		"pull":    say(200, `{"events":[],"nextCursor":"0"}`),
		"compact": say(200, `{"deletedEvents":0,"reclaimedBytes":0}`),
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(s.Close)
	return s
}

func (s *script) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	name := routes[r.Method+" "+r.URL.Path]
	if token := r.Header.Get("Authorization"); (name == "health") != (token == "") || len(token) > 100 {
		s.tb.Errorf("%s %s with the token %q", r.Method, r.URL.Path, token)
	}
	s.mu.Lock()
	s.asked[name]++
	answer := s.answers[name]
	s.mu.Unlock()
	if answer == nil {
		answer = say(404, `{"error":"not_found","message":""}`)
	}
	answer(w, r, body)
}

// on changes what a route answers.
func (s *script) on(name string, answer func(w http.ResponseWriter, r *http.Request, body []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = answer
}

// count returns how often a route was asked since the last count.
func (s *script) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked[name]
	s.asked[name] = 0
	return n
}

// say answers a status and a body. More are header fields as name and value.
func say(status int, body string, more ...string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		for i := 0; i+1 < len(more); i += 2 {
			w.Header().Set(more[i], more[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// cut closes the connection without an answer.
func cut(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }

// take accepts a push.
func take(w http.ResponseWriter, _ *http.Request, body []byte) {
	_, _ = fmt.Fprintf(w, `{"accepted":%d,"duplicate":0}`, len(pushed(body)))
}

// pushed returns the envelopes of a push.
func pushed(body []byte) []json.RawMessage {
	var push struct{ Events []json.RawMessage }
	_ = json.Unmarshal(body, &push)
	return push.Events
}

// pageOf is the body of a page.
func pageOf(next string, envelopes ...string) string {
	return `{"events":[` + strings.Join(envelopes, ",") + `],"nextCursor":"` + next + `"}`
}

// scripted returns a device on a scripted relay, with a clock of its own.
func scripted(t *testing.T, o Options) (*Device, *script, *clock) {
	t.Helper()
	s, c := newScript(t), newClock()
	d := makeDevice(t, owner(t), "a", c.is(o))
	join(t, d, s.URL)
	return d, s, c
}

// author seals events of an owner as another device does.
type author struct {
	t  *testing.T
	id *synccrypt.Identity
	n  int
}

func (d *Device) author(t *testing.T) *author { return &author{t: t, id: d.id.Load()} }

// event seals the next event.
func (a *author) event() string {
	a.t.Helper()
	a.n++
	hlc := fmt.Sprintf("%013d-%04x-other", start.UnixMilli()+int64(a.n), 0)
	p := synccrypt.Payload{SchemaVersion: 1, Table: "notes", ID: fmt.Sprint("n", a.n), HLC: hlc, Row: []byte(`{"text":"1"}`)}
	e, err := a.id.Seal(nil, &p, "other", start, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(e)
}

// loner is a follower without goroutines: a test calls the steps of its pusher
// and puller by itself.
func loner(t *testing.T, d *Device) (*pusher, *puller) {
	t.Helper()
	f := d.newFollower(FollowOptions{})
	p := &pair{push: make(chan struct{}, 1), pull: make(chan struct{}, 1)}
	rel := relayOf(t, d)
	return &pusher{f: f, pair: p, link: d.newLink(rel, false, nil)}, &puller{f: f, pair: p, link: d.newLink(rel, false, nil)}
}

// laneOf returns one lane of the first relay.
func laneOf(t *testing.T, d *Device, push bool) devicestore.Lane {
	t.Helper()
	if rel := relayOf(t, d); push {
		return rel.Push
	} else {
		return rel.Pull
	}
}
