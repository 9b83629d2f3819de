package relay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR190Redelivery: live delivery is once per ingest, replay once per event.
func TestR190Redelivery(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	s, w := f.stream(t, "", relaytest.StreamOptions{}), f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"a"}`)
	e := relaytest.Event{Session: "s"}.JSON()
	emitter := f.socket(t, "")
	f.post(t, e, e)
	f.post(t, e)
	emitter.send(e, e)
	for i := range 5 {
		if got := s.event().Data; got != e {
			t.Errorf("SSE %d: %s", i, got)
		}
		if got := w.text(); got != e {
			t.Errorf("WebSocket %d: %s", i, got)
		}
	}
	wantTexts(t, "replay", f.held(t), []string{e})
	wantTexts(t, "no sixth copy", w.barrier(), nil)
}

// TestR191TwoSubscriptions: one copy for each that matches, all in ingest order
// (R191, R193).
func TestR191TwoSubscriptions(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	w.subscribe(`{"type":"subscribe","id":"tools","filter":{"type":"tool.*"},"capture":"metadata"}`)
	w.subscribe(`{"type":"subscribe","id":"s","filter":{"session":"s"}}`)
	var want, batch []string
	for i := range 300 {
		e := relaytest.Event{Session: []string{"s", "t"}[i/2%2], Type: []string{"tool.completed", "run.started"}[i%2], Seq: uint64(i), Capture: "full"}
		e.ID, e.Data = fmt.Sprint("e", i), `{"status":"success"}`
		text := e.JSON()
		if i%2 == 0 {
			low := e
			low.Capture = "metadata"
			want = append(want, low.JSON())
		}
		if e.Session == "s" {
			want = append(want, text)
		}
		batch = append(batch, text)
		if len(batch) == 7 || i == 299 {
			f.post(t, batch...)
			batch = nil
		}
	}
	got := w.barrier()
	if len(got) != len(want) {
		t.Fatalf("%d copies, want %d", len(got), len(want))
	}
	for i := range want {
		if !sameJSON(t, got[i], want[i]) {
			t.Fatalf("copy %d: got %s, want %s", i, got[i], want[i])
		}
	}
}

// TestR329Replies: a reply follows what was ingested before its request.
func TestR329Replies(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	for i := range 200 {
		w.subscribe(`{"type":"subscribe","id":"a"}`)
		e := relaytest.Event{Session: "s", Seq: uint64(i)}.JSON()
		f.post(t, e)
		switch i % 3 {
		case 0: // unsubscribe loses nothing acknowledged before it, and ends it
			w.send(`{"type":"unsubscribe","id":"a"}`)
			if got := w.text(); got != e {
				t.Fatalf("R329: got %s before the event acknowledged before", got)
			}
			w.frame("unsubscribed")
			f.post(t, relaytest.Event{Session: "s", Seq: uint64(i)}.JSON())
		case 1: // so does a replacement
			w.send(`{"type":"subscribe","id":"a","filter":{"session":"none"}}`)
			if got := w.text(); got != e {
				t.Fatalf("R329: got %s before the event acknowledged before", got)
			}
			w.frame("subscribed")
			f.post(t, relaytest.Event{Session: "s", Seq: uint64(i)}.JSON())
		default:
			if got := w.barrier(); len(got) != 1 || got[0] != e {
				t.Fatalf("R329: before the pong: %q", got)
			}
		}
		if i%3 < 2 {
			if got := w.barrier(); len(got) != 0 {
				t.Fatalf("R324, R326: after the end of a subscription: %q", got)
			}
		}
	}
}

// published is the state of a session, or of many, that is being written.
type published struct {
	count atomic.Int64
	total int
}

// await waits until n events have been handed to the relay.
func (p *published) await(n int) {
	for p.count.Load() < int64(n) {
		time.Sleep(200 * time.Microsecond)
	}
}

// write publishes total events, by HTTP in small batches and by two WebSocket
// emitters at once. name and number give the session and sequence of event i.
func (p *published) write(t *testing.T, f *fixture, name func(int) string) {
	var next atomic.Int64
	text := func(i int) string {
		return relaytest.Event{Session: name(i), Seq: uint64(i), ID: fmt.Sprint("e", i), Severity: "notice"}.JSON()
	}
	var wg sync.WaitGroup
	publish := func(batch int, send func([]string) error) {
		defer wg.Done()
		for {
			to := int(next.Add(int64(batch)))
			var texts []string
			for i := to - batch; i < min(to, p.total); i++ {
				texts = append(texts, text(i))
			}
			if len(texts) == 0 {
				return
			}
			if err := send(texts); err != nil {
				t.Errorf("publish: %v", err)
				return
			}
			p.count.Add(int64(len(texts)))
		}
	}
	wg.Add(3)
	go publish(5, func(texts []string) error {
		r, err := relaytest.Do(f.addr, "POST", f.postRequest(ndjson, relaytest.NDJSON(texts...)), patience)
		if err == nil && r.Status != 202 {
			err = fmt.Errorf("status %d", r.Status)
		}
		return err
	})
	for range 2 {
		w := f.socket(t, "")
		go publish(1, func(texts []string) error {
			time.Sleep(50 * time.Microsecond) // pacing: leave joiners time to join
			return w.SendText(texts[0])
		})
	}
	wg.Wait()
}

// collect reads total events as sequence numbers.
func collect(total int, next func() (string, error)) ([]int, error) {
	var got []int
	for len(got) < total {
		text, err := next()
		if err != nil {
			return got, err
		}
		e, err := relaytest.ParseEnvelope(text)
		if err != nil || e.Session == "" || e.Type != "progress.status" {
			return got, fmt.Errorf("after %d events: %.200s", len(got), text)
		}
		got = append(got, int(e.SeqNumber()))
	}
	return got, nil
}

// join opens a consumer of query or subscribe frame and returns how to read it.
func (f *fixture) join(t *testing.T, binding, query, frame string) func() (string, error) {
	if binding == "SSE" {
		s := f.stream(t, query, relaytest.StreamOptions{})
		return func() (string, error) {
			for {
				b, err := s.Next(patience)
				if err != nil || b.IsEvent() {
					return b.Data, err
				}
				if b.Raw != ": ping" {
					return "", fmt.Errorf("block %q", b.Raw)
				}
			}
		}
	}
	w := f.socket(t, "")
	w.subscribe(frame)
	return func() (string, error) {
		for {
			m, err := w.Next(patience)
			if err != nil || m.Opcode == relaytest.OpText && !isFrame(string(m.Data), "ping") {
				return string(m.Data), err
			}
		}
	}
}

// TestR192JoinRace: twelve consumers join while one session is written; each
// sees every position exactly once, replay first and then in ingest order.
func TestR192JoinRace(t *testing.T) {
	t.Parallel()
	joinRace(t, 3000, 12, func(int) string { return "s" }, query("from", `[{"session":"s"}]`),
		`{"type":"subscribe","id":"q","from":[{"session":"s","seq":-1}]}`)
}

// TestR192JoinRaceAll is the same with from=all over many sessions.
func TestR192JoinRaceAll(t *testing.T) {
	t.Parallel()
	joinRace(t, 3000, 12, func(i int) string { return fmt.Sprint("s", i%37) }, "from=all",
		`{"type":"subscribe","id":"q","from":"all"}`)
}

func joinRace(t *testing.T, total, consumers int, name func(int) string, query, frame string) {
	f := startRelay(t, map[string]string{"AEP_BUFFER": "100000"})
	witness := f.join(t, "WebSocket", "", `{"type":"subscribe","id":"w"}`)
	p := &published{total: total}
	results := make([][]int, consumers)
	var wg sync.WaitGroup
	for c := range consumers {
		wg.Add(1)
		at := rand.IntN(total)
		go func() {
			defer wg.Done()
			p.await(at)
			binding := []string{"SSE", "WebSocket"}[c%2]
			got, err := collect(total, f.join(t, binding, query, frame))
			if err != nil {
				t.Errorf("consumer %d (%s, joined at about %d of %d): %d events, then %v", c, binding, at, total, len(got), err)
				return
			}
			results[c] = got
		}()
	}
	p.write(t, f, name)
	order, err := collect(total, witness)
	if err != nil {
		t.Errorf("witness: %d events, then %v", len(order), err)
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for c, got := range results {
		if err := joined(got, order, name); err != nil {
			t.Errorf("consumer %d: %v", c, err)
		}
	}
}

// joined checks one consumer's events against ingest order: what it replayed is
// a prefix of the ingest order, session by session and ascending; the rest is
// that order itself (R192, R193).
func joined(got, order []int, name func(int) string) error {
	h := len(got)
	for h > 0 && got[h-1] == order[h-1] {
		h--
	}
	replayed, ingested := slices.Clone(got[:h]), slices.Clone(order[:h])
	slices.Sort(replayed)
	slices.Sort(ingested)
	if !slices.Equal(replayed, ingested) {
		return fmt.Errorf("hole or repeat: the first %d delivered are not the first %d ingested", h, h)
	}
	done := map[string]bool{}
	for i := 1; i < h; i++ {
		before, now := name(got[i-1]), name(got[i])
		switch {
		case before == now && got[i-1] >= got[i]:
			return fmt.Errorf("replay of %s: %d before %d", now, got[i-1], got[i])
		case before != now && done[now]:
			return fmt.Errorf("replay comes back to %s at %d", now, i)
		case before != now:
			done[before] = true
		}
	}
	return nil
}

// TestR192FirstLiveEvent: what is ingested after the opening block of a stream,
// or after "subscribed", is delivered, whoever else is there and leaves.
func TestR192FirstLiveEvent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, query, frame string }{
		{"no filter", "", `{"type":"subscribe","id":"q"}`},
		{"a filter", query("filter", `{"session":"s"}`), `{"type":"subscribe","id":"q","filter":{"session":"s"}}`},
		{"replay first", query("from", `[{"session":"t"}]`), `{"type":"subscribe","id":"q","from":[{"session":"t"}]}`},
	} {
		f := startRelay(t, nil)
		w := f.socket(t, "")
		for i := range 1000 {
			w.subscribe(c.frame)
			s := f.stream(t, c.query, relaytest.StreamOptions{})
			e := relaytest.Event{Session: "s", Seq: uint64(i)}.JSON()
			f.post(t, e)
			if b, err := s.Next(patience); err != nil || b.Data != e {
				t.Fatalf("%s, round %d: stream got %q, %v", c.name, i, b.Raw, err)
			}
			if got := w.text(); got != e {
				t.Fatalf("%s, round %d: socket got %s", c.name, i, got)
			}
			_ = s.Close()
		}
	}
}
