package aep

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	needHello = `{"type":"error","code":"hello-required","detail":"the first message must be hello"}`
	seconds   = time.Second
)

// TestR330Pings: a frame with the time and a protocol ping each 25 s after
// hello, never earlier. A peer whose stack answers the latter and which says
// nothing else stays for good (R331).
func TestR330Pings(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.upgrade()
	r.pass(9 * seconds)
	w.say(helloText)
	if got := w.frames(); len(got) != 1 || !strings.HasPrefix(got[0], `{"type":"hello"`) {
		t.Fatalf("R307: first frames %q, want the hello", got)
	}
	for i := range 40 {
		r.pass(25*seconds - tick)
		w.wantFrames(fmt.Sprintf("before ping %d", i))
		r.pass(tick)
		got := w.frames()
		if len(got) != 2 || got[1] != "ping" {
			t.Fatalf("ping %d: frames %q", i, got)
		}
		var ms int64
		if _, err := fmt.Sscanf(got[0], `{"type":"ping","t":%d}`, &ms); err != nil {
			t.Fatalf("ping %d: %s: %v", i, got[0], err)
		}
		if off := r.clock.Now().Sub(time.UnixMilli(ms)); off < 0 || off > tick {
			t.Errorf("ping %d: t is %v off", i, off)
		}
		w.send(clientFrame(relaytest.OpPong, ""))
	}
	r.counts("after 1,000 s", 1, 0)
}

// TestR274StreamPings: a live stream gets a comment each 25 s, a replay that
// its reader holds up gets none.
func TestR274StreamPings(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
		r := newRig(t, 1<<20)
		chunked := version == "HTTP/1.1"
		live, replay := r.stream("", version), r.dial()
		r.post(notice(0, 1000))
		replay.Stall()
		replay.send("GET /stream?live=0&from=all HTTP/1.1\r\nHost: x\r\n\r\n")
		if got := live.blocks(chunked); len(got) != 1 || !strings.HasPrefix(got[0], "event: progress.status\n") {
			t.Fatalf("live event: %q", got)
		}
		for i := range 3 { // a stall of 90 s would end the replay
			r.pass(25*seconds - tick)
			if got := live.blocks(chunked); len(got) != 0 {
				t.Errorf("%s, before ping %d: %q", version, i, got)
			}
			r.pass(tick)
			if got := live.blocks(chunked); len(got) != 1 || got[0] != ": ping\n\n" {
				t.Errorf("%s, ping %d: %q", version, i, got)
			}
		}
		replay.Room(1 << 20)
		r.run()
		if got := replay.text(); strings.Contains(got, ": ping") || !strings.Contains(got, ": replay-complete") {
			t.Errorf("replay: %q", got)
		}
	}
}

// TestR308HelloDeadline: 10 s from the upgrade for a complete hello, whatever
// else comes; the first frame is the error (R307), and all that counts the
// connection goes at once (R334).
func TestR308HelloDeadline(t *testing.T) {
	hello := clientFrame(relaytest.OpText, helloText)
	const badJSON = `{"type":"error","code":"bad-json"`
	for name, c := range map[string]struct {
		chatter func(i int) string // sent each second
		answer  string             // that begins each frame before the deadline
		answers int
	}{
		"silent":          {func(int) string { return "" }, "", 0},
		"trickling hello": {func(i int) string { return hello[i : i+1] }, "", 0},
		"protocol pings":  {func(int) string { return clientFrame(relaytest.OpPing, "x") }, "pong x", 9},
		"protocol pongs":  {func(int) string { return clientFrame(relaytest.OpPong, "x") }, "", 0},
		"bad JSON":        {func(int) string { return clientFrame(relaytest.OpText, "{") }, badJSON, 9},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1<<20)
			w := r.upgrade()
			for i := range 9 {
				r.pass(seconds)
				w.send(c.chatter(i))
			}
			r.pass(seconds - tick)
			before := w.frames()
			if len(before) != c.answers || slices.ContainsFunc(before, func(f string) bool { return !strings.HasPrefix(f, c.answer) }) {
				t.Errorf("R307: before the deadline: %q, want %d of %q", before, c.answers, c.answer)
			}
			r.counts("before the deadline", 1, 0)
			r.pass(2 * tick)
			w.wantFrames("at the deadline", needHello, "close 1002 hello required")
			r.counts("at the deadline", 0, 0)
			r.pass(2*seconds - 2*tick)
			if w.Gone() {
				t.Error("the peer has no time to answer the Close")
			}
			r.pass(3 * tick)
			if !w.Gone() {
				t.Error("a peer that does not answer the Close stays")
			}
		})
	}
}

// TestR308HelloInTime: a hello that is complete within 10 s is in time, and the
// deadline is over with it.
func TestR308HelloInTime(t *testing.T) {
	r := newRig(t, 1<<20)
	w := r.upgrade()
	hello := clientFrame(relaytest.OpText, helloText)
	w.send(hello[:20])
	r.pass(10*seconds - tick)
	w.send(hello[20:])
	w.frames()
	r.pass(25*seconds - tick)
	w.wantFrames("after hello")
	r.counts("after hello", 1, 0)
}

// TestR331Silence: a peer from which nothing has come for 90 s is told its
// positions, closed with 1001, and cut if it does not answer.
func TestR331Silence(t *testing.T) {
	for name, heard := range map[string]string{
		"nothing":       "",
		"protocol pong": clientFrame(relaytest.OpPong, ""),
		"protocol ping": clientFrame(relaytest.OpPing, ""),
		"pong frame":    clientFrame(relaytest.OpText, `{"type":"pong","t":1}`),
		"a message":     clientFrame(relaytest.OpText, `{"type":"unknown"}`),
		"bad JSON":      clientFrame(relaytest.OpText, `{`),
		"half a frame":  clientFrame(relaytest.OpText, `{"type":"pong","t":1}`)[:5],
	} {
		for _, at := range []time.Duration{1 * seconds, 30 * seconds, 89 * seconds} {
			t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
				r := newRig(t, 1<<20)
				w := r.socket()
				r.post(notice(7, 10))
				if heard != "" {
					r.pass(at)
					w.send(heard)
				}
				r.pass(90*seconds - 2*tick)
				for _, f := range w.frames() {
					if strings.HasPrefix(f, "close") || strings.Contains(f, `"closing"`) {
						t.Fatalf("closed too early: %s", f)
					}
				}
				r.counts("before the end of patience", 1, 1)
				r.pass(3 * tick)
				got := w.frames()
				if n := len(got); n < 2 || !strings.HasPrefix(got[n-1], "close 1001") ||
					!strings.HasPrefix(got[n-2], `{"type":"closing","reason":"`) ||
					!strings.HasSuffix(got[n-2], `"delivered":[{"sub":"q","session":"s","epoch":0,"seq":7}]}`) {
					t.Errorf("R430: frames %q, want closing with positions and Close 1001", got)
				}
				r.counts("closed", 0, 0)
				r.pass(2*seconds + 2*tick)
				if !w.Aborted {
					t.Error("not dropped")
				}
			})
		}
	}
}
