package firehosefaults

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// tail follows the last relay of a chain for the whole test, over its restarts
// too, and holds what comes to N1 to N3.
type tail struct {
	addr   string
	source *source
	strict bool // no commit may come twice, and no number may be left out
	wg     sync.WaitGroup

	mu       sync.Mutex
	stopped  bool
	current  *consumer
	cursor   int64 // the last number
	seen     []bool
	passed   int               // every frame of the source through it has come
	revs     map[string]string // of each repository, the highest
	told     int               // #info frames
	connects int
	repeats  int // commits that came twice
	again    int // others that did
	faults   []error
}

// startTail begins to follow, live: it is connected when startTail returns.
func startTail(t *testing.T, addr string, s *source, strict bool) *tail {
	t.Helper()
	l := &tail{addr: addr, source: s, strict: strict, cursor: noCursor, revs: map[string]string{}}
	c, err := subscribe(addr, noCursor, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.current, l.connects = c, 1
	l.wg.Go(func() {
		for c := c; c != nil; c = l.reconnect() {
			l.read(c)
		}
	})
	t.Cleanup(l.stop)
	return l
}

// stop ends it.
func (l *tail) stop() {
	l.mu.Lock()
	l.stopped = true
	if l.current != nil {
		l.current.close()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// reconnect opens the stream again behind the last number, nil when the test has
// ended.
func (l *tail) reconnect() *consumer {
	for {
		l.mu.Lock()
		stopped, cursor := l.stopped || len(l.faults) > 0, l.cursor
		l.mu.Unlock()
		if stopped {
			return nil
		}
		c, err := subscribe(l.addr, cursor, 0)
		if err != nil {
			time.Sleep(2 * time.Millisecond) // the relay is not there
			continue
		}
		l.mu.Lock()
		l.current = c
		l.connects++
		stopped = l.stopped
		l.mu.Unlock()
		if stopped {
			c.close()
			return nil
		}
		return c
	}
}

// read reads one stream to its end.
func (l *tail) read(c *consumer) {
	defer c.close()
	for {
		i, err := c.next()
		if err != nil && !errors.Is(err, errFrame) {
			return
		}
		if err == nil {
			err = l.take(i)
		}
		if err != nil {
			l.mu.Lock()
			l.faults = append(l.faults, err)
			l.mu.Unlock()
			return
		}
	}
}

// take looks at one item.
func (l *tail) take(i item) error {
	number, commit := 0, false
	if i.seq > 0 {
		number, commit = l.source.find(i.id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case i.isInfo():
		l.told++
		return nil
	case i.seq == 0:
		return fmt.Errorf("after number %d: %v", l.cursor, i)
	case number == 0:
		return fmt.Errorf("%v is %q, which the source has not sent", i, i.id)
	case i.seq <= l.cursor:
		return fmt.Errorf("N1: %v after %d", i, l.cursor)
	case l.strict && l.cursor != noCursor && i.seq != l.cursor+1:
		return fmt.Errorf("N2: %v after %d", i, l.cursor)
	}
	l.cursor = i.seq
	for len(l.seen) <= number {
		l.seen = append(l.seen, false)
	}
	before := l.seen[number]
	l.seen[number] = true
	for l.passed+1 < len(l.seen) && l.seen[l.passed+1] {
		l.passed++
	}
	switch {
	case !before && commit:
		return l.risesLocked(i)
	case before && commit:
		l.repeats++
		if l.strict {
			return fmt.Errorf("N3: %v comes twice: %q, frame %d of the source", i, i.id, number)
		}
	case before:
		l.again++
	}
	return nil
}

// risesLocked holds the commits of a repository to their order (F65).
func (l *tail) risesLocked(i item) error {
	did, rev, _ := strings.Cut(i.id, " ")
	if i.kind != firehose.KindCommit || rev <= l.revs[did] {
		return fmt.Errorf("F65: %v of %s has revision %s after %s", i, did, rev, l.revs[did])
	}
	l.revs[did] = rev
	return nil
}

// soFar returns the number of the source through which every frame has come.
func (l *tail) soFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed
}

// awaitAll waits until every frame of the source up to now has come, and tells
// which one is missing if that does not happen.
func (l *tail) awaitAll(t *testing.T, when string, logs func() string) {
	t.Helper()
	due := l.source.length()
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(2 * time.Millisecond) {
		l.mu.Lock()
		passed, highest, cursor, faults := l.passed, len(l.seen)-1, l.cursor, l.faults
		l.mu.Unlock()
		if len(faults) > 0 {
			t.Fatalf("%s: %v\n%s", when, faults[0], logs())
		}
		if passed >= due {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("N3: %s: frame %d of the source is missing (%s), %d are due, the highest that came is %d, with number %d\n%s",
				when, passed+1, l.source.idAt(passed+1), due, highest, cursor, logs())
		}
	}
}

// awaitLevel waits until every frame has come that the source had a moment ago,
// much less than half of the time after which a cursor is stored. After a relay
// has come back the frames that were due when it did so are not enough: it may
// be in the middle of what was held for it.
func (l *tail) awaitLevel(t *testing.T, when string, logs func() string) {
	t.Helper()
	for deadline := time.Now().Add(2 * patience); ; {
		begun := time.Now()
		l.awaitAll(t, when, logs)
		if time.Since(begun) < levelTime {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: the chain never catches up with its source\n%s", when, logs())
		}
	}
}
