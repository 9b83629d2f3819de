package aep

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

const (
	// tick is more than the resolution of a loop's timers: a deadline that is a
	// tick ago has passed, one that is a tick ahead has not.
	tick = 100 * time.Millisecond

	helloText  = `{"type":"hello","versions":["0.1"],"role":"both"}`
	subscribed = `{"type":"subscribed","id":"q"}`
)

// rig is a surface on one simulated loop, with a clock and sockets that the
// test drives.
type rig struct {
	t       *testing.T
	clock   *simloop.Clock
	loop    *simloop.Loop
	surface *Surface
	worker  *serve.Worker
	budget  *serve.Budget
	wires   []*wire
}

// newRig returns a rig whose connections together may hold budget bytes. Its
// end checks that all was given back.
func newRig(t *testing.T, budget int64) *rig {
	t.Helper()
	r := &rig{t: t, clock: simloop.NewClock(), budget: serve.NewBudget(budget)}
	r.loop = simloop.NewLoop(0, r.clock)
	events := stream.NewLog(1<<12, 64<<20)
	buffers := session.New(session.Config{EventsPerSession: 1000, Sessions: 10}, events)
	r.surface = New(Config{
		Auth: auth.New(), Log: slog.New(slog.DiscardHandler), Events: events, Buffers: buffers,
		BufferEvents: 1000, MaxBodyBytes: 16 << 20, MaxBatchEvents: 10_000, MaxFrom: 10,
		Boot: "boot", Started: r.clock.Now(),
	})
	set := fanout.NewSet(r.loop.Loop, events, buffers, fanout.Limits{})
	r.worker = serve.NewWorker(serve.Config{Handler: r.surface, Budget: r.budget}, r.loop.Loop, set)
	r.surface.Attach([]*serve.Worker{r.worker})
	t.Cleanup(r.finish)
	return r
}

func (r *rig) finish() {
	r.t.Helper()
	for _, w := range r.wires {
		w.Reset()
	}
	r.run()
	if n, c := r.worker.Conns(), r.surface.Counts(); n != 0 || c.Connections != 0 || c.Subscribers != 0 {
		r.t.Errorf("R334: %d connections left, counts %+v", n, c)
	}
	if n := r.surface.Counters().Claims; n != 0 {
		r.t.Errorf("R334: %d claims left", n)
	}
	if n := r.budget.UsedBytes(); n != 0 {
		r.t.Errorf("R46: %d bytes were not given back", n)
	}
	if r.loop.Fatal != nil || r.loop.Panics() != 0 {
		r.t.Errorf("loop: %v, %d panics", r.loop.Fatal, r.loop.Panics())
	}
}

// run works until nothing is left to do.
func (r *rig) run() {
	r.t.Helper()
	if !r.loop.Run(1_000_000) {
		r.t.Fatal("the loop does not come to rest")
	}
}

// pass lets d go by; timers fire at their time.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	for d > 0 {
		step := min(d, tick/2)
		r.clock.Advance(step)
		r.run()
		d -= step
	}
}

// post publishes events over a connection of its own.
func (r *rig) post(events ...string) {
	r.t.Helper()
	body := relaytest.NDJSON(events...)
	w := r.dial()
	w.send(postHead(fmt.Sprintf("Content-Length: %d", len(body))) + body)
	if got := w.text(); !strings.HasPrefix(got, "HTTP/1.1 202 ") {
		r.t.Fatalf("POST answered %.200q", got)
	}
	w.Reset()
	r.run()
}

func postHead(framing string) string {
	return "POST /events HTTP/1.1\r\nHost: x\r\nAEP-Version: 0.1\r\nContent-Type: application/x-ndjson\r\n" + framing + "\r\n\r\n"
}

// wire is one connection: its socket, and what the peer has not looked at.
type wire struct {
	loop.Handler
	*simloop.Socket
	r    *rig
	read int
	rest wsframe.Scratch
}

// dial opens a connection whose kernel takes everything.
func (r *rig) dial() *wire {
	w := &wire{r: r}
	w.Socket = r.loop.NewSocket(simloop.Unlimited, w)
	w.Handler = r.worker.Accept(w.Socket)
	r.wires = append(r.wires, w)
	r.run()
	return w
}

// send delivers p in one read. What is sent to a connection that has ended is
// lost.
func (w *wire) send(p string) {
	w.r.t.Helper()
	if !w.Gone() {
		w.OnData([]byte(p))
	}
	w.r.run()
}

// say sends text messages.
func (w *wire) say(texts ...string) {
	w.r.t.Helper()
	for _, text := range texts {
		w.send(clientFrame(relaytest.OpText, text))
	}
}

func clientFrame(opcode byte, payload string) string {
	return string(relaytest.Frame{Opcode: opcode, Payload: []byte(payload)}.Bytes())
}

// text returns what the peer has received since it last looked.
func (w *wire) text() string {
	got := string(w.Received()[w.read:])
	w.read = len(w.Received())
	return got
}

// upgrade opens a WebSocket and says nothing.
func (r *rig) upgrade() *wire {
	r.t.Helper()
	w := r.dial()
	w.send(relaytest.HandshakeRequest("x", "/socket", relaytest.WSOptions{}))
	if got := w.text(); !strings.HasPrefix(got, "HTTP/1.1 101 ") || !strings.HasSuffix(got, "\r\n\r\n") {
		r.t.Fatalf("upgrade answered %q", got)
	}
	return w
}

// socket opens a WebSocket that has said hello and subscribed to everything.
func (r *rig) socket() *wire {
	r.t.Helper()
	w := r.upgrade()
	w.say(helloText, `{"type":"subscribe","id":"q"}`)
	if got := w.frames(); len(got) != 2 || !strings.HasPrefix(got[0], `{"type":"hello"`) || got[1] != subscribed {
		r.t.Fatalf("hello and subscribe answered %q", got)
	}
	return w
}

// stream opens GET /stream?query; its head and first block are read.
func (r *rig) stream(query, version string) *wire {
	r.t.Helper()
	w := r.dial()
	w.send("GET /stream?" + query + " " + version + "\r\nHost: x\r\n\r\n")
	if got := w.text(); !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, ": open boot\n") {
		r.t.Fatalf("GET /stream answered %q", got)
	}
	return w
}

// frames reads the whole frames that the peer has received since it last
// looked: texts as they are, others as "ping", "pong x" and "close 1001 reason".
func (w *wire) frames() (all []string) {
	w.r.t.Helper()
	in := w.Received()
	for w.read < len(in) {
		reader := wsframe.Reader{Client: true, Limit: 64 << 20}
		n, msg, err := reader.Feed(in[w.read:], &w.rest)
		if err != nil {
			w.r.t.Fatalf("frame from the relay: %v", err)
		}
		if !msg.Complete() {
			break
		}
		w.read += n
		payload := string(msg.Payload)
		switch msg.Op {
		case wsframe.OpPing:
			payload = strings.TrimSpace("ping " + payload)
		case wsframe.OpPong:
			payload = strings.TrimSpace("pong " + payload)
		case wsframe.OpClose:
			payload = strings.TrimSpace(fmt.Sprintf("close %d %s", msg.Code, payload))
		}
		all = append(all, payload)
	}
	return all
}

func (w *wire) wantFrames(what string, want ...string) {
	w.r.t.Helper()
	if got := w.frames(); !slices.Equal(got, want) {
		w.r.t.Errorf("%s: frames %.600q, want %.600q", what, got, want)
	}
}

// blocks reads the SSE blocks that the peer has received since it last looked,
// chunked or plain.
func (w *wire) blocks(chunked bool) []string {
	w.r.t.Helper()
	in := w.Received()[w.read:]
	w.read = len(w.Received())
	if chunked {
		var err error
		if in, err = unchunk(in); err != nil {
			w.r.t.Fatalf("chunks: %v", err)
		}
	}
	all := strings.SplitAfter(string(in), "\n\n")
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// unchunk joins whole chunks. The last one becomes the text "end".
func unchunk(in []byte) (out []byte, err error) {
	for len(in) > 0 {
		head, rest, ok := bytes.Cut(in, []byte("\r\n"))
		var size int
		if _, err := fmt.Sscanf(string(head), "%x", &size); !ok || err != nil || len(rest) < size+2 {
			return out, io.ErrUnexpectedEOF
		}
		if size == 0 {
			return append(out, "end"...), nil
		}
		out, in = append(out, rest[:size]...), rest[size+2:]
	}
	return out, nil
}

// counts wants so many WebSockets and subscribers.
func (r *rig) counts(what string, connections, subscribers int64) {
	r.t.Helper()
	if c := r.surface.Counts(); c.Connections != connections || c.Subscribers != subscribers {
		r.t.Errorf("%s: %d connections and %d subscribers, want %d and %d", what, c.Connections, c.Subscribers, connections, subscribers)
	}
}

// notice is an event of severity notice whose text has about size bytes more
// than an empty one.
func notice(seq, size int) string {
	return relaytest.Padded("s", uint64(seq), "notice", size).JSON()
}
