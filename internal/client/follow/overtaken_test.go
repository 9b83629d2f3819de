package follow

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// stage is a relay, a proxy before it that can be cut off, and a follower of
// it that has had an event.
type stage struct {
	tb    testing.TB
	relay *faults.Process
	proxy *cutter
	c     *collector
	run   *run

	emitter string // what its events' ids begin with
}

func startStage(t *testing.T, o Options, env ...string) *stage {
	t.Helper()
	s := &stage{tb: t, relay: testrelay.SpawnKilled(t, env...), c: newCollector()}
	s.proxy = startCutter(t, s.relay.Addr, 1, 1)
	s.proxy.calm.Store(true)
	o.Relay = at(t, s.proxy.addr)
	s.post("hello", 0)
	s.run = startFollow(t, o, s.c)
	s.c.awaitID(t, "hello0")
	return s
}

// post posts events with a number each to a session.
func (s *stage) post(session string, seqs ...uint64) {
	s.tb.Helper()
	for _, seq := range seqs {
		e := relaytest.Event{ID: fmt.Sprint(s.emitter, session, seq), Session: session, Seq: seq, Time: time.Now().Format(time.RFC3339Nano)}
		mustPublish(s.tb, s.relay.Addr, e.JSON())
	}
}

// settle waits until the search for sessions is over: of two events one after
// the other the second can only come live.
func (s *stage) settle(name string) {
	s.tb.Helper()
	for _, probe := range []string{name + "-one", name + "-two"} {
		s.post(probe, 0)
		s.c.awaitID(s.tb, s.emitter+probe+"0")
	}
}

// apart does something while there is no connection.
func (s *stage) apart(do func()) {
	s.tb.Helper()
	s.c.mu.Lock()
	before := s.c.count(Lost)
	s.c.mu.Unlock()
	nowhere := "127.0.0.1:1"
	s.proxy.backend.Store(&nowhere)
	s.proxy.cutAll()
	s.c.await(s.tb, "the loss of the connection", func() bool { return s.c.count(Lost) > before })
	do()
	s.proxy.backend.Store(&s.relay.Addr)
}

// restart ends the relay and starts another.
func (s *stage) restart(env ...string) {
	s.tb.Helper()
	if err := s.relay.Stop(); err != nil {
		s.tb.Fatal(err)
	}
	s.relay = testrelay.SpawnKilled(s.tb, env...)
}

// end ends the follower and checks what it told of a session besides what is
// told once of the connection: events and gaps in their order.
func (s *stage) end(session string, want ...string) {
	s.tb.Helper()
	if err := s.run.end(s.tb); err != nil {
		s.tb.Error(err)
	}
	var got []string
	for _, t := range s.c.all {
		switch {
		case t.session == session:
			got = append(got, fmt.Sprint(t.seq))
		case t.notice.Kind == Gap && t.notice.Session == session:
			got = append(got, fmt.Sprint("gap ", t.notice.Seq))
		}
	}
	if !slices.Equal(got, want) {
		s.tb.Errorf("session %s: %q, want %q", session, got, want)
	}
}

// count returns how many notices of a kind were told. c.mu is held.
func (c *collector) count(k Kind) (n int) {
	for _, t := range c.all {
		if t.notice.Kind == k {
			n++
		}
	}
	return n
}

// A session that a search has found may have overtaken events too.
func TestFoundOvertaken(t *testing.T) {
	s := startStage(t, Options{All: true, Filter: `{"type":"progress.*"}`})
	s.apart(func() { s.post("s", 2) })
	s.c.awaitID(t, "s2")
	s.settle("a")
	s.apart(func() { s.post("s", 0, 1) })
	s.c.awaitID(t, "s1")
	s.end("s", "2", "0", "1")
}

// So may the sessions that one run has read to the end, and another goes on
// with.
func TestOnceOvertaken(t *testing.T) {
	for _, filter := range []string{"", `{"type":"progress.*"}`} {
		relay := testrelay.SpawnKilled(t)
		o := Options{Relay: at(t, relay.Addr), Filter: filter, State: filepath.Join(t.TempDir(), "state")}
		f := func(seqs ...uint64) {
			t.Helper()
			var want []string
			for _, seq := range seqs {
				want = append(want, fmt.Sprint("s", seq))
				mustPublish(t, relay.Addr, relaytest.Event{ID: fmt.Sprint("s", seq), Session: "s", Seq: seq}.JSON())
			}
			if got := once(t, o); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", filter, got, want)
			}
		}
		f(2, 5)
		f(0, 1, 3)
		f(4, 6)
		f()
	}
}

// R166: a relay cannot vouch for what is before a session's first number, which
// is no gap for who has seen that.
func TestBeginsHigh(t *testing.T) {
	for _, o := range []Options{{All: true}, {All: true, Socket: true}, {All: true, Filter: `{"type":"progress.*"}`}} {
		s := startStage(t, o)
		s.settle("a")
		s.post("s", 1000)
		s.c.awaitID(t, "s1000")
		s.apart(func() {})
		s.post("s", 1001)
		s.c.awaitID(t, "s1001")
		s.apart(func() { s.post("s", 900, 1002) })
		s.c.awaitID(t, "s1002")
		s.end("s", "1000", "1001", "900", "1002")
	}
}

// R171: a relay that takes no positions says nothing of gaps.
func TestGapWithoutPositions(t *testing.T) {
	f := func(name string, first, apart []uint64, want ...string) {
		t.Helper()
		s := startStage(t, Options{All: true}, "AEP_MAX_FROM=0", "AEP_BUFFER=4")
		s.settle("a")
		s.post("s", first...)
		s.c.awaitID(t, fmt.Sprint("s", first[len(first)-1]))
		s.settle("b") // one position, the newest, may come as Last-Event-ID
		s.apart(func() { s.post("s", apart...) })
		s.c.awaitID(t, fmt.Sprint("s", max(first[len(first)-1], apart[len(apart)-1])))
		s.settle("c")
		t.Log(name)
		s.end("s", want...)
	}
	f("nothing is gone", []uint64{0, 1, 2}, []uint64{3, 4, 5}, "0", "1", "2", "3", "4", "5")
	f("just nothing is gone", []uint64{0, 1, 2}, []uint64{3, 4, 5, 6}, "0", "1", "2", "3", "4", "5", "6")
	f("one is gone", []uint64{0, 1, 2}, []uint64{3, 4, 5, 6, 7}, "0", "1", "2", "gap 4", "4", "5", "6", "7")
	f("one that is late is gone", []uint64{0, 2, 3}, []uint64{1, 4, 5}, "0", "2", "3", "gap 2", "4", "5")
	f("a number that is not there", []uint64{0, 2, 3}, []uint64{4}, "0", "2", "3", "4")
	f("one that is late is there", []uint64{0, 2, 3}, []uint64{1}, "0", "2", "3", "1")
}

// A number that never was is no gap where the relay vouches for it.
func TestHoleIsNoGap(t *testing.T) {
	s := startStage(t, Options{All: true})
	s.settle("a")
	s.post("s", 0, 2, 3)
	s.c.awaitID(t, "s3")
	s.apart(func() { s.post("s", 4) })
	s.c.awaitID(t, "s4")
	s.end("s", "0", "2", "3", "4")
}

// R168: nor does a relay that was started anew.
func TestRewoundTrimmed(t *testing.T) {
	f := func(name, emitter string, apart []uint64, want ...string) {
		t.Helper()
		for _, socket := range []bool{false, true} {
			s := startStage(t, Options{All: true, Socket: socket})
			s.settle("a")
			s.post("s", 0, 1, 2)
			s.c.awaitID(t, "s2")
			s.apart(func() {
				s.restart("AEP_BUFFER=4")
				s.emitter = emitter
				s.post("s", apart...)
			})
			s.c.awaitNotice(t, Restarted)
			s.settle("b")
			s.apart(func() { s.post("t", 0) })
			s.c.awaitID(t, emitter+"t0")
			t.Log(name)
			s.end("s", append([]string{"0", "1", "2"}, want...)...)
		}
	}
	f("it goes on", "", []uint64{3, 4}, "3", "4")
	f("what was read comes again", "", []uint64{1, 2, 3, 4}, "3", "4")
	f("one is gone", "", []uint64{3, 4, 5, 6, 7}, "gap 4", "4", "5", "6", "7")
	f("numbered anew", "another ", []uint64{0, 1, 2, 3}, "0", "1", "2", "3")
	f("numbered anew, and one is gone", "another ", []uint64{0, 1, 2, 3, 4}, "gap 1", "1", "2", "3", "4")
}

// Where the search for sessions was given up, one that is met later may be old,
// and is not owed from its beginning.
func TestGivenUpSearch(t *testing.T) {
	incomplete, settled, asked := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	s := startScript(t, func(n int64, b *block, r *http.Request) {
		b.say(": open x")
		switch n {
		case 1:
			b.event("a", "o", 0)
		case 2:
			<-incomplete
			b.event("p", "probe", 0) // waits until the catching up is over
			<-settled
			b.event("b", "old", 500)
		case 3:
			asked <- r.URL.Query().Get("from")
			b.hold()
		}
	}, func(_ int64, b *block, _ *http.Request) {
		for i := range uint64(100) {
			b.event(fmt.Sprint("x", i), "o", i)
		}
		b.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr()), searchBytes: 10_000}, c)
	c.awaitNotice(t, Incomplete)
	close(incomplete)
	c.awaitID(t, "p")
	close(settled)
	const want = `[{"session":"old","epoch":0,"seq":500},{"session":"probe","epoch":0,"seq":0},{"session":"o","epoch":0,"seq":0}]`
	if got := <-asked; got != want {
		t.Errorf("from %s, want %s", got, want)
	}
	if err := r.end(t); err != nil {
		t.Error(err)
	}
}

// Of a session that is not owed, what a search has shown stays so; it is shown
// when its emitter sends it again (R190).
func TestNotOwed(t *testing.T) {
	old := "data: " + relaytest.Event{ID: "old3", Session: "old", Seq: 3, Time: time.Now().Add(-time.Hour).Format(time.RFC3339)}.JSON()
	asked := make(chan string, 1)
	s := startScript(t, func(n int64, b *block, r *http.Request) {
		b.say(": open x")
		switch n {
		case 1:
			b.event("a", "o", 0)
		case 2:
			b.event("b", "o", 1)
			b.say(old)
			b.hold()
		case 3:
			asked <- r.URL.Query().Get("from")
			b.hold()
		}
	}, func(_ int64, b *block, _ *http.Request) { b.say(old) })
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr())}, c)
	c.awaitID(t, "old3")
	s.CloseClientConnections()
	if got, want := <-asked, `[{"session":"old","epoch":0,"seq":3},{"session":"o","epoch":0,"seq":1}]`; got != want {
		t.Errorf("from %s, want %s", got, want)
	}
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	if c.ids["old3"] != 1 {
		t.Errorf("old3 came %d times", c.ids["old3"])
	}
}

// What is gone of a session whose first event had overtaken others is told
// before what is there.
func TestFirstTrimmed(t *testing.T) {
	for _, o := range []Options{{All: true}, {All: true, Filter: `{"type":"progress.*"}`}} {
		s := startStage(t, o, "AEP_BUFFER=4")
		s.post("s", 2)
		s.c.awaitID(t, "s2")
		s.apart(func() { s.post("s", 0, 1, 3, 4, 5, 6, 7) })
		s.c.awaitID(t, "s7")
		s.apart(func() { s.post("s", 8) })
		s.c.awaitID(t, "s8")
		s.end("s", "2", "gap 4", "4", "5", "6", "7", "8")
	}
}

// Neither what was seen above a position nor what a filter may hide is missing
// at a relay that was started anew.
func TestRewoundIsNoGap(t *testing.T) {
	f := func(o Options, before []uint64, after uint64, want ...string) {
		t.Helper()
		s := startStage(t, o)
		s.settle("a")
		s.post("s", before...)
		s.c.awaitID(t, fmt.Sprint("s", before[len(before)-1]))
		s.apart(func() {
			s.restart()
			s.post("s", after)
		})
		s.c.awaitID(t, fmt.Sprint("s", after))
		s.end("s", want...)
	}
	f(Options{All: true}, []uint64{7, 9}, 10, "7", "9", "10")
	f(Options{All: true, Filter: `{"type":"progress.*"}`}, []uint64{0}, 5, "0", "5")
}

// What overtakes others at a relay that was started anew does not hide them.
func TestRewoundOvertaken(t *testing.T) {
	s := startStage(t, Options{All: true})
	s.settle("a")
	s.post("s", 0, 1)
	s.c.awaitID(t, "s1")
	s.apart(func() {
		s.restart()
		s.post("s", 4)
	})
	s.c.awaitID(t, "s4")
	s.settle("b")
	s.apart(func() { s.post("s", 2, 3) })
	s.c.awaitID(t, "s3")
	s.end("s", "0", "1", "gap 4", "4", "2", "3")
}

// R173: a relay that takes no positions refuses some requests when the live
// connection is there already. What began before the reader is not owed then.
func TestRefusedBesideLive(t *testing.T) {
	relay := testrelay.SpawnKilled(t, "AEP_MAX_FROM=0")
	hour := time.Now().Add(-time.Hour).Format(time.RFC3339)
	for _, session := range []string{"old", "a", "b"} {
		mustPublish(t, relay.Addr, relaytest.Event{ID: session, Session: session, Time: hour}.JSON())
	}
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, relay.Addr), From: []aep.Position{{Session: "a"}, {Session: "b"}}}, c)
	mustPublish(t, relay.Addr, relaytest.Event{ID: "a1", Session: "a", Seq: 1}.JSON(), relaytest.Event{ID: "b1", Session: "b", Seq: 1}.JSON())
	c.awaitEvents(t, 2)
	for _, probe := range []string{"one", "two"} {
		mustPublish(t, relay.Addr, relaytest.Event{ID: probe, Session: probe, Time: time.Now().Format(time.RFC3339)}.JSON())
		c.awaitID(t, probe)
	}
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	if c.ids["old"] > 0 {
		t.Errorf("%q", c.lines())
	}
}

// Of a relay that held nothing at the beginning everything is owed.
func TestBlankOvertaken(t *testing.T) {
	s := &stage{tb: t, relay: testrelay.SpawnKilled(t), c: newCollector()}
	s.proxy = startCutter(t, s.relay.Addr, 1, 1)
	s.proxy.calm.Store(true)
	// Only what comes after the reader has looked around is published.
	looked := make(chan struct{})
	relay := at(t, s.proxy.addr)
	relay.HTTP.Transport = &streams{relay.HTTP.Transport.(*http.Transport), sync.OnceFunc(func() { close(looked) })}
	s.run = startFollow(t, Options{Relay: relay}, s.c)
	<-looked
	for deadline := time.Now().Add(patience); s.c.events() == 0; time.Sleep(time.Millisecond) { // pacing
		if s.post("hello", 0); time.Now().After(deadline) {
			t.Fatal("no event comes")
		}
	}
	s.post("s", 2)
	s.c.awaitID(t, "s2")
	s.apart(func() { s.post("s", 0, 1) })
	s.c.awaitID(t, "s1")
	s.end("s", "2", "0", "1")
}

// streams tells of the first request for a stream.
type streams struct {
	*http.Transport
	asked func()
}

func (s *streams) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/stream" {
		s.asked()
	}
	return s.Transport.RoundTrip(r)
}

// A session whose position was forgotten, maybe, is not asked for from its
// beginning: what was read would come again.
func TestForgottenBegins(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		f := &follower{sink: discard{}, tracks: newTracks(maxAbove, ignore), memory: newMemory(maxAbove), complete: true, saidForgotten: forgotten}
		if err := f.takeLive([]byte(relaytest.Event{Session: "s", Epoch: 1, Seq: 5}.JSON())); err != nil {
			t.Fatal(err)
		}
		want := aep.Position{Session: "s", Epoch: 1, Seq: -1}
		if forgotten {
			want.Seq = 5
		}
		if got := f.tracks.bySession["s"].position(); got != want {
			t.Errorf("forgotten %v: %v, want %v", forgotten, got, want)
		}
	}
}
