package firehose

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

// Parts is what a Surface works with beside its settings. The zero value of a
// field that may be empty turns off what it is for.
type Parts struct {
	Log          *slog.Logger
	Producer     *Producer
	Ring         *stream.Ring // that the producer publishes to
	Upstream     Upstream     // nil without upstream mode (F70)
	PublishToken string       // FIREHOSE_PUBLISH_TOKEN (F52)
	AdminToken   string       // FIREHOSE_ADMIN_TOKEN (F70)
	Health       func() error // of the store, asked in a job (F70)
}

// Surface is the behaviour of com.atproto.sync.subscribeRepos: it serves the
// paths of Owns. It implements serve.Handler. Serve is called on the loops,
// everything else by any goroutine.
type Surface struct {
	// Immutable after Attach.
	cfg    Settings
	parts  Parts
	fields []http1.Field // of each answer (F8)
	feeds  []*feed       // by the IDs of their loops

	// Atomic.
	consumers  atomic.Int64
	total      atomic.Int64
	slow       atomic.Int64
	future     atomic.Int64
	outdated   atomic.Int64
	stalled    atomic.Int64
	unanswered atomic.Int64
	published  atomic.Int64
	refused    [reasons]atomic.Int64
}

// Reasons of refusals, as Counters has them.
const (
	refusedRequest = iota
	refusedCursor
	refusedConsumers
	refusedPhase
	refusedToken
	refusedFrame
	refusedPublish
	reasons
)

var reasonNames = [reasons]string{
	"request", "cursor", "consumers", "not-listening", "token", "frame", "publish",
}

// Counters are numbers of a Surface at one moment. All but Consumers count from
// its start.
type Counters struct {
	Consumers  int64            // connected now
	Connected  int64            // consumers that ever were
	TooSlow    int64            // ended with ConsumerTooSlow (F32)
	Future     int64            // ended with FutureCursor (F23)
	Outdated   int64            // told OutdatedCursor (F20, F22)
	Stalled    int64            // took nothing for the write timeout
	Unanswered int64            // did not answer pings (F6)
	Published  int64            // over HTTP (F52)
	Refused    map[string]int64 // requests by reason, those that occurred
}

// NewSurface returns a surface. Attach must be called before it serves.
func NewSurface(cfg Settings, parts Parts) *Surface {
	return &Surface{
		cfg: cfg, parts: parts,
		fields: []http1.Field{{Name: "Server", Value: cfg.ServerField()}},
	}
}

// Attach names the workers that the surface serves on. Called once, before
// anything is served.
func (s *Surface) Attach(workers []*serve.Worker) {
	s.feeds = make([]*feed, len(workers))
	for _, w := range workers {
		s.feeds[w.Loop().ID] = newFeed(w, s.parts.Ring)
	}
}

// Ring wakes the loops after frames were published: it is what Config.Published
// of the producer calls.
func (s *Surface) Ring() {
	for _, f := range s.feeds {
		f.w.Loop().Ring()
	}
}

// Tick lets go the frames that no stream needs any more, as of each loop's last
// pass, and makes the loops look at the streams that are behind. It is called at
// least twice a second, so that what a loop finds out is acted on within one
// (F33).
func (s *Surface) Tick() {
	s.Ring()
	s.parts.Ring.Tick()
}

// Drop cuts the consumers that are left: they had their time to take what there
// is (F48).
func (s *Surface) Drop() {
	for _, f := range s.feeds {
		f.w.Loop().Later(f.drop)
	}
}

// Counters returns the surface's numbers.
func (s *Surface) Counters() Counters {
	c := Counters{
		Consumers: s.consumers.Load(), Connected: s.total.Load(),
		TooSlow: s.slow.Load(), Future: s.future.Load(), Outdated: s.outdated.Load(),
		Stalled: s.stalled.Load(), Unanswered: s.unanswered.Load(),
		Published: s.published.Load(), Refused: map[string]int64{},
	}
	for reason := range s.refused {
		if n := s.refused[reason].Load(); n > 0 {
			c.Refused[reasonNames[reason]] = n
		}
	}
	return c
}

// Refusals implements serve.Config.Refusals for the surface's paths and, without
// a path, for what could not be read: what the connection itself refuses is
// worded as the surface's own refusals (F2, F8).
func (s *Surface) Refusals(path []byte) serve.Refusal {
	if path != nil && !s.Owns(path) {
		return nil
	}
	return func(status int, reason string) http1.Response {
		s.refused[refusedRequest].Add(1)
		switch {
		case status == 429:
			return s.response(status, errorBody("TooManyRequests", reason), retryField)
		case status >= 500:
			return s.response(status, errorBody("NotListening", reason), retryField)
		}
		return s.response(status, errorBody("InvalidRequest", reason))
	}
}

func (s *Surface) response(status int, body []byte, more ...http1.Field) http1.Response {
	fields := make([]http1.Field, 0, len(s.fields)+1+len(more))
	fields = append(append(fields, s.fields...), http1.Field{Name: "Content-Type", Value: "application/json"})
	for _, field := range more {
		if field.Name != "" {
			fields = append(fields, field)
		}
	}
	return http1.Response{Status: status, Fields: fields, Body: body}
}

// errorBody is an error as XRPC has them.
func errorBody(name, message string) []byte {
	body, _ := json.Marshal(struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}{name, message}) // of two strings it never fails
	return body
}

func (s *Surface) answer(x *serve.Exchange, status int, body []byte, more ...http1.Field) {
	res := s.response(status, body, more...)
	res.KeepAlive = true
	res.NoBody = x.Head != nil && string(x.Head.Method) == "HEAD"
	x.Respond(&res)
}

// refuse answers with an error and counts it.
func (s *Surface) refuse(x *serve.Exchange, reason, status int, name, message string, more ...http1.Field) {
	s.refused[reason].Add(1)
	s.answer(x, status, errorBody(name, message), more...)
}
