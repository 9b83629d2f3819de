package aepws

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	sessions "github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

const (
	// step is more than the resolution of a loop's timers.
	step = 100 * time.Millisecond
	// patience bounds waits for the log's goroutine. It is used up only when a test
	// fails.
	patience = 2 * time.Minute
)

// rig is a surface on simulated loops, with a real log, and a clock and sockets
// that the test drives. The log's goroutine rings the loops; the test's runs
// them.
type rig struct {
	t       testing.TB
	clock   *simloop.Clock
	bell    chan struct{}
	loops   []*simloop.Loop
	workers []*serve.Worker
	log     *eventlog.Log
	surface *Surface
	feeds   []*feedDouble
	budget  *serve.Budget
	wires   []*wire
	gate    chan struct{}
	letGo   func() // opens the gate for good
	panics  int64  // that the test provokes
}

// rigConfig says what a rig starts with. Zero values stand for one loop, the
// contract's defaults and an open relay.
type rigConfig struct {
	loops    int
	settings func(*Settings)
	token    string
	log      eventlog.Config
	gated    bool // each commit waits for one of rig.gate before anybody is told
}

func newRig(t testing.TB, cfg rigConfig) *rig {
	t.Helper()
	set := DefaultSettings()
	if cfg.settings != nil {
		cfg.settings(&set)
	}
	r := &rig{t: t, clock: simloop.NewClock(), bell: make(chan struct{}, 1), budget: serve.NewBudget(64 << 20)}
	r.gate = make(chan struct{})
	r.letGo = sync.OnceFunc(func() { close(r.gate) })
	cfg.log.Path = filepath.Join(t.TempDir(), "aepws.db")
	cfg.log.Committed = func(batch []eventlog.Stored) {
		if cfg.gated {
			<-r.gate
		}
		r.surface.Committed(batch)
	}
	var err error
	if r.log, err = eventlog.Open(cfg.log); err != nil {
		t.Fatal(err)
	}
	parts := Parts{Log: slog.New(slog.DiscardHandler), Events: r.log, Token: cfg.token}
	if cfg.token == "" {
		if parts.Guard, err = auth.NewGuard([]string{"https://dash.example"}, false, true); err != nil {
			t.Fatal(err)
		}
	}
	if r.surface, err = New(set, parts); err != nil {
		t.Fatal(err)
	}
	events := stream.NewLog(64, 1<<20)
	buffers := sessions.New(sessions.Config{EventsPerSession: 1, Sessions: 1}, events)
	shared := serve.Config{Handler: r.surface, Budget: r.budget, Refusals: r.surface.Refusals}
	for i := range max(cfg.loops, 1) {
		l := simloop.NewLoop(i, r.clock)
		l.Bind(r.ring)
		l.BindHop(func(f func()) { f() })
		r.loops = append(r.loops, l)
		r.workers = append(r.workers, serve.NewWorker(shared, l.Loop, fanout.NewSet(l.Loop, events, buffers, fanout.Limits{})))
	}
	r.surface.Attach(r.workers, nil)
	for _, l := range r.surface.lanes {
		f := &feedDouble{}
		l.feed = f
		r.feeds = append(r.feeds, f)
	}
	t.Cleanup(r.finish)
	return r
}

// finish ends everything and checks that all was given back.
func (r *rig) finish() {
	r.t.Helper()
	r.letGo()
	for _, w := range r.wires {
		w.Reset()
	}
	r.run()
	if err := r.log.Close(); err != nil {
		r.t.Errorf("closing the log: %v", err)
	}
	r.pass(step) // what waited for room is answered
	c := r.surface.Counters()
	if c.Connections != 0 || c.Sessions != 0 || c.Pending != 0 || c.BusyBytes != 0 {
		r.t.Errorf("at the end %d connections, %d sessions, %d appends, %d bytes of events are left", c.Connections, c.Sessions, c.Pending, c.BusyBytes)
	}
	for i, w := range r.workers {
		if n := w.Conns(); n != 0 {
			r.t.Errorf("%d connections are left", n)
		}
		if n := r.loops[i].Panics(); n != r.panics {
			r.t.Errorf("loop %d: %d panics", i, n)
		}
		r.panics = 0 // they are the first loop's
	}
	if n := r.budget.UsedBytes(); n != 0 {
		r.t.Errorf("%d bytes of the budget were not given back", n)
	}
	for i, w := range r.wires {
		if w.Misuse != 0 {
			r.t.Errorf("wire %d: %d calls that a transport must not get", i, w.Misuse)
		}
	}
}

// ring asks for a turn of the loops. Any goroutine.
func (r *rig) ring() error {
	select {
	case r.bell <- struct{}{}:
	default:
	}
	return nil
}

// run works until nothing is left to do. A ring is of any loop.
func (r *rig) run() {
	r.t.Helper()
	for range 100_000 {
		busy := false
		for _, l := range r.loops {
			busy = l.Poll() > 0 || busy
		}
		select {
		case <-r.bell:
			busy = true
			for _, l := range r.loops {
				l.Loop.Turn()
			}
		default:
		}
		if !busy {
			return
		}
	}
	r.t.Fatal("the loops do not come to rest")
}

// await runs the loops until cond holds.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	limit := time.After(patience)
	for r.run(); !cond(); r.run() {
		select {
		case <-r.bell:
			_ = r.ring()
		case <-time.After(time.Millisecond): // the log's state changes without a ring
		case <-limit:
			r.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// answered waits until the log has answered all that was published.
func (r *rig) answered() {
	r.t.Helper()
	r.await("the log answers", func() bool { return r.surface.Pending() == 0 })
}

// arrived waits until the log has left n answers with the first loop, which does
// not run meanwhile.
func (r *rig) arrived(n int) {
	r.t.Helper()
	a := &r.surface.lanes[0].answers
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // pacing
		a.mu.Lock()
		have := len(a.list)
		a.mu.Unlock()
		if have == n {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("not within %v: %d answers of the log, have %d", patience, n, have)
		}
	}
}

// pass lets d go by; timers fire at their time.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	for d > 0 {
		part := min(d, step/2)
		r.clock.Advance(part)
		r.run()
		d -= part
	}
}

// kept returns the texts of the log.
func (r *rig) kept() (texts []string) {
	r.t.Helper()
	page, err := r.log.Page(0, 10_000, 64<<20, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range page {
		texts = append(texts, string(s.Text))
	}
	return texts
}

// feedDouble notes what a loop's feed is told, as "subscribe s1" and so on.
type feedDouble struct {
	log  []string
	hook func(call string, k outlet)
}

func (f *feedDouble) note(k outlet, format string, args ...any) {
	call := fmt.Sprintf(format, args...) + " " + k.session()
	f.log = append(f.log, call)
	if f.hook != nil {
		f.hook(call, k)
	}
}

func (f *feedDouble) subscribe(k outlet, req *codec.FilterRequest, why cause) {
	f.note(k, "subscribe %s because %s %s", req.Filter.Canonical(), why.id, why.correlation)
}

func (f *feedDouble) cancel(k outlet, id string, why cause) {
	f.note(k, "cancel %s because %s %s", id, why.id, why.correlation)
}

func (f *feedDouble) acknowledge(k outlet, ack *codec.AckRequest) {
	f.note(k, "acknowledge %s", ack.EventID)
}

func (f *feedDouble) reject(k outlet, rej *codec.RejectRequest) { f.note(k, "reject %s", rej.EventID) }
func (f *feedDouble) closed(k outlet)                           { f.note(k, "closed") }

func (f *feedDouble) drained(k outlet) {
	if f.hook != nil {
		f.hook("drained", k)
	}
}

// calls returns what a loop's feed was told since the last look.
func (r *rig) calls(loop int) []string {
	f := r.feeds[loop]
	log := f.log
	f.log = nil
	return log
}

func (r *rig) wantCalls(what string, want ...string) {
	r.t.Helper()
	if got := r.calls(0); !slices.Equal(got, want) {
		r.t.Errorf("%s: the feed was told %q, want %q", what, got, want)
	}
}

// wire is one connection: its socket, and what the peer has not looked at.
type wire struct {
	loop.Handler
	*simloop.Socket
	r    *rig
	read int
}

// dial opens a connection on a loop whose kernel takes everything.
func (r *rig) dial(loop int) *wire {
	w := &wire{r: r}
	w.Socket = r.loops[loop].NewSocket(simloop.Unlimited, w)
	w.Handler = r.workers[loop].Accept(w)
	r.wires = append(r.wires, w)
	r.run()
	return w
}

// say delivers p in one read, and lets the loops run. What is sent to a
// connection that has ended is lost.
func (w *wire) say(p string) {
	w.r.t.Helper()
	if !w.Gone() {
		w.OnData([]byte(p))
	}
	w.r.run()
}
