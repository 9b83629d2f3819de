package follow

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/internal/client"
	"github.com/sluice-relay/sluice/internal/testrelay"
)

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 60 * time.Second

var seedFlag = flag.Uint64("follow.seed", 0, "seed of what is random, 0 for a new one")

func TestMain(m *testing.M) {
	testrelay.Main()
	os.Exit(relaytest.RunLeakFree(m, "follow.(*follower)"))
}

// at returns the relay at an address.
func at(tb testing.TB, addr string) *client.Relay {
	tb.Helper()
	r, err := client.New("http://"+addr, "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.HTTP.CloseIdleConnections)
	return r
}

// publish posts events to a relay and reports whether they were acknowledged.
func publish(addr string, events ...string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/events", strings.NewReader(strings.Join(events, "\n")))
	if err != nil {
		return err
	}
	req.Header.Set("AEP-Version", "0.1")
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("POST /events: %s", resp.Status)
	}
	return nil
}

// mustPublish is publish for a relay that has no reason to fail.
func mustPublish(tb testing.TB, addr string, events ...string) {
	tb.Helper()
	if err := publish(addr, events...); err != nil {
		tb.Fatal(err)
	}
}

// told is one thing that a collector was told.
type told struct {
	id, session string // of an event
	seq         int64
	notice      Notice
}

// collector is a Sink that keeps everything.
type collector struct {
	mu      sync.Mutex
	all     []told
	ids     map[string]int
	changed chan struct{} // closed and replaced at each change
	fail    error         // of Event
	flushes int
}

func newCollector() *collector {
	return &collector{ids: map[string]int{}, changed: make(chan struct{})}
}

func (c *collector) Event(text []byte) error {
	var s aep.Scanner
	if s.Scan(text) != nil {
		return fmt.Errorf("no event: %.200q", text)
	}
	id, _ := s.StringMember("id")
	session, _ := s.StringMember("session")
	raw, _ := s.RawMember("seq")
	n, _ := aep.ParseInteger(bytes.Clone(raw))
	seq, _ := n.Int64()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.ids[id]++
	c.add(told{id: id, session: session, seq: seq})
	return nil
}

func (c *collector) Notice(n Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(told{notice: n})
}

func (c *collector) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
	return nil
}

func (c *collector) add(t told) {
	c.all = append(c.all, t)
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until done reports true of what was told so far.
func (c *collector) await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		ok, changed := done(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			c.mu.Lock()
			defer c.mu.Unlock()
			tb.Fatalf("%s: not within %v; %d told, the last %+v", what, patience, len(c.all), c.all[max(0, len(c.all)-20):])
		}
	}
}

// events returns how many events there are.
func (c *collector) events() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

func (c *collector) awaitEvents(tb testing.TB, n int) {
	tb.Helper()
	c.await(tb, fmt.Sprintf("%d events", n), func() bool { return len(c.ids) >= n })
}

// awaitID waits for the event with an id.
func (c *collector) awaitID(tb testing.TB, id string) {
	tb.Helper()
	c.await(tb, id, func() bool { return c.ids[id] > 0 })
}

func (c *collector) awaitNotice(tb testing.TB, k Kind) Notice {
	tb.Helper()
	var found Notice
	c.await(tb, "notice "+Notice{Kind: k}.String(), func() bool {
		for _, t := range c.all {
			if t.notice.Kind == k {
				found = t.notice
				return true
			}
		}
		return false
	})
	return found
}

// lines returns what was told in short: ids and notices.
func (c *collector) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, t := range c.all {
		if t.id != "" {
			lines = append(lines, t.id)
			continue
		}
		lines = append(lines, "# "+t.notice.String())
	}
	return lines
}

// run is one Follow in a goroutine of its own.
type run struct {
	stop context.CancelFunc
	done chan error
}

// follow starts a Follow, which tries again at once.
func startFollow(tb testing.TB, o Options, c *collector) *run {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	r := &run{stop: cancel, done: make(chan error, 1)}
	if o.pause == nil {
		o.pause = hasten
	}
	go func() { r.done <- Follow(ctx, o, c) }()
	tb.Cleanup(cancel)
	return r
}

// hasten is a pause that is short, so that a relay that is down is not asked
// without a break.
func hasten(ctx context.Context, _ time.Duration) error { return client.Pause(ctx, 2*time.Millisecond) }

// end stops a Follow and returns its error.
func (r *run) end(tb testing.TB) error {
	tb.Helper()
	r.stop()
	return r.wait(tb)
}

// wait waits for the end of a Follow.
func (r *run) wait(tb testing.TB) error {
	tb.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		tb.Fatal("Follow does not return")
		return nil
	}
}
