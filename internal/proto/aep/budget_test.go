package aep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// smallBudget stands for the 512 MiB of a relay.
const smallBudget = 100_000

// wantBusy wants the answer of R46 and no event ingested.
func (w *wire) wantBusy(what string) {
	w.r.t.Helper()
	got := w.text()
	if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "\r\nRetry-After: 1\r\n") {
		w.r.t.Errorf("%s: %.300q, want 503 with Retry-After: 1", what, got)
	}
	if n := w.r.surface.cfg.Buffers.Events(); n != 0 {
		w.r.t.Errorf("R71: %s: %d events were ingested", what, n)
	}
}

func chunk(p string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(p), p) }

// TestR46Bodies: a body that needs more memory than there is, in one line, in
// many, of one event or of many, is answered 503, and all is given back.
func TestR46Bodies(t *testing.T) {
	const asJSON = "Content-Type: application/json"
	small := strings.Repeat(notice(1, 1000)+"\n", 100)
	large := notice(1, 150_000)
	pieces := func(p string) (all []string) {
		for ; len(p) > 4000; p = p[4000:] {
			all = append(all, p[:4000])
		}
		return append(all, p)
	}
	for name, in := range map[string][]string{
		"one long line":         pieces(postHead(fmt.Sprintf("Content-Length: %d", len(large))) + large),
		"one long line, at end": {postHead("Transfer-Encoding: chunked"), chunk(large[:90_000]), chunk(large[90_000:]) + "0\r\n\r\n"},
		"blank but long":        {postHead("Transfer-Encoding: chunked"), chunk(strings.Repeat(" ", 150_000)) + "0\r\n\r\n"},
		"many events":           pieces(postHead(fmt.Sprintf("Content-Length: %d", len(small))) + small),
		"many events at once":   {postHead(fmt.Sprintf("Content-Length: %d", len(small))) + small},
		"JSON": pieces(strings.Replace(postHead(fmt.Sprintf("Content-Length: %d", len(large))),
			"Content-Type: application/x-ndjson", asJSON, 1) + large),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, smallBudget)
			w := r.dial()
			for _, p := range in {
				w.send(p)
				if n := r.budget.UsedBytes(); n > smallBudget {
					t.Fatalf("%d bytes are held", n)
				}
			}
			w.wantBusy(name)
			if n := r.budget.UsedBytes(); n != 0 {
				t.Errorf("%d bytes are still held", n)
			}
			r.post(notice(1, 1000)) // what fits is served
		})
	}
}

// TestR46AllTogether: the bound is on all connections together, bodies and
// unfinished messages alike, and what one gives back another can have.
func TestR46AllTogether(t *testing.T) {
	r := newRig(t, smallBudget)
	line := notice(1, 18_000)
	body := fmt.Sprintf("Content-Length: %d", len(line))
	var open []*wire
	for range 3 {
		w := r.dial()
		w.send(postHead(body) + line[:18_000])
		open = append(open, w)
	}
	message := r.socket()
	message.send(clientFrame(relaytest.OpText, strings.Repeat(" ", 40_000))[:36_000])
	refused := r.dial()
	refused.send(postHead(body) + line[:18_000])
	refused.wantBusy("a fourth body")
	for _, w := range open {
		if got := w.text(); got != "" {
			t.Errorf("a body that was there before was answered %q", got)
		}
	}
	open[0].Reset()
	r.run()
	again := r.dial()
	again.send(postHead(body) + line[:18_000])
	if got := again.text(); got != "" {
		t.Errorf("with room again: %q", got)
	}
}

// TestR46Message: a message that needs more memory than there is closes 1013,
// with positions (R430), and disturbs no other socket.
func TestR46Message(t *testing.T) {
	for name, in := range map[string]string{
		"one frame": clientFrame(relaytest.OpText, strings.Repeat(" ", 200_000)),
		"fragments": strings.Repeat(string(relaytest.Frame{NotFinal: true, Payload: []byte(strings.Repeat(" ", 20_000))}.Bytes()), 6),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, smallBudget)
			other, w := r.socket(), r.socket()
			r.post(notice(5, 100))
			other.frames()
			if name == "fragments" {
				w.send(string(relaytest.Frame{Opcode: relaytest.OpText, NotFinal: true, Payload: []byte(" ")}.Bytes()))
			}
			w.send(in[:110_000])
			got := w.frames()
			if n := len(got); n != 3 || got[2] != "close 1013 backpressure" ||
				got[1] != `{"type":"closing","reason":"backpressure","delivered":[{"sub":"q","session":"s","epoch":0,"seq":5}]}` {
				t.Fatalf("frames %.400q, want an event, closing, Close 1013", got)
			}
			r.counts("closed", 1, 1)
			if n := r.budget.UsedBytes(); n > 4<<10 {
				t.Errorf("%d bytes are still held", n)
			}
			r.pass(2*seconds + tick)
			if !w.Gone() {
				t.Error("a peer that does not answer the Close stays")
			}
			event := notice(6, 100)
			r.post(event)
			other.wantFrames("another socket", event)
		})
	}
}

// TestR49Waiting: behind a replay that its reader holds up 64 requests wait, or
// 1 MiB of them; more closes the connection.
func TestR49Waiting(t *testing.T) {
	const next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	long := func(n int) string { // one request of n bytes
		return postHead(fmt.Sprintf("Content-Length: %d", n)) + strings.Repeat(" ", n-len(postHead("Content-Length: 1234567")))
	}
	for _, c := range []struct {
		name, in string
		ends     bool
	}{
		{"64 requests", strings.Repeat(next, 64), false},
		{"65 requests", strings.Repeat(next, 65), true},
		{"1 MiB", long(1 << 20), false},
		{"1 MiB and a byte", long(1<<20 + 1), true},
	} {
		r := newRig(t, 64<<20)
		r.post(notice(0, 1000))
		w := r.dial()
		w.Stall()
		w.send("GET /stream?live=0&from=all HTTP/1.1\r\nHost: x\r\n\r\n")
		w.send(c.in)
		if w.Gone() != c.ends {
			t.Errorf("%s: ended %v, want %v", c.name, w.Gone(), c.ends)
		}
		if c.ends {
			continue
		}
		w.Room(1 << 20)
		r.run()
		got := w.text()
		if n := strings.Count(got, `{"ok":true`); n != strings.Count(c.in, "GET /healthz") || !strings.Contains(got, ": replay-complete") {
			t.Errorf("%s: %d answers behind the replay", c.name, n)
		}
	}
}
