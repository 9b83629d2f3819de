package sync

import (
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

// pull implements GET /v1/events (S32, S33, S36).
func (s *Surface) pull(rq *request) {
	q, _, ok := s.pullQuery(rq)
	if !ok {
		return
	}
	s.job(rq.x, func() func(*serve.Exchange) {
		p := s.page(q)
		return func(x *serve.Exchange) { s.answerPage(x, p) }
	})
}

// pullQuery reads the query of a pull, waiting or not, or answers 400 (S11).
func (s *Surface) pullQuery(rq *request) (q store.Pull, wait time.Duration, ok bool) {
	limits := syncwire.PullLimits{Default: s.cfg.DefaultEventsPerPull, Max: s.cfg.MaxEventsPerPull}
	p, err := syncwire.ParsePull(rq.head.RawQuery, limits)
	if err != nil {
		s.refuse(rq.x, syncwire.BadRequest, err.Error())
		return q, 0, false
	}
	auth := store.Auth{Owner: p.OwnerID, Hash: syncwire.TokenHash(rq.token)}
	return store.Pull{Auth: auth, After: p.After, Limit: p.Limit}, p.Wait, true
}

// page is what a pull came to: the body of its answer, or an error.
type page struct {
	body   []byte
	events int
	err    error
}

// page builds one page. The store's snapshot is gone when it returns: a slow
// reader holds memory and nothing else. In a job.
func (s *Surface) page(q store.Pull) page {
	w := syncwire.BeginPage(nil)
	res, err := s.store.Pull(q, func(envelope []byte) { w = syncwire.AppendStored(w, envelope) })
	if err != nil {
		return page{err: err}
	}
	return page{body: syncwire.EndPage(w, res.Next), events: res.Events}
}

// answerPage answers with a page or its error. Loop only.
func (s *Surface) answerPage(x *serve.Exchange, p page) {
	if p.err != nil {
		s.fail(x, false, p.err)
		return
	}
	s.pages.Add(1)
	s.lend(x, &http1.Response{Status: 200, Fields: jsonFields, Body: p.body, KeepAlive: true})
}

const (
	// copiedBytes is the longest body that the connection copies if its reader
	// is slow. A longer one is lent to it, and counted until its reader has it.
	copiedBytes = 16 << 10
	// lentBytes bounds what readers of pages and chunks may owe together, so that
	// slow ones do not take the memory that others' bodies need.
	lentBytes = 256 << 20
)

// lend answers with a body that belongs to the answer from now on. Loop only.
func (s *Surface) lend(x *serve.Exchange, r *http1.Response) {
	if len(r.Body) <= copiedBytes {
		x.Respond(r)
		return
	}
	n := int64(cap(r.Body)) // of a page that grew, more than its length
	if !s.lent.Take(n) {
		s.tooBusy(x)
		return
	}
	if !x.TakeBudget(n) {
		s.lent.Give(n)
		s.tooBusy(x)
		return
	}
	w := x.Worker()
	x.Lend(r, func() {
		w.GiveBudget(n)
		s.lent.Give(n)
	})
}
