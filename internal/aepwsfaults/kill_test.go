package aepwsfaults

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// TestKill: hard cases 34 and 36: the program is killed at random moments under
// load, again and again. Writers send again what was not acknowledged, one
// subscriber resumes from its last cursor in three lives of four, one is live only.
// What anybody has seen keeps its number (K1), is there after the restart (K2),
// comes once (K3, K4), and new numbers are higher.
func TestKill(t *testing.T) {
	t.Run("all kept", func(t *testing.T) { playLives(t, 0) })
	t.Run("few kept", func(t *testing.T) { playLives(t, 60) })
}

func playLives(t *testing.T, retention int) {
	random := newRand(t)
	l := &lives{random: random, dir: t.TempDir(), retention: retention, ledger: newLedger(), cursor: fromStart}
	l.ledger.evicts = retention > 0
	for i := range 4 {
		seed := rand.New(rand.NewPCG(random.Uint64(), 2))
		l.writers = append(l.writers, &writer{name: fmt.Sprint("w", i), random: seed, ledger: l.ledger})
	}
	total := testrelay.Kills(t, 10)
	for n := 0; l.killed < total || n < 10*total && l.tooLittle(total); n++ {
		l.one(t, n)
	}
	short := l.tooLittle(total)
	l.last(t)
	t.Logf("%d kills, %d clean stops, %d events, %d acknowledged, %d of them sent again, numbers up to %d, %d resumed with a gap, %d expired",
		l.killed, l.stopped, len(l.ledger.numbers), len(l.ledger.acked), l.again(), l.ledger.top(), l.gaps, l.expired)
	if short {
		t.Error("too little happened between the kills to prove anything")
	}
}

// lives is a relay's log over many lives.
type lives struct {
	random    *rand.Rand
	dir       string
	retention int // AEPWS_RETENTION_EVENTS, 0 for the default
	ledger    *ledger
	writers   []*writer

	cursor          string // the last one of the subscriber that resumes
	seen            int64  // its number
	items           []event
	killed, stopped int
	gaps, expired   int
}

// again counts the acknowledgements of what had been sent in another life.
func (l *lives) again() (n int) {
	for _, w := range l.writers {
		n += w.again
	}
	return n
}

// tooLittle tells whether the lives so far prove nothing, as on a slow machine.
func (l *lives) tooLittle(total int) bool {
	return l.again() == 0 || len(l.ledger.acked) < 10*total || l.retention > 0 && l.gaps == 0 && total >= 10
}

func (l *lives) start(t *testing.T) *faults.Process {
	t.Helper()
	if l.retention == 0 {
		return start(t, l.dir)
	}
	return start(t, l.dir, fmt.Sprint("AEPWS_RETENTION_EVENTS=", l.retention))
}

// one is one life: a probe, writers, and the end at some moment of it.
func (l *lives) one(t *testing.T, n int) {
	t.Helper()
	p := l.start(t)
	before := l.ledger.top()
	var resumed *follower
	away := n%4 == 3
	if !away {
		resumed = mustFollow(t, p.Addr, "resumed", filterFrom(l.cursor, "replayable"))
	}
	live := mustFollow(t, p.Addr, "live", filterFrom("", ""))
	probe := join(t, p.Addr, "probe")
	id := fmt.Sprint("probe-", n)
	first := probe.mustPublish(t, plain(id))
	if first <= before {
		t.Fatalf("case 36: number %d after %d", first, before)
	}
	if err := l.ledger.enter(id, first, true); err != nil {
		t.Fatal(err)
	}
	probe.close()

	crowd := startCrowd(p.Addr, l.writers[:1+l.random.IntN(len(l.writers))])
	if away && l.retention > 0 { // what it has seen last leaves the log
		await(t, "more than is kept", func() bool { return l.ledger.top() > first+2*int64(l.retention) })
	}
	time.Sleep(time.Duration(l.random.IntN(120)) * time.Millisecond) // the moment of the kill
	if l.random.IntN(8) == 0 {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		l.stopped++
	} else {
		p.Kill()
		l.killed++
	}
	crowd.wait(t)
	healthy(t, p)
	if resumed != nil {
		l.take(t, resumed)
	}
	for _, e := range live.end(t) {
		if err := l.ledger.enter(e.ID, e.Delivery.Sequence, false); err != nil {
			t.Fatal(err)
		}
	}
}

// take looks at what the subscriber that resumes was sent in one life (K3).
func (l *lives) take(t *testing.T, f *follower) {
	t.Helper()
	items := f.end(t)
	replay := f.created.Payload.Replay
	if replay == nil {
		t.Fatalf("B51: no replay for the cursor %s", l.cursor)
	}
	gap := replay.Status == "gap"
	switch {
	case replay.Reason != "":
		t.Fatalf("case 36: cursor %s: %s: its event lost its number", l.cursor, replay.Reason)
	case gap && l.retention == 0:
		t.Fatalf("K2: cursor %s: a gap, and nothing was evicted", l.cursor)
	case f.expired != nil && l.retention == 0:
		t.Fatalf("B60: expired, and nothing was evicted")
	}
	if gap {
		l.gaps++
	}
	if f.expired != nil {
		l.expired++ // it goes on from its cursor in the next life
	}
	for i, e := range items {
		n := e.Delivery.Sequence
		if n != l.seen+1 && (i > 0 || !gap) || n <= l.seen {
			t.Fatalf("K3: number %d after %d, gap told: %v", n, l.seen, gap)
		}
		if err := l.ledger.enter(e.ID, n, false); err != nil {
			t.Fatal(err)
		}
		l.seen, l.cursor = n, e.Delivery.Cursor
	}
	l.items = append(l.items, items...)
}

// last is the life after the last kill: all is sent that has no answer, and
// whoever has followed has it.
func (l *lives) last(t *testing.T) {
	t.Helper()
	p := l.start(t)
	resumed := mustFollow(t, p.Addr, "resumed", filterFrom(l.cursor, "replayable"))
	for _, w := range l.writers {
		w.flush(t, p.Addr)
	}
	end := join(t, p.Addr, "probe").mustPublish(t, plain("the-end"))
	await(t, "the end", func() bool {
		select {
		case <-resumed.done:
			return true
		default:
			return resumed.last() >= end
		}
	})
	resumed.stop()
	l.take(t, resumed)
	kept := whole(t, p.Addr, end)
	wantRun(t, "the whole log", kept, kept[0].Delivery.Sequence, end)
	if lost := l.ledger.lost(kept); lost != "" {
		t.Errorf("K2: %s", lost)
	}
	there := map[string]bool{}
	for _, e := range kept {
		if there[e.ID] {
			t.Errorf("K4: %q is there twice", e.ID)
		}
		there[e.ID] = true
	}
	stop(t, p)
	if l.retention > 0 {
		return
	}
	wantRun(t, "over all lives", l.items, 1, end)
	for i, e := range l.items {
		if kept[i].ID != e.ID {
			t.Fatalf("K1: number %d is %q in the log and was delivered as %q", e.Delivery.Sequence, kept[i].ID, e.ID)
		}
	}
}
