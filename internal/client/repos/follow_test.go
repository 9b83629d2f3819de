package repos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
)

const (
	again     = "# connection lost: the relay has ended the connection; connecting again"
	connected = "# connected, after number "
)

func want(t *testing.T, c *collector, lines ...string) {
	t.Helper()
	if got := c.lines(); got != strings.Join(lines, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(lines, "\n"))
	}
}

// F4, F24, F48, hard case 42: a cut connection is resumed behind the last
// number, and nothing is handed on twice, whatever a host repeats (F60, hard
// case 32).
func TestResume(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) {
		q := w.r.URL.Query()
		if got := strings.Join(q["exclude"], ","); got != "sync,account" {
			t.Errorf("F4: exclude %s", got)
		}
		cursor, has := q.Get("cursor"), q.Has("cursor")
		switch {
		case n == 1 && !has:
			w.say(identity(t, 10), identity(t, 9), identity(t, 10), identity(t, 11))
		case n == 2 && cursor == "11":
			w.say(identity(t, 11), identity(t, 12))
		case n == 3 && cursor == "12":
		case n == 4 && cursor == "12":
			w.say(identity(t, 20))
			w.hold()
		default:
			t.Errorf("connection %d has cursor %q", n, cursor)
		}
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), Exclude: []string{"sync", "account"}}, c)
	c.await(t, "identity 20")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	want(t, c, "identity 10", "# left out number 9, which came after 10", "# left out number 10, which came after 10",
		"identity 11", again, connected+"11",
		"# left out number 11, which came after 11", "identity 12", again, connected+"12", again, connected+"12", "identity 20")
	if r.got != (Stats{Frames: 4, NotRising: 3, Connected: 4}) {
		t.Errorf("%+v", r.got)
	}
}

// Without a number to resume from that is told.
func TestLostBeforeTheFirstFrame(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) {
		if w.r.URL.Query().Has("cursor") {
			t.Error("F19: a cursor is sent, there is none")
		}
		if n == 2 {
			w.say(identity(t, 1))
			w.hold()
		}
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL)}, c)
	c.await(t, "identity 1")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	want(t, c, again, "# connected; there was no number to resume from, so frames may be missing", "identity 1")
}

// F32, F49, hard case 14: a consumer that was too slow comes back with its last
// number; so does one that gets an error of a name that is not known.
func TestErrorFrames(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) {
		if got := w.r.URL.Query().Get("cursor"); n > 1 && got != fmt.Sprint(n-1) {
			t.Errorf("connection %d has cursor %q", n, got)
		}
		w.say(identity(t, n))
		switch n {
		case 1:
			w.say((&firehose.Error{Name: firehose.ConsumerTooSlow, Message: "gone"}).Append(nil), identity(t, 99))
			_ = w.Close(websocket.StatusPolicyViolation, firehose.ConsumerTooSlow)
		case 2:
			w.say((&firehose.Error{Name: "Odd\x1b[2J"}).Append(nil))
		case 3:
			_ = w.Close(websocket.StatusGoingAway, "by\x1b[2J")
		default:
			w.hold()
		}
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL)}, c)
	c.await(t, "identity 4")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	want(t, c, "identity 1", "error 0", "# connection lost: the relay says ConsumerTooSlow: gone; connecting again", connected+"1",
		"identity 2", "error 0", `# connection lost: the relay says Odd\x1b[2J; connecting again`, connected+"2",
		"identity 3", `# connection lost: the relay has closed the connection with 1001 by\x1b[2J; connecting again`, connected+"3",
		"identity 4")
}

// F23, hard cases 3 and 5: a cursor above all numbers ends it.
func TestFutureCursor(t *testing.T) {
	s := startScript(t, func(_ int64, w *wire) {
		w.say((&firehose.Error{Name: firehose.FutureCursor, Message: "\x1b[2J"}).Append(nil))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), Cursor: 99, HasCursor: true}, c)
	err := r.wait(t)
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || refusal.Name != firehose.FutureCursor || strings.ContainsRune(err.Error(), '\x1b') || s.connections.Load() != 1 {
		t.Errorf("%v, %d connections", err, s.connections.Load())
	}
	want(t, c, "error 0")
}

// F20, F22, F26, hard cases 6, 8 and 11: an outdated cursor is told, and
// numbers may begin anew behind it, but not later.
func TestOutdatedCursor(t *testing.T) {
	outdated := (&firehose.Info{Name: firehose.OutdatedCursor, Message: "not held"}).Append(nil)
	s := startScript(t, func(n int64, w *wire) {
		if n == 1 {
			w.say(outdated, identity(t, 1), identity(t, 2), outdated, identity(t, 2), (&firehose.Info{Name: "Other"}).Append(nil))
			return
		}
		if got := w.r.URL.Query().Get("cursor"); got != "2" {
			t.Errorf("cursor %s", got)
		}
		w.say(identity(t, 3))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), Cursor: 1 << 45, HasCursor: true}, c)
	c.await(t, "identity 3")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	const told = "# frames after the cursor are gone: OutdatedCursor: not held"
	want(t, c, told, "info 0", "identity 1", "identity 2", told, "info 0", "# left out number 2, which came after 2",
		"# the relay says Other", "info 0", again, connected+"2", "identity 3")
}

// F2, F3: an answer before the upgrade is final, or tried again when the relay
// says so.
func TestAnswersBeforeTheUpgrade(t *testing.T) {
	var waited []time.Duration
	f := func(status int, body, wantText string, final bool, least time.Duration) {
		t.Helper()
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		defer s.Close()
		waited = nil
		c := newCollector()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pause := func(_ context.Context, d time.Duration) error {
			if waited = append(waited, d); len(waited) == 3 {
				cancel()
			}
			return ctx.Err()
		}
		_, err := Follow(ctx, Options{Relay: at(t, s.URL), pause: pause}, c)
		refusal, refused := errors.AsType[*Refusal](err)
		if final {
			if !refused || refusal.Status != status || !strings.Contains(err.Error(), wantText) || asked != 1 || len(waited) > 0 {
				t.Errorf("%d: %v, asked %d times", status, err, asked)
			}
			return
		}
		if err != nil || asked != 3 || waited[0] < least || waited[0] > least+2*time.Second {
			t.Errorf("%d: %v, asked %d times, waited %v", status, err, asked, waited)
		}
		want(t, c, "# no connection: "+wantText+"; trying again")
	}
	f(400, `{"error":"InvalidRequest","message":"cursor\u001b"}`, `400 Bad Request: InvalidRequest: cursor\x1b`, true, 0)
	f(401, ``, `401 Unauthorized`, true, 0)
	f(404, `<html>`, `404 Not Found: there is no repository stream`, true, 0)
	f(405, `{"error":"InvalidRequest","message":""}`, `405 Method Not Allowed: InvalidRequest`, true, 0)
	f(426, `{"error":"InvalidRequest","message":"a WebSocket"}`, `426 Upgrade Required: InvalidRequest: a WebSocket: the request for a WebSocket`, true, 0)
	f(200, `hello`, `200 OK: hello: the answer is of something else`, true, 0)
	f(429, `{"error":"TooManyConsumers","message":"full"}`, `the relay answers 429 Too Many Requests (TooManyConsumers: full)`, false, 7*time.Second)
	f(503, `{"error":"NotListening","message":"booting"}`, `the relay answers 503 Service Unavailable (NotListening: booting)`, false, 7*time.Second)
	f(502, "bad gateway\nmore", `the relay answers 502 Bad Gateway (bad gateway)`, false, 7*time.Second)
}

// A host that is not there is tried again, with growing pauses, and told once.
func TestBackoff(t *testing.T) {
	s := httptest.NewServer(nil)
	url := s.URL
	s.Close()
	var waits []time.Duration
	c := newCollector()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Follow(ctx, Options{Relay: at(t, url), pause: func(_ context.Context, d time.Duration) error {
		if waits = append(waits, d); len(waits) == 12 {
			cancel()
		}
		return ctx.Err()
	}}, c)
	if err != nil || waits[0] > time.Second || waits[11] < maxDelay/2 || waits[11] > maxDelay {
		t.Errorf("%v, waits %v", err, waits)
	}
	if lines := strings.Split(c.lines(), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "connection refused") {
		t.Errorf("told %q", lines)
	}
}

// F55: a connection that brought a frame makes the next failure a first one.
func TestProgressResetsBackoff(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) { w.say(identity(t, n)) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits []time.Duration
	_, err := Follow(ctx, Options{Relay: at(t, s.URL), pause: func(_ context.Context, d time.Duration) error {
		if waits = append(waits, d); len(waits) == 8 {
			cancel()
		}
		return ctx.Err()
	}}, newCollector())
	if err != nil || waits[7] > minDelay {
		t.Errorf("%v, waits %v", err, waits)
	}
}

// F58, F59, hard case 30: what cannot be read is told, counted and passed over;
// the frames behind it come. A skipped frame with a number moves the cursor.
func TestMessagesThatCannotBeRead(t *testing.T) {
	v := readVectors(t)
	future := []byte("\xa2\x61t\x64#new\x62op\x01\xa1\x63seq\x05")
	noDID := []byte("\xa2\x61t\x69#identity\x62op\x01\xa1\x63seq\x06")
	s := startScript(t, func(n int64, w *wire) {
		if n == 2 {
			if got := w.r.URL.Query().Get("cursor"); got != "6" {
				t.Errorf("cursor %s, want that of the frame that was skipped", got)
			}
			for i, bad := range v.Invalid {
				w.say(unhex(t, bad.Hex), identity(t, 1_000_000+int64(i)))
			}
			w.hold()
			return
		}
		_ = w.Write(w.r.Context(), websocket.MessageText, []byte("\x1b"))
		w.say(nil, identity(t, 1), make([]byte, 3000), append(identity(t, 2), 0), identity(t, 3)[:20], future, noDID)
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), MaxFrameBytes: 2000}, c)
	c.await(t, fmt.Sprintf("identity %d", 1_000_000+len(v.Invalid)-1))
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	const left = "# left out a message that cannot be read: "
	head := strings.Split(c.lines(), "\n")[:9]
	wantHead := []string{
		left + "it is text, not binary",
		left + "dag-cbor: byte 0: value is cut short",
		"identity 1",
		left + "it is longer than 2000 bytes",
		left + "dag-cbor: byte 107: bytes after the value",
		left + "dag-cbor: byte 17: value is cut short",
		"unknown 5",
		left + "firehose: did: required field is missing",
		again,
	}
	if got := strings.Join(head, "\n"); got != strings.Join(wantHead, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(wantHead, "\n"))
	}
	if n := strings.Count(c.lines(), "identity 1000"); n != len(v.Invalid) {
		t.Errorf("%d frames between the invalid ones, want %d", n, len(v.Invalid))
	}
	if r.got.Malformed < 20 {
		t.Errorf("%+v", r.got)
	}
}

// A flood of bad messages is counted, not told one by one.
func TestBadMessagesAreToldBounded(t *testing.T) {
	const bad = 3000
	s := startScript(t, func(_ int64, w *wire) {
		for range bad {
			w.say([]byte{0xff})
		}
		w.say(identity(t, 5))
		for range bad {
			w.say(identity(t, 4))
		}
		w.say(identity(t, 6))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), Count: 2}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	if n := strings.Count(c.lines(), "\n") + 1; n > 2*(maxTold+12) || r.got.Malformed != bad || r.got.NotRising != bad {
		t.Errorf("%d lines, %+v", n, r.got)
	}
}

// A frame of the greatest length passes, and one byte more does not (F17).
func TestLongestFrame(t *testing.T) {
	long := func(seq int64, n int) []byte {
		i := firehose.Identity{DID: did, Time: "2024-07-09T10:00:00Z", Handle: "x"}
		base, _ := i.Append(nil, seq)
		i.Handle = strings.Repeat("x", n-len(base)-3) // the head of a long text has 4 bytes more
		frame, _ := i.Append(nil, seq)
		return append(frame, bytes.Repeat([]byte{0}, n-len(frame))...)
	}
	exact := long(1, firehose.MaxFrameBytes)
	if exact[len(exact)-1] != 'x' {
		t.Fatal("the frame is not exactly long")
	}
	s := startScript(t, func(_ int64, w *wire) {
		w.say(exact, long(2, firehose.MaxFrameBytes+1), identity(t, 3))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), Count: 2}, c)
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
	want(t, c, "identity 1", "# left out a message that cannot be read: it is longer than 5000000 bytes", "identity 3")
}

// A relay that answers no ping is dead. The next one is asked again until it
// answers in time, which a busy machine may not let it do at once.
func TestDeadRelay(t *testing.T) {
	s := startScript(t, func(n int64, w *wire) {
		if n == 1 {
			<-t.Context().Done() // reads nothing, so pings are not answered
			return
		}
		w.say(identity(t, n))
		w.hold()
	})
	c := newCollector()
	r := startFollow(t, Options{Relay: at(t, s.URL), ping: 20 * time.Millisecond}, c)
	c.await(t, "identity ")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	const dead = "# connection lost: the relay answers no ping; connecting again"
	for i, line := range strings.Split(c.lines(), "\n") {
		if i == 0 && line != dead || line != dead && !strings.HasPrefix(line, "# connected") && !strings.HasPrefix(line, "identity ") {
			t.Errorf("line %d of\n%s", i+1, c.lines())
		}
	}
}

// What the sink cannot take ends it.
func TestSinkErrors(t *testing.T) {
	broken := errors.New("broken")
	s := startScript(t, func(_ int64, w *wire) {
		w.say((&firehose.Info{Name: "X"}).Append(nil), identity(t, 1))
		w.hold()
	})
	c := newCollector()
	c.frame = func(*firehose.Frame) error { return broken }
	if err := startFollow(t, Options{Relay: at(t, s.URL)}, c).wait(t); !errors.Is(err, broken) {
		t.Error(err)
	}
	c = newCollector()
	c.flush = func() error { return broken }
	if err := startFollow(t, Options{Relay: at(t, s.URL)}, c).wait(t); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// Addresses of WebSockets are those of their servers.
func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"ws://h:1": "http://h:1", "wss://h/p": "https://h/p", "WSS://h": "https://h", "http://h": "http://h", "h": "h", "": "", "unix:/ws://": "unix:/ws://",
	} {
		if got := Address(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
