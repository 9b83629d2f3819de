package firehose

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
)

// patience bounds waits for what must come. It is used up only when a test
// fails.
const patience = time.Minute

const (
	publishToken = "publish-SECRET"
	adminToken   = "admin-SECRET"
)

// liveRig is a surface on real loops and sockets, with all routes.
type liveRig struct {
	t        testing.TB
	disk     *disk
	ring     *stream.Ring
	producer *Producer
	surface  *Surface
	upstream *fakeUpstream
	budget   *serve.Budget
	jobs     *loop.Jobs
	server   *netloop.Server
	addr     string
	log      *relaytest.LogBuffer

	mu     sync.Mutex
	health error
}

// fakeUpstream is an Upstream that a test fills.
type fakeUpstream struct {
	mu    sync.Mutex
	repos map[string]RepoStatus
	fail  error
	calls []string
}

// RepoStatus implements Upstream.
func (u *fakeUpstream) RepoStatus(did string) (RepoStatus, bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	status, known := u.repos[did]
	return status, known, u.fail
}

// Account implements Upstream.
func (u *fakeUpstream) Account(did, action string) error { return u.call("account", did, action) }

// Host implements Upstream.
func (u *fakeUpstream) Host(hostname, action string) error { return u.call("host", hostname, action) }

func (u *fakeUpstream) call(what, name, action string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fail == nil {
		u.calls = append(u.calls, what+" "+name+" "+action)
	}
	return u.fail
}

func (u *fakeUpstream) know(status RepoStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.repos[status.DID] = status
}

func (u *fakeUpstream) setFail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fail = err
}

// taken returns the calls since the last time.
func (u *fakeUpstream) taken() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	calls := strings.Join(u.calls, "|")
	u.calls = nil
	return calls
}

// newLiveRig starts a surface on two loops. Its end checks that all was given
// back.
func newLiveRig(t testing.TB, change func(*Settings, *Parts)) *liveRig {
	t.Helper()
	r := &liveRig{
		t: t, budget: serve.NewBudget(64 << 20), log: &relaytest.LogBuffer{}, disk: &disk{t: t},
		upstream: &fakeUpstream{repos: map[string]RepoStatus{}}, jobs: loop.NewJobs(2, 8),
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	cfg := DefaultSettings()
	parts := Parts{
		Log: log, Upstream: r.upstream, PublishToken: publishToken, AdminToken: adminToken,
		Health: func() error {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.health
		},
	}
	if change != nil {
		change(&cfg, &parts)
	}
	numbers, err := OpenNumbers(r.disk, NumbersConfig{Mode: FloorNumber, Floor: 1, Block: 16})
	if err != nil {
		t.Fatal(err)
	}
	r.ring = stream.NewRing(stream.Bounds{Frames: cfg.ReplayFrames, Bytes: cfg.ReplayBytes})
	r.producer = NewProducer(Config{
		Ring: r.ring, Numbers: numbers, MaxFrameBytes: cfg.MaxFrameBytes,
		Published: func() { r.surface.Ring() },
	})
	parts.Producer, parts.Ring = r.producer, r.ring
	r.surface = NewSurface(cfg, parts)
	r.start(log)
	if err := r.producer.Booting(); err != nil {
		t.Fatal(err)
	}
	if err := r.producer.Listening(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *liveRig) start(log *slog.Logger) {
	var workers []*serve.Worker
	accept := func(l *loop.Loop, tr loop.Transport) loop.Handler { return workers[l.ID].Accept(tr) }
	server, err := netloop.New(netloop.Config{Addrs: []string{"127.0.0.1:0"}, Loops: 2, Log: log}, loop.SystemClock{}, accept)
	if err != nil {
		r.t.Fatal(err)
	}
	r.server = server
	events := stream.NewLog(64, 1<<20)
	buffers := session.New(session.Config{EventsPerSession: 1, Sessions: 1}, events)
	shared := serve.Config{Handler: r.surface, Budget: r.budget, Jobs: r.jobs, Log: log, Refusals: r.surface.Refusals}
	for _, l := range server.Loops() {
		workers = append(workers, serve.NewWorker(shared, l, fanout.NewSet(l, events, buffers, fanout.Limits{})))
	}
	r.surface.Attach(workers)
	if err := server.Listen(); err != nil {
		r.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	r.addr = server.Addrs()[0].String()
	r.t.Cleanup(func() {
		r.eventually("connections closed", func() bool { return server.Conns() == 0 })
		r.eventually("budget given back", func() bool { return r.budget.UsedBytes() == 0 })
		// A connection is counted off before its end is told.
		r.eventually("no consumer is counted", func() bool { return r.surface.Counters().Consumers == 0 })
		for _, l := range server.Loops() {
			if l.Panics() != 0 {
				r.t.Errorf("%d panics", l.Panics())
			}
		}
		_ = r.producer.Stop(nil, nil)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			r.t.Error(err)
		}
		<-served
		r.jobs.Close()
		if text := r.log.String(); strings.Contains(text, "SECRET") {
			r.t.Errorf("the log shows a token: %.600s", text)
		}
	})
}

// eventually waits for what comes by itself.
func (r *liveRig) eventually(what string, cond func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Errorf("not within %v: %s", patience, what)
			return
		}
	}
}

func (r *liveRig) setHealth(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health = err
}

// do sends a request on a connection of its own. Any answer names the server
// (F8).
func (r *liveRig) do(method, target, token, body string, fields ...string) *relaytest.Response {
	r.t.Helper()
	text := method + " " + target + " HTTP/1.1\r\nHost: x\r\n"
	if token != "" {
		text += "Authorization: Bearer " + token + "\r\n"
	}
	if method == "POST" {
		fields = append(fields, "Content-Length: "+strconv.Itoa(len(body)))
	}
	for _, f := range fields {
		text += f + "\r\n"
	}
	return r.raw(method, text+"\r\n"+body)
}

func (r *liveRig) raw(method, text string) *relaytest.Response {
	r.t.Helper()
	c, err := relaytest.Dial(r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SendString(text) // an early answer may have closed it
	res, err := c.ReadResponse(method, patience)
	if err != nil {
		r.t.Fatalf("%.60q: no answer: %v", text, err)
	}
	if got := res.Header.Values("Server"); len(got) != 1 || got[0] != r.surface.cfg.ServerField() {
		r.t.Errorf("F8: %.60q is answered with Server %q", text, got)
	}
	if res.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("F2: %.60q is answered with %q", text, res.Header.Get("Content-Type"))
	}
	return res
}

// wantError compares status and error name.
func (r *liveRig) wantError(what string, res *relaytest.Response, status int, name string) {
	r.t.Helper()
	var e struct{ Error, Message string }
	if err := json.Unmarshal(res.Body, &e); err != nil || e.Message == "" {
		r.t.Errorf("%s: F2: body %.200q: %v", what, res.Body, err)
	}
	if res.Status != status || e.Error != name {
		r.t.Errorf("%s: %d %.300q, want %d %q", what, res.Status, res.Body, status, name)
	}
}

func (r *liveRig) wantBody(what string, res *relaytest.Response, status int, want string) {
	r.t.Helper()
	if res.Status != status || string(res.Body) != want {
		r.t.Errorf("%s: %d %.300q, want %d %.300q", what, res.Status, res.Body, status, want)
	}
}

// subscribe opens a stream that is closed when the test ends.
func (r *liveRig) subscribe(query string) *relaytest.WS {
	r.t.Helper()
	w, err := relaytest.DialWS(r.addr, subscribePath+query, relaytest.WSOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = w.Close() })
	return w
}

// message returns the next binary message.
func (r *liveRig) message(w *relaytest.WS) []byte {
	r.t.Helper()
	m, err := w.Next(patience)
	if err != nil || m.Opcode != relaytest.OpBinary || m.Frames != 1 {
		r.t.Fatalf("F9: no message but opcode %d in %d frames: %v", m.Opcode, m.Frames, err)
	}
	return m.Data
}

// commit is the text of the frame with a number, as plain makes it.
func commit(seq int64) string { return fmt.Sprintf("commit=%d", seq) }
