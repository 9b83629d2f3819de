package aep

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// patience bounds a wait for what comes at once. It is used up only when a test
// fails.
const patience = time.Minute

// TestR401TargetLocksOneShard: looking for the target of a command waits for
// nobody but the shard of its session: neither for other sessions nor for the
// list of sockets, so that its cost does not grow with their number.
func TestR401TargetLocksOneShard(t *testing.T) {
	s := New(Config{})
	want, one, other := &socket{}, &socket{}, &socket{}
	for i := range 10_000 {
		s.claims.add(fmt.Sprint("s", i), other)
		s.sockets.add(&socket{})
	}
	s.claims.add("target", want)
	s.claims.add("twice", one)
	s.claims.add("twice", other)
	for _, c := range []struct {
		session string
		target  *socket
		count   int
	}{{"target", want, 1}, {"twice", nil, 2}, {"nobody", nil, 0}} {
		mine := s.claims.shard(c.session)
		for i := range s.claims.shards {
			if sh := &s.claims.shards[i]; sh != mine {
				sh.mu.Lock()
			}
		}
		s.sockets.mu.Lock()
		found := make(chan bool, 1)
		go func() {
			target, count := s.claims.target(c.session)
			found <- target == c.target && count == c.count
		}()
		select {
		case ok := <-found:
			if !ok {
				t.Errorf("%s: not the right target", c.session)
			}
		case <-time.After(patience):
			t.Fatalf("%s: the search waits for other sessions", c.session)
		}
		s.sockets.mu.Unlock()
		for i := range s.claims.shards {
			if sh := &s.claims.shards[i]; sh != mine {
				sh.mu.Unlock()
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.claims.target("target") }); n != 0 {
		t.Errorf("%v allocations for a search", n)
	}
}

// TestR471ResumeCost: a resume that delivers one event costs about as much in a
// buffer of 400,000 events as in one of 400. A scan would cost a thousand times
// as much.
func TestR471ResumeCost(t *testing.T) {
	cost := func(events int) time.Duration {
		log := stream.NewLog(16, math.MaxInt64)
		buffers := session.New(session.Config{EventsPerSession: events, Sessions: 1}, log)
		for i := range events {
			var key session.Key
			binary.LittleEndian.PutUint64(key[:], uint64(i)*0x9e3779b97f4a7c15)
			buffers.Put(&stream.Entry{Session: "s", Sequence: stream.Sequence{Seq: int64(i)}, Sequenced: true}, key)
		}
		dst := make([]*stream.Entry, 0, 1)
		best := time.Duration(math.MaxInt64)
		for round := range 20 { // the best of several: a busy machine is slower, never faster
			begin := time.Now()
			for i := range 100 {
				after := int64(i * 7919 * (round + 1) % (events - 1))
				r, exhausted, _ := buffers.Start("s", stream.Sequence{Seq: after}, log.Next())
				got, _, _, _ := buffers.Next(&r, dst, 1, math.MaxInt)
				if exhausted || len(got) != 1 || got[0].Sequence.Seq != after+1 {
					t.Fatalf("resume after %d of %d: exhausted %v, %d entries", after, events, exhausted, len(got))
				}
			}
			best = min(best, time.Since(begin))
		}
		return best
	}
	few, many := cost(400), cost(400_000)
	t.Logf("100 resumes: %v with 400 events, %v with 400,000", few, many)
	if many > 100*few { // 8 where memory is slow
		t.Errorf("100 resumes cost %v with 400 events and %v with 400,000", few, many)
	}
}

// TestR197OneTextALevel: an event has one frame for each wire and level that
// results, whatever the ceiling that leads to it, and the frame that it came
// with where nothing is rewritten.
func TestR197OneTextALevel(t *testing.T) {
	ceiling := map[string]aep.Ceiling{"": aep.NoCeiling}
	for _, name := range []string{"none", "metadata", "redacted", "full"} {
		level, _ := aep.ParseLevel(name)
		ceiling[name] = aep.CeilingAt(level)
	}
	for _, c := range []struct {
		capture, data string
		equal         []string // groups of ceilings with one result, the first is verbatim
	}{
		{"none", "", []string{"|none|metadata|redacted|full"}},
		{"none", "{}", []string{"|metadata|redacted|full", "none"}},
		{"metadata", "{}", []string{"|metadata|redacted|full", "none"}},
		{"redacted", "{}", []string{"|redacted|full", "metadata", "none"}},
		{"full", "{}", []string{"|full", "metadata|redacted", "none"}},
	} {
		var scanner aep.Scanner
		text := relaytest.Event{Session: "s", Type: "run.started", Capture: c.capture, Data: c.data}.JSON()
		if err := scanner.Scan([]byte(text)); err != nil {
			t.Fatal(err)
		}
		ev, err := scanner.Event()
		if err != nil {
			t.Fatal(err)
		}
		log := stream.NewLog(16, math.MaxInt64)
		e := newEntry(ev)
		log.Append(e)
		for wire := range wires {
			seen := map[*byte]string{}
			for i, group := range c.equal {
				var first *byte
				for _, name := range strings.Split(group, "|") {
					frame := e.Frame(formOf(ceiling[name], wire))
					if first == nil {
						first = &frame[0]
					}
					if &frame[0] != first {
						t.Errorf("level %s, wire %d: ceiling %q has a text of its own", c.capture, wire, name)
					}
				}
				if other, ok := seen[first]; ok {
					t.Errorf("level %s, wire %d: ceilings %q and %q have one text", c.capture, wire, other, group)
				}
				seen[first] = group
				if verbatim := first == &ev.Frame()[0]; verbatim != (wire == wireSocket && i == 0) {
					t.Errorf("level %s, wire %d, ceilings %q: the text it came with: %v", c.capture, wire, group, verbatim)
				}
			}
		}
	}
}
