package firehosefaults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
)

// errLost tells that no answer came: whether the frame was published is open.
var errLost = errors.New("no answer")

// publisher publishes over HTTP to one life of a relay (F52). Any goroutine.
type publisher struct {
	url  string
	http *http.Client
}

func newPublisher(addr string) *publisher {
	return &publisher{"http://" + addr + "/firehose/publish", &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}, Timeout: patience,
	}}
}

func (p *publisher) close() { p.http.CloseIdleConnections() }

// publish publishes a message and returns its number if the status is 200. The
// error is errLost, or that of an answer that cannot be read.
func (p *publisher) publish(m message) (seq int64, status int, err error) {
	req, err := http.NewRequest("POST", p.url, bytes.NewReader(m.frame(1)))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+publishToken)
	req.Header.Set("Content-Type", "application/vnd.ipld.dag-cbor")
	res, err := p.http.Do(req)
	if err != nil {
		return 0, 0, errLost
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, 0, errLost
	}
	if res.StatusCode != http.StatusOK {
		return 0, res.StatusCode, nil
	}
	var answer struct{ Seq int64 }
	if err := json.Unmarshal(text, &answer); err != nil || answer.Seq < 1 {
		return 0, res.StatusCode, fmt.Errorf("answer to a publish: %q", text)
	}
	return answer.Seq, res.StatusCode, nil
}

// must publishes a message that has to be taken, and enters its number.
func (p *publisher) must(t *testing.T, l *ledger, m message) int64 {
	t.Helper()
	seq, status, err := p.publish(m)
	if err != nil || status != http.StatusOK {
		t.Fatalf("publish: %d, %v", status, err)
	}
	if err := l.enter(seq, m.id); err != nil {
		t.Fatal(err)
	}
	return seq
}

// ledger remembers over all lives which message had which number (N1). Any
// goroutine.
type ledger struct {
	mu      sync.Mutex
	ids     map[int64]string
	numbers map[string]int64
	highest int64
}

func newLedger() *ledger { return &ledger{ids: map[int64]string{}, numbers: map[string]int64{}} }

// enter notes what was seen by somebody: it must not contradict what was seen
// before.
func (l *ledger) enter(seq int64, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.ids[seq]; ok && was != id {
		return fmt.Errorf("N1: number %d is %q and was %q", seq, id, was)
	}
	if was, ok := l.numbers[id]; ok && was != seq {
		return fmt.Errorf("N1: %q has number %d and had %d", id, seq, was)
	}
	l.ids[seq], l.numbers[id] = id, seq
	l.highest = max(l.highest, seq)
	return nil
}

// top returns the highest number that anybody has seen.
func (l *ledger) top() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest
}

// crowd is several goroutines that publish until no answer comes any more.
type crowd struct {
	wg sync.WaitGroup

	mu       sync.Mutex
	answered int64 // the highest number that was answered
	count    int
	refused  int // 503: the relay is ending
	faults   []error
}

// startCrowd starts n of them. Their repositories are told apart by life.
func startCrowd(p *publisher, l *ledger, n, life int) *crowd {
	c := &crowd{}
	for i := range n {
		r := newRepo(life*100 + i)
		c.wg.Go(func() {
			for k := 0; c.step(p, l, r.mixed(k)); k++ {
			}
		})
	}
	return c
}

// step publishes one message and reports whether to go on.
func (c *crowd) step(p *publisher, l *ledger, m message) bool {
	seq, status, err := p.publish(m)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, errLost):
		return false
	case err != nil:
		c.faults = append(c.faults, err)
		return false
	case status == http.StatusServiceUnavailable:
		c.refused++
		return false
	case status != http.StatusOK:
		c.faults = append(c.faults, fmt.Errorf("publish: %d", status))
		return false
	}
	if err := l.enter(seq, m.id); err != nil {
		c.faults = append(c.faults, err)
		return false
	}
	c.answered = max(c.answered, seq)
	c.count++
	return true
}

// soFar returns how many messages were answered.
func (c *crowd) soFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// wait waits until all have ended and fails the test if one had to.
func (c *crowd) wait(t *testing.T) {
	t.Helper()
	c.wg.Wait()
	for _, err := range c.faults {
		t.Error(err)
	}
}
