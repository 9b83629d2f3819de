package aepws

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// maxBusyBytes bounds the events of all sockets that the log had no room for;
// what comes then is rejected as retryable.
const maxBusyBytes = 64 << 20

// publication is one event on its way into the log. The loop owns it, but for
// result and err, which are the log's until answered is set.
type publication struct {
	// Immutable after construction.
	k           *socket
	event       eventlog.Event
	correlation []byte // of the answer; nil: none
	bytes       int64

	result eventlog.Result
	err    error

	offered bool // the log had no room when it was offered

	// Atomic.
	answered atomic.Bool
}

// answers are the publications of one loop that the log has answered. Any
// goroutine; the log's calls do, and they ring the loop once for many.
type answers struct {
	mu   sync.Mutex
	list []*publication // guarded by mu
}

// put adds p and tells whether the loop has to be rung.
func (a *answers) put(p *publication) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, p)
	return len(a.list) == 1
}

// take returns what is there, and leaves empty, which is of length 0, in its
// place.
func (a *answers) take(empty []*publication) []*publication {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = empty
	return list
}

// publish hands the event in hand to the log (B46, B55).
func (k *socket) publish(tenant string) {
	if k.s.sealed.Load() {
		k.s.counts.rejected.Add(1)
		k.reject(aepws.Error{Code: aepws.InternalError, Message: "the relay is going down"})
		return
	}
	e := &k.l.envelope
	names := make([]byte, 0, len(e.Source)+len(e.ID)+len(e.Type))
	all := string(append(append(append(names, e.Source...), e.ID...), e.Type...))
	id, typ := len(e.Source), len(e.Source)+len(e.ID)
	p := &publication{k: k, event: eventlog.Event{
		Tenant: tenant, Source: all[:id], ID: all[id:typ], Type: all[typ:],
		Text:   aepws.StoredForm(make([]byte, 0, e.StoredBytes()), e),
		Digest: e.Digest(), ExpiresAt: e.ExpiresAt, Mode: uint8(e.Mode),
	}}
	if len(e.CorrelationID) > 0 {
		p.correlation = append([]byte(nil), e.CorrelationID...)
	}
	p.bytes = int64(len(p.event.Text))
	k.pending++
	k.pendingBytes += p.bytes
	k.s.pending.Add(1)
	k.s.counts.published.Add(1)
	k.l.offer(p)
}

// offer hands a publication to the log. One that it has no room for makes its
// socket's input wait, so that it stays ahead of what follows it.
func (l *lane) offer(p *publication) {
	p.answered.Store(false)
	l.s.parts.Events.Append(p.event, func(result eventlog.Result, err error) {
		p.result, p.err = result, err
		p.answered.Store(true)
		if l.answers.put(p) {
			l.w.Loop().Ring()
		}
	})
	if p.answered.Load() && errors.Is(p.err, eventlog.ErrBusy) {
		p.offered = true
		p.k.busy++
	}
}

// settle takes the log's answer to a publication.
func (l *lane) settle(p *publication) {
	k := p.k
	if p.offered {
		p.offered = false
		if l.s.busy.Add(p.bytes) <= maxBusyBytes && !l.s.sealed.Load() {
			l.busy = append(l.busy, p)
			l.retryLater()
			return
		}
		l.s.busy.Add(-p.bytes)
		k.busy--
	}
	k.pending--
	k.pendingBytes -= p.bytes
	l.s.pending.Add(-1)
	if k.gone {
		return
	}
	if len(k.answers) == 0 {
		l.touched = append(l.touched, k)
	}
	k.answers = append(k.answers, p)
}

func (l *lane) retryLater() {
	if !l.retry.Scheduled() {
		l.w.Loop().Schedule(&l.retry, l.w.Loop().Now().Add(busyRetry))
	}
}

// offerBusy offers the log again what it had no room for, until it has none once
// more.
func (l *lane) offerBusy() {
	list := l.busy
	l.busy = nil
	for i, p := range list {
		l.s.busy.Add(-p.bytes)
		p.k.busy--
		l.offer(p)
		if p.offered { // a socket has one of these at most, so their order is free
			l.busy = append(l.busy, list[i+1:]...)
			if len(l.busy) > 0 { // p may be refused, and be nobody's reason to try again
				l.retryLater()
			}
			return
		}
		p.k.wakeIfRoom()
	}
}

// wakeIfRoom lets a socket go on that nothing of its own keeps any more.
func (k *socket) wakeIfRoom() {
	if !k.gone && k.holding && k.pending <= maxAppends/2 && k.pendingBytes <= maxAppendBytes/2 && !k.overfull() {
		k.wake()
	}
}

// sendAnswers tells a publisher what became of its events, in one write where
// its socket takes it (B55, B56).
func (k *socket) sendAnswers() {
	list := k.answers
	k.answers = nil
	if !k.gone {
		k.writeAnswers(list)
	}
	if k.gone {
		return
	}
	if k.leaving && k.pending == 0 {
		k.sayLastWord()
		return
	}
	if k.owes() {
		k.holdIfOverfull()
	}
	k.wakeIfRoom()
}

func (k *socket) owes() bool { return k.conn.QueuedBytes() > 0 }

// writeAnswers sends the answers as frames that lie in one piece of memory.
func (k *socket) writeAnswers(list []*publication) {
	var batch []byte
	ends := make([]int, 0, len(list))
	for _, p := range list {
		text := k.answer(p)
		if len(text) == 0 {
			continue
		}
		if batch == nil {
			batch = make([]byte, 0, len(list)*(len(text)+wsframe.HeaderLen(len(text))+8))
		}
		batch = wsframe.AppendText(batch, text)
		k.l.buf = text[:0]
		ends = append(ends, len(batch))
	}
	frames, at := make([][]byte, len(ends)), 0
	for i, end := range ends {
		frames[i], at = batch[at:end:end], end
	}
	accepted := k.conn.SendFrames(batch, frames)
	for _, frame := range frames[accepted:] {
		k.conn.Send(frame)
	}
}

// answer returns the text that answers a publication, empty for none: an event
// that asked for best_effort is acknowledged to nobody.
func (k *socket) answer(p *publication) []byte {
	l := k.l
	h := aepws.Head{
		Now: l.w.Loop().Now(), SessionID: k.machine.name(),
		CausationID: []byte(p.event.ID), CorrelationID: p.correlation,
	}
	if p.err == nil {
		if aepws.Mode(p.event.Mode) == aepws.BestEffort {
			return nil
		}
		k.s.counts.acked.Add(1)
		return l.author.AppendAcknowledged(l.buf[:0], h, p.event.ID, p.result.Seq)
	}
	k.s.counts.rejected.Add(1)
	x := aepws.Error{Code: aepws.InternalError, Message: "the event could not be stored, try again"}
	if errors.Is(p.err, eventlog.ErrDuplicateID) {
		x = aepws.Error{Code: aepws.InvalidEnvelope, Message: "the id is taken by another event", Reason: aepws.ReasonDuplicateID}
	} else if now := l.w.Loop().Now(); !errors.Is(p.err, eventlog.ErrStopped) && now.Sub(l.failedAt) >= failureLog {
		l.failedAt = now
		k.s.parts.Log.Error("aepws events are not stored", "error", p.err)
	}
	return l.author.AppendRejected(l.buf[:0], h, h.CausationID, x, nil)
}
