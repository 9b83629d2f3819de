package aepws

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/store/eventlog"
)

// DefaultName is the relay's name in the source of its own events.
const DefaultName = "sluice"

// Parts is what a Surface works with beside its settings.
type Parts struct {
	Log    *slog.Logger
	Events *eventlog.Log // whose Config.Committed calls Surface.Committed
	Guard  *auth.Guard   // of a relay without a token (B8); nil lets everybody in
	Token  string        // AEPWS_TOKEN (B7); empty asks for none
	Name   string        // empty is DefaultName
}

// Surface is the behaviour of the binding: it serves the one path of its
// settings. It implements serve.Handler. Serve is called on the loops, Committed
// on the log's goroutine, everything else by any goroutine.
type Surface struct {
	// Immutable after Attach.
	cfg      Settings
	parts    Parts
	tokens   *auth.Auth
	types    *aepws.Registry
	plan     *retryPlan
	sessions sessionSettings
	began    time.Time // sessions count their time from here
	lanes    []*lane   // by the IDs of their loops
	hub      *hub

	holders *directory[*socket]

	// Atomic.
	sealed  atomic.Bool
	open    atomic.Int64 // sockets
	pending atomic.Int64 // appends without an answer
	busy    atomic.Int64 // bytes of events that wait for room in the log's queue
	counts  counts
}

// Tail bounds: what the loops read from memory. Older events come from the log.
const (
	tailEntries = 1 << 16
	tailBytes   = 64 << 20
)

// New returns a surface. Attach must be called before it serves. The error is
// that of Settings.Validate.
func New(cfg Settings, parts Parts) (*Surface, error) {
	if parts.Name == "" {
		parts.Name = DefaultName
	}
	types, err := cfg.registry()
	if err != nil {
		return nil, err
	}
	plan, err := cfg.retryPlan()
	if err != nil {
		return nil, err
	}
	s := &Surface{
		cfg: cfg, parts: parts, types: types, plan: plan,
		tokens:  auth.New(parts.Token),
		holders: newDirectory[*socket](cfg.MaxConnections),
	}
	s.sessions = sessionSettings{
		source:        aepws.NewAuthor(parts.Name, nil).Source(),
		tokenRequired: s.tokens.Enabled(),
		heartbeat:     cfg.Heartbeat,
		openTimeout:   cfg.OpenTimeout,
	}
	return s, nil
}

// Attach names the workers that the surface serves on, and the jobs that read
// the log for it. Called once, before anything is served.
func (s *Surface) Attach(workers []*serve.Worker, jobs *loop.Jobs) {
	s.hub = newHub(hubSettings{
		maxSubscriptions: s.cfg.MaxSubscriptions, sendQueue: s.cfg.SendQueueEvents,
		tailEntries: tailEntries, tailBytes: tailBytes,
	}, s.parts.Events, jobs)
	s.lanes = make([]*lane, len(workers))
	for _, w := range workers {
		if s.began.IsZero() {
			s.began = w.Loop().Now()
		}
		s.lanes[w.Loop().ID] = newLane(s, w)
	}
}

// Committed takes the events of a commit, in order of their numbers: it is what
// eventlog.Config.Committed calls.
func (s *Surface) Committed(batch []eventlog.Stored) { s.hub.committed(batch) }

// Seal ends publishing: what comes from now on is rejected as retryable. Answers
// to what came before still go out.
func (s *Surface) Seal() { s.sealed.Store(true) }

// Pending returns how many appends have no answer yet.
func (s *Surface) Pending() int64 { return s.pending.Load() }

// Owns tells whether a request's path, as sent, is the surface's.
func (s *Surface) Owns(path []byte) bool { return string(path) == s.cfg.Path }

// Refusals implements serve.Config.Refusals: what the connection itself refuses
// on the surface's path is worded as its own refusals (B4).
func (s *Surface) Refusals(path []byte) serve.Refusal {
	if !s.Owns(path) {
		return nil
	}
	return func(status int, reason string) http1.Response {
		s.counts.refused[refusedRequest].Add(1)
		code := aepws.ProtocolError
		if status == 429 || status >= 500 {
			code = aepws.InternalError
			return refusal(status, code, reason, retryField)
		}
		return refusal(status, code, reason)
	}
}

var retryField = http1.Field{Name: "Retry-After", Value: "5"} // B9

// refusal is the answer to a handshake that is refused: JSON, and fields.
func refusal(status int, code aepws.Code, message string, more ...http1.Field) http1.Response {
	fields := append([]http1.Field{{Name: "Content-Type", Value: "application/json"}}, more...)
	return http1.Response{Status: status, Fields: fields, Body: aepws.AppendRefusal(nil, code, message)}
}
