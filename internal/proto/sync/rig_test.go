package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/netloop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/store"
)

// patience bounds waits for what must come. It is used up only when a test
// fails.
const patience = time.Minute

// rig is a surface with a real store on a real server of two loops.
type rig struct {
	t       testing.TB
	cfg     Config
	surface *Surface
	store   *store.Store
	gate    *gate
	budget  *serve.Budget
	server  *netloop.Server
	addr    string
	log     *relaytest.LogBuffer
}

// gate is a store whose early answers a test can hold back or make up.
type gate struct {
	*store.Store
	mu    sync.Mutex
	admit chan struct{} // closed to let Admit and AdmitBlob go on, nil for at once
	fail  error         // what pushes and pings come to
}

func (g *gate) wait() {
	g.mu.Lock()
	ch := g.admit
	g.mu.Unlock()
	if ch != nil {
		<-ch
	}
}

// hold makes Admit and AdmitBlob wait until the returned function is called.
func (g *gate) hold() (release func()) {
	ch := make(chan struct{})
	g.mu.Lock()
	g.admit = ch
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		g.admit = nil
		g.mu.Unlock()
		close(ch)
	}
}

func (g *gate) failWith(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = err
}

func (g *gate) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fail
}

func (g *gate) Admit(a store.Auth) error {
	g.wait()
	return g.Store.Admit(a)
}

func (g *gate) AdmitBlob(a store.Auth, hash string) (bool, error) {
	g.wait()
	return g.Store.AdmitBlob(a, hash)
}

func (g *gate) Ping() error {
	if err := g.failure(); err != nil {
		return err
	}
	return g.Store.Ping()
}

func (g *gate) PushAsync(p store.Push, done func(store.PushResult, error)) {
	if err := g.failure(); err != nil {
		done(store.PushResult{}, err)
		return
	}
	g.Store.PushAsync(p, done)
}

// newRig starts a relay of this surface alone. Its end checks that everything
// was given back and that the store's invariants hold (S49).
func newRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	return newLimitedRig(t, func(*Surface) {}, change...)
}

// newLimitedRig is newRig with bounds of the surface that are no settings.
func newLimitedRig(t testing.TB, limit func(*Surface), change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, cfg: DefaultConfig(), budget: serve.NewBudget(512 << 20), log: &relaytest.LogBuffer{}}
	for _, f := range change {
		f(&r.cfg)
	}
	if err := r.cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.surface = New(r.cfg, Parts{Log: log, Version: "1.2.3", SpoolDir: t.TempDir()})
	limit(r.surface)
	stCfg := r.cfg.StoreConfig()
	stCfg.Path = filepath.Join(t.TempDir(), "sync.db")
	stCfg.Notify = r.surface.Notify
	var err error
	if r.store, err = store.Open(stCfg); err != nil {
		t.Fatal(err)
	}
	r.gate = &gate{Store: r.store}
	r.start(log)
	return r
}

func (r *rig) start(log *slog.Logger) {
	var workers []*serve.Worker
	accept := func(l *loop.Loop, tr loop.Transport) loop.Handler { return workers[l.ID].Accept(tr) }
	server, err := netloop.New(netloop.Config{Addrs: []string{"127.0.0.1:0"}, Loops: 2, Log: log}, loop.SystemClock{}, accept)
	if err != nil {
		r.t.Fatal(err)
	}
	r.server = server
	jobs := loop.NewJobs(4, 4096)
	events := stream.NewLog(64, 1<<20)
	buffers := session.New(session.Config{EventsPerSession: 1, Sessions: 1}, events)
	shared := serve.Config{Handler: r.surface, Budget: r.budget, Jobs: jobs, Log: log, Refusals: r.surface.Refusals}
	for _, l := range server.Loops() {
		workers = append(workers, serve.NewWorker(shared, l, fanout.NewSet(l, events, buffers, fanout.Limits{})))
	}
	r.surface.Attach(r.gate, workers)
	if err := server.Listen(); err != nil {
		r.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	r.addr = netip.MustParseAddrPort(server.Addrs()[0].String()).String()
	r.t.Cleanup(func() {
		r.surface.StopWaiting()
		r.eventually("connections closed", func() bool { return server.Conns() == 0 })
		r.eventually("B1: budget given back", func() bool { return r.budget.UsedBytes() == 0 })
		r.eventually("B4: answers given back", func() bool { return r.surface.Counters().LentBytes == 0 })
		r.eventually("B1: spool given back", func() bool { return r.surface.Counters().SpoolBytes == 0 })
		// A connection is counted off before its end is told.
		r.eventually("no device is counted as waiting", func() bool { return r.surface.Counters().Waiting == 0 })
		for _, l := range server.Loops() {
			if l.Panics() != 0 {
				r.t.Errorf("%d panics", l.Panics())
			}
		}
		if err := r.store.Check(); err != nil {
			r.t.Errorf("S49: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			r.t.Error(err)
		}
		<-served
		jobs.Close()
		if err := r.store.Close(); err != nil {
			r.t.Error(err)
		}
		if text := r.log.String(); strings.Contains(text, tokenA) || strings.Contains(text, "ownerId=") {
			r.t.Errorf("S8: the log tells too much: %.600s", text)
		}
	})
}

// eventually waits for what comes by itself.
func (r *rig) eventually(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Errorf("not within %v: %s", patience, what)
			return
		}
	}
}

const (
	tokenA = "token-AAAA-SECRET"
	tokenB = "token-BBBB-SECRET"
	owner  = "R6E5CFJqIZPbP0EYZHkUCg"
	query  = "?ownerId=" + owner
)

// head is a request's head with a token, "" for none.
func head(method, target, token string, fields ...string) string {
	b := method + " " + target + " HTTP/1.1\r\nHost: x\r\n"
	if token != "" {
		b += "Authorization: Bearer " + token + "\r\n"
	}
	for _, f := range fields {
		b += f + "\r\n"
	}
	return b + "\r\n"
}

func lengthOf(body string) string { return "Content-Length: " + strconv.Itoa(len(body)) }

// do sends a request on a connection of its own.
func (r *rig) do(method, target, token, body string, fields ...string) *relaytest.Response {
	r.t.Helper()
	if body != "" || method == "POST" || method == "PUT" {
		fields = append(fields, lengthOf(body))
	}
	return r.raw(method, head(method, target, token, fields...)+body)
}

// raw sends text and reads one answer, which must have what all answers have.
func (r *rig) raw(method, text string) *relaytest.Response {
	r.t.Helper()
	c := r.dial()
	defer func() { _ = c.Close() }()
	_ = c.SendString(text) // an early answer may have closed it
	return r.read(c, method)
}

func (r *rig) dial() *relaytest.Conn {
	r.t.Helper()
	c, err := relaytest.Dial(r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) read(c *relaytest.Conn, method string) *relaytest.Response {
	r.t.Helper()
	res, err := c.ReadResponse(method, patience)
	if err != nil {
		r.t.Fatalf("%s: no answer: %v", method, err)
	}
	h := res.Header
	if h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Expose-Headers") != "ETag, Content-Length, Retry-After" {
		r.t.Errorf("S3: %s answered %d without CORS: %v", method, res.Status, h)
	}
	if h.Get("Cache-Control") == "" {
		r.t.Errorf("S6: %s answered %d without Cache-Control", method, res.Status)
	}
	return res
}

// want compares status and error code ("" for none).
func (r *rig) want(what string, res *relaytest.Response, status int, code string) {
	r.t.Helper()
	var body struct{ Error, Message string }
	if code != "" {
		if err := json.Unmarshal(res.Body, &body); err != nil || body.Message == "" {
			r.t.Errorf("%s: S4: body %.200q: %v", what, res.Body, err)
		}
	}
	if res.Status != status || body.Error != code {
		r.t.Errorf("%s: %d %.300q, want %d %q", what, res.Status, res.Body, status, code)
	}
}

func (r *rig) wantBody(what string, res *relaytest.Response, want string) {
	r.t.Helper()
	if res.Status != 200 || string(res.Body) != want {
		r.t.Errorf("%s: %d %.300q, want 200 %.300q", what, res.Status, res.Body, want)
	}
}

// event is an envelope; streamID may be "".
func event(id, streamID, ciphertext string) string {
	if streamID != "" {
		streamID = `"streamId":"` + streamID + `",`
	}
	return fmt.Sprintf(`{"version":1,"ownerId":%q,"eventId":%q,%s"deviceId":"d","createdAt":"t","nonce":"n","ciphertext":%q}`,
		owner, id, streamID, ciphertext)
}

func pushBody(events ...string) string {
	return `{"ownerId":"` + owner + `","events":[` + strings.Join(events, ",") + `]}`
}

func (r *rig) push(token string, events ...string) *relaytest.Response {
	r.t.Helper()
	return r.do("POST", "/v1/events", token, pushBody(events...))
}

func (r *rig) pushed(accepted, duplicate int, events ...string) {
	r.t.Helper()
	r.wantBody("push", r.push(tokenA, events...), fmt.Sprintf(`{"accepted":%d,"duplicate":%d}`, accepted, duplicate))
}

// pull returns the envelopes and the cursor of a page.
func (r *rig) pull(params string) (events []string, next string) {
	r.t.Helper()
	res := r.do("GET", "/v1/events"+query+params, tokenA, "")
	return r.page(res)
}

func (r *rig) page(res *relaytest.Response) (events []string, next string) {
	r.t.Helper()
	var p struct {
		Events     []json.RawMessage
		NextCursor string
	}
	if err := json.Unmarshal(res.Body, &p); err != nil || res.Status != 200 || p.Events == nil {
		r.t.Fatalf("pull: %d %.300q: %v", res.Status, res.Body, err)
	}
	for _, e := range p.Events {
		events = append(events, string(e))
	}
	return events, p.NextCursor
}

func (r *rig) used() (n int64) {
	r.t.Helper()
	res := r.do("GET", "/v1/usage"+query, tokenA, "")
	var u struct {
		OwnerID     string `json:"ownerId"`
		StoredBytes int64  `json:"storedBytes"`
	}
	if err := json.Unmarshal(res.Body, &u); err != nil || res.Status != 200 || u.OwnerID != owner {
		r.t.Fatalf("usage: %d %q: %v", res.Status, res.Body, err)
	}
	return u.StoredBytes
}

func (r *rig) unknown(what string) {
	r.t.Helper()
	r.want(what+": owner", r.do("GET", "/v1/status"+query, tokenA, ""), 404, "unknown_owner")
}
