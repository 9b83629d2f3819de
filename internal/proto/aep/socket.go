package aep

import (
	"container/list"
	"errors"
	"sync/atomic"
	"time"

	"github.com/bytedance/sonic"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
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

// subscription is what a socket remembers of a subscription: the engine has the
// rest.
type subscription struct {
	idRaw       []byte
	filterBytes int
}

// socket is one WebSocket of the AEP surface. It implements serve.SocketHandler.
type socket struct {
	// Immutable after construction.
	s    *Surface
	w    *worker
	peer *serve.Peer

	// Owned by the loop.
	subs        map[string]*subscription
	filterBytes int
	claimed     map[string]*list.Element
	recent      list.List // of session names, the one with the latest event first
	ending      bool

	// Atomic.
	greeting      atomic.Pointer[aep.Hello] // nil before hello
	subscriptions atomic.Int64
}

// upgrade implements GET /socket.
func (s *Surface) upgrade(x *serve.Exchange) {
	k := &socket{s: s, w: s.worker(x.Worker())}
	if k.peer = x.Upgrade(k); k.peer == nil {
		return
	}
	s.open.Add(1)
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
	h, err := aep.DecodeHello(msg)
	switch {
	case errors.Is(err, aep.ErrHelloTooLarge):
		k.fail(cutBigHello, &aep.ErrorFrame{Code: aep.CodeLimitExceeded, Detail: err.Error()}, 1008, "")
		return
	case err != nil || !h.VersionOK:
		k.fail(cutVersion, &aep.ErrorFrame{Code: aep.CodeVersionUnsupported, Versions: true}, 1002, "version unsupported")
		return
	}
	k.greeting.Store(&h)
	k.s.sockets.add(k)
	k.peer.SetLimit(max(k.s.cfg.MaxBodyBytes, leastLimitBytes))
	k.peer.Reply(k.s.hello)
	k.peer.SetTimer(pingInterval)
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
		t, _ := k.w.scanner.RawMember("t")
		k.peer.Reply(text(aep.AppendPong(nil, t)))
	}
}

func (k *socket) onSubscribe(msg []byte) {
	req, err := aep.DecodeSubscribe(msg)
	if err != nil {
		return // not an object: cannot be
	}
	sub, plan, size, refusal := k.parseSubscribe(&req)
	if refusal != nil {
		refusal.IDRaw = req.IDRaw
		k.refuse(refusal)
		return
	}
	if old := k.subs[sub.ID]; old != nil {
		k.filterBytes -= old.filterBytes
	} else {
		k.countSubscriptions(1)
	}
	if k.subs == nil {
		k.subs = make(map[string]*subscription)
	}
	k.subs[sub.ID] = &subscription{idRaw: req.IDRaw, filterBytes: size}
	k.filterBytes += size
	sub.Data = req.IDRaw
	k.peer.Subscribe(sub, plan, text(aep.AppendSubscribed(nil, req.IDRaw)))
}

func (k *socket) countSubscriptions(n int64) {
	k.subscriptions.Add(n)
	k.s.subscriptions.Add(n)
}

// parseSubscribe checks a subscribe frame in the order of R321.
func (k *socket) parseSubscribe(req *aep.Subscribe) (*fanout.Sub, fanout.Plan, int, *aep.ErrorFrame) {
	refuse := func(code, detail string) (*fanout.Sub, fanout.Plan, int, *aep.ErrorFrame) {
		return nil, fanout.Plan{}, 0, &aep.ErrorFrame{Code: code, Detail: detail}
	}
	id, err := aep.ParseSubscriptionID(req.IDRaw)
	if err != nil {
		return refuse(aep.CodeInvalidFilter, err.Error())
	}
	old := k.subs[id]
	others := k.filterBytes
	if old != nil {
		others -= old.filterBytes
	}
	if len(req.Filter) > maxFilterBytes || others+len(req.Filter) > maxAllFilterBytes {
		return refuse(aep.CodeLimitExceeded, "a filter may have 65536 bytes, all filters of a connection 1048576")
	}
	filter, err := aep.ParseFilter(req.Filter)
	if err != nil {
		return refuse(aep.CodeInvalidFilter, err.Error())
	}
	ceiling, err := aep.ParseCeiling(req.Capture)
	if err != nil {
		return refuse(aep.CodeInvalidFilter, err.Error())
	}
	positions, all, _, err := aep.ParseFrom(req.From, k.s.cfg.MaxFrom)
	switch {
	case errors.Is(err, aep.ErrFromTooLarge):
		return refuse(aep.CodeLimitExceeded, err.Error())
	case err != nil:
		return refuse(aep.CodeInvalidFilter, err.Error())
	case old == nil && len(k.subs) >= maxSubscriptions:
		return refuse(aep.CodeLimitExceeded, "a connection may have 256 subscriptions")
	}
	return &fanout.Sub{
		ID:       id,
		Selector: selector{filter},
		Form:     formOf(ceiling, wireSocket),
		Track:    true,
	}, planOf(positions, all), len(req.Filter), nil
}

// onUnsubscribe answers always, also for an id that is not known (R326).
func (k *socket) onUnsubscribe() {
	raw, _ := k.w.scanner.RawMember("id")
	idRaw := append([]byte(nil), raw...)
	ack := text(aep.AppendUnsubscribed(nil, idRaw))
	id, err := aep.ParseSubscriptionID(idRaw)
	sub := k.subs[id]
	if err != nil || sub == nil {
		k.peer.Reply(ack)
		return
	}
	delete(k.subs, id)
	k.filterBytes -= sub.filterBytes
	k.countSubscriptions(-1)
	k.peer.Unsubscribe(id, ack)
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
		k.s.ring()
		return true
	}
	k.s.ring()
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
	if el := k.claimed[session]; el != nil {
		k.recent.MoveToFront(el)
		return
	}
	if k.claimed == nil {
		k.claimed = make(map[string]*list.Element)
	}
	if len(k.claimed) >= maxClaims {
		last := k.recent.Remove(k.recent.Back()).(string)
		delete(k.claimed, last)
		k.s.claims.remove(last, k)
	}
	// The name lies in the event's text; a claim must not keep that alive.
	name := string(append([]byte(nil), session...))
	k.claimed[name] = k.recent.PushFront(name)
	k.s.claims.add(name, k)
}

// AppendGap implements fanout.Owner (R322).
func (k *socket) AppendGap(dst []byte, sub *fanout.Sub, session string, at stream.Sequence) []byte {
	idRaw, _ := sub.Data.([]byte)
	return wsframe.AppendText(dst, aep.AppendReplayExhausted(nil, idRaw, session, at.Epoch, at.Seq))
}

// AppendShed implements fanout.Owner (R424a).
func (k *socket) AppendShed(dst []byte, n int64) []byte {
	return wsframe.AppendText(dst, aep.AppendShed(nil, n))
}

// Replayed implements fanout.Owner. No socket is finite.
func (k *socket) Replayed() {}

// Cut implements fanout.Owner (R428).
func (k *socket) Cut(c fanout.Cut) {
	if c == fanout.CutPanic {
		k.farewell(cutPanic, 1011, cutPanic, serve.BackpressureTimeout)
		return
	}
	k.farewell(reasonOf(c), 1013, aep.ReasonBackpressure, serve.BackpressureTimeout)
}

// Overloaded implements serve.SocketHandler (R46).
func (k *socket) Overloaded() {
	k.peer.Member().StopLive()
	k.farewell(cutOverload, 1013, aep.ReasonBackpressure, serve.CloseTimeout)
}

// Stalled implements serve.StreamHandler (R424).
func (k *socket) Stalled() {
	k.peer.Member().StopLive()
	k.farewell(cutStalled, 1013, aep.ReasonBackpressure, serve.BackpressureTimeout)
}

// farewell finishes the frame that is partly written, drops the rest, and says
// what was delivered before it closes (R428, R430).
func (k *socket) farewell(why string, code int, reason string, patience time.Duration) {
	k.s.cut(k.peer, "websocket", why)
	closing := k.closingFrame(reason)
	k.peer.DropUnsent()
	k.peer.Send(closing)
	k.peer.CloseSocket(code, reason, patience)
}

func (k *socket) closingFrame(reason string) []byte {
	var delivered []aep.Delivered
	for _, p := range k.peer.Member().Delivered() {
		idRaw, _ := p.Sub.Data.([]byte)
		delivered = append(delivered, aep.Delivered{IDRaw: idRaw, Session: p.Session, Epoch: p.Epoch, Seq: p.Seq})
	}
	return text(aep.AppendClosing(nil, reason, delivered))
}

// OnTimer implements serve.StreamHandler: the hello deadline, pings, silence,
// and the end of a farewell.
func (k *socket) OnTimer() {
	switch {
	case k.ending:
		k.shutDown()
	case k.greeting.Load() == nil:
		k.helloRequired()
	case k.peer.Now().Sub(k.peer.LastHeard()) >= silence:
		k.peer.Member().StopLive()
		k.farewell(cutSilent, 1001, "timeout", serve.CloseTimeout)
	default:
		now := k.peer.Now()
		k.peer.Urgent(text(aep.AppendPing(nil, now.UnixMilli())))
		k.peer.Urgent(wsframe.AppendPing(nil, nil))
		// The next look comes in time for the end of the silence.
		next := min(pingInterval, max(k.peer.LastHeard().Add(silence).Sub(now), time.Second))
		k.peer.SetTimer(next)
	}
}

// OnShutdown implements serve.StreamHandler (R462).
func (k *socket) OnShutdown() {
	if k.greeting.Load() == nil {
		k.peer.CloseSocket(1001, "shutting down", serve.CloseTimeout)
		return
	}
	k.ending = true
	k.peer.SetTimer(socketFarewell)
	k.peer.Member().Finish()
}

// Finished implements fanout.Owner.
func (k *socket) Finished() { k.peer.NotifyDrained() }

// OnDrained implements serve.StreamHandler.
func (k *socket) OnDrained() { k.shutDown() }

func (k *socket) shutDown() {
	k.peer.Member().StopLive()
	closing := k.closingFrame(aep.ReasonShuttingDown)
	k.peer.DropUnsent()
	k.peer.Send(closing)
	k.peer.CloseSocket(1001, "shutting down", serve.CloseTimeout)
}

// OnClose implements serve.StreamHandler: subscriptions, claims and counts go
// at once (R334).
func (k *socket) OnClose() {
	k.s.open.Add(-1)
	k.s.sockets.remove(k)
	k.countSubscriptions(-k.subscriptions.Load())
	for session := range k.claimed {
		k.s.claims.remove(session, k)
	}
	k.claimed, k.subs = nil, nil
	k.recent.Init()
}
