package aepws

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	sessions "github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/relaytest"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

const (
	// step is more than the resolution of a loop's timers.
	step = 100 * time.Millisecond
	// patience bounds waits for the log's goroutine.
	patience = 20 * time.Second
)

// rig is a surface on simulated loops, with a real log, and a clock and sockets
// that the test drives. The log's goroutine rings the loops; the test's runs
// them.
type rig struct {
	t       testing.TB
	clock   *simloop.Clock
	bell    chan struct{}
	loops   []*simloop.Loop
	workers []*serve.Worker
	log     *eventlog.Log
	surface *Surface
	feeds   []*feedDouble
	budget  *serve.Budget
	wires   []*wire
	gate    chan struct{}
	letGo   func() // opens the gate for good
	panics  int64  // that the test provokes
}

// rigConfig says what a rig starts with. Zero values stand for one loop, the
// contract's defaults and an open relay.
type rigConfig struct {
	loops    int
	settings func(*Settings)
	token    string
	log      eventlog.Config
	gated    bool // each commit waits for one of rig.gate before anybody is told
}

func newRig(t testing.TB, cfg rigConfig) *rig {
	t.Helper()
	set := DefaultSettings()
	if cfg.settings != nil {
		cfg.settings(&set)
	}
	r := &rig{t: t, clock: simloop.NewClock(), bell: make(chan struct{}, 1), budget: serve.NewBudget(64 << 20)}
	r.gate = make(chan struct{})
	r.letGo = sync.OnceFunc(func() { close(r.gate) })
	cfg.log.Path = filepath.Join(t.TempDir(), "aepws.db")
	cfg.log.Committed = func(batch []eventlog.Stored) {
		if cfg.gated {
			<-r.gate
		}
		r.surface.Committed(batch)
	}
	var err error
	if r.log, err = eventlog.Open(cfg.log); err != nil {
		t.Fatal(err)
	}
	parts := Parts{Log: slog.New(slog.DiscardHandler), Events: r.log, Token: cfg.token}
	if cfg.token == "" {
		if parts.Guard, err = auth.NewGuard([]string{"https://dash.example"}, false, true); err != nil {
			t.Fatal(err)
		}
	}
	if r.surface, err = New(set, parts); err != nil {
		t.Fatal(err)
	}
	events := stream.NewLog(64, 1<<20)
	buffers := sessions.New(sessions.Config{EventsPerSession: 1, Sessions: 1}, events)
	shared := serve.Config{Handler: r.surface, Budget: r.budget, Refusals: r.surface.Refusals}
	for i := range max(cfg.loops, 1) {
		l := simloop.NewLoop(i, r.clock)
		l.Bind(r.ring)
		l.BindHop(func(f func()) { f() })
		r.loops = append(r.loops, l)
		r.workers = append(r.workers, serve.NewWorker(shared, l.Loop, fanout.NewSet(l.Loop, events, buffers, fanout.Limits{})))
	}
	r.surface.Attach(r.workers, nil)
	for _, l := range r.surface.lanes {
		f := &feedDouble{}
		l.feed = f
		r.feeds = append(r.feeds, f)
	}
	t.Cleanup(r.finish)
	return r
}

// finish ends everything and checks that all was given back.
func (r *rig) finish() {
	r.t.Helper()
	r.letGo()
	for _, w := range r.wires {
		w.Reset()
	}
	r.run()
	if err := r.log.Close(); err != nil {
		r.t.Errorf("closing the log: %v", err)
	}
	r.pass(step) // what waited for room is answered
	c := r.surface.Counters()
	if c.Connections != 0 || c.Sessions != 0 || c.Pending != 0 || c.BusyBytes != 0 {
		r.t.Errorf("at the end %d connections, %d sessions, %d appends, %d bytes of events are left", c.Connections, c.Sessions, c.Pending, c.BusyBytes)
	}
	for i, w := range r.workers {
		if n := w.Conns(); n != 0 {
			r.t.Errorf("%d connections are left", n)
		}
		if n := r.loops[i].Panics(); n != r.panics {
			r.t.Errorf("loop %d: %d panics", i, n)
		}
		r.panics = 0 // they are the first loop's
	}
	if n := r.budget.UsedBytes(); n != 0 {
		r.t.Errorf("%d bytes of the budget were not given back", n)
	}
	for i, w := range r.wires {
		if w.Misuse != 0 {
			r.t.Errorf("wire %d: %d calls that a transport must not get", i, w.Misuse)
		}
	}
}

// ring asks for a turn of the loops. Any goroutine.
func (r *rig) ring() error {
	select {
	case r.bell <- struct{}{}:
	default:
	}
	return nil
}

// run works until nothing is left to do. A ring is of any loop.
func (r *rig) run() {
	r.t.Helper()
	for range 100_000 {
		busy := false
		for _, l := range r.loops {
			busy = l.Poll() > 0 || busy
		}
		select {
		case <-r.bell:
			busy = true
			for _, l := range r.loops {
				l.Loop.Turn()
			}
		default:
		}
		if !busy {
			return
		}
	}
	r.t.Fatal("the loops do not come to rest")
}

// await runs the loops until cond holds.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	limit := time.After(patience)
	for r.run(); !cond(); r.run() {
		select {
		case <-r.bell:
			_ = r.ring()
		case <-time.After(time.Millisecond): // the log's state changes without a ring
		case <-limit:
			r.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// answered waits until the log has answered all that was published.
func (r *rig) answered() {
	r.t.Helper()
	r.await("the log answers", func() bool { return r.surface.Pending() == 0 })
}

// pass lets d go by; timers fire at their time.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	for d > 0 {
		part := min(d, step/2)
		r.clock.Advance(part)
		r.run()
		d -= part
	}
}

// kept returns the texts of the log.
func (r *rig) kept() (texts []string) {
	r.t.Helper()
	page, err := r.log.Page(0, 10_000, 64<<20, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range page {
		texts = append(texts, string(s.Text))
	}
	return texts
}

// feedDouble notes what a loop's feed is told, as "subscribe s1" and so on.
type feedDouble struct {
	log  []string
	hook func(call string, k outlet)
}

func (f *feedDouble) note(k outlet, format string, args ...any) {
	call := fmt.Sprintf(format, args...) + " " + k.session()
	f.log = append(f.log, call)
	if f.hook != nil {
		f.hook(call, k)
	}
}

func (f *feedDouble) subscribe(k outlet, req *codec.FilterRequest, why cause) {
	f.note(k, "subscribe %s because %s %s", req.Filter.Canonical(), why.id, why.correlation)
}

func (f *feedDouble) cancel(k outlet, id string, why cause) {
	f.note(k, "cancel %s because %s %s", id, why.id, why.correlation)
}

func (f *feedDouble) acknowledge(k outlet, ack *codec.AckRequest) {
	f.note(k, "acknowledge %s", ack.EventID)
}

func (f *feedDouble) reject(k outlet, rej *codec.RejectRequest) { f.note(k, "reject %s", rej.EventID) }
func (f *feedDouble) closed(k outlet)                           { f.note(k, "closed") }

func (f *feedDouble) drained(k outlet) {
	if f.hook != nil {
		f.hook("drained", k)
	}
}

// calls returns what a loop's feed was told since the last look.
func (r *rig) calls(loop int) []string {
	f := r.feeds[loop]
	log := f.log
	f.log = nil
	return log
}

func (r *rig) wantCalls(what string, want ...string) {
	r.t.Helper()
	if got := r.calls(0); !slices.Equal(got, want) {
		r.t.Errorf("%s: the feed was told %q, want %q", what, got, want)
	}
}

// wire is one connection: its socket, and what the peer has not looked at.
type wire struct {
	loop.Handler
	*simloop.Socket
	r    *rig
	read int
}

// dial opens a connection on a loop whose kernel takes everything.
func (r *rig) dial(loop int) *wire {
	w := &wire{r: r}
	w.Socket = r.loops[loop].NewSocket(simloop.Unlimited, w)
	w.Handler = r.workers[loop].Accept(w)
	r.wires = append(r.wires, w)
	r.run()
	return w
}

// say delivers p in one read, and lets the loops run. What is sent to a
// connection that has ended is lost.
func (w *wire) say(p string) {
	w.r.t.Helper()
	if !w.Gone() {
		w.OnData([]byte(p))
	}
	w.r.run()
}

// tell says events, one text frame each.
func (w *wire) tell(events ...string) {
	w.r.t.Helper()
	var all strings.Builder
	for _, e := range events {
		all.WriteString(text(e))
	}
	w.say(all.String())
}

func clientFrame(opcode byte, payload string) string {
	return string(relaytest.Frame{Opcode: opcode, Payload: []byte(payload)}.Bytes())
}

func text(payload string) string { return clientFrame(relaytest.OpText, payload) }

func closeFrame(code int) string {
	if code == 0 {
		return clientFrame(relaytest.OpClose, "")
	}
	return clientFrame(relaytest.OpClose, string(binary.BigEndian.AppendUint16(nil, uint16(code))))
}

// handshake is an upgrade that offers the subprotocol.
func handshake(query string, headers ...string) string {
	if query != "" {
		query = "?" + query
	}
	headers = append(headers, "Sec-WebSocket-Protocol: aep-0.1")
	return relaytest.HandshakeRequest("localhost", "/aep"+query, relaytest.WSOptions{Headers: headers})
}

// connect opens a socket on a loop, whose 101 is read.
func (r *rig) connect(loop int, query string, headers ...string) *wire {
	r.t.Helper()
	w := r.dial(loop)
	w.say(handshake(query, headers...))
	w.upgraded()
	return w
}

// upgraded reads the head of a 101.
func (w *wire) upgraded() {
	w.r.t.Helper()
	head, _, ok := strings.Cut(string(w.Received()[w.read:]), "\r\n\r\n")
	if !ok || !strings.HasPrefix(head, "HTTP/1.1 101 ") || strings.Count(head, "\r\nSec-WebSocket-Protocol: aep-0.1") != 1 ||
		strings.Contains(head, "Sec-WebSocket-Extensions") {
		w.r.t.Fatalf("B1, B5: the handshake was answered with %.300q", head)
	}
	w.read += len(head) + 4
}

// open opens a session on loop 0, or on the loop given.
func (r *rig) open(id string, loop ...int) *wire {
	r.t.Helper()
	at := 0
	if len(loop) > 0 {
		at = loop[0]
	}
	w := r.connect(at, "")
	w.tell(opened(id))
	w.want("B31", "session.ready "+id)
	return w
}

// opened is session.opened with more members of its payload.
func opened(id string, more ...string) string {
	return fmt.Sprintf(`{"type":"session.opened","id":"o1","payload":{"session_id":%q%s}}`, id, strings.Join(more, ""))
}

// event is a domain event with more members.
func event(id string, more ...string) string {
	return fmt.Sprintf(`{"aep_version":"0.1","id":%q,"type":"task.progress","source":"agent:a",`+
		`"created_at":"2026-01-01T00:00:00Z","payload":{"n":1}%s}`, id, strings.Join(more, ""))
}

// frames reads what the peer has received since it last looked, as summary says,
// and control frames as "ping", "pong text" and "close code".
func (w *wire) frames() (all []string) {
	w.r.t.Helper()
	for in := w.Received(); ; {
		rest := in[w.read:]
		size, head := frameLen(rest)
		if size < 0 || len(rest) < head+size {
			return all
		}
		payload := rest[head : head+size]
		w.read += head + size
		switch rest[0] {
		case 0x80 | relaytest.OpText:
			all = append(all, w.summary(payload))
		case 0x80 | relaytest.OpPing:
			all = append(all, "ping")
		case 0x80 | relaytest.OpPong:
			all = append(all, "pong "+string(payload))
		case 0x80 | relaytest.OpClose:
			code := 0
			if size > 0 {
				code = int(binary.BigEndian.Uint16(payload))
			}
			all = append(all, fmt.Sprintf("close %d", code))
		default:
			w.r.t.Fatalf("B10: a frame begins with %#x", rest[0])
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

// written is an event of the relay.
type written struct {
	AEP           string `json:"aep_version"`
	Spec          string `json:"spec_version"`
	ID            string `json:"id"`
	Type          string `json:"type"`
	Source        string `json:"source"`
	CreatedAt     string `json:"created_at"`
	SessionID     string `json:"session_id"`
	CausationID   string `json:"causation_id"`
	CorrelationID string `json:"correlation_id"`
	Payload       struct {
		SessionID    *string         `json:"session_id"`
		Reason       string          `json:"reason"`
		EventID      *string         `json:"acknowledged_event_id"`
		Cursor       string          `json:"cursor"`
		Errors       []string        `json:"errors"`
		Capabilities json.RawMessage `json:"capabilities"`
		Error        *struct {
			Code      string         `json:"code"`
			Message   string         `json:"message"`
			Retryable *bool          `json:"retryable"`
			Details   map[string]any `json:"details"`
		} `json:"error"`
	} `json:"payload"`
}

// summary returns an event's type, and of its payload the session or the cursor,
// the event that is refused, the error's code, and its reason and state.
func (w *wire) summary(payload []byte) string {
	w.r.t.Helper()
	var e written
	if err := json.Unmarshal(payload, &e); err != nil {
		w.r.t.Fatalf("B10: %v in %q", err, payload)
	}
	if e.AEP != "0.1" || e.Spec != "0.1" || !strings.HasPrefix(e.ID, "evt_") || e.Source != "relay:sluice" || !strings.HasSuffix(e.CreatedAt, "Z") {
		w.r.t.Errorf("section 5: %s", payload)
	}
	parts := []string{e.Type}
	p := &e.Payload
	if strings.HasPrefix(e.Type, "session.") && p.SessionID != nil {
		parts = append(parts, *p.SessionID)
		if e.SessionID != *p.SessionID {
			w.r.t.Errorf("session_id twice, differing: %s", payload)
		}
	}
	if p.Cursor != "" {
		parts = append(parts, p.Cursor)
	} else if p.EventID != nil {
		parts = append(parts, *p.EventID)
		if e.CausationID != *p.EventID {
			w.r.t.Errorf("B29: causation: %s", payload)
		}
	}
	if p.Reason != "" {
		parts = append(parts, p.Reason)
	}
	if x := p.Error; x != nil {
		if x.Message == "" || x.Retryable == nil {
			w.r.t.Errorf("B26: the error lacks a part: %s", payload)
		}
		parts = append(parts, x.Code)
		for _, name := range []string{"reason", "state"} {
			if s, ok := x.Details[name].(string); ok {
				parts = append(parts, s)
			}
		}
	}
	return strings.Join(parts, " ")
}

// last returns the newest event that the peer has received.
func (w *wire) last() (e written) {
	w.r.t.Helper()
	in := w.Received()
	at := strings.LastIndex(string(in), `{"aep_version"`)
	if at < 0 {
		w.r.t.Fatal("no event came")
	}
	if err := json.NewDecoder(strings.NewReader(string(in[at:]))).Decode(&e); err != nil {
		w.r.t.Fatal(err)
	}
	return e
}

// want compares the frames that came since the peer last looked.
func (w *wire) want(what string, want ...string) {
	w.r.t.Helper()
	if got := w.frames(); !slices.Equal(got, want) {
		w.r.t.Errorf("%s: %d frames %.900q, want %d: %.900q", what, len(got), got, len(want), want)
	}
}

// state names how the relay left the connection: open, fin (half closed),
// closed or reset.
func (w *wire) state() string {
	switch {
	case w.Aborted:
		return "reset"
	case w.Closed:
		return "closed"
	case w.Finished:
		return "fin"
	}
	return "open"
}

func (w *wire) wantState(what, want string) {
	w.r.t.Helper()
	if got := w.state(); got != want {
		w.r.t.Errorf("%s: the connection is %s, want %s", what, got, want)
	}
}

func (r *rig) wantRecords(what string, want ...string) {
	r.t.Helper()
	var got []string
	for name, n := range r.surface.Counters().Records {
		for range n {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: recorded %v, want %v", what, got, want)
	}
}
