package sync

import (
	"time"

	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/store"
)

const (
	// readTimeout is how long a body may take (hard case 41), and readWindow
	// what has to come in each such time of one that takes longer: 4 KiB a
	// second.
	readTimeout = 60 * time.Second
	readWindow  = 256 << 10
)

// intake is what all bodies have: the request that they belong to, and what they
// took of the relay's memory. Owned by the loop.
type intake struct {
	s     *Surface
	w     *worker
	x     *serve.Exchange
	got   int64 // octets so far
	taken int64 // of the budget
}

// begin is called before anything of a body is read.
func (in *intake) begin(s *Surface, x *serve.Exchange) {
	in.s, in.w, in.x = s, s.worker(x), x
	x.BodyRate(readTimeout, readWindow)
	x.Keep() // jobs and the store refer to it
}

// take reserves n bytes of memory for what is kept.
func (in *intake) take(n int64) bool {
	if !in.x.TakeBudget(n) {
		return false
	}
	in.taken += n
	return true
}

// give returns n bytes.
func (in *intake) give(n int64) {
	in.w.GiveBudget(n)
	in.taken -= n
}

// small is a body that is read whole: of a close or a stream compaction. It
// implements serve.Body.
type small struct {
	intake
	limit int
	body  []byte
	then  func(x *serve.Exchange, body []byte) // once it is complete
}

func (s *Surface) readSmall(x *serve.Exchange, limit int, then func(*serve.Exchange, []byte)) {
	b := &small{limit: limit, then: then}
	b.begin(s, x)
	x.ReadBody(b)
}

// Data implements serve.Body.
func (b *small) Data(x *serve.Exchange, p []byte) {
	b.got += int64(len(p))
	switch {
	case b.got > int64(b.limit):
		b.s.refuse(x, syncwire.BodyTooLarge, "the body is too large")
	case !b.take(int64(len(p))):
		b.s.tooBusy(x)
	default:
		b.body = append(b.body, p...)
	}
}

// End implements serve.Body.
func (b *small) End(x *serve.Exchange) {
	b.then(x, b.body)
}

// Done implements serve.Body.
func (b *small) Done() {
	b.give(b.taken)
	b.body = nil
}

// compactStreams implements POST /v1/streams/compact (S40).
func (s *Surface) compactStreams(rq *request) {
	hash, most := syncwire.TokenHash(rq.token), s.cfg.MaxStreamsPerCompact
	s.readSmall(rq.x, syncwire.MaxCompactBytes(most), func(x *serve.Exchange, body []byte) {
		r, err := syncwire.DecodeCompact(body, most)
		auth := store.Auth{Owner: r.OwnerID, Hash: hash}
		switch {
		case err == nil:
			l := x.Loop()
			s.store.CompactStreamsAsync(auth, r.StreamIDs, func(r store.Reclaimed, err error) {
				post(l, func() { s.answerReclaimed(x, r, err) })
			})
		case r.OwnerID == "":
			s.refuseFault(x, err)
		default: // a stranger learns nothing but whether the owner exists (S16)
			s.job(x, func() func(*serve.Exchange) {
				denied := s.store.Authorize(auth)
				return func(x *serve.Exchange) {
					if denied != nil {
						s.fail(x, false, denied)
						return
					}
					s.refuseFault(x, err)
				}
			})
		}
	})
}

// answerReclaimed answers a compaction, if that is still wanted. Loop only.
func (s *Surface) answerReclaimed(x *serve.Exchange, r store.Reclaimed, err error) {
	if !x.Alive() {
		return
	}
	if err != nil {
		s.fail(x, false, err)
		return
	}
	respond(x, syncwire.AppendCompacted(nil, r.DeletedEvents, r.ReclaimedBytes))
}

// closeOwner implements POST /v1/owner/close (S42, S43).
func (s *Surface) closeOwner(rq *request) {
	hash := syncwire.TokenHash(rq.token)
	s.readSmall(rq.x, syncwire.MaxCloseBytes, func(x *serve.Exchange, body []byte) {
		owner, err := syncwire.DecodeClose(body)
		if err != nil {
			s.refuseFault(x, err)
			return
		}
		l := x.Loop()
		s.store.CloseOwnerAsync(store.Auth{Owner: owner, Hash: hash}, func(c store.Closed, err error) {
			post(l, func() { s.answerClosed(x, c, err) })
		})
	})
}

func (s *Surface) answerClosed(x *serve.Exchange, c store.Closed, err error) {
	if !x.Alive() {
		return
	}
	if err != nil {
		s.fail(x, false, err)
		return
	}
	respond(x, syncwire.AppendClosed(nil, c.DeletedEvents, c.DeletedBlobs))
}
