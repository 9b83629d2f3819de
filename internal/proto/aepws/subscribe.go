package aepws

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/engine/loop"
)

// request is a subscription.requested: what is kept of it while the log is asked
// about its cursor.
type request struct {
	filter  *aepws.Filter
	raw     []byte
	why     cause
	mode    aepws.Mode
	expires time.Time

	hasCursor bool
	cursor    string // as given
	id        string // of the cursor
	number    int64
}

// maxAskingBytes bounds the filters of one connection that wait for the log,
// unless one alone is larger.
const maxAskingBytes = 256 << 10

// subscribe answers a request with subscription.created or subscription.rejected.
// The answers of one connection come in the order of its requests, but for one
// that asks for too much, which is refused at once. req is borrowed
// until return, its filter transferred.
func (f *feed) subscribe(k outlet, req *aepws.FilterRequest, why cause) {
	su := k.subs()
	if su.closed {
		return
	}
	r := &request{
		filter: req.Filter, raw: req.Raw, why: why, mode: req.Mode, expires: req.ExpiresAt,
		hasCursor: req.HasCursor, cursor: req.Cursor, id: req.CursorID, number: req.CursorSequence,
	}
	if len(su.list)+len(su.asking) >= f.h.cfg.maxSubscriptions {
		f.refuse(k, r, aepws.Error{Code: aepws.SubscriptionRejected, Message: "the session has as many subscriptions as it may"})
		return
	}
	switch {
	case len(su.asking) > 0 && su.asked+len(r.raw) > maxAskingBytes:
		f.refuse(k, r, aepws.Error{Code: aepws.SubscriptionRejected, Message: "too many requests wait for the log"})
		return
	case len(su.asking) == 0 && f.answer(k, r):
		return
	}
	su.asked += len(r.raw)
	r.raw = bytes.Clone(r.raw)
	r.why = cause{id: bytes.Clone(why.id), correlation: bytes.Clone(why.correlation)}
	su.asking = append(su.asking, r)
	if len(su.asking) == 1 {
		f.ask(k, r)
	}
}

// answer answers a request, unless the log has to be asked first.
func (f *feed) answer(k outlet, r *request) (done bool) {
	if !r.hasCursor {
		f.create(k, r, nil)
		return true
	}
	st, known := f.h.startOf(r.id, r.number)
	if known {
		f.create(k, r, &st)
	}
	return known
}

// ask asks the log about the cursor of the connection's first request that
// waits.
func (f *feed) ask(k outlet, r *request) {
	f.read(read{
		wanted: func() bool { return !k.subs().closed },
		work: func() func() {
			st, err := f.h.readStart(r.id, r.number)
			return func() { f.found(k, r, &st, err) }
		},
	})
}

// found goes on with a request when the log has answered, and with those that
// waited behind it.
func (f *feed) found(k outlet, r *request, st *start, err error) {
	su := k.subs()
	if su.closed {
		return
	}
	if err != nil {
		f.h.counts.failed.Add(1)
		f.refuse(k, r, aepws.Error{Code: aepws.InternalError, Message: "the log could not be read"})
	} else {
		f.create(k, r, st)
	}
	for {
		su.asked -= len(su.asking[0].raw)
		su.asking = slices.Delete(su.asking, 0, 1)
		if len(su.asking) == 0 {
			return
		}
		if next := su.asking[0]; !f.answer(k, next) {
			f.ask(k, next)
			return
		}
	}
}

func (f *feed) refuse(k outlet, r *request, x aepws.Error) {
	f.h.counts.rejected.Add(1)
	f.say(k, k.author().AppendSubscriptionRejected(f.text[:0], f.because(k, r.why), r.raw, x))
}

// create makes a subscription and says so (B50). What is published from now on is
// for it; with a cursor it gets first what was before (B52).
func (f *feed) create(k outlet, r *request, st *start) {
	su := k.subs()
	su.made++
	id := "sub_" + strconv.Itoa(su.made)
	h := f.because(k, r.why)
	var told *aepws.Replay
	if st != nil {
		told = &st.replay
	}
	f.say(k, k.author().AppendCreated(f.text[:0], h, id, r.raw, r.expires, told))
	next := f.h.tail.next()
	s := &sub{k: k, peer: k.peer(), expires: r.expires, next: next}
	su.list = append(su.list, s)
	f.h.counts.subscriptions.Add(1)
	f.h.counts.created.Add(1)
	f.attach(s, groupKey{filter: r.filter.Canonical(), wish: r.mode, id: id}, r.filter)
	f.arm(s)
	if st == nil {
		f.join(s)
		return
	}
	s.base, s.firm = s.group.countTo(f, next)
	s.replay = &replay{cursor: r.cursor, until: next - 1}
	s.next, s.lastID, s.lastNumber = st.from, r.id, r.number
	if st.replay.Gap {
		s.lastID, s.lastNumber = "", 0
	}
	f.lag(s)
	if len(st.page) > 0 && !s.peer.Owes() {
		f.takePage(s, st.page)
	}
	f.enqueue(k)
}

// attach puts a subscription into its group, and those who name dead letters
// where these are handed out.
func (f *feed) attach(s *sub, key groupKey, filter *aepws.Filter) {
	g := f.groups[key]
	if len(f.groups) == 0 && f.pass.to == 0 {
		f.next = max(f.next, s.next)
	}
	if g == nil {
		g = newGroup(key, filter)
		f.groups[key] = g
		f.index.add(&g.filed)
	}
	g.subs++
	s.group = g
	letter := s.k.author().DeadLetterAttributes(filter.Tenant())
	if s.named = filter.MatchDeadLetter(&letter); s.named {
		f.named[filter.Tenant()] = append(f.named[filter.Tenant()], s)
	}
}

// cancel ends a subscription and confirms it (B53).
func (f *feed) cancel(k outlet, id string, why cause) {
	for _, s := range k.subs().list {
		if s.group.key.id == id {
			f.end(s)
			f.say(k, k.author().AppendCancelled(f.text[:0], f.because(k, why), id))
			return
		}
	}
	x := aepws.Error{Code: aepws.SubscriptionError, Message: "the session has no such subscription"}
	f.say(k, k.author().AppendRejected(f.text[:0], f.because(k, why), why.id, x, nil))
}

// expire ends a subscription and tells why; x is nil when its time is up (B54).
func (f *feed) expire(s *sub, x *aepws.Error) {
	f.end(s)
	f.say(s.k, s.k.author().AppendExpired(f.text[:0], f.head(s.k), s.group.key.id, x))
}

// tooSlow ends a subscription whose next event has left the log (B60).
func (f *feed) tooSlow(s *sub) {
	f.h.counts.tooSlow.Add(1)
	f.breakOff(s, aepws.Error{Code: aepws.SubscriptionError, Message: "the next event has left the log", Reason: aepws.ReasonTooSlow})
}

// fail ends a subscription that cannot be read for.
func (f *feed) fail(s *sub) {
	f.h.counts.failed.Add(1)
	f.breakOff(s, aepws.Error{Code: aepws.InternalError, Message: "the log could not be read"})
}

// breakOff ends a subscription before its time, and tells where it was.
func (f *feed) breakOff(s *sub, x aepws.Error) {
	if s.live {
		s.sentByGroup()
	}
	if s.lastID != "" {
		x.LastCursor = cursorOf(s.lastID, s.lastNumber)
	}
	f.expire(s, &x)
}

// end forgets a subscription.
func (f *feed) end(s *sub) {
	if s.ended {
		return
	}
	s.ended = true
	if s.live {
		f.takeMember(s)
	} else {
		f.takeBehind(s)
	}
	su := s.k.subs()
	su.list = slices.DeleteFunc(su.list, func(other *sub) bool { return other == s })
	f.detach(s)
	if s.owing != nil {
		s.owing.window.end()
		f.freed(s.k, true) // the others may go on
	}
	if s.timer != nil {
		f.w.Loop().Cancel(s.timer)
	}
	f.h.counts.subscriptions.Add(-1)
}

func (f *feed) detach(s *sub) {
	g := s.group
	if g.subs--; g.subs == 0 {
		f.index.remove(&g.filed)
		delete(f.groups, g.key)
	}
	if !s.named {
		return
	}
	tenant := g.filed.filter.Tenant()
	list := f.named[tenant]
	last := len(list) - 1
	list[slices.Index(list, s)] = list[last]
	list[last] = nil
	if f.named[tenant] = list[:last]; last == 0 {
		delete(f.named, tenant)
	}
}

// arm sets the timer to what comes first: the end of the subscription, or
// something that was not acknowledged in time. A timer that is due earlier is
// left: it looks again.
func (f *feed) arm(s *sub) {
	at, ok := s.expires, !s.expires.IsZero()
	if s.owing != nil && !s.owing.late {
		if due, some := s.owing.window.next(); some {
			if when := f.h.began.Add(due); !ok || when.Before(at) {
				at, ok = when, true
			}
		}
	}
	if !ok {
		return
	}
	if s.timer == nil {
		s.timer = &loop.Timer{Fire: func() { f.onTimer(s) }}
	}
	f.w.Loop().Schedule(s.timer, at)
}

// onTimer acts on the time that arm has set.
func (f *feed) onTimer(s *sub) {
	now := f.w.Loop().Now()
	if !s.expires.IsZero() && !now.Before(s.expires) {
		f.expire(s, nil)
		return
	}
	if o := s.owing; o != nil {
		switch due, some := o.window.next(); {
		case !some:
			s.k.inflight().trim()
		case due <= f.now():
			o.late = true
			f.enqueue(s.k)
		}
	}
	f.arm(s)
}
