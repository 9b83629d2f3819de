package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func newTestFleet(t testing.TB, cfg Config) *Fleet {
	t.Helper()
	cfg.Start = start
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func next(t testing.TB, f *Fleet) Event {
	t.Helper()
	e, ok := f.Next()
	if !ok {
		t.Fatal("nothing is due")
	}
	return e
}

// F2, F3: a long run of the script, with and without commands.
func TestEveryEventIsValid(t *testing.T) {
	for _, control := range []bool{false, true} {
		f := newTestFleet(t, Config{Seed: 7, Agents: 6, Rate: 20, Control: control})
		m := newModel(t)
		fresh := 0
		for range 8_000 {
			e := next(t, f)
			m.take(e)
			if e.Fresh {
				fresh++
			}
		}
		t.Logf("control %v: %d sessions, %d of a later epoch, types %v", control, len(m.sessions), m.epochs, m.types)
		if m.epochs == 0 || int64(fresh) != 6+f.Stats().Restarts {
			t.Errorf("%d later epochs, %d fresh events, %d restarts", m.epochs, fresh, f.Stats().Restarts)
		}
		for _, list := range []struct {
			what string
			seen map[string]int
			want []string
		}{
			{"type", m.types, []string{
				"session.started", "session.ended", "session.compacted", "run.started", "run.finished", "run.failed",
				"run.step.started", "run.step.finished", "tool.requested", "tool.completed", "tool.failed", "tool.denied",
				"attention.requested", "attention.answered", "attention.resolved", "attention.timeout",
				"progress.status", "progress.task.planned", "progress.task.completed", "progress.artifact.produced",
				"delegation.subagent.started", "delegation.subagent.stopped", "error.raised", "state.snapshot", "state.delta",
				"message.user.submitted", "message.agent.replied", "agent.presence", "agent.idle", "agent.health",
				"agent.heartbeat", "resource.retrieval.requested", "resource.retrieval.returned",
				"assessment.feedback.received", "x.sluice-demo.run.thought",
			}},
			{"capture", m.captures, []string{"none", "metadata", "redacted", "full"}},
			{"severity", m.severity, []string{"", "debug", "info", "notice", "warning", "error", "critical"}},
		} {
			for _, want := range list.want {
				if list.seen[want] == 0 {
					t.Errorf("no event of %s %q", list.what, want)
				}
			}
		}
	}
}

// F1.
func TestSameSeedSameEvents(t *testing.T) {
	text := func(seed uint64) []byte {
		f := newTestFleet(t, Config{Seed: seed, Agents: 5, Rate: 50, Control: true})
		var b bytes.Buffer
		for range 3000 {
			e := next(t, f)
			fmt.Fprintf(&b, "%d %d %s\n", e.Agent, e.At, e.Text)
		}
		return b.Bytes()
	}
	first := text(1)
	if !bytes.Equal(first, text(1)) {
		t.Error("two fleets of one seed differ")
	}
	if bytes.Equal(first, text(2)) {
		t.Error("two seeds give the same")
	}
}

func TestRateIsWhatWasAskedFor(t *testing.T) {
	for _, cfg := range []Config{
		{Seed: 1, Agents: 1, Rate: 2},
		{Seed: 2, Agents: 6, Rate: 5, Control: true},
		{Seed: 3, Agents: 100, Rate: 1000},
		{Seed: 4, Agents: 3, Rate: MaxRate},
		{Seed: 5, Agents: 40, Rate: 0.5, Control: true},
	} {
		f := newTestFleet(t, cfg)
		const n = 8_000
		var last time.Duration
		for range n {
			last = next(t, f).At
		}
		rate := n / last.Seconds()
		t.Logf("%d agents, %v/s asked, %.3f/s got", cfg.Agents, cfg.Rate, rate)
		if math.Abs(rate/cfg.Rate-1) > 0.25 {
			t.Errorf("%d agents: %.3f events a second, want %v", cfg.Agents, rate, cfg.Rate)
		}
	}
}

func TestConfigOutOfBounds(t *testing.T) {
	for _, cfg := range []Config{
		{Agents: 0, Rate: 1},
		{Agents: MaxAgents + 1, Rate: 1},
		{Agents: 1},
		{Agents: 1, Rate: -1},
		{Agents: 1, Rate: MaxRate + 1},
		{Agents: 1, Rate: math.NaN()},
		{Agents: 1, Rate: math.Inf(1)},
	} {
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Finish closes all that is open, at whatever point it comes.
func TestFinishEndsEverything(t *testing.T) {
	for n := range 50 {
		f := newTestFleet(t, Config{Seed: uint64(n), Agents: 3, Rate: 20, Control: true})
		m := newModel(t)
		for range 8 * n {
			m.take(next(t, f))
		}
		f.Finish()
		left := 0
		for {
			e, ok := f.Next()
			if !ok {
				break
			}
			m.take(e)
			left++
		}
		if m.open() != 0 || left > 60 || m.last > 0 && f.now != m.last {
			t.Fatalf("after %d events: %d sessions are open, %d events to end", 8*n, m.open(), left)
		}
		if s := f.Stats(); s.Sessions != 0 || s.Questions != 0 || s.Paused != 0 {
			t.Fatalf("%+v", s)
		}
	}
}

// F5: what is kept does not grow.
func TestMemoryIsBounded(t *testing.T) {
	f := newTestFleet(t, Config{Seed: 3, Agents: 2, Rate: 100, Control: true})
	plan := 0
	for range 10_000 {
		next(t, f)
		for _, a := range f.agents {
			plan = max(plan, len(a.plan))
			if len(a.past) > pastSessions || len(a.acks) > ackCount || len(a.urgent) > 2*urgentCount {
				t.Fatalf("%d sessions, %d acknowledgements, %d urgent events", len(a.past), len(a.acks), len(a.urgent))
			}
		}
	}
	if plan > 200 {
		t.Errorf("a plan of %d events", plan)
	}
}

func TestTimeFollowsTheClockAndSkip(t *testing.T) {
	f := newTestFleet(t, Config{Seed: 3, Agents: 2, Rate: 5})
	for i := range 200 {
		skipped := time.Duration(0)
		if i >= 100 {
			skipped = time.Hour
		}
		due, ok := f.Due()
		e := next(t, f)
		if !ok || due != e.At {
			t.Fatalf("due %v, came %v", due, e.At)
		}
		got, err := time.Parse(time.RFC3339, parse(t, e.Text).Time)
		want := start.Add(e.At + skipped).Truncate(time.Millisecond)
		if err != nil || !got.Equal(want) {
			t.Fatalf("time %v (%v), want %v", got, err, want)
		}
		if i == 99 {
			f.Skip(time.Hour)
		}
	}
}

// Names are what filters and people go by.
func TestNames(t *testing.T) {
	f := newTestFleet(t, Config{Seed: 0xabcd, Agents: 5, Rate: 5})
	agents := map[string]bool{}
	for range 500 {
		ev := next(t, f)
		e := parse(t, ev.Text)
		if e.Agent != f.Name(ev.Agent) || e.Demofleet != f.Tag() {
			t.Fatalf("agent %q tag %q, want %q %q", e.Agent, e.Demofleet, f.Name(ev.Agent), f.Tag())
		}
		if e.Session != "" && !strings.HasPrefix(e.Session, e.Agent+"."+f.Tag()+".") {
			t.Fatalf("session %q", e.Session)
		}
		agents[e.Agent] = true
	}
	if got := slices.Sorted(maps.Keys(agents)); !slices.Equal(got, []string{"coder-1", "coder-2", "operator-1", "researcher-1", "researcher-2"}) {
		t.Errorf("agents %v", got)
	}
}

func BenchmarkNext(b *testing.B) {
	f := newTestFleet(b, Config{Seed: 1, Agents: 20, Rate: 1000})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := f.Next(); !ok {
			b.Fatal("nothing is due")
		}
	}
}
