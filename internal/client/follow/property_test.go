package follow

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// published is an event that a relay has acknowledged.
type published struct {
	id, session string
	seq         int64
	run         int // of the relay
}

// world is a relay that is ended and started again, a proxy before it that cuts
// connections, and a publisher who knows what was acknowledged.
type world struct {
	tb    testing.TB
	env   []string
	relay *faults.Process
	proxy *cutter
	rand  *rand.Rand
	run   int
	acked []published
	seqs  map[string]uint64
	count int
}

func newWorld(tb testing.TB, longest int, env ...string) *world {
	tb.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	tb.Logf("seed %d, repeat with -follow.seed", seed)
	w := &world{tb: tb, env: env, relay: testrelay.SpawnKilled(tb, env...), rand: rand.New(rand.NewPCG(seed, 0)), seqs: map[string]uint64{}}
	w.proxy = startCutter(tb, w.relay.Addr, seed, longest)
	return w
}

// restart ends the relay, killed or asked to, and starts another.
func (w *world) restart(kill bool) {
	w.tb.Helper()
	if kill {
		w.relay.Kill()
	} else if err := w.relay.Stop(); err != nil {
		w.tb.Fatal(err)
	}
	w.run++
	w.relay = testrelay.SpawnKilled(w.tb, w.env...)
	w.proxy.backend.Store(&w.relay.Addr)
}

// publish posts n events in small batches: to old sessions and new ones, some
// out of their order.
func (w *world) publish(n int) {
	w.tb.Helper()
	for n > 0 {
		batch := 1 + w.rand.IntN(min(n, 10))
		n -= batch
		var texts []string
		var events []published
		for range batch {
			w.count++
			session := fmt.Sprintf("old:%d", w.rand.IntN(5))
			if w.rand.IntN(4) == 0 {
				session = fmt.Sprintf("new-%d", w.count/60)
			}
			texts, events = w.event(texts, events, session)
		}
		if len(texts) > 1 && w.rand.IntN(3) == 0 {
			slices.Reverse(texts)
		}
		if err := publish(w.relay.Addr, texts...); err != nil {
			w.tb.Fatal(err)
		}
		w.acked = append(w.acked, events...)
	}
}

func (w *world) event(texts []string, events []published, session string) ([]string, []published) {
	seq := w.seqs[session]
	w.seqs[session]++
	e := relaytest.Event{
		ID: relaytest.NewID(), Session: session, Seq: seq, Severity: "notice",
		Time: time.Now().Format(time.RFC3339Nano),
		Data: fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", w.rand.IntN(200))),
	}
	return append(texts, e.JSON()), append(events, published{e.ID, session, int64(seq), w.run})
}

// sentinels posts one event to each session there is, and returns their ids.
func (w *world) sentinels() []string {
	w.tb.Helper()
	var texts, ids []string
	var events []published
	for session := range w.seqs {
		texts, events = w.event(texts, events, session)
	}
	mustPublish(w.tb, w.relay.Addr, texts...)
	for _, e := range events {
		ids = append(ids, e.id)
	}
	w.acked = append(w.acked, events...)
	return ids
}

// check compares what was told with what was acknowledged: nothing twice, what
// the last relay holds not missing, and else a gap said.
func (w *world) check(c *collector) {
	w.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.ids {
		if n > 1 {
			w.tb.Errorf("event %s came %d times", id, n)
		}
	}
	for _, t := range c.all {
		switch n := t.notice; n.Kind {
		case Malformed, Shed, Incomplete, Forgotten, Unsaved:
			w.tb.Errorf("notice %s", n)
		}
	}
	restarts, gaps := said(c)
	missing, unsaid := w.missing(c)
	for _, e := range unsaid[:min(len(unsaid), 5)] { // enough to see
		w.tb.Errorf("event %s (%s:%d of run %d of %d) is missing without a word", e.id, e.session, e.seq, e.run, w.run)
	}
	if restarts > w.run {
		w.tb.Errorf("%d restarts told of %d", restarts, w.run)
	}
	w.tb.Logf("%d acknowledged, %d told, %d missing, %d of them unsaid; %d cuts, %d restarts of %d told, gaps in %d sessions",
		len(w.acked), len(c.ids), missing, len(unsaid), w.proxy.cuts.Load(), restarts, w.run, len(gaps))
}

// said returns how often the relay was told to be another, and up to where
// sessions have gaps. c.mu is held.
func said(c *collector) (restarts int, gaps map[string]int64) {
	gaps = map[string]int64{}
	for _, t := range c.all {
		switch n := t.notice; n.Kind {
		case Restarted:
			restarts++
		case Gap:
			gaps[n.Session] = max(gaps[n.Session], n.Seq)
		}
	}
	return restarts, gaps
}

// missing returns how many acknowledged events were not told, and those of them
// that no notice stands for. c.mu is held.
func (w *world) missing(c *collector) (n int, unsaid []published) {
	restarts, gaps := said(c)
	for _, e := range w.acked {
		if c.ids[e.id] > 0 {
			continue
		}
		n++
		if (e.run == w.run || restarts == 0) && e.seq >= gaps[e.session] {
			unsaid = append(unsaid, e)
		}
	}
	return n, unsaid
}

// finish lets everything arrive. The last events may come by the live connection
// before a replay beside it has brought those of sessions that began during a
// cut; so long as check would find something missing it may still come.
func (w *world) finish(c *collector) {
	w.tb.Helper()
	w.proxy.calm.Store(true)
	ids := w.sentinels()
	c.await(w.tb, "the last event of each session", func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return c.ids[id] == 0 })
	})
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // pacing
		c.mu.Lock()
		_, unsaid := w.missing(c)
		c.mu.Unlock()
		if len(unsaid) == 0 {
			return
		}
	}
}

// awaitCuts waits until so many more connections were cut.
func (w *world) awaitCuts(n int64) {
	w.tb.Helper()
	n += w.proxy.cuts.Load()
	for deadline := time.Now().Add(patience); w.proxy.cuts.Load() < n; {
		if time.Now().After(deadline) {
			w.tb.Fatal("no connection is cut any more")
		}
		time.Sleep(time.Millisecond) // pacing
	}
}

// eachWay runs a test over SSE and WebSocket.
func eachWay(t *testing.T, f func(t *testing.T, o Options)) {
	t.Helper()
	for _, socket := range []bool{false, true} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("ws=%v,all=%v", socket, all), func(t *testing.T) {
				t.Parallel()
				f(t, Options{Socket: socket, All: all})
			})
		}
	}
}

// begin starts a follower and waits until the relay has it.
func (w *world) begin(o Options) (*run, *collector) {
	w.tb.Helper()
	c := newCollector()
	o.Relay = at(w.tb, w.proxy.addr)
	// Nothing is cut until the first event has come: without All it is not owed.
	w.proxy.calm.Store(true)
	r := startFollow(w.tb, o, c)
	for deadline := time.Now().Add(patience); c.events() == 0; {
		if time.Now().After(deadline) {
			w.tb.Fatal("no event comes")
		}
		// Until the subscription is there, events pass by.
		mustPublish(w.tb, w.relay.Addr, relaytest.Event{Session: "hello", Seq: w.seqs["hello"], Severity: "notice"}.JSON())
		w.seqs["hello"]++
		time.Sleep(time.Millisecond) // pacing
	}
	w.proxy.calm.Store(false)
	w.proxy.cutAll()
	return r, c
}

// Cuts at any byte, and a relay that stays: nothing twice, nothing missing.
func TestCuts(t *testing.T) {
	eachWay(t, func(t *testing.T, o Options) {
		w := newWorld(t, 20_000)
		r, c := w.begin(o)
		for range scale(60, 15) {
			w.publish(100)
			w.awaitCuts(1)
		}
		w.finish(c)
		if err := r.end(t); err != nil {
			t.Error(err)
		}
		w.check(c)
	})
}

// Cuts, and a relay that is killed or ended and forgets: what is missing was
// said.
func TestCutsAndRestarts(t *testing.T) {
	eachWay(t, func(t *testing.T, o Options) {
		w := newWorld(t, 20_000)
		r, c := w.begin(o)
		for i := range scale(6, 3) {
			w.publish(300)
			w.awaitCuts(3)
			w.publish(200)
			w.restart(i%2 == 0)
		}
		w.publish(500)
		w.finish(c)
		if err := r.end(t); err != nil {
			t.Error(err)
		}
		w.check(c)
	})
}

// A relay that holds little: what it has dropped meanwhile is said.
func TestCutsAndSmallBuffers(t *testing.T) {
	eachWay(t, func(t *testing.T, o Options) {
		w := newWorld(t, 4000, "AEP_BUFFER=30")
		r, c := w.begin(o)
		for range scale(40, 15) {
			w.publish(100)
			w.awaitCuts(1)
		}
		w.finish(c)
		if err := r.end(t); err != nil {
			t.Error(err)
		}
		w.check(c)
	})
}

// The reader itself ends and begins again from its state file.
func TestCutsAndOwnRestarts(t *testing.T) {
	eachWay(t, func(t *testing.T, o Options) {
		o.State = filepath.Join(t.TempDir(), "state")
		w := newWorld(t, 20_000)
		r, c := w.begin(o)
		for range scale(10, 4) {
			w.publish(200)
			w.awaitCuts(2)
			if err := r.end(t); err != nil {
				t.Fatal(err)
			}
			w.publish(50)
			o.Relay = at(t, w.proxy.addr)
			r = startFollow(t, o, c)
		}
		w.finish(c)
		if err := r.end(t); err != nil {
			t.Error(err)
		}
		w.check(c)
	})
}

// A replay that is to end is read through cuts, and ends.
func TestCutsOnce(t *testing.T) {
	w := newWorld(t, 300_000)
	w.proxy.most.Store(maxTries - 1)
	w.publish(2000)
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, w.proxy.addr), Once: true}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	w.check(c)
}

// scale returns full, or short under -short.
func scale(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}
