package sync

import (
	"strconv"
	"time"

	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
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

const chunkEnd = "\r\n"

// page builds one page. The store's snapshot is gone when it returns: a slow
// reader holds memory and nothing else. In a job.
func (s *Surface) page(q store.Pull) page {
	w := syncwire.BeginPage(nil)
	res, err := s.store.Pull(q, func(envelope []byte) { w = syncwire.AppendStored(w, envelope) })
	if err != nil {
		return page{err: err}
	}
	w = append(syncwire.EndPage(w, res.Next), chunkEnd...) // room for the end of a chunk
	return page{body: w[:len(w)-len(chunkEnd)], events: res.Events}
}

// answerPage answers with a page or its error. Loop only.
func (s *Surface) answerPage(x *serve.Exchange, p page) {
	if p.err != nil {
		s.fail(x, false, p.err)
		return
	}
	s.pages.Add(1)
	if len(p.body) <= copiedBytes {
		respond(x, p.body)
		return
	}
	s.streamPage(x, p.body)
}

// copiedBytes is the longest page that is answered in one piece with a length:
// the connection copies it once or twice. A longer one is lent to the
// connection, and counted in the relay's budget until its reader has it.
const copiedBytes = 128 << 10

// streamPage answers with a long page that is not copied any more. Loop only.
func (s *Surface) streamPage(x *serve.Exchange, body []byte) {
	n := int64(len(body))
	if !x.TakeBudget(n) {
		s.tooBusy(x)
		return
	}
	st := &pageStream{w: x.Worker(), taken: n}
	st.peer = x.Stream(jsonFields, st, true, func(p *serve.Peer) []byte {
		if !p.Chunked() {
			return nil
		}
		body = append(body, chunkEnd...)
		return append(strconv.AppendInt(nil, n, 16), chunkEnd...)
	})
	if st.peer == nil { // answered otherwise
		st.OnClose()
		return
	}
	st.peer.Send(body)
	st.peer.NotifyDrained()
}

// pageStream is an answer that is on its way to its reader. It implements
// serve.StreamHandler, of which it needs the end only. Owned by its loop.
type pageStream struct {
	w     *serve.Worker
	peer  *serve.Peer
	taken int64 // of the budget
}

// OnDrained implements serve.StreamHandler: the reader has all of it.
func (st *pageStream) OnDrained() { st.peer.EndStream() }

// OnClose implements serve.StreamHandler.
func (st *pageStream) OnClose() {
	st.w.GiveBudget(st.taken)
	st.taken = 0
}

// Stalled implements serve.StreamHandler.
func (st *pageStream) Stalled() { st.peer.Abort() }

// OnTimer implements serve.StreamHandler.
func (st *pageStream) OnTimer() {}

// OnShutdown implements serve.StreamHandler: the page is sent to its end.
func (st *pageStream) OnShutdown() {}

// AppendGap implements fanout.Owner. Nothing is replayed here.
func (st *pageStream) AppendGap(dst []byte, _ *fanout.Sub, _ string, _ stream.Sequence) []byte {
	return dst
}

// AppendShed implements fanout.Owner.
func (st *pageStream) AppendShed(dst []byte, _ int64) []byte { return dst }

// Replayed implements fanout.Owner.
func (st *pageStream) Replayed() {}

// Finished implements fanout.Owner.
func (st *pageStream) Finished() {}

// Cut implements fanout.Owner.
func (st *pageStream) Cut(fanout.Cut) { st.peer.Abort() }
