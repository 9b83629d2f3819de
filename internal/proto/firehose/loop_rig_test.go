package firehose

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// step is more than the resolution of a loop's timers: a deadline that is a
// step ago has passed, one that is a step ahead has not.
const step = 100 * time.Millisecond

// loopRig is a surface on simulated loops, with a producer, a clock and sockets
// that the test drives.
type loopRig struct {
	t        testing.TB
	clock    *simloop.Clock
	loops    []*simloop.Loop
	workers  []*serve.Worker
	disk     *disk
	ring     *stream.Ring
	producer *Producer
	surface  *Surface
	budget   *serve.Budget
	wires    []*wire
}

// rigConfig says what a loopRig starts with. Zero values stand for one loop, the
// contract's defaults and a fresh state.
type rigConfig struct {
	Loops    int
	Settings Settings
	Reserved int64 // numbers that a run before had reserved
	Booting  bool  // stay in the boot phase
}

// bounded returns a configuration whose ring holds so many frames.
func bounded(frames int) rigConfig {
	cfg := rigConfig{Settings: DefaultSettings()}
	cfg.Settings.ReplayFrames = frames
	return cfg
}

// newLoopRig returns a rig whose numbers begin behind cfg.Reserved. Its end
// checks that all was given back.
func newLoopRig(t testing.TB, cfg rigConfig) *loopRig {
	t.Helper()
	if cfg.Settings.ReplayFrames == 0 {
		cfg.Settings = DefaultSettings()
	}
	set := cfg.Settings
	r := &loopRig{t: t, clock: simloop.NewClock(), budget: serve.NewBudget(64 << 20)}
	r.disk = &disk{t: t, state: State{Reserved: cfg.Reserved}}
	numbers, err := OpenNumbers(r.disk, NumbersConfig{Mode: FloorNumber, Floor: 1})
	if err != nil {
		t.Fatal(err)
	}
	r.ring = stream.NewRing(stream.Bounds{Frames: set.ReplayFrames, Bytes: set.ReplayBytes})
	r.producer = NewProducer(Config{
		Ring: r.ring, Numbers: numbers, MaxFrameBytes: set.MaxFrameBytes,
		Published: func() { r.surface.Ring() },
		Failed:    func(err error) { t.Errorf("producer: %v", err) },
	})
	r.surface = NewSurface(set, Parts{Log: slog.New(slog.DiscardHandler), Producer: r.producer, Ring: r.ring})
	events := stream.NewLog(64, 1<<20)
	buffers := session.New(session.Config{EventsPerSession: 1, Sessions: 1}, events)
	shared := serve.Config{Handler: r.surface, Budget: r.budget, Refusals: r.surface.Refusals}
	for i := range max(cfg.Loops, 1) {
		l := simloop.NewLoop(i, r.clock)
		members := fanout.NewSet(l.Loop, events, buffers, fanout.Limits{})
		r.loops = append(r.loops, l)
		r.workers = append(r.workers, serve.NewWorker(shared, l.Loop, members))
	}
	r.surface.Attach(r.workers)
	t.Cleanup(r.finish)
	if err := r.producer.Booting(); err != nil {
		t.Fatal(err)
	}
	if !cfg.Booting {
		r.listen()
	}
	return r
}

func (r *loopRig) listen() {
	r.t.Helper()
	if err := r.producer.Listening(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *loopRig) finish() {
	r.t.Helper()
	if err := r.producer.Stop(nil, nil); err != nil && !errors.Is(err, ErrPhase) {
		r.t.Errorf("stop: %v", err)
	}
	for _, w := range r.wires {
		w.Reset()
	}
	r.run()
	r.released("at the end")
	for _, w := range r.workers {
		if n := w.Conns(); n != 0 {
			r.t.Errorf("%d connections are left", n)
		}
	}
	if n := r.surface.Counters().Consumers; n != 0 {
		r.t.Errorf("%d consumers are counted and none is left", n)
	}
	if n := r.budget.UsedBytes(); n != 0 {
		r.t.Errorf("%d bytes of the budget were not given back", n)
	}
	for _, l := range r.loops {
		if l.Fatal != nil || l.Panics() != 0 {
			r.t.Errorf("loop %d: %v, %d panics", l.ID, l.Fatal, l.Panics())
		}
	}
	for i, w := range r.wires {
		if w.Misuse != 0 {
			r.t.Errorf("wire %d: %d calls that a transport must not get", i, w.Misuse)
		}
	}
}

// released wants that no loop needs any frame and knows any consumer.
func (r *loopRig) released(what string) {
	r.t.Helper()
	for i, f := range r.surface.feeds {
		if len(f.groups) != 0 || len(f.behind) != 0 || len(f.ready) != 0 {
			r.t.Errorf("%s: loop %d knows consumers and has none: %d groups live, %d behind, %d ready",
				what, i, len(f.groups), len(f.behind), len(f.ready))
		}
	}
	r.surface.Tick()
	r.run()
	r.surface.Tick()
	frames, bytes := r.ring.Held()
	bounds := r.surface.cfg
	if r.producer.Phase() != PhaseBooting && frames > 1 && r.bootFrames() == 0 &&
		(frames > bounds.ReplayFrames || bytes > bounds.ReplayBytes) {
		r.t.Errorf("%s: F33: the ring holds %d frames of %d bytes and nobody needs them", what, frames, bytes)
	}
}

// bootFrames returns how many frames are held beyond the bounds for F41's sake:
// none but in tests of the boot phase, which have more frames than twice the
// bound.
func (r *loopRig) bootFrames() int {
	if frames, _ := r.ring.Held(); frames > 2*r.surface.cfg.ReplayFrames {
		return frames
	}
	return 0
}

// run works until nothing is left to do.
func (r *loopRig) run() {
	r.t.Helper()
	for range 1000 {
		busy := false
		for _, l := range r.loops {
			if !l.Run(1_000_000) {
				r.t.Fatal("a loop does not come to rest")
			}
		}
		for _, l := range r.loops {
			busy = busy || l.Busy()
		}
		if !busy {
			return
		}
	}
	r.t.Fatal("the loops do not come to rest")
}

// pass lets d go by; timers fire at their time.
func (r *loopRig) pass(d time.Duration) {
	r.t.Helper()
	for d > 0 {
		part := min(d, step/2)
		r.clock.Advance(part)
		r.run()
		d -= part
	}
}

// put publishes one frame of a kind and size, and lets no loop run.
func (r *loopRig) put(kind uint8, size int) int64 {
	r.t.Helper()
	seq, err := r.producer.Publish(plain{kind, size})
	if err != nil {
		r.t.Fatal(err)
	}
	return seq
}

// publish publishes count commits of size bytes, and delivers each.
func (r *loopRig) publish(count, size int) {
	r.t.Helper()
	for range count {
		r.put(KindCommit, size)
		r.run()
	}
}

// plain is a body whose frame is "kind=number", padded with dots to a size.
type plain struct {
	kind uint8
	size int
}

func (b plain) Kind() uint8    { return b.kind }
func (b plain) Check() error   { return nil }
func (b plain) SizeBytes() int { return max(b.size, 40) }

func (b plain) Append(dst []byte, seq int64) ([]byte, error) {
	text := fmt.Sprintf("%s=%d", codec.KindName(b.kind), seq)
	dst = append(dst, text...)
	for n := len(text); n < b.size; n++ {
		dst = append(dst, '.')
	}
	return dst, nil
}

// names returns what the frames with the numbers from first to last are read as.
func names(kind string, first, last int64) (all []string) {
	for seq := first; seq <= last; seq++ {
		all = append(all, fmt.Sprintf("%s=%d", kind, seq))
	}
	return all
}

func commits(first, last int64) []string { return names("commit", first, last) }

// list joins lists of frames.
func list(parts ...[]string) []string { return slices.Concat(parts...) }

// wire is one connection: its socket, and what the peer has not looked at.
type wire struct {
	loop.Handler
	*simloop.Socket
	r       *loopRig
	read    int
	onWrite func(p []byte) // sees what is written, before it is
}

// Write implements loop.Transport.
func (w *wire) Write(p []byte) (int, error) {
	if w.onWrite != nil {
		w.onWrite(p)
	}
	return w.Socket.Write(p)
}

// dial opens a connection on a loop whose kernel takes everything.
func (r *loopRig) dial(loop int) *wire {
	w := &wire{r: r}
	w.Socket = r.loops[loop].NewSocket(simloop.Unlimited, w)
	w.Handler = r.workers[loop].Accept(w)
	r.wires = append(r.wires, w)
	r.run()
	return w
}

// send delivers p in one read, and lets no loop run. What is sent to a
// connection that has ended is lost.
func (w *wire) send(p string) {
	if !w.Gone() {
		w.OnData([]byte(p))
	}
}

// say sends p, and lets the loops run.
func (w *wire) say(p string) {
	w.r.t.Helper()
	w.send(p)
	w.r.run()
}

func clientFrame(opcode byte, payload string) string {
	return string(relaytest.Frame{Opcode: opcode, Payload: []byte(payload)}.Bytes())
}

func handshake(query string) string {
	if query != "" {
		query = "?" + query
	}
	return relaytest.HandshakeRequest("x", subscribePath+query, relaytest.WSOptions{})
}

// subscribe opens a stream on loop 0, or on the loop given, whose head is read.
func (r *loopRig) subscribe(query string, loop ...int) *wire {
	r.t.Helper()
	at := 0
	if len(loop) > 0 {
		at = loop[0]
	}
	w := r.dial(at)
	w.say(handshake(query))
	w.upgraded()
	return w
}

// upgraded reads the head of a 101.
func (w *wire) upgraded() {
	w.r.t.Helper()
	head, _, ok := strings.Cut(string(w.Received()[w.read:]), "\r\n\r\n")
	if !ok || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		w.r.t.Fatalf("F1: the handshake was answered with %.300q", head)
	}
	w.read += len(head) + 4
}

// refused reads an answer that has to be an error, as all errors are (F2, F8).
func (w *wire) refused(what string, status int, name string, fields ...string) {
	w.r.t.Helper()
	text := string(w.Received()[w.read:])
	w.read = len(w.Received())
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	var e struct{ Error, Message string }
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Message == "" {
		w.r.t.Errorf("%s: F2: the body is %q: %v", what, body, err)
	}
	if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", status)) || e.Error != name {
		w.r.t.Errorf("%s: answered %.300q, want %d %s", what, text, status, name)
	}
	fields = append(fields, "Server: "+w.r.surface.cfg.ServerField(), "Content-Type: application/json")
	for _, field := range fields {
		if !strings.Contains(head+"\r\n", "\r\n"+field+"\r\n") {
			w.r.t.Errorf("%s: the answer lacks %q: %q", what, field, head)
		}
	}
}

// frames reads the whole frames that the peer has received since it last looked.
// Messages are binary and in one piece (F9); they are read as "commit=1", "info
// Name" or "error Name", and control frames as "ping", "pong text" and "close
// code reason".
func (w *wire) frames() (all []string) {
	w.r.t.Helper()
	in := w.Received()
	for {
		rest := in[w.read:]
		size, head := frameLen(rest)
		if size < 0 || len(rest) < head+size {
			return all
		}
		payload := rest[head : head+size]
		w.read += head + size
		switch rest[0] {
		case 0x80 | relaytest.OpBinary:
			all = append(all, w.message(payload))
		case 0x80 | relaytest.OpPing:
			all = append(all, "ping")
		case 0x80 | relaytest.OpPong:
			all = append(all, "pong "+string(payload))
		case 0x80 | relaytest.OpClose:
			all = append(all, fmt.Sprintf("close %d %s", binary.BigEndian.Uint16(payload), payload[2:]))
		default:
			w.r.t.Fatalf("F9: a frame begins with %#x", rest[0])
		}
	}
}

// frameLen returns the length of a frame's payload and header, or -1 when not
// all of the header is there.
func frameLen(b []byte) (payload, header int) {
	switch {
	case len(b) < 2:
	case b[1] < 126:
		return int(b[1]), 2
	case b[1] == 126 && len(b) >= 4:
		return int(binary.BigEndian.Uint16(b[2:])), 4
	case b[1] == 127 && len(b) >= 10:
		return int(binary.BigEndian.Uint64(b[2:])), 10
	}
	return -1, 0
}

// message reads a message as plain's text, #info or an error.
func (w *wire) message(payload []byte) string {
	w.r.t.Helper()
	if payload[0] < 0x80 { // no CBOR map
		return strings.TrimRight(string(payload), ".")
	}
	var scanner codec.Scanner
	var f codec.Frame
	if err := scanner.Scan(payload, &f); err != nil {
		w.r.t.Fatalf("message % x: %v", payload, err)
	}
	if len(f.Message) == 0 {
		w.r.t.Errorf("%s %s has no message", codec.KindName(f.Kind()), f.Name)
	}
	return fmt.Sprintf("%s %s", codec.KindName(f.Kind()), f.Name)
}

// want compares the frames that came since the peer last looked.
func (w *wire) want(what string, want ...string) {
	w.r.t.Helper()
	if got := w.frames(); !slices.Equal(got, want) {
		w.r.t.Errorf("%s: %d frames %.700q, want %d: %.700q", what, len(got), got, len(want), want)
	}
}

func (w *wire) wantState(what, want string) {
	w.r.t.Helper()
	if got := w.State(); got != want {
		w.r.t.Errorf("%s: the connection is %s, want %s", what, got, want)
	}
}

// wantHeld compares how many frames the ring holds.
func (r *loopRig) wantHeld(what string, want int) {
	r.t.Helper()
	if frames, _ := r.ring.Held(); frames != want {
		r.t.Errorf("%s: the ring holds %d frames, want %d", what, frames, want)
	}
}

// tooSlowEnd is what a consumer gets whose next frame is gone (F32, F49), and
// futureEnd one whose cursor is above all numbers (F23).
var (
	tooSlowEnd = []string{"error " + codec.ConsumerTooSlow, "close 1008 " + codec.ConsumerTooSlow}
	futureEnd  = []string{"error " + codec.FutureCursor, "close 1008 " + codec.FutureCursor}
	outdated   = []string{"info " + codec.OutdatedCursor}
)
