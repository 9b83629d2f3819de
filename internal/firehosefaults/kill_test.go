package firehosefaults

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/testrelay"
)

// TestKillNumbers: hard cases 8 and 10: the program is killed between the
// reservation of numbers and their use, and under publishers, again and again.
// No number is ever given twice, and they ascend over all lives (N1), as the
// publishers and a consumer with a cursor see it (N2). Some lives end cleanly:
// then the numbers go on without a gap (F25).
func TestKillNumbers(t *testing.T) {
	for _, floor := range []string{"1", "auto"} {
		t.Run("floor="+floor, func(t *testing.T) {
			l := &lives{random: newRand(t), dir: t.TempDir(), floor: floor, ledger: newLedger()}
			total := testrelay.Kills(t, 20)
			for n := 0; l.killed < total || n < 10*total && l.tooLittle(total); n++ {
				l.one(t, n)
			}
			t.Logf("%d kills, %d clean stops, %d frames, numbers up to %d; %d starts skipped reserved numbers, %d told of an outdated cursor",
				l.killed, l.stopped, len(l.ledger.ids), l.ledger.top(), l.skipped, l.told)
			if l.tooLittle(total) {
				t.Error("too little happened between the kills to prove anything")
			}
		})
	}
}

// lives is a relay's state over many lives.
type lives struct {
	random *rand.Rand
	dir    string
	floor  string
	ledger *ledger

	cursor          int64 // the last number that the consumer has seen
	clean           bool  // how the last life ended
	killed, stopped int
	skipped, told   int
}

// tooLittle tells whether the lives so far prove nothing, as on a slow machine.
func (l *lives) tooLittle(total int) bool {
	return l.skipped == 0 || l.told == 0 || len(l.ledger.ids) < 2*total
}

// one is one life: a probe, publishers, and the end at some moment of it.
func (l *lives) one(t *testing.T, n int) {
	t.Helper()
	reserve := []int{1, 8, 8, 64, 65536}[l.random.IntN(5)]
	p := start(t, l.dir, "FIREHOSE_SEQ_FLOOR="+l.floor, fmt.Sprint("FIREHOSE_SEQ_RESERVE=", reserve))
	pub := newPublisher(p.Addr)
	defer pub.close()
	old := follow(t, p.Addr, l.cursor)
	live := follow(t, p.Addr, noCursor)

	before := l.ledger.top()
	first := pub.must(t, l.ledger, newRepo(0).identity())
	if first <= before {
		t.Fatalf("N1: number %d after %d", first, before)
	}
	if l.clean && first != before+1 {
		t.Errorf("F25: number %d after a clean stop at %d", first, before)
	}
	if first > before+1 {
		l.skipped++
	}

	var crowd *crowd
	if l.random.IntN(4) > 0 { // else only the reservation ahead of use is under way
		crowd = startCrowd(pub, l.ledger, 1+l.random.IntN(4), n+1)
		time.Sleep(time.Duration(l.random.IntN(60)) * time.Millisecond) // the moment of the kill
	}
	l.clean = l.random.IntN(8) == 0
	if l.clean {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		l.stopped++
	} else {
		p.Kill()
		l.killed++
	}
	answered := first
	if crowd != nil {
		crowd.wait(t)
		answered = max(answered, crowd.answered)
	}
	healthy(t, p)

	// The cursor has missed nothing exactly if it is the last number taken
	// before this life: then it is live (F21, F27).
	told := l.cursor < first-1
	items := old.end(t)
	if !l.clean && len(items) == 0 {
		told = false // killed before it was sent anything
	}
	l.ledger.run(t, "cursor", items, told, first)
	l.ledger.run(t, "live", live.end(t), false, first)
	if told {
		l.told++
	}
	if l.clean && (old.last() < answered || live.last() < answered) {
		t.Errorf("F48: consumers have %d and %d of %d", old.last(), live.last(), answered)
	}
	l.cursor = max(l.cursor, old.last())
}
