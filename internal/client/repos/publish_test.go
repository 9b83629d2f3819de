package repos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

// taker is a relay that takes frames as a test wants.
type taker struct {
	*httptest.Server
	asked atomic.Int64
	taken [][]byte // of the handler, until the server is closed
}

// startTaker starts a relay. answer gets the count of the request from 1, and
// reports whether it has answered; else the frame is taken with the next
// number.
func startTaker(tb testing.TB, answer func(n int64, w http.ResponseWriter) bool) *taker {
	tb.Helper()
	s := &taker{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		frame, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != publishPath || r.Header.Get("Authorization") != "Bearer t" ||
			r.Header.Get("Content-Type") != "application/vnd.ipld.dag-cbor" || err != nil {
			tb.Errorf("F52: %s %s %v, %v", r.Method, r.URL, r.Header, err)
		}
		if answer != nil && answer(s.asked.Add(1), w) {
			return
		}
		s.taken = append(s.taken, frame)
		fmt.Fprintf(w, `{"seq":%d}`, 100+len(s.taken))
	}))
	tb.Cleanup(s.Close)
	return s
}

func refuse(w http.ResponseWriter, status int, name, message string) bool {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q,"message":%q}`, name, message)
	return true
}

// published is what a Publish has told.
type published struct {
	seqs    []int64
	notices []string
	waits   []time.Duration
}

func (p *published) options(tb testing.TB, url string) PublishOptions {
	tb.Helper()
	relay, err := client.New(url, "t")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(relay.HTTP.CloseIdleConnections)
	return PublishOptions{
		Relay:     relay,
		Published: func(seq int64) error { p.seqs = append(p.seqs, seq); return nil },
		Notice:    func(text string) { p.notices = append(p.notices, text) },
		pause:     func(ctx context.Context, d time.Duration) error { p.waits = append(p.waits, d); return ctx.Err() },
	}
}

// F52: each frame is a request of its own, in order and byte for byte, and its
// number is told.
func TestPublish(t *testing.T) {
	list, joined := allFrames(t)
	s := startTaker(t, nil)
	var p published
	stats, err := Publish(t.Context(), NewSplitter(bytes.NewReader(joined)), p.options(t, s.URL))
	s.Close()
	if err != nil || !sameFrames(s.taken, list) || len(p.seqs) != len(list) || p.seqs[0] != 101 || len(p.notices) > 0 {
		t.Errorf("%v, %d taken, numbers %v, notices %q", err, len(s.taken), p.seqs, p.notices)
	}
	want := PublishStats{Frames: int64(len(list)), Bytes: int64(len(joined)), Last: int64(100 + len(list))}
	if stats != want {
		t.Errorf("%+v, want %+v", stats, want)
	}
}

// F52: the first refusal ends it, with its place, and nothing behind it is
// sent.
func TestPublishRefused(t *testing.T) {
	one := identity(t, 1)
	f := func(status int, name, message, want string) {
		t.Helper()
		s := startTaker(t, func(n int64, w http.ResponseWriter) bool { return n == 3 && refuse(w, status, name, message) })
		var p published
		stats, err := Publish(t.Context(), NewSplitter(bytes.NewReader(bytes.Repeat(one, 5))), p.options(t, s.URL))
		refusal, ok := errors.AsType[*Refusal](err)
		if !ok || refusal.Status != status || refusal.Name != name || s.asked.Load() != 3 || stats.Frames != 2 || !slices.Equal(p.seqs, []int64{101, 102}) {
			t.Errorf("%d: %v, asked %d times, %+v", status, err, s.asked.Load(), stats)
			return
		}
		if want = fmt.Sprintf("frame 3 at byte %d: the relay refuses with ", 2*len(one)) + want; err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
	f(400, "InvalidRequest", "did: not a DID\n", "400 Bad Request: InvalidRequest: did: not a DID")
	f(401, "AuthenticationRequired", "", "401 Unauthorized: AuthenticationRequired: the relay wants its publish token")
	f(404, "", "", "404 Not Found: nothing can be published here: has the relay a publish token set?")
	f(413, "FrameTooBig", "use #sync", "413 Request Entity Too Large: FrameTooBig: use #sync")
	f(307, "", "", "307 Temporary Redirect: redirected to , which is not followed")
	f(200, "", "", "200 OK: the answer has no number: is this a relay?")
}

// F28, F46: a relay that takes nothing at the moment is tried again, as often
// as is bounded, and no frame comes twice or out of order.
func TestPublishAgain(t *testing.T) {
	input := slices.Concat(identity(t, 1), identity(t, 2), identity(t, 3))
	s := startTaker(t, func(n int64, w http.ResponseWriter) bool {
		if n == 2 || n == 3 {
			w.Header().Set("Retry-After", "3")
			return refuse(w, 503, "NotListening", "booting")
		}
		return n == 5 && refuse(w, 429, "Busy", "")
	})
	var p published
	stats, err := Publish(t.Context(), NewSplitter(bytes.NewReader(input)), p.options(t, s.URL))
	s.Close()
	if err != nil || !bytes.Equal(bytes.Join(s.taken, nil), input) || stats.Retries != 3 || !slices.Equal(p.seqs, []int64{101, 102, 103}) {
		t.Errorf("%v, %+v, numbers %v", err, stats, p.seqs)
	}
	if len(p.waits) != 3 || p.waits[0] != 3*time.Second || p.waits[1] != 3*time.Second || p.waits[2] > firstWait {
		t.Errorf("waited %v", p.waits)
	}
	want := []string{
		"the relay answers 503 Service Unavailable (NotListening: booting); trying again", "the relay takes frames again",
		"the relay answers 429 Too Many Requests (Busy); trying again", "the relay takes frames again",
	}
	if !slices.Equal(p.notices, want) {
		t.Errorf("notices %q", p.notices)
	}

	s = startTaker(t, func(_ int64, w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", "86400")
		return refuse(w, 503, "NotListening", "")
	})
	p = published{}
	_, err = Publish(t.Context(), NewSplitter(bytes.NewReader(input)), p.options(t, s.URL))
	if err == nil || !strings.Contains(err.Error(), "frame 1 at byte 0: gave up after 12 tries: the relay answers 503") ||
		s.asked.Load() != publishTries || len(p.waits) != publishTries-1 || slices.Max(p.waits) > maxAsked {
		t.Errorf("%v, asked %d times, waited %v", err, s.asked.Load(), p.waits)
	}

	s.Close()
	p = published{}
	_, err = Publish(t.Context(), NewSplitter(bytes.NewReader(input)), p.options(t, s.URL))
	if err == nil || !strings.Contains(err.Error(), "gave up after 12 tries: no answer from the relay: dial") || len(p.waits) != publishTries-1 {
		t.Errorf("nobody there: %v, waited %v", err, p.waits)
	}
}

// A frame that the relay may have taken is not sent again.
func TestPublishNotTwice(t *testing.T) {
	f := func(name string, answer func(net.Conn)) {
		t.Helper()
		s := startTaker(t, func(n int64, w http.ResponseWriter) bool {
			if n == 1 {
				return false // so that the connection is one that is used again
			}
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			answer(conn)
			_ = conn.Close()
			return true
		})
		var p published
		_, err := Publish(t.Context(), NewSplitter(bytes.NewReader(append(identity(t, 1), identity(t, 2)...))), p.options(t, s.URL))
		if err == nil || !strings.Contains(err.Error(), "may have taken the frame or not") || s.asked.Load() != 2 || len(p.waits) > 0 {
			t.Errorf("%s: %v, asked %d times, waited %v", name, err, s.asked.Load(), p.waits)
		}
	}
	f("cut", func(net.Conn) {})
	f("cut in the answer", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"s") })
	f("500", func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 500 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
}

// Faults of the input, of the receiver of numbers, and the end of the context
// end it; a read that waits for ever is no obstacle.
func TestPublishEnds(t *testing.T) {
	s := startTaker(t, nil)
	var p published
	_, err := Publish(t.Context(), NewSplitter(bytes.NewReader(append(identity(t, 1), 'x'))), p.options(t, s.URL))
	if !errors.Is(err, ErrNotFrame) || len(p.seqs) != 1 {
		t.Errorf("%v, numbers %v", err, p.seqs)
	}

	broken := errors.New("broken")
	o := p.options(t, s.URL)
	o.Published = func(int64) error { return broken }
	if _, err := Publish(t.Context(), NewSplitter(bytes.NewReader(identity(t, 1))), o); !errors.Is(err, broken) {
		t.Error(err)
	}

	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	o = p.options(t, s.URL)
	o.Published = func(int64) error { cancel(); return nil }
	go func() { _, _ = w.Write(identity(t, 1)) }()
	if stats, err := Publish(ctx, NewSplitter(r), o); !errors.Is(err, context.Canceled) || stats.Frames != 1 {
		t.Errorf("%v, %+v", err, stats)
	}
	_ = w.Close() // ends the read
}

// Check finds the first fault of an input.
func TestCheck(t *testing.T) {
	_, joined := allFrames(t)
	if err := Check(NewSplitter(bytes.NewReader(joined))); err != nil {
		t.Error(err)
	}
	if err := Check(NewSplitter(bytes.NewReader(joined[:len(joined)-1]))); !errors.Is(err, ErrCut) {
		t.Error(err)
	}
}
