package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// published is what a Publish has told.
type published struct {
	refused []string
	notices []string
}

// publishing runs a Publish against a script, and waits for the end of both.
func publishing(tb testing.TB, s *script, in io.Reader, o PublishOptions) (PublishStats, published, error) {
	tb.Helper()
	var p published
	o.Peer = at(tb, s.URL)
	o.Refused = func(line int64, reason string) { p.refused = append(p.refused, fmt.Sprintf("%d %s", line, reason)) }
	o.Notice = func(n Notice) { p.notices = append(p.notices, n.String()) }
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	stats, err := Publish(ctx, in, o)
	s.live.Wait()
	return stats, p, err
}

// input has n lines with the ids e1 to en.
func input(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, `{"id":"e%d","type":"task.progress","payload":{"n":%d}}`+"\n", i, i)
	}
	return b.String()
}

// acknowledge acknowledges an event.
func (w *wire) acknowledge(h heard) {
	w.say(w.a.AppendAcknowledged(nil, w.head(h.ID), h.ID, 1))
}

// reject refuses an event.
func (w *wire) reject(h heard, x aepws.Error) {
	w.say(w.a.AppendRejected(nil, w.head(h.ID), []byte(h.ID), x, nil))
}

// events calls f with each event until the client goes.
func (w *wire) events(f func(h heard)) {
	for {
		switch h := w.hear(); h.Type {
		case "":
			return
		case "session.closed":
			_ = w.Close(websocket.StatusNormalClosure, "")
			return
		default:
			f(h)
		}
	}
}

// B55: each line once, in its order, and the end is waited for.
func TestPublish(t *testing.T) {
	var got []int
	s := startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		w.events(func(h heard) {
			got = append(got, h.Payload.N)
			w.acknowledge(h)
		})
	})
	const lines = 3 * windowLines
	stats, p, err := publishing(t, s, strings.NewReader("\n"+input(lines)), PublishOptions{})
	if err != nil || stats.Acknowledged != lines || stats.Refused+stats.Retries+stats.BestEffort != 0 || len(p.notices)+len(p.refused) > 0 {
		t.Errorf("%+v, %v, %v", stats, err, p)
	}
	if len(got) != lines || !slices.IsSorted(got) {
		t.Errorf("%d lines", len(got))
	}
}

// An empty input needs no relay for long, and one that nobody answers is not
// waited for.
func TestPublishNothing(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {})
	if stats, p, err := publishing(t, s, strings.NewReader("\n"), PublishOptions{}); err != nil || stats != (PublishStats{}) || s.connections.Load() > 2 {
		t.Errorf("%+v, %v, %v", stats, err, p)
	}
}

// The window bounds what is under way, by lines and by bytes.
func TestWindow(t *testing.T) {
	f := func(name string, in string, most int) {
		t.Helper()
		held := make(chan int, 1)
		s := startScript(t, func(_ int64, w *wire) {
			w.ready(aepws.Capabilities{})
			var owed []heard
			for range most {
				owed = append(owed, w.hear())
			}
			// Nothing more may come now: the next message is the answer to a
			// ping, which the client gives while it reads.
			more := make(chan heard, 1)
			go func() { more <- w.hear() }()
			if err := w.Ping(w.r.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			select {
			case h := <-more:
				t.Errorf("%s: also comes %.80s", name, h.text)
			default:
			}
			held <- len(owed)
			for _, h := range owed {
				w.acknowledge(h)
			}
			w.acknowledge(<-more)
			w.events(w.acknowledge)
		})
		stats, _, err := publishing(t, s, strings.NewReader(in), PublishOptions{})
		if got := <-held; err != nil || got != most || stats.Acknowledged <= int64(most) {
			t.Errorf("%s: %d, %+v, %v", name, got, stats, err)
		}
	}
	f("lines", input(windowLines+10), windowLines)
	long := fmt.Sprintf(`{"type":"a.b","payload":{"x":"%s"}}`+"\n", strings.Repeat("x", windowBytes/4))
	f("bytes", strings.Repeat(long, 5), 3)
	longer := fmt.Sprintf(`{"type":"a.b","payload":{"x":"%s"}}`+"\n", strings.Repeat("x", windowBytes))
	f("one is always sent", strings.Repeat(longer, 2), 1)
}

// B56, hard case 34: what was not acknowledged is sent again with the same bytes
// and in its order, also what was acknowledged in vain.
func TestResend(t *testing.T) {
	var seen [4][]string
	s := startScript(t, func(n int64, w *wire) {
		w.ready(aepws.Capabilities{})
		for i := 1; ; i++ {
			h := w.hear()
			if h.Type == "session.closed" || h.Type == "" {
				_ = w.Close(websocket.StatusNormalClosure, "")
				return
			}
			seen[n] = append(seen[n], string(h.text))
			if n == 1 && i == 5 {
				return // with the answers to 3 to 5 owed
			}
			if n == 1 && i > 2 {
				continue
			}
			if n == 2 && i == 2 {
				w.acknowledge(h) // and not that of the one before
				return
			}
			if n != 2 {
				w.acknowledge(h)
			}
		}
	})
	stats, p, err := publishing(t, s, strings.NewReader(input(8)), PublishOptions{})
	if err != nil || stats.Acknowledged != 8 || stats.Refused != 0 {
		t.Errorf("%+v, %v, %v", stats, err, p)
	}
	if stats.Retries == 0 || stats.Bytes > int64(len(input(8)))+8*200 {
		t.Errorf("%+v", stats)
	}
	first := map[string]string{}
	for _, list := range seen {
		last := 0
		for _, text := range list {
			n := 0
			if _, err := fmt.Sscanf(text[strings.Index(text, `"n":`):], `"n":%d`, &n); err != nil || n <= last {
				t.Errorf("%d after %d, %v", n, last, err)
			}
			last = n
			id := fmt.Sprint(n)
			if before, known := first[id]; known && before != text {
				t.Errorf("sent as\n%s\nand as\n%s", before, text)
			}
			first[id] = text
		}
	}
}

// B25, B29, B56: refused lines are told with their number, the rest is in. What
// is no event is not even sent.
func TestRefusedLines(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		w.events(func(h heard) {
			switch h.Payload.N {
			case 2:
				w.reject(h, aepws.Error{Code: aepws.InvalidEnvelope, Message: "other\x1b[2J", Reason: aepws.ReasonDuplicateID})
				w.reject(h, aepws.Error{Code: aepws.InvalidEnvelope, Message: "again"}) // of nobody
			case 9:
				w.reject(h, aepws.Error{Code: aepws.Unauthorized, Message: "no"})
			default:
				w.acknowledge(h)
				w.acknowledge(h) // counts once (G4)
			}
		})
	})
	in := input(2) + "{\n" + `{"type":"session.closed","payload":{}}` + "\n" + strings.Repeat("x", maxLineBytes+2) + "\n" +
		`{"id":"b9","type":"a.b","payload":{"n":9},"delivery":{"mode":"best_effort"}}` + "\n" + `{"type":"a.b","payload":{"n":10}}`
	stats, p, err := publishing(t, s, strings.NewReader(in), PublishOptions{})
	if err != nil || stats.Acknowledged != 2 || stats.Refused != 5 || stats.BestEffort != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	slices.Sort(p.refused)
	got := strings.Join(p.refused, "\n")
	for _, want := range []string{
		`2 invalid_envelope: duplicate_id: other\x1b[2J`, "3 unexpected end", "4 events of the relay's own families", "5 longer than 16777216 bytes",
		"6 unauthorized: no",
	} {
		if !strings.Contains("\n"+got, "\n"+want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Join(p.notices, "\n") != "the relay says e2: invalid_envelope: again" {
		t.Errorf("%q", p.notices)
	}
}

// B27: a line that may be taken later is sent again, a bounded number of times.
func TestRetryableRefusal(t *testing.T) {
	sent := map[int]int{}
	s := startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		w.events(func(h heard) {
			if sent[h.Payload.N]++; h.Payload.N == 1 && sent[1] < 4 {
				w.reject(h, aepws.Error{Code: aepws.InternalError, Message: "full"})
				return
			}
			w.acknowledge(h)
		})
	})
	stats, p, err := publishing(t, s, strings.NewReader(input(2)), PublishOptions{})
	if err != nil || stats.Acknowledged != 2 || stats.Retries != 3 || sent[1] != 4 || sent[2] != 1 {
		t.Errorf("%+v, %v, %v, %v", stats, err, p, sent)
	}
	x := &publisher{o: PublishOptions{Refused: func(int64, string) {}}}
	for n := 1; n <= lineTries; n++ {
		x.out = []*flight{{id: "e", line: 1, tries: n - 1}}
		x.queue = nil
		x.rejected(&answer{Acknowledged: "e", Error: errorBody{Code: "internal_error", Retryable: true}})
		if again := len(x.queue) == 1; again != (n < lineTries) || len(x.out) != 0 || time.Until(x.later) > maxWait {
			t.Errorf("refusal %d: again %v", n, again)
		}
	}
}

// B14: lines longer than the relay takes are refused here when it says its
// limit, else found by its close with 1009, one by one.
func TestTooLong(t *testing.T) {
	long := `{"id":"long","type":"a.b","payload":{"x":"` + strings.Repeat("x", 5000) + `"}}` + "\n"
	in := input(3) + long + `{"id":"b","type":"a.b","payload":{},"delivery":{"mode":"best_effort"}}` + "\n" + input(6)[len(input(3)):]
	f := func(limit int64, reason string) {
		t.Helper()
		acked := map[string]bool{}
		s := startScript(t, func(_ int64, w *wire) {
			w.ready(aepws.Capabilities{MaxPayloadBytes: limit})
			w.SetReadLimit(4000)
			w.events(func(h heard) {
				if h.ID != "b" {
					acked[h.ID] = true
					w.acknowledge(h)
				}
			})
			_ = w.Close(websocket.StatusMessageTooBig, "")
		})
		stats, p, err := publishing(t, s, strings.NewReader(in), PublishOptions{})
		if err != nil || stats.Acknowledged != 6 || stats.Refused != 1 || stats.BestEffort != 1 || len(acked) != 6 {
			t.Errorf("%d: %+v, %v\n%s", limit, stats, err, strings.Join(p.notices, "\n"))
		}
		if len(p.refused) != 1 || p.refused[0] != "4 longer than "+reason {
			t.Errorf("%d: refused %q", limit, p.refused)
		}
	}
	f(4000, "the 4000 bytes that the relay takes")
	f(0, "the relay takes")
}

// B55: lines of mode best_effort wait for nothing; what was lost with their
// connection is told.
func TestBestEffort(t *testing.T) {
	cut := make(chan struct{})
	s := startScript(t, func(n int64, w *wire) {
		w.ready(aepws.Capabilities{})
		if n == 1 {
			for range 3 {
				if h := w.hear(); h.Delivery.Mode != "best_effort" {
					t.Errorf("%s", h.text)
				}
			}
			close(cut)
			return
		}
		w.events(w.acknowledge)
	})
	in, feed := io.Pipe()
	go func() {
		_, _ = io.WriteString(feed, input(3))
		<-cut
		_, _ = io.WriteString(feed, `{"type":"a.b","payload":{},"delivery":{"mode":"replayable"}}`+"\n"+input(1))
		_ = feed.Close()
	}()
	stats, p, err := publishing(t, s, in, PublishOptions{Mode: aepws.BestEffort})
	if err != nil || stats.Acknowledged != 1 || stats.BestEffort != 4 || stats.Unsure < 3 || stats.Refused != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	if !strings.Contains(strings.Join(p.notices, "\n"), " lines of mode best_effort may not have arrived") {
		t.Errorf("%q", p.notices)
	}
}

// The lines that a refusal may be about are remembered up to a bound.
func TestRememberBound(t *testing.T) {
	p := &publisher{recent: map[string]int64{}}
	for i := range int64(3 * recentLines) {
		p.remember(&flight{id: fmt.Sprint(i), line: i})
	}
	if len(p.recent) != recentLines || len(p.order) != recentLines || p.recent["3071"] != 3071 {
		t.Errorf("%d, %d", len(p.recent), len(p.order))
	}
}

// Two lines of one id are never under way together: an answer names the id
// alone.
func TestSameID(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		first := true
		w.events(func(h heard) {
			if h.Payload.N == 1 && first {
				first = false
				w.acknowledge(h)
				return
			}
			w.reject(h, aepws.Error{Code: aepws.InvalidEnvelope, Message: "twice", Reason: aepws.ReasonDuplicateID})
		})
	})
	same := strings.Replace(input(1), `"n":1`, `"n":2`, 1)
	stats, p, err := publishing(t, s, strings.NewReader(input(1)+same), PublishOptions{})
	if err != nil || stats.Acknowledged != 1 || len(p.refused) != 1 || p.refused[0] != "2 invalid_envelope: duplicate_id: twice" {
		t.Errorf("%+v, %v, %q", stats, err, p.refused)
	}
}

// A relay that lives and acknowledges nothing is left, and asked again.
func TestNoAcknowledgement(t *testing.T) {
	silent := true // until both lines have come over one connection
	s := startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		if !silent {
			w.events(w.acknowledge)
			return
		}
		came := 0
		w.events(func(heard) { came++ })
		silent = came < 2
	})
	stats, p, err := publishing(t, s, strings.NewReader(input(2)), PublishOptions{mark: 100 * time.Millisecond})
	if err != nil || stats.Acknowledged != 2 || !strings.Contains(strings.Join(p.notices, "\n"), "the relay acknowledges nothing") ||
		!slices.Contains(p.notices, "2 lines not acknowledged, sent again") {
		t.Errorf("%+v, %v, %q", stats, err, p.notices)
	}
}

// Stop ends the input; what was read is still sent.
func TestStop(t *testing.T) {
	stop := make(chan struct{})
	var once atomic.Bool
	s := startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		w.events(func(h heard) {
			if once.CompareAndSwap(false, true) {
				close(stop)
			}
			w.acknowledge(h)
		})
	})
	in, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	go func() { _, _ = io.WriteString(feed, input(1)) }()
	stats, _, err := publishing(t, s, in, PublishOptions{Stop: stop})
	if err != nil || stats.Acknowledged != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// What ends a Publish early, with the right counts.
func TestPublishEnds(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		w.acknowledge(w.hear())
		w.hear()
		w.say(w.a.AppendClosed(nil, w.head(""), "replaced"))
		w.hold()
	})
	stats, _, err := publishing(t, s, strings.NewReader(input(3)), PublishOptions{})
	if !errors.Is(err, ErrReplaced) || stats.Acknowledged != 1 {
		t.Errorf("B44: %+v, %v", stats, err)
	}

	broken := errors.New("broken")
	s = startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		w.events(w.acknowledge)
	})
	stats, _, err = publishing(t, s, io.MultiReader(strings.NewReader(input(2)), iotest.ErrReader(broken)), PublishOptions{})
	if !errors.Is(err, ErrInput) || !errors.Is(err, broken) || stats.Acknowledged != 2 {
		t.Errorf("input: %+v, %v", stats, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	s = startScript(t, func(_ int64, w *wire) {
		w.ready(aepws.Capabilities{})
		w.hear()
		cancel()
		w.hold()
	})
	stats, err = Publish(ctx, strings.NewReader(input(2)), PublishOptions{Peer: at(t, s.URL), Refused: func(int64, string) {}, Notice: func(Notice) {}})
	if !errors.Is(err, context.Canceled) || stats.Acknowledged != 0 {
		t.Errorf("cancelled: %+v, %v", stats, err)
	}
}
