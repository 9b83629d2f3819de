package follow

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// A live event of a session that is not caught up with waits for what is before
// it.
func TestLiveWaitsForReplay(t *testing.T) {
	sent := make(chan struct{})
	s := startScript(t, func(n int64, b *block, _ *http.Request) {
		b.say(": open x")
		if n == 1 {
			b.event("old", "o", 0)
			return
		}
		b.event("n2", "new", 2)
		b.event("o1", "o", 1) // this one need not
		close(sent)
		b.hold()
	}, func(_ int64, b *block, r *http.Request) {
		if got := r.URL.Query().Get("from"); got != "all" {
			t.Errorf("from=%s", got)
		}
		<-sent
		b.event("old", "o", 0)
		b.event("n0", "new", 0)
		b.event("n1", "new", 1)
		b.event("n2", "new", 2)
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr()), All: true}, c)
	c.awaitEvents(t, 5)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	var got []string
	for _, line := range c.lines() {
		if strings.HasPrefix(line, "n") {
			got = append(got, line)
		}
	}
	if want := []string{"n0", "n1", "n2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v in all of %v", got, want, c.lines())
	}
}

// F3: what waits when the connection is lost is handed on, and what is before
// it still comes.
func TestWaitingSurvivesCut(t *testing.T) {
	waiting := make(chan struct{})
	s := startScript(t, func(n int64, b *block, _ *http.Request) {
		b.say(": open x")
		switch n {
		case 1:
			b.event("old", "o", 0)
		case 2:
			b.event("n2", "new", 2)
			<-waiting // and then the connection is lost
		default: // from new:0:0
			b.event("n1", "new", 1)
			b.event("n2", "new", 2)
			b.hold()
		}
	}, func(n int64, b *block, _ *http.Request) {
		b.event("n0", "new", 0)
		if n == 1 {
			close(waiting)
			b.hold()
			return
		}
		b.event("n1", "new", 1)
		b.event("n2", "new", 2)
	})

	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr()), All: true}, c)
	c.awaitEvents(t, 4)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	for id, n := range c.ids {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
}

// Without All, sessions that were silent since before the reader began stay so;
// those that began meanwhile are shown.
func TestSearch(t *testing.T) {
	s := startScript(t, func(n int64, b *block, _ *http.Request) {
		b.say(": open x")
		b.event(fmt.Sprint("live", n), "o", uint64(n))
		if n > 1 {
			b.hold()
		}
	}, func(_ int64, b *block, _ *http.Request) {
		say := func(id, session string, seq uint64, at time.Time) {
			e := relaytest.Event{ID: id, Session: session, Seq: seq, Time: at.Format(time.RFC3339)}.JSON()
			b.say("data: " + e)
		}
		hour := time.Now().Add(-time.Hour)
		say("silent0", "silent", 0, hour)
		say("woken0", "woken", 0, hour)
		say("woken1", "woken", 1, time.Now())
		say("begun0", "begun", 0, time.Now())
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr())}, c)
	c.awaitEvents(t, 4)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"live1", "live2", "woken1", "begun0"} {
		if c.ids[id] != 1 {
			t.Errorf("%s came %d times: %v", id, c.ids[id], c.lines())
		}
	}
}

// A search for sessions has a bound, and says when it was reached.
func TestSearchBounded(t *testing.T) {
	s := startScript(t, func(n int64, b *block, _ *http.Request) {
		b.say(": open x")
		b.event(fmt.Sprint("live", n), "o", uint64(n))
		if n > 1 {
			b.hold()
		}
	}, func(_ int64, b *block, _ *http.Request) {
		for i := range uint64(2000) {
			b.event(fmt.Sprint("x", i), "o", i)
		}
		b.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.addr()), searchBytes: 10_000}, c)
	c.awaitNotice(t, Incomplete)
	c.awaitEvents(t, 2)
	if err := r.end(t); err != nil {
		t.Error(err)
	}
}
