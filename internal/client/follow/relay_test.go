package follow

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// round is one event, seq, in each of n sessions.
func round(n int, seq uint64) []string {
	var texts []string
	for i := range n {
		id := fmt.Sprintf("s%d-%d", i, seq)
		texts = append(texts, relaytest.Event{ID: id, Session: fmt.Sprint("session:", i), Seq: seq}.JSON())
	}
	return texts
}

// once follows to the end of the replay and returns what came.
func once(t *testing.T, o Options) []string {
	t.Helper()
	c := newCollector()
	o.Once = true
	if err := startFollow(t, o, c).wait(t); err != nil {
		t.Fatal(err)
	}
	lines := c.lines()
	slices.Sort(lines)
	return lines
}

// Once ends at the end of the replay, and shows what was asked for.
func TestOnce(t *testing.T) {
	relay := testrelay.SpawnKilled(t)
	var all []string
	for seq := range uint64(3) {
		mustPublish(t, relay.Addr, round(2, seq)...)
	}
	for _, s := range []string{"s0", "s1"} {
		for seq := range 3 {
			all = append(all, fmt.Sprint(s, "-", seq))
		}
	}
	f := func(name string, o Options, want ...string) {
		t.Helper()
		o.Relay = at(t, relay.Addr)
		if got := once(t, o); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	s0, s1 := aep.Position{Session: "session:0", Seq: 1}, aep.Position{Session: "session:1", Seq: -1}
	f("everything", Options{}, all...)
	f("all", Options{All: true}, all...)
	f("a socket is not needed", Options{Socket: true}, all...)
	f("a session", Options{Filter: `{"session":"session:1"}`}, all[3:]...)
	f("from", Options{From: []aep.Position{s0}}, all[2])
	f("from two", Options{From: []aep.Position{s0, s1}}, all[2:]...)
	f("R279 a session that the filter names besides", Options{From: []aep.Position{s0}, Filter: `{"session":["session:0","session:1"]}`}, all[2])
	f("nothing", Options{Filter: `{"agent":"nobody"}`})
	f("R166 a gap", Options{From: []aep.Position{{Session: "session:7", Seq: 1}, s0}}, all[2])
}

// What a state file knows is not shown again; what it does not know is.
func TestOnceWithState(t *testing.T) {
	relay := testrelay.SpawnKilled(t)
	o := Options{Relay: at(t, relay.Addr), State: filepath.Join(t.TempDir(), "state")}
	f := func(want ...string) {
		t.Helper()
		if got := once(t, o); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	f()
	mustPublish(t, relay.Addr, round(2, 0)...)
	f("s0-0", "s1-0")
	f()
	mustPublish(t, relay.Addr, round(3, 1)...)
	f("s0-1", "s1-1", "s2-1")
	o.From = []aep.Position{{Session: "session:0", Seq: -1}} // is known already
	f()
}

// R55: another relay than the state file's is asked for everything, since a
// session may begin anew in the same epoch. What was read does not come again,
// and is no gap.
func TestStateOfAnotherRelay(t *testing.T) {
	const said = "# another relay, or one that was restarted: events that it had and that were not read before are lost"
	event := func(id, session string, seq uint64) string {
		return relaytest.Event{ID: id, Session: session, Seq: seq}.JSON()
	}
	for _, o := range []Options{{Once: true}, {Once: true, Filter: `{"type":"progress.*"}`}, {}, {Socket: true}} {
		t.Run(fmt.Sprintf("once=%v,ws=%v,filter=%s", o.Once, o.Socket, o.Filter), func(t *testing.T) {
			o.State = filepath.Join(t.TempDir(), "state")
			old := testrelay.SpawnKilled(t)
			o.Relay = at(t, old.Addr)
			mustPublish(t, old.Addr, round(2, 0)...)
			mustPublish(t, old.Addr, round(2, 1)...)
			if got := once(t, o); len(got) != 4 {
				t.Fatalf("%v", got)
			}
			other := testrelay.SpawnKilled(t)
			o.Relay = at(t, other.Addr)
			// The first session begins anew; the second goes on, and its emitter
			// sends its last event again; the third is new.
			mustPublish(t, other.Addr, event("new-0", "session:0", 0), event("s1-1", "session:1", 1),
				event("s1-2", "session:1", 2), event("third", "session:2", 0))
			want := []string{said, "new-0", "s1-2", "third"}
			c := newCollector()
			r := startFollow(t, o, c)
			c.awaitEvents(t, 3)
			if !o.Once {
				r.stop()
			}
			if err := r.wait(t); err != nil {
				t.Fatal(err)
			}
			got := c.lines()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := once(t, o); len(got) != 0 {
				t.Errorf("again: %q", got)
			}
		})
	}
}

// R166: of what an earlier relay gave, nothing is missing; behind it is a gap.
func TestRewoundGap(t *testing.T) {
	f := func(earliest int64, want int) {
		t.Helper()
		c := newCollector()
		f := &follower{sink: c, tracks: newTracks(maxAbove, ignore), memory: newMemory(maxAbove)}
		f.tracks.start("s", point{1, 7}, 0)
		f.tracks.rewind()
		f.gap(&item{session: "s", at: point{1, earliest}})
		f.gap(&item{session: "s", at: point{1, earliest + 5}})
		if got := len(c.lines()); got != want {
			t.Errorf("earliest %d: %q, want %d", earliest, c.lines(), want)
		}
	}
	f(5, 1)
	f(8, 1)
	f(9, 2)
}

// R173: a relay may take few positions in a request, or none.
func TestFewPositions(t *testing.T) {
	for _, limit := range []string{"3", "0"} {
		for _, socket := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,ws=%v", limit, socket), func(t *testing.T) {
				relay := testrelay.SpawnKilled(t, "AEP_MAX_FROM="+limit)
				o := Options{Relay: at(t, relay.Addr), Socket: socket, State: filepath.Join(t.TempDir(), "state")}
				const n = 10
				mustPublish(t, relay.Addr, round(n, 0)...)
				mustPublish(t, relay.Addr, round(n, 1)...)
				if got := once(t, o); len(got) != 2*n {
					t.Fatalf("%d events: %v", len(got), got)
				}
				mustPublish(t, relay.Addr, round(n, 2)...)
				if got := once(t, o); len(got) != n {
					t.Fatalf("%d events: %v", len(got), got)
				}
				mustPublish(t, relay.Addr, round(n, 3)...)
				c := newCollector()
				r := startFollow(t, o, c)
				c.awaitEvents(t, n)
				mustPublish(t, relay.Addr, round(n, 4)...)
				c.awaitEvents(t, 2*n)
				if err := r.end(t); err != nil {
					t.Error(err)
				}
				for _, line := range c.lines() {
					if !strings.HasSuffix(line, "-3") && !strings.HasSuffix(line, "-4") {
						t.Errorf("%s", line)
					}
				}
				if n, m := len(c.lines()), len(c.ids); n != m {
					t.Errorf("%d told, %d events", n, m)
				}
			})
		}
	}
}

// More sessions than fit into one request: all are caught up with.
func TestManySessions(t *testing.T) {
	for _, socket := range []bool{false, true} {
		relay := testrelay.SpawnKilled(t, "AEP_MAX_SESSIONS=2000")
		proxy := startCutter(t, relay.Addr, 1, 1)
		proxy.calm.Store(true)
		o := Options{Relay: at(t, proxy.addr), Socket: socket, All: true}
		const n = 1200
		mustPublish(t, relay.Addr, round(n, 0)...)
		c := newCollector()
		r := startFollow(t, o, c)
		c.awaitEvents(t, n)
		proxy.cutAll()
		mustPublish(t, relay.Addr, round(n, 1)...)
		c.awaitEvents(t, 2*n)
		mustPublish(t, relay.Addr, round(n, 2)...)
		c.awaitEvents(t, 3*n)
		if err := r.end(t); err != nil {
			t.Error(err)
		}
		for id, times := range c.ids {
			if times != 1 {
				t.Errorf("%s came %d times", id, times)
			}
		}
		// In each session in its order.
		last := map[string]int64{}
		for _, e := range c.all {
			if e.id == "" {
				continue
			}
			if e.seq < last[e.session] {
				t.Errorf("ws=%v: %s came after %d", socket, e.id, last[e.session])
			}
			last[e.session] = e.seq
		}
	}
}

// R461, R462: a relay that drains says so, and the next one is found.
func TestDrain(t *testing.T) {
	for _, socket := range []bool{false, true} {
		relay := testrelay.SpawnKilled(t)
		proxy := startCutter(t, relay.Addr, 1, 1)
		proxy.calm.Store(true)
		mustPublish(t, relay.Addr, round(2, 0)...)
		c := newCollector()
		r := startFollow(t, Options{Relay: at(t, proxy.addr), Socket: socket, All: true}, c)
		c.awaitEvents(t, 2)
		if err := relay.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := c.awaitNotice(t, Closing); n.Text != "shutting-down" {
			t.Errorf("closing: %s", n.Text)
		}
		c.awaitNotice(t, Lost)
		relay = testrelay.SpawnKilled(t)
		proxy.backend.Store(&relay.Addr)
		c.awaitNotice(t, Restarted)
		mustPublish(t, relay.Addr, round(2, 1)...)
		c.awaitEvents(t, 4)
		if err := r.end(t); err != nil {
			t.Error(err)
		}
	}
}

// Nothing is allocated but what JSON members cost: the price of an event.
func BenchmarkTake(b *testing.B) {
	f := &follower{
		o: Options{}, sink: discard{}, tracks: newTracks(maxAbove, ignore), memory: newMemory(defaultRemember),
	}
	texts := make([][]byte, 1<<16)
	for i := range texts {
		texts[i] = []byte(relaytest.Event{Session: fmt.Sprint("s", i%100), Seq: uint64(i / 100), Data: `{"text":"` + strings.Repeat("x", 200) + `"}`}.JSON())
	}
	b.SetBytes(int64(len(texts[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := f.takeLive(texts[i%len(texts)]); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Event([]byte) error { return nil }
func (discard) Notice(Notice)      {}
func (discard) Flush() error       { return nil }

// R162, R193: so may the first event of a session. One below it that comes while
// there is no connection is not missed, and what the relay has dropped
// meanwhile is told of.
func TestFirstOvertaken(t *testing.T) {
	for _, o := range []Options{{}, {All: true}, {All: true, Socket: true}, {All: true, Filter: `{"type":"progress.*"}`}} {
		for _, trimmed := range []bool{false, true} {
			relay := testrelay.SpawnKilled(t, "AEP_BUFFER=4")
			proxy := startCutter(t, relay.Addr, 1, 1)
			proxy.calm.Store(true)
			o.Relay = at(t, proxy.addr)
			c := newCollector()
			r := startFollow(t, o, c)
			for deadline := time.Now().Add(patience); c.events() == 0; time.Sleep(time.Millisecond) { // pacing
				if mustPublish(t, relay.Addr, relaytest.Event{Session: "hello"}.JSON()); time.Now().After(deadline) {
					t.Fatal("no event comes")
				}
			}
			if !o.All { // what began before the reader is not owed
				proxy.cutAll()
				c.awaitNotice(t, Connected)
			}
			// The second can only come live, once the search for sessions is over.
			for _, probe := range []string{"one", "two"} {
				mustPublish(t, relay.Addr, relaytest.Event{ID: probe, Session: probe}.JSON())
				c.awaitID(t, probe)
			}
			post := func(seq uint64) {
				mustPublish(t, relay.Addr, relaytest.Event{ID: fmt.Sprint("s", seq), Session: "s", Seq: seq}.JSON())
			}
			post(2)
			c.awaitID(t, "s2")
			nowhere := "127.0.0.1:1"
			proxy.backend.Store(&nowhere)
			proxy.cutAll()
			c.awaitNotice(t, Lost)
			post(0)
			post(1)
			post(3)
			if trimmed {
				for seq := range uint64(4) {
					post(4 + seq)
				}
			}
			proxy.backend.Store(&relay.Addr)
			if trimmed {
				c.awaitNotice(t, Gap)
				c.awaitID(t, "s7")
			} else {
				c.awaitID(t, "s3")
				post(4)
				c.awaitID(t, "s4")
			}
			if err := r.end(t); err != nil {
				t.Error(err)
			}
			for seq := range 5 {
				if id := fmt.Sprint("s", seq); c.ids[id] != 1 && !trimmed {
					t.Errorf("%+v: %s came %d times", o, id, c.ids[id])
				}
			}
			if c.ids["s2"] != 1 {
				t.Errorf("%+v: s2 came %d times", o, c.ids["s2"])
			}
		}
	}
}

// R162, R193: events may overtake each other. One that comes while there is no
// connection, below what was seen already, is not missed; and what was seen
// above it does not come again, however much came in between.
func TestOvertaken(t *testing.T) {
	for _, o := range []Options{{}, {Socket: true}, {Filter: `{"type":"progress.*"}`}} {
		relay := testrelay.SpawnKilled(t)
		proxy := startCutter(t, relay.Addr, 1, 1)
		proxy.calm.Store(true)
		o.Relay, o.All, o.Remember = at(t, proxy.addr), true, maxAbove
		post := func(id string, seq uint64) {
			mustPublish(t, relay.Addr, relaytest.Event{ID: id, Session: "s", Seq: seq}.JSON())
		}
		post("s0", 0)
		c := newCollector()
		r := startFollow(t, o, c)
		c.awaitEvents(t, 1)
		post("s2", 2)
		for _, seq := range []uint64{0, 2} { // and here nothing ever comes between
			mustPublish(t, relay.Addr, relaytest.Event{ID: fmt.Sprint("hole", seq), Session: "hole", Seq: seq}.JSON())
		}
		for i := range uint64(200) {
			mustPublish(t, relay.Addr, relaytest.Event{ID: fmt.Sprint("other", i), Session: "other", Seq: i}.JSON())
		}
		c.awaitEvents(t, 204)
		nowhere := "127.0.0.1:1"
		proxy.backend.Store(&nowhere)
		proxy.cutAll()
		c.awaitNotice(t, Lost)
		post("s1", 1)
		proxy.backend.Store(&relay.Addr)
		c.awaitEvents(t, 205)
		post("s3", 3)
		c.awaitEvents(t, 206)
		if err := r.end(t); err != nil {
			t.Error(err)
		}
		for id, n := range c.ids {
			if n != 1 {
				t.Errorf("%+v: %s came %d times", o, id, n)
			}
		}
	}
}
