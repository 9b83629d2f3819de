package aepws

import (
	"fmt"
	"strings"
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
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// feedRig is a hub on simulated loops, over a log in memory or a real one.
type feedRig struct {
	t       testing.TB
	clock   *simloop.Clock
	loops   []*simloop.Loop
	workers []*serve.Worker
	budget  *serve.Budget
	plan    *retryPlan
	hub     *hub
	log     *memoryLog
	jobs    *heldJobs
	scanner codec.Scanner
	lines   []*line
	opening *line // whose handshake is being served
}

// feedConfig says what a feedRig starts with. Zero values stand for one loop and
// bounds that are never met.
type feedConfig struct {
	loops     int
	keep      int64 // events that the log keeps
	tail      int   // entries, a power of two
	sendQueue int
	subs      int
	retry     retryPolicy
	before    int // events in the log from an earlier run
}

func newFeedRig(t testing.TB, cfg feedConfig) *feedRig {
	t.Helper()
	r := &feedRig{t: t, clock: simloop.NewClock(), budget: newFeedBudget(), jobs: &heldJobs{}}
	r.log = &memoryLog{keep: cfg.keep, now: r.clock.Now}
	r.setUp(cfg, r.log, r.jobs)
	return r
}

// setUp makes the loops and the hub.
func (r *feedRig) setUp(cfg feedConfig, s store, j jobs) {
	r.t.Helper()
	retry := cfg.retry
	if retry.ackTimeout == 0 {
		retry.ackTimeout, retry.backoff, retry.maxBackoff = 30*time.Second, time.Second, 30*time.Second
	}
	if retry.multiplier == 0 {
		retry.multiplier = 2
	}
	if retry.attempts == 0 {
		retry.attempts = 3
	}
	if retry.unacked == 0 {
		retry.unacked = 1000
	}
	var err error
	if r.plan, err = newRetryPlan(retry); err != nil {
		r.t.Fatal(err)
	}
	for range cfg.before {
		r.publish(eventOf{})
	}
	set := hubSettings{maxSubscriptions: cfg.subs, sendQueue: cfg.sendQueue, tailEntries: cfg.tail, tailBytes: 64 << 20}
	if set.maxSubscriptions == 0 {
		set.maxSubscriptions = 64
	}
	if set.sendQueue == 0 {
		set.sendQueue = 1024
	}
	if set.tailEntries == 0 {
		set.tailEntries = 1 << 14
	}
	r.hub = newHub(set, s, j)
	if r.log != nil {
		r.log.committed = r.hub.committed
	}
	entries := stream.NewLog(64, 1<<20)
	buffers := sessions.New(sessions.Config{EventsPerSession: 1, Sessions: 1}, entries)
	shared := serve.Config{Handler: r, Budget: r.budget}
	for i := range max(cfg.loops, 1) {
		l := simloop.NewLoop(i, r.clock)
		w := serve.NewWorker(shared, l.Loop, fanout.NewSet(l.Loop, entries, buffers, fanout.Limits{}))
		r.loops, r.workers = append(r.loops, l), append(r.workers, w)
		r.hub.addFeed(w)
	}
	r.t.Cleanup(r.finish)
}

// finish ends everything and checks that all was given back.
func (r *feedRig) finish() {
	r.t.Helper()
	for _, n := range r.lines {
		n.Reset()
	}
	r.jobs.hold = false
	r.run()
	for i, f := range r.hub.feeds {
		if len(f.groups) != 0 || len(f.behind) != 0 || len(f.ready) != 0 || len(f.named) != 0 || len(f.waiting) != 0 ||
			f.reads != 0 || len(f.index.byKey) != 0 || len(f.index.scan) != 0 {
			r.t.Errorf("loop %d: at the end %d groups, %d behind, %d ready, %d waiting, %d reads, %d keys, %d scanned", i,
				len(f.groups), len(f.behind), len(f.ready), len(f.waiting), f.reads, len(f.index.byKey), len(f.index.scan))
		}
	}
	if n := r.hub.counts.subscriptions.Load(); n != 0 {
		r.t.Errorf("%d subscriptions are counted and none is left", n)
	}
	if n := r.budget.UsedBytes(); n != 0 {
		r.t.Errorf("%d bytes of the budget were not given back", n)
	}
	for i, l := range r.loops {
		if n := l.Panics(); n != 0 || l.Fatal != nil {
			r.t.Errorf("loop %d: %d panics, %v", i, n, l.Fatal)
		}
	}
	for i, n := range r.lines {
		if n.Misuse != 0 {
			r.t.Errorf("line %d: %d calls that a transport must not get", i, n.Misuse)
		}
		if n.unacked != nil && n.unacked.used != 0 {
			r.t.Errorf("line %d: %d events are still unacknowledged", i, n.unacked.used)
		}
	}
}

// run works until nothing is left to do, jobs included.
func (r *feedRig) run() {
	r.t.Helper()
	for range 100_000 {
		for _, l := range r.loops {
			if !l.Run(1_000_000) {
				r.t.Fatal("a loop does not come to rest")
			}
		}
		if !r.jobs.work() {
			return
		}
	}
	r.t.Fatal("the loops do not come to rest")
}

// passTime lets d go by; timers fire at their time.
func (r *feedRig) passTime(d time.Duration) {
	r.t.Helper()
	for d > 0 {
		part := min(d, dueTick)
		r.clock.Advance(part)
		r.run()
		d -= part
	}
}

// eventOf is an event to publish. Zero values stand for tenant none, type
// task.progress, source agent:a, no mode, no expiry, the id e<number>.
type eventOf struct {
	tenant, typ, source, mode, id string
	expires                       time.Duration // from now
	size                          int           // of a pad in the payload
}

func (r *feedRig) publish(list ...eventOf) {
	r.t.Helper()
	for _, e := range list {
		r.log.append(r.stored(e))
	}
}

// stored makes an event of the log.
func (r *feedRig) stored(e eventOf) eventlog.Event {
	r.t.Helper()
	if e.typ == "" {
		e.typ = "task.progress"
	}
	if e.source == "" {
		e.source = "agent:a"
	}
	if e.id == "" && r.log != nil {
		e.id = fmt.Sprintf("e%d", r.log.newest+1)
	}
	more := ""
	if e.mode != "" {
		more = fmt.Sprintf(`,"delivery":{"mode":%q}`, e.mode)
	}
	var envelope codec.Envelope
	text := fmt.Sprintf(`{"aep_version":"0.1","id":%q,"type":%q,"source":%q,"created_at":"2026-01-01T00:00:00Z","payload":%q%s}`,
		e.id, e.typ, e.source, strings.Repeat(".", e.size), more)
	if err := r.scanner.Scan([]byte(text), &envelope); err != nil || len(envelope.Faults) > 0 {
		r.t.Fatalf("%s: %v %v", text, err, envelope.Faults)
	}
	s := eventlog.Event{
		Tenant: e.tenant, Source: e.source, ID: e.id, Type: e.typ,
		Text: codec.StoredForm(nil, &envelope), Digest: envelope.Digest(), Mode: uint8(envelope.Mode),
	}
	if e.expires != 0 {
		s.ExpiresAt = r.clock.Now().Add(e.expires)
	}
	return s
}

// publishMany publishes count events like e, and lets no loop run.
func (r *feedRig) publishMany(count int, e eventOf) {
	r.t.Helper()
	for range count {
		r.publish(e)
	}
}

// memoryLog is a store in memory, which keeps so many events.
type memoryLog struct {
	keep      int64
	now       func() time.Time
	committed func([]eventlog.Stored)

	mu      sync.Mutex
	events  []eventlog.Stored
	newest  int64
	letters []eventlog.DeadLetter
	fail    error
	reads   int
}

func (m *memoryLog) append(e eventlog.Event) {
	m.mu.Lock()
	m.newest++
	s := eventlog.Stored{Seq: m.newest, StoredAt: m.now(), Event: e}
	m.events = append(m.events, s)
	if m.keep > 0 && int64(len(m.events)) > m.keep {
		m.events = m.events[1:]
	}
	m.mu.Unlock()
	if m.committed != nil {
		m.committed([]eventlog.Stored{s})
	}
}

// evictAll empties the log.
func (m *memoryLog) evictAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = nil
}

func (m *memoryLog) State() eventlog.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := eventlog.State{Newest: m.newest, Evicted: m.newest - int64(len(m.events)), Events: int64(len(m.events))}
	if len(m.events) > 0 {
		s.Oldest = m.events[0].Seq
	}
	return s
}

func (m *memoryLog) Page(after int64, maxEvents int, maxBytes int64, dst []eventlog.Stored) ([]eventlog.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.fail != nil {
		return dst, m.fail
	}
	evicted := m.newest - int64(len(m.events))
	if after < evicted {
		return dst, fmt.Errorf("page: %w", eventlog.ErrEvicted)
	}
	got, size := dst, int64(0)
	for _, e := range m.events[min(after-evicted, int64(len(m.events))):] {
		if size += int64(len(e.Text)); len(got)-len(dst) == maxEvents || size > maxBytes && len(got) > len(dst) {
			break
		}
		got = append(got, e)
	}
	return got, nil
}

func (m *memoryLog) DeadLetter(d eventlog.DeadLetter, done func(error)) {
	m.mu.Lock()
	err := m.fail
	if err == nil {
		m.letters = append(m.letters, d)
	}
	m.mu.Unlock()
	done(err)
}

// heldJobs are jobs that the test runs.
type heldJobs struct {
	hold   bool
	limit  int // jobs that wait; 0 is none
	queue  []func()
	most   int
	closed bool
}

func (j *heldJobs) Submit(l *loop.Loop, work func() func()) error {
	switch {
	case j.closed:
		return loop.ErrJobsClosed
	case j.limit > 0 && len(j.queue) >= j.limit:
		return loop.ErrJobsFull
	}
	j.queue = append(j.queue, func() {
		if err := l.Post(work()); err != nil {
			panic(err)
		}
	})
	j.most = max(j.most, len(j.queue))
	return nil
}

// work runs what waits, and tells whether there was something.
func (j *heldJobs) work() bool {
	if j.hold || len(j.queue) == 0 {
		return false
	}
	list := j.queue
	j.queue = nil
	for _, f := range list {
		f()
	}
	return true
}

func newFeedBudget() *serve.Budget { return serve.NewBudget(64 << 20) }
