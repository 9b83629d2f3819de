package aepws

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	codec "github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// line is one connection: its socket, what the peer has not looked at, and what
// the feed sees of it. It implements serve.SocketHandler and outlet.
type line struct {
	loop.Handler
	*simloop.Socket
	r    *feedRig
	f    *feed
	read int

	conn    *serve.Peer
	writer  *codec.Author
	id      string
	of      string // tenant
	kept    subscriptions
	expect  []string // answers, of the model
	unacked *budget
}

func (n *line) peer() *serve.Peer     { return n.conn }
func (n *line) session() string       { return n.id }
func (n *line) tenant() string        { return n.of }
func (n *line) author() *codec.Author { return n.writer }
func (n *line) subs() *subscriptions  { return &n.kept }

func (n *line) inflight() *budget {
	if n.unacked == nil {
		n.unacked = newBudget(n.r.plan)
	}
	return n.unacked
}

// lineHandler is the peer's side of a line: the names of loop.Handler are taken.
type lineHandler struct{ n *line }

func (h lineHandler) OnText([]byte)   {}
func (h lineHandler) OnBinary([]byte) {}
func (h lineHandler) Overloaded()     {}
func (h lineHandler) OnTimer()        {}
func (h lineHandler) OnDrained()      { h.n.f.drained(h.n) }
func (h lineHandler) Stalled()        {}
func (h lineHandler) OnShutdown()     {}
func (h lineHandler) OnClose()        { h.n.f.closed(h.n) }
func (h lineHandler) Replayed()       {}
func (h lineHandler) Finished()       {}
func (h lineHandler) Cut(fanout.Cut)  {}
func (h lineHandler) AppendGap(dst []byte, _ *fanout.Sub, _ string, _ stream.Sequence) []byte {
	return dst
}
func (h lineHandler) AppendShed(dst []byte, _ int64) []byte { return dst }

// Serve implements serve.Handler: it upgrades the line that is being opened.
func (r *feedRig) Serve(x *serve.Exchange) {
	r.opening.conn = x.Upgrade(lineHandler{r.opening})
}

// open opens a connection of no tenant on loop 0, or on the loop given, whose
// kernel takes everything.
func (r *feedRig) open(loop ...int) *line { return r.openOf("", loop...) }

func (r *feedRig) openOf(tenant string, loop ...int) *line {
	r.t.Helper()
	at := 0
	if len(loop) > 0 {
		at = loop[0]
	}
	n := &line{r: r, f: r.hub.feeds[at], id: fmt.Sprint("s", len(r.lines)), of: tenant}
	n.writer = codec.NewAuthor("test", codec.NewIDs())
	n.Socket = r.loops[at].NewSocket(simloop.Unlimited, n)
	n.Handler = r.workers[at].Accept(n.Socket)
	r.lines = append(r.lines, n)
	r.opening = n
	n.OnData([]byte(relaytest.HandshakeRequest("x", "/aep", relaytest.WSOptions{})))
	if n.conn == nil {
		r.t.Fatalf("no upgrade: %q", n.Received())
	}
	n.read = len(n.Received())
	return n
}

// only lets the kernel take so many bytes from now on.
func (n *line) only(room int) {
	n.Stall()
	n.Room(room)
}

// ask sends subscription.requested with a filter, and lets no loop run.
func (n *line) ask(filter string) {
	n.r.t.Helper()
	var e codec.Envelope
	text := fmt.Sprintf(`{"type":"subscription.requested","id":"q1","correlation_id":"c1","payload":%s}`, filter)
	if err := n.r.scanner.Scan([]byte(text), &e); err != nil || len(e.Faults) > 0 {
		n.r.t.Fatalf("%s: %v %v", text, err, e.Faults)
	}
	var req codec.FilterRequest
	if fault := n.r.scanner.ReadFilter(&e, n.of, n.r.clock.Now(), &req); fault != nil {
		n.r.t.Fatalf("%s: %s", filter, fault.Text)
	}
	n.f.subscribe(n, &req, cause{id: e.ID, correlation: e.CorrelationID})
	clear(e.ID) // it was borrowed
	clear(req.Raw)
}

// subscribe asks, and lets the loops run.
func (n *line) subscribe(filters ...string) *line {
	n.r.t.Helper()
	for _, filter := range filters {
		n.ask(filter)
	}
	n.r.run()
	return n
}

// subscribed is subscribe, whose answers are read and not looked at.
func (n *line) subscribed(filters ...string) *line {
	n.r.t.Helper()
	n.subscribe(filters...)
	for i, answer := range n.got() {
		if want := "created"; !strings.HasPrefix(answer, want) {
			n.r.t.Fatalf("answer %d to %q: %s", i, filters, answer)
		}
	}
	return n
}

func (n *line) cancel(id string) {
	n.r.t.Helper()
	n.f.cancel(n, id, cause{id: []byte("q2")})
	n.r.run()
}

// ack acknowledges events by their ids.
func (n *line) ack(ids ...string) {
	n.r.t.Helper()
	for _, id := range ids {
		n.f.acknowledge(n, &codec.AckRequest{EventID: []byte(id)})
	}
	n.r.run()
}

// heard is what is read of an event of the relay.
type heard struct {
	Type          string `json:"type"`
	ID            string `json:"id"`
	SessionID     string `json:"session_id"`
	CausationID   string `json:"causation_id"`
	CorrelationID string `json:"correlation_id"`
	TenantID      string `json:"tenant_id"`
	Delivery      struct {
		Mode         string `json:"mode"`
		Sequence     int64  `json:"sequence"`
		Cursor       string `json:"cursor"`
		Subscription string `json:"subscription_id"`
		Attempt      int    `json:"attempt"`
		Dropped      int64  `json:"dropped"`
	} `json:"delivery"`
	Payload json.RawMessage `json:"payload"`
}

type heardPayload struct {
	Subscription string `json:"subscription_id"`
	Original     string `json:"original_event_id"`
	Acknowledged string `json:"acknowledged_event_id"`
	Attempt      int    `json:"attempt"`
	Attempts     int    `json:"attempts"`
	From         string `json:"from_cursor"`
	To           string `json:"to_cursor"`
	Events       int64  `json:"events_replayed"`
	ExpiresAt    string `json:"expires_at"`
	Replay       *struct {
		Status string `json:"status"`
		Reason string `json:"reason"`
		Oldest string `json:"oldest_cursor"`
	} `json:"replay"`
	Error     *heardError `json:"error"`
	Last      *heardError `json:"last_error"`
	Original2 *heard      `json:"original_event"`
}

type heardError struct {
	Code    string `json:"code"`
	Details struct {
		Reason string `json:"reason"`
		Last   string `json:"last_cursor"`
	} `json:"details"`
}

func (x *heardError) words() string {
	if x == nil {
		return ""
	}
	return joinWords(x.Code, x.Details.Reason, x.Details.Last)
}

func joinWords(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// next reads the next whole message.
func (n *line) next() (e heard, ok bool) {
	n.r.t.Helper()
	rest := n.Received()[n.read:]
	size, head := frameLen(rest)
	if size < 0 || len(rest) < head+size {
		return e, false
	}
	if rest[0] != 0x80|relaytest.OpText {
		n.r.t.Fatalf("B10: a frame begins with %#x", rest[0])
	}
	n.read += head + size
	if err := json.Unmarshal(rest[head:head+size], &e); err != nil {
		n.r.t.Fatalf("B10: %v in %q", err, rest[head:head+size])
	}
	return e, true
}

// got reads what came since the peer last looked. An event is its number, and
// what of its delivery is not usual: "7", "7 sub_2 at_least_once attempt=2
// dropped=3". What the relay writes is shortened by words.
func (n *line) got() (all []string) {
	n.r.t.Helper()
	for {
		e, ok := n.next()
		if !ok {
			return all
		}
		all = append(all, n.words(&e))
	}
}

func (n *line) words(e *heard) string {
	n.r.t.Helper()
	d := &e.Delivery
	if d.Sequence > 0 {
		text := fmt.Sprint(d.Sequence)
		if d.Subscription != "sub_1" {
			text += " " + d.Subscription
		}
		if d.Mode != "best_effort" {
			text += " " + d.Mode
		}
		if d.Attempt != 0 {
			text += fmt.Sprint(" attempt=", d.Attempt)
		}
		if d.Dropped != 0 {
			text += fmt.Sprint(" dropped=", d.Dropped)
		}
		if want := fmt.Sprint(e.ID, ":", d.Sequence); d.Cursor != want {
			n.r.t.Errorf("B57: cursor %q, want %q", d.Cursor, want)
		}
		return text
	}
	var p heardPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		n.r.t.Fatalf("%v in %s", err, e.Payload)
	}
	if e.SessionID != n.id && e.Type != "event.dead_lettered" {
		n.r.t.Errorf("section 5: %s names session %q, want %q", e.Type, e.SessionID, n.id)
	}
	switch e.Type {
	case "subscription.created":
		if e.CausationID != "q1" || e.CorrelationID != "c1" {
			n.r.t.Errorf("section 5: created because of %q, %q", e.CausationID, e.CorrelationID)
		}
		text := joinWords("created", p.Subscription, p.ExpiresAt)
		if p.Replay != nil {
			text = joinWords(text, p.Replay.Status, p.Replay.Reason, p.Replay.Oldest)
		}
		return text
	case "subscription.rejected", "subscription.expired":
		return joinWords(strings.TrimPrefix(e.Type, "subscription."), p.Subscription, p.Error.words())
	case "subscription.cancelled":
		return joinWords("cancelled", p.Subscription)
	case "event.rejected":
		return joinWords("refused", p.Acknowledged, p.Error.words())
	case "event.replayed":
		return joinWords("replayed", p.Subscription, p.From, p.To, fmt.Sprint(p.Events))
	case "event.redelivered":
		return joinWords("redelivered", p.Subscription, p.Original, fmt.Sprint(p.Attempt))
	case "event.dead_lettered":
		if p.Original2 == nil || p.Original2.ID != p.Original {
			n.r.t.Errorf("B58: the original is %+v", p.Original2)
		}
		return joinWords("dead", p.Subscription, p.Original, fmt.Sprint(p.Attempts), p.Last.words(), e.TenantID)
	}
	return e.Type
}

// want compares what came since the peer last looked.
func (n *line) want(what string, want ...string) {
	n.r.t.Helper()
	if got := n.got(); !slices.Equal(got, want) {
		n.r.t.Errorf("%s: %d messages %.900q, want %d: %.900q", what, len(got), got, len(want), want)
	}
}

// numbers are the events from first to last, each with a suffix.
func numbers(first, last int64, suffix ...string) (all []string) {
	for ; first <= last; first++ {
		all = append(all, fmt.Sprint(first)+strings.Join(suffix, ""))
	}
	return all
}

// listOf joins lists.
func listOf(parts ...[]string) []string { return slices.Concat(parts...) }

// one is a list of its arguments.
func one(words ...string) []string { return words }

var errDisk = errors.New("the disk is gone")
