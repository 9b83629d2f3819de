package sync

import (
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/syncwire"
	"github.com/sluice-relay/sluice/engine/serve"
)

// service is the program's name in a health body.
const service = "sluice"

func (s *Surface) server() syncwire.Server {
	return syncwire.Server{Service: service, Version: s.parts.Version, Time: s.parts.Now()}
}

// status implements GET /v1/status.
func (s *Surface) status(rq *request) {
	s.account(rq, func(st *syncwire.Account) []byte {
		return syncwire.AppendStatus(nil, s.server(), st)
	})
}

// usage implements GET /v1/usage.
func (s *Surface) usage(rq *request) {
	s.account(rq, func(st *syncwire.Account) []byte {
		return syncwire.AppendUsage(nil, st.OwnerID, st.UsedBytes)
	})
}

// account answers with what body makes of the owner's numbers.
func (s *Surface) account(rq *request, body func(*syncwire.Account) []byte) {
	if !s.withOwner(rq) {
		return
	}
	auth := rq.auth
	s.job(rq.x, func() func(*serve.Exchange) {
		st, err := s.store.Status(auth)
		return func(x *serve.Exchange) {
			if err != nil {
				s.fail(x, false, err)
				return
			}
			respond(x, body(&syncwire.Account{
				OwnerID: auth.Owner, QuotaBytes: st.QuotaBytes, UsedBytes: st.UsedBytes,
				HeadSeq: st.HeadSeq, Streams: st.Streams, Events: st.Events, CreatedAt: st.CreatedAt,
			}))
		}
	})
}

// health implements GET /health. A relay whose jobs have no room for the
// question is as little use as one whose store does not answer.
func (s *Surface) health(rq *request) {
	err := rq.x.Go(func() func(*serve.Exchange) {
		err := s.store.Ping()
		return func(x *serve.Exchange) { s.answerHealth(x, err == nil) }
	})
	if err != nil {
		s.answerHealth(rq.x, false)
	}
}

func (s *Surface) answerHealth(x *serve.Exchange, ok bool) {
	status := 200
	if !ok {
		status = 503
	}
	x.Respond(&http1.Response{
		Status: status, Fields: jsonFields, Body: syncwire.AppendHealth(nil, ok, s.server()), KeepAlive: true,
	})
}
