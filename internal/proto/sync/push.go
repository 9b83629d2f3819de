package sync

import (
	"errors"

	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

// push is the body of POST /v1/events (S18 to S25). It is parsed as it comes on
// its loop; what is to be stored waits as records until the body is complete.
// It implements serve.Body and syncwire.Sink. Owned by the loop.
type push struct {
	intake
	auth     store.Auth
	decoder  *syncwire.PushDecoder
	oversize bool // its declared length is too much: only the owner is looked for

	held   held
	count  int   // envelopes
	stored int64 // bytes of their stored forms

	asked    bool  // who the client is
	admitted bool  // the store would take the push from it
	fault    error // a *syncwire.Error, or nil
	whole    bool  // the body is complete, and has no fault
	storing  bool  // the store reads what is held
	over     bool  // answered or lost
}

// push implements POST /v1/events as far as the head goes.
func (s *Surface) push(rq *request) {
	b := &push{oversize: rq.head.ContentLength > s.cfg.MaxPushBytes()}
	b.begin(s, rq.x)
	b.auth.Hash = syncwire.TokenHash(rq.token)
	b.held.init(&b.intake, b.onWritten)
	b.decoder = b.w.decoder()
	b.decoder.Reset(syncwire.Limits{MaxEvents: s.cfg.MaxEventsPerPush, MaxEventBytes: s.cfg.MaxEventBytes}, b)
	rq.x.ReadBody(b)
}

// spareDecoders bounds the decoders that a loop keeps.
const spareDecoders = 8

func (w *worker) decoder() *syncwire.PushDecoder {
	n := len(w.decoders)
	if n == 0 {
		return new(syncwire.PushDecoder)
	}
	d := w.decoders[n-1]
	w.decoders = w.decoders[:n-1]
	return d
}

var (
	errNoMemory = errors.New("sync: no memory for a body")
	errNoSpool  = errors.New("sync: no spool for a body")
)

// Owner implements syncwire.Sink.
func (b *push) Owner(id string) error {
	b.auth.Owner = id
	return nil
}

// Envelope implements syncwire.Sink.
func (b *push) Envelope(e *syncwire.Envelope) error {
	if b.oversize {
		return nil
	}
	b.count++
	b.stored += int64(len(e.Stored))
	return b.held.add(e)
}

// Data implements serve.Body.
func (b *push) Data(x *serve.Exchange, p []byte) {
	if b.fault != nil {
		return
	}
	b.got += int64(len(p))
	err := b.decoder.Feed(p)
	switch {
	case err != nil:
		b.refuse(err)
	case b.oversize && (b.auth.Owner != "" || b.got > memoryBytes), b.got > b.s.cfg.MaxPushBytes():
		b.refuse(&syncwire.Error{Code: syncwire.BodyTooLarge, Index: -1, Reason: "the body is too large"})
	case b.auth.Owner != "" && !b.asked:
		// A body that ends in this read asks by being pushed.
		x.Worker().AfterInput(func() {
			if !b.over && !b.storing {
				b.ask()
			}
		})
	}
}

// End implements serve.Body.
func (b *push) End(x *serve.Exchange) {
	if b.fault != nil {
		return // it waits for the answer to ask
	}
	if err := b.decoder.End(); err != nil {
		b.refuse(err)
		return
	}
	b.whole = true
	b.submit()
}

// refuse answers a push that has a fault, as soon as it is clear who the client
// is (S16).
func (b *push) refuse(fault error) {
	switch {
	case errors.Is(fault, errNoMemory), errors.Is(fault, errNoSpool):
		b.held.drop()
		b.s.tooBusy(b.x)
	case b.auth.Owner == "" || b.admitted:
		b.held.drop()
		b.s.refuseFault(b.x, fault)
	default:
		b.fault = fault
		b.held.drop()
		b.ask()
	}
}

// ask looks up the owner early, so that a stranger's push, or one with a fault,
// is answered before it is read to its end.
func (b *push) ask() {
	if b.asked {
		return
	}
	b.asked = true
	s, auth := b.s, b.auth
	s.job(b.x, func() func(*serve.Exchange) {
		err := s.store.Admit(auth)
		return func(*serve.Exchange) { b.onAdmit(err) }
	})
}

func (b *push) onAdmit(err error) {
	if err == nil && b.fault == nil && !b.s.cfg.WritesDisabled {
		b.admitted = true
		return
	}
	if !b.storing {
		b.held.drop() // the rest of the body may take its time
	}
	switch {
	case err != nil:
		b.s.fail(b.x, false, err)
	case b.s.cfg.WritesDisabled:
		b.s.refuseDisabled(b.x)
	default:
		b.s.refuseFault(b.x, b.fault)
	}
}

// submit hands a complete push to the store, once all of it can be read.
func (b *push) submit() {
	switch {
	case b.s.cfg.WritesDisabled:
		b.ask() // who may not know that is told something else
		return
	case !b.whole || b.storing || b.over || b.held.writing:
		return
	}
	b.storing = true
	l := b.w.Loop()
	b.s.store.PushAsync(store.Push{
		Auth: b.auth, Events: b.held.events(), Count: b.count, Bytes: b.stored,
	}, func(r store.PushResult, err error) { post(l, func() { b.onStored(r, err) }) })
}

func (b *push) onStored(r store.PushResult, err error) {
	b.storing = false
	if b.over {
		b.held.drop()
		return
	}
	if err != nil {
		b.s.fail(b.x, false, err)
		return
	}
	respond(b.x, syncwire.AppendPushed(nil, r.Accepted, r.Duplicate))
}

// onWritten is called after a write to the spool file.
func (b *push) onWritten(err error) {
	switch {
	case b.over:
	case err != nil:
		b.s.log.Error("sync spool failed", "error", err)
		b.held.drop()
		b.s.refuse(b.x, syncwire.Busy, "no room for the body now")
	default:
		b.submit()
	}
}

// Done implements serve.Body.
func (b *push) Done() {
	b.over = true
	if len(b.w.decoders) < spareDecoders {
		b.decoder.Reset(syncwire.Limits{}, nil)
		b.w.decoders = append(b.w.decoders, b.decoder)
	}
	b.decoder = nil
	if !b.storing {
		b.held.drop()
	}
}

// refuseDisabled answers what is written while writing is off.
func (s *Surface) refuseDisabled(x *serve.Exchange) {
	s.refuse(x, syncwire.WritesDisabled, "this relay takes nothing new now")
}
