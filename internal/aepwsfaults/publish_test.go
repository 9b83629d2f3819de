package aepwsfaults

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// draft is an event that is to be published.
type draft struct {
	id, kind string
	mode     string // "" for none
	expires  string // "" for never
	padBytes int
}

func (d draft) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"aep_version":"0.1","id":%q,"type":%q,"source":"agent:publisher","created_at":"2026-11-30T10:00:00Z"`, d.id, d.kind)
	if d.mode != "" {
		fmt.Fprintf(&b, `,"delivery":{"mode":%q}`, d.mode)
	}
	if d.expires != "" {
		fmt.Fprintf(&b, `,"expires_at":%q`, d.expires)
	}
	fmt.Fprintf(&b, `,"payload":{"pad":"%s"}}`, strings.Repeat("x", d.padBytes))
	return b.String()
}

// plain is an event that asks for no mode.
func plain(id string) draft { return draft{id: id, kind: "task.progress"} }

// publish publishes one event on an agent that gets nothing else, and returns
// its answer: event.acknowledged or event.rejected.
func (a *agent) publish(d draft) (event, error) {
	if err := a.ws.SendText(d.text()); err != nil {
		return event{}, err
	}
	e, err := a.next()
	if err == nil && (e.Payload.Acknowledged != d.id || e.Type != "event.acknowledged" && e.Type != "event.rejected") {
		err = fmt.Errorf("B55: %v of %q for the event %q", e, e.Payload.Acknowledged, d.id)
	}
	return e, err
}

// mustPublish publishes an event that has to be taken and returns its number.
func (a *agent) mustPublish(t *testing.T, d draft) int64 {
	t.Helper()
	e, err := a.publish(d)
	if err != nil {
		t.Fatal(err)
	}
	n := number(e.Payload.Cursor)
	if e.Type != "event.acknowledged" || e.Payload.Cursor != fmt.Sprintf("%s:%d", d.id, n) || n < 1 {
		t.Fatalf("B51, B55: %v, cursor %q for %s", e, e.Payload.Cursor, d.id)
	}
	return n
}

// publishMany publishes count events that the relay acknowledges, at most window
// of them unanswered, and returns the first and the last number. Answers come in
// the order of the events.
func (a *agent) publishMany(prefix string, count, window, padBytes int) (first, last int64, err error) {
	sent := 0
	for answered := 0; answered < count; {
		for ; sent < count && sent-answered < window; sent++ {
			d := plain(fmt.Sprint(prefix, sent))
			d.padBytes = padBytes
			if err := a.ws.SendText(d.text()); err != nil {
				return first, last, err
			}
		}
		e, err := a.next()
		n := number(e.Payload.Cursor)
		switch {
		case err != nil:
			return first, last, err
		case e.Type != "event.acknowledged" || e.Payload.Acknowledged != fmt.Sprint(prefix, answered) || n <= last:
			return first, last, fmt.Errorf("B55: %v of %q number %d after %d", e, e.Payload.Acknowledged, n, last)
		}
		if last = n; first == 0 {
			first = n
		}
		answered++
	}
	return first, last, nil
}

// mustPublishMany is publishMany where all has to work.
func (a *agent) mustPublishMany(t *testing.T, prefix string, count, padBytes int) (first, last int64) {
	t.Helper()
	first, last, err := a.publishMany(prefix, count, 64, padBytes)
	if err != nil {
		t.Fatal(err)
	}
	return first, last
}

// ledger remembers over all lives which event had which number (K1). Any
// goroutine.
type ledger struct {
	mu      sync.Mutex
	ids     map[int64]string
	numbers map[string]int64
	acked   map[string]bool
	highest int64
	evicts  bool // the log forgets ids: sent again they get another number (B56)
}

func newLedger() *ledger {
	return &ledger{ids: map[int64]string{}, numbers: map[string]int64{}, acked: map[string]bool{}}
}

// enter notes what somebody has seen: it must not contradict what was seen
// before.
func (l *ledger) enter(id string, n int64, acknowledged bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.ids[n]; ok && was != id {
		return fmt.Errorf("K1: number %d is %q and was %q", n, id, was)
	}
	if was, ok := l.numbers[id]; ok && was != n && !l.evicts {
		return fmt.Errorf("K1: %q has number %d and had %d", id, n, was)
	}
	if n < 1 {
		return fmt.Errorf("B51: %q has number %d", id, n)
	}
	l.ids[n], l.numbers[id] = id, n
	if acknowledged {
		l.acked[id] = true
	}
	l.highest = max(l.highest, n)
	return nil
}

// top returns the highest number that anybody has seen.
func (l *ledger) top() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest
}

// lost returns an event that was seen, and is not in what was read of the log
// from its first number on; "" for none (K2).
func (l *ledger) lost(read []event) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := make(map[int64]string, len(read))
	for _, e := range read {
		there[e.Delivery.Sequence] = e.ID
	}
	for n, id := range l.ids {
		if len(read) > 0 && n >= read[0].Delivery.Sequence && there[n] != id {
			return fmt.Sprintf("%s, number %d, acknowledged %v: %q is there", id, n, l.acked[id], there[n])
		}
	}
	return ""
}
