package aep

import (
	"bytes"
	"container/list"
	"errors"
	"sync/atomic"
	"time"

	"github.com/bytedance/sonic"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
)

const (
	helloTimeout = 10 * time.Second // R308
	silence      = 90 * time.Second // R331
	// socketFarewell is how long a socket may take to read what is queued when
	// the relay goes down (R462).
	socketFarewell = 2 * time.Second

	helloLimitBytes = 64 << 10 // R332
	leastLimitBytes = 1 << 20

	maxSubscriptions  = 256      // R320
	maxFilterBytes    = 64 << 10 // of one filter
	maxAllFilterBytes = 1 << 20  // of a connection
	maxClaims         = 10_000   // R146
	maxRosterBytes    = 1 << 20  // R381
)

var sonicAPI = sonic.Config{CaseSensitive: true, ValidateString: true, CopyString: true}.Froze()

// text returns a JSON text as one WebSocket text frame.
func text(json []byte) []byte {
	return wsframe.AppendText(make([]byte, 0, wsframe.HeaderLen(len(json))+len(json)), json)
}

// subscription is one subscription of a socket: what the engine knows of it, and
// the rest.
type subscription struct {
	fanout.Sub  // its Data is the subscription
	idRaw       string
	filterBytes int32
	next        *subscription // of the same socket
}

// claimed is the sessions that a socket claims.
type claimed struct {
	sessions map[string]*list.Element
	recent   list.List // of their names, the one with the latest event first
}

// socket is one WebSocket of the AEP surface. It implements serve.SocketHandler.
type socket struct {
	// Immutable after construction.
	s    *Surface
	w    *worker
	peer *serve.Peer

	// Owned by the loop.
	subs        *subscription // the latest one first; mostly there is one
	claimed     *claimed      // nil while it has claimed nothing
	filterBytes int32         // of all subscriptions
	ending      bool

	// Guarded by the registry's lock.
	prev, next *socket

	// Atomic.
	subscriptions atomic.Int32
	greeting      atomic.Pointer[aep.Hello] // nil before hello; shared by equal ones
}

// upgrade implements GET /socket.
func (s *Surface) upgrade(x *serve.Exchange) {
	k := &socket{s: s, w: s.worker(x.Worker())}
	s.open.Add(1) // before the 101: whoever has read it is counted
	if k.peer = x.Upgrade(k); k.peer == nil {
		s.open.Add(-1)
		return
	}
	k.peer.SetLimit(helloLimitBytes)
	k.peer.SetTimer(helloTimeout)
}

// OnBinary implements serve.SocketHandler (R306).
func (k *socket) OnBinary([]byte) {
	k.fail(cutBinary, &aep.ErrorFrame{Code: aep.CodeBinaryUnsupported, Detail: "messages are text"}, 1003, "")
}

// fail sends an error frame and closes.
func (k *socket) fail(why string, f *aep.ErrorFrame, code int, reason string) {
	k.s.cut(k.peer, "websocket", why)
	k.peer.Reply(text(aep.AppendError(nil, f)))
	k.peer.CloseSocket(code, reason, serve.CloseTimeout)
}

// refuse sends an error frame.
func (k *socket) refuse(f *aep.ErrorFrame) {
	k.peer.Reply(text(aep.AppendError(nil, f)))
}

// OnText implements serve.SocketHandler: the table of R306.
func (k *socket) OnText(msg []byte) {
	if k.ending {
		return
	}
	sc := &k.w.scanner
	if err := sc.Scan(msg); err != nil {
		k.refuse(&aep.ErrorFrame{Code: aep.CodeBadJSON, Detail: err.Error()})
		return
	}
	typ, ok := sc.Type()
	greeted := k.greeting.Load() != nil
	switch {
	case !sc.IsObject() || !ok:
		if !greeted {
			k.helloRequired()
		}
	case !greeted && string(typ) != "hello":
		k.helloRequired()
	case !greeted:
		k.onHello(msg)
	case isEventType(typ):
		k.onEvent(msg)
	default:
		k.onFrame(typ, msg)
	}
}

// isEventType tells events from frames: the type of an event holds a dot
// (R305).
func isEventType(typ []byte) bool {
	for _, c := range typ {
		if c == '.' {
			return true
		}
	}
	return false
}

func (k *socket) helloRequired() {
	k.fail(cutNoHello, &aep.ErrorFrame{Code: aep.CodeHelloRequired, Detail: "the first message must be hello"}, 1002, "hello required")
}

func (k *socket) onHello(msg []byte) {
	h, err := k.w.decodeHello(msg)
	switch {
	case errors.Is(err, aep.ErrHelloTooLarge):
		k.fail(cutBigHello, &aep.ErrorFrame{Code: aep.CodeLimitExceeded, Detail: err.Error()}, 1008, "")
		return
	case err != nil || !h.VersionOK:
		k.fail(cutVersion, &aep.ErrorFrame{Code: aep.CodeVersionUnsupported, Versions: true}, 1002, "version unsupported")
		return
	}
	k.greeting.Store(h)
	k.s.sockets.add(k)
	k.peer.SetLimit(max(k.s.cfg.MaxBodyBytes, leastLimitBytes))
	k.peer.Reply(k.s.hello)
	k.peer.SetTimer(pingInterval)
}

// lastHello is the hello that a loop decoded last, and its text.
type lastHello struct {
	text  []byte
	hello *aep.Hello
}

// decodeHello decodes a hello. Consumers mostly say the same: sockets of a loop
// that greet alike one after the other share what it means. msg is borrowed.
func (w *worker) decodeHello(msg []byte) (*aep.Hello, error) {
	if w.hello.hello != nil && bytes.Equal(msg, w.hello.text) {
		return w.hello.hello, nil
	}
	h, err := aep.DecodeHello(msg)
	if err != nil {
		return nil, err
	}
	w.hello = lastHello{append(w.hello.text[:0], msg...), &h}
	return &h, nil
}

// onFrame takes what is no event.
func (k *socket) onFrame(typ, msg []byte) {
	switch string(typ) {
	case "subscribe":
		k.onSubscribe(msg)
	case "unsubscribe":
		k.onUnsubscribe()
	case "roster":
		k.onRoster()
	case "ping":
		if k.s.sealed.Load() {
			return // a pong would tell that what came before it is in
		}
		t, _ := k.w.scanner.RawMember("t")
		k.peer.Reply(text(aep.AppendPong(nil, t)))
	}
}

// onEvent takes an event: commands are routed, the rest is ingested.
func (k *socket) onEvent(msg []byte) {
	sc := &k.w.scanner
	ev, err := sc.Event()
	if err != nil {
		f := &aep.ErrorFrame{Code: aep.CodeInvalidEvent, Detail: err.Error()}
		f.Cause, f.HasCause = sc.StringMember("id") // R340
		k.s.refused.Add(1)
		k.refuse(f)
		return
	}
	if ok, _ := k.s.cfg.Rate.Allow(k.peer.ClientAddr(), 1, k.peer.Now()); !ok {
		k.s.overRate.Add(1)
		k.refuse(&aep.ErrorFrame{
			Code: aep.CodeLimitExceeded, Cause: ev.ID(), HasCause: true, Detail: "too many events from this address",
		})
		return
	}
	if ev.Class() == aep.ClassCommand {
		k.onCommand(ev, msg)
		return
	}
	if ev.Class() == aep.ClassOrdinary {
		k.claim(ev.Session())
	}
	k.take(ev)
}

// take ingests one event. While the log has no room for it, it waits, and
// further input with it.
func (k *socket) take(ev *aep.Event) (taken bool) {
	if k.s.ingest(ev) {
		k.s.ingested.Add(1)
		// Rung for each event of a read, another loop would begin with the first
		// of them, and write once more to each of its consumers.
		k.w.AfterInput(k.w.ring)
		return true
	}
	k.w.AfterInput(k.w.ring)
	k.peer.Hold()
	k.s.whenRoom(k.w, func() {
		// What was admitted goes in, also when its sender has gone.
		if k.take(ev) {
			k.peer.Release()
		}
	})
	return false
}

// claim makes or refreshes a claim (R145). Consumers have none. Past maxClaims
// the one longest without an event goes (R146).
func (k *socket) claim(session string) {
	if k.greeting.Load().Role == aep.RoleConsumer {
		return
	}
	if k.claimed == nil {
		k.claimed = &claimed{sessions: make(map[string]*list.Element)}
	}
	c := k.claimed
	if el := c.sessions[session]; el != nil {
		c.recent.MoveToFront(el)
		return
	}
	if len(c.sessions) >= maxClaims {
		last := c.recent.Remove(c.recent.Back()).(string)
		delete(c.sessions, last)
		k.s.claims.remove(last, k)
	}
	// The name lies in the event's text; a claim must not keep that alive.
	name := string(append([]byte(nil), session...))
	c.sessions[name] = c.recent.PushFront(name)
	k.s.claims.add(name, k)
}
