package firehosefaults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/faults"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

const (
	// persistTime is FIREHOSE_CURSOR_PERSIST_MS of the relays of a chain, slowPersist
	// that of one that is killed at any moment: three of it, in which a relay stores
	// no cursor after its start, are longer than the pauses of the relay behind it.
	persistTime = 400 * time.Millisecond
	slowPersist = 1600 * time.Millisecond
	// shortLife is less than half of it, after which a first cursor is noted, and
	// much less than the whole, after which it is stored.
	shortLife = 80 * time.Millisecond
	// levelTime is how far behind a chain may be that has caught up.
	levelTime = persistTime / 8
	// longLife is what a life may last once the chain has caught up.
	longLife = 600 * time.Millisecond
)

// link is one relay of a chain, over its lives.
type link struct {
	dir, port string
	upstream  string
	persist   time.Duration // FIREHOSE_CURSOR_PERSIST_MS
	settings  []string
	p         *faults.Process
	kills     int
}

func newLink(t *testing.T, upstream string, persist time.Duration, settings ...string) *link {
	return &link{dir: t.TempDir(), port: testrelay.FixedPort(t), upstream: upstream, persist: persist, settings: settings}
}

func (l *link) addr() string { return "127.0.0.1:" + l.port }

func (l *link) start(t *testing.T) {
	t.Helper()
	l.p = start(t, l.dir, append([]string{
		"AEP_PORT=" + l.port, "FIREHOSE_UPSTREAMS=ws://" + l.upstream,
		fmt.Sprint("FIREHOSE_CURSOR_PERSIST_MS=", l.persist.Milliseconds()),
	}, l.settings...)...)
}

// kill kills the relay, unless that is done, and counts it.
func (l *link) kill(t *testing.T) {
	t.Helper()
	l.p.Kill()
	l.kills++
	healthy(t, l.p)
}

// chain is a source, relay A that follows it, relay B that follows A, and a
// consumer of B.
type chain struct {
	source *source
	a, b   *link
	tail   *tail
	settle func() // ends the source's production
}

// startChain connects all of it before the first frame, since a new host starts
// live (F54), and waits until both relays have stored a cursor.
func startChain(t *testing.T, random *rand.Rand, persist time.Duration, strict bool) *chain {
	t.Helper()
	c := &chain{source: startSource(t)}
	c.a = newLink(t, c.source.addr, persist, "FIREHOSE_SEQ_RESERVE=1024")
	c.b = newLink(t, c.a.addr(), persist, "FIREHOSE_SEQ_FLOOR=1", "FIREHOSE_SEQ_RESERVE=1024")
	c.a.start(t)
	c.b.start(t)
	c.tail = startTail(t, c.b.addr(), c.source, strict)
	await(t, "A is connected", func() bool { return c.source.connections() == 1 })
	await(t, "B is connected", func() bool { return metric(t, c.a.p, "sluice_firehose_consumers") == 1 })
	stop := make(chan struct{})
	var producing sync.WaitGroup
	producing.Go(func() { c.source.produce(random, c.tail.soFar, stop) })
	c.settle = sync.OnceFunc(func() {
		close(stop)
		producing.Wait()
	})
	t.Cleanup(c.settle)
	await(t, "first cursors", func() bool {
		return metric(t, c.a.p, "sluice_firehose_upstream_writes_total") > 0 && metric(t, c.b.p, "sluice_firehose_upstream_writes_total") > 0
	})
	return c
}

// logs are the last lines of both relays.
func (c *chain) logs() string { return "A:\n" + c.a.p.Tail() + "\nB:\n" + c.b.p.Tail() }

// awaitMoment waits for the moment of a kill: any one in a life of which the
// chain has caught up.
func (c *chain) awaitMoment(t *testing.T, random *rand.Rand) {
	t.Helper()
	when := fmt.Sprintf("after %d kills of A and %d of B", c.a.kills, c.b.kills)
	c.tail.awaitLevel(t, when, c.logs)
	time.Sleep(time.Duration(random.Int64N(int64(longLife))))
	c.tail.awaitLevel(t, when, c.logs)
}

// finish waits for everything, and checks that enough has happened.
func (c *chain) finish(t *testing.T) {
	t.Helper()
	c.settle()
	c.tail.awaitAll(t, "at the end", c.logs)
	c.tail.stop()
	healthy(t, c.a.p)
	healthy(t, c.b.p)
	l := c.tail
	t.Logf("A killed %d times, B %d times; %d frames of the source have all come, %d numbers; %d commits and %d other frames came twice; the consumer connected %d times",
		c.a.kills, c.b.kills, l.passed, l.cursor, l.repeats, l.again, l.connects)
	dropped := metric(t, c.b.p, "sluice_firehose_upstream_frames_total") - metric(t, c.b.p, "sluice_firehose_upstream_published_total")
	t.Logf("B dropped %v frames of A in its last life", dropped)
	if l.passed < 20*(c.a.kills+c.b.kills) {
		t.Error("too little happened between the kills to prove anything")
	}
	if l.strict && dropped == 0 {
		t.Error("A never sent a commit again: nothing had to be dropped")
	}
}

// TestChain: hard case 33 in a chain: A is killed at random moments under load,
// B is not. At B's consumer numbers ascend without a gap, no commit comes twice,
// and no frame is missing (N2, N3).
func TestChain(t *testing.T) {
	random := newRand(t)
	c := startChain(t, rand.New(rand.NewPCG(random.Uint64(), 2)), persistTime, true)
	for total := testrelay.Kills(t, 10); c.a.kills < total; {
		c.awaitMoment(t, random)
		c.a.kill(t)
		c.a.start(t)
		if random.IntN(3) == 0 && c.a.kills < total {
			time.Sleep(time.Duration(random.Int64N(int64(shortLife)))) // before a cursor is stored
			c.a.kill(t)
			c.a.start(t)
		}
	}
	c.finish(t)
	if c.tail.connects != 1 {
		t.Errorf("B has dropped its consumer %d times", c.tail.connects-1)
	}
}

// TestChainAnyMoment: as TestChain, and A is killed without a look at what has come
// through: also while B is on its way back to it. Some lives are long enough that A
// stores cursors.
func TestChainAnyMoment(t *testing.T) {
	random := newRand(t)
	c := startChain(t, rand.New(rand.NewPCG(random.Uint64(), 2)), slowPersist, true)
	for total := testrelay.Kills(t, 5); c.a.kills < total; {
		life := slowPersist * 2
		if c.a.kills%4 == 1 {
			life = slowPersist * 9
		}
		time.Sleep(time.Duration(random.Int64N(int64(life)))) // the moment of the kill
		c.a.kill(t)
		c.a.start(t)
	}
	c.finish(t)
	if c.tail.connects != 1 {
		t.Errorf("B has dropped its consumer %d times", c.tail.connects-1)
	}
}

// TestChainBothKilled: as TestChain, and B is killed too. Then commits may come
// twice (F63), in the right order, and still no frame is missing.
func TestChainBothKilled(t *testing.T) {
	random := newRand(t)
	c := startChain(t, rand.New(rand.NewPCG(random.Uint64(), 2)), persistTime, false)
	for total := testrelay.Kills(t, 10); c.a.kills+c.b.kills < total || c.b.kills == 0; {
		c.awaitMoment(t, random)
		victims := [][]*link{{c.a}, {c.b}, {c.a, c.b}, {c.b, c.a}}[random.IntN(4)]
		var killing sync.WaitGroup
		for _, v := range victims { // at once: one that lives on stores cursors
			killing.Go(v.p.Kill)
		}
		killing.Wait()
		for _, v := range victims {
			v.kill(t)
		}
		for _, v := range victims {
			v.start(t)
		}
		if random.IntN(3) == 0 {
			v := victims[len(victims)-1]
			time.Sleep(time.Duration(random.Int64N(int64(shortLife)))) // before a cursor is stored
			v.kill(t)
			v.start(t)
		}
	}
	c.finish(t)
	if c.b.kills == 0 || c.tail.told == 0 {
		t.Errorf("B was killed %d times, the consumer was told of it %d times", c.b.kills, c.tail.told)
	}
}
