package sync

import (
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

// MaxWaiting is how many devices may wait at once (S52).
const MaxWaiting = 20_000

// waiter is one request that waits for events (S52). It implements serve.Body,
// to be told when its connection is gone. Tens of thousands of them wait, so it
// is small.
type waiter struct {
	// Immutable after construction.
	s     *Surface
	x     *serve.Exchange
	w     *worker
	auth  store.Auth
	after int64
	limit int32

	// Owned by the loop.
	seated bool // counted among those that sleep
	late   bool // its time is up
	over   bool // answered or lost
	timer  loop.Timer

	// Guarded by waits.mu.
	entered    bool // in the list of its owner
	asleep     bool // a notice has to queue it
	woken      bool // a notice came since it was entered
	prev, next *waiter
}

// wait implements GET /v1/events/wait.
func (s *Surface) wait(rq *request) {
	q, patience, ok := s.pullQuery(rq)
	if !ok {
		return
	}
	wt := &waiter{s: s, x: rq.x, w: s.worker(rq.x), auth: q.Auth, after: q.After, limit: int32(q.Limit)}
	wt.timer.Fire = wt.timeUp
	if wt.late = patience <= 0; !wt.late {
		wt.w.Loop().Schedule(&wt.timer, rq.x.Now().Add(patience))
	}
	rq.x.Keep()
	rq.x.ReadBody(wt)
}

// Data implements serve.Body: a body means nothing here.
func (wt *waiter) Data(*serve.Exchange, []byte) {}

// End implements serve.Body.
func (wt *waiter) End(*serve.Exchange) { wt.s.queueLook(wt) }

// Done implements serve.Body.
func (wt *waiter) Done() {
	wt.over = true
	wt.w.Loop().Cancel(&wt.timer)
	wt.s.waits.leave(wt)
	wt.unseat()
}

func (wt *waiter) unseat() {
	if wt.seated {
		wt.seated = false
		wt.s.waits.unseat()
	}
}

// look looks for a page in a job, and waits if there is none. It tells whether
// the job was taken; done is then called on the loop once it has run. Otherwise
// wt is answered.
func (wt *waiter) look(done func()) bool {
	s := wt.s
	s.waits.enter(wt)
	q := store.Pull{Auth: wt.auth, After: wt.after, Limit: int(wt.limit)}
	l := wt.w.Loop()
	err := wt.x.Go(func() func(*serve.Exchange) {
		defer post(l, done) // also when the answer is not wanted any more
		p := s.page(q)
		return func(x *serve.Exchange) {
			if p.err == nil && p.events == 0 {
				wt.nothing()
				return
			}
			s.answerPage(x, p)
		}
	})
	if err != nil {
		s.waits.leave(wt)
		s.tooBusy(wt.x)
	}
	return err == nil
}

// nothing is what an empty page comes to.
func (wt *waiter) nothing() {
	switch {
	case wt.late || wt.s.waits.isStopped():
		wt.answerNothing()
	case !wt.seated && !wt.s.waits.seat():
		wt.s.refuse(wt.x, syncwire.TooManyWaiting, "too many devices wait here, poll instead")
	default:
		wt.seated = true
		if !wt.s.waits.sleep(wt) {
			wt.s.queueLook(wt)
		}
	}
}

// timeUp is the end of a wait: 204, unless it is just being looked.
func (wt *waiter) timeUp() {
	wt.late = true
	if wt.s.waits.rouse(wt) {
		wt.answerNothing()
	}
}

func (wt *waiter) answerNothing() {
	wt.x.Respond(&http1.Response{Status: 204, Fields: emptyFields, KeepAlive: true})
}
