package aep

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/limit"
)

// Config is what the surface needs to know. All fields are required, except
// that a nil Guard lets every origin pass.
type Config struct {
	Auth    *auth.Auth
	Guard   *auth.Guard
	Log     *slog.Logger
	Events  *stream.Log
	Rate    *limit.Rate // of ingest for each client address, nil for none
	Buffers *session.Buffers

	BufferEvents   int   // advertised (R55)
	MaxBodyBytes   int64 // of one POST /events
	MaxBatchEvents int
	MaxFrom        int
	Boot           string // id of this start (R55)
	Started        time.Time
}

// Surface is the AEP relay's behaviour: routes, ingest, streams, sockets. It
// implements serve.Handler. Serve is called on the loops; the counters may be
// read by any goroutine.
type Surface struct {
	// Immutable after construction.
	cfg          Config
	capabilities []byte
	discovery    []byte
	hello        []byte // text frame
	workers      []*worker
	claims       claims
	sockets      registry

	// Atomic.
	shut          atomic.Bool  // requests are not acknowledged any more
	sealed        atomic.Bool  // and sockets neither
	streams       atomic.Int64 // live SSE streams
	subscriptions atomic.Int64 // of WebSockets
	open          atomic.Int64 // WebSockets
	waiting       atomic.Int64 // loops on which ingest waits for room
	reserved      atomic.Int64 // bytes of events that are being appended
	ingested      atomic.Int64
	refused       atomic.Int64
	overRate      atomic.Int64
	cuts          cutCounters
	dropped       atomic.Int64 // bytes owed to connections that were ended

	lines lineLimit
}

// worker is what the surface has per loop. Owned by that loop.
type worker struct {
	*serve.Worker
	scanner aep.Scanner
	hello   lastHello
	filter  lastFilter
	ring    func()     // Surface.ring
	room    []func()   // wait for room in the log
	retry   loop.Timer // looks for room while some wait
}

// New returns the surface. Attach must be called before it serves.
func New(cfg Config) *Surface {
	s := &Surface{cfg: cfg}
	s.capabilities = aep.AppendCapabilities(nil, cfg.BufferEvents, cfg.Boot)
	s.discovery = aep.AppendDiscovery(nil, cfg.BufferEvents, cfg.Boot)
	s.hello = text(aep.AppendHelloReply(nil, s.capabilities))
	return s
}

// SealRequests ends the acknowledgements of requests: those that are not
// finished are answered with 503. Streams begin to end, and who is told 202 would
// count on somebody getting the events. Whoever was told it before has them in
// the log. Any goroutine.
func (s *Surface) SealRequests() { s.shut.Store(true) }

// Seal ends those of sockets too, whose pings are not answered any more: a pong
// tells that what came before the ping is in. Any goroutine.
func (s *Surface) Seal() {
	s.shut.Store(true)
	s.sealed.Store(true)
}

// Attach names the workers that the surface serves on, by the IDs of their
// loops. Called once, before anything is served.
func (s *Surface) Attach(workers []*serve.Worker) {
	s.workers = make([]*worker, len(workers))
	for _, w := range workers {
		own := &worker{Worker: w, ring: s.ring}
		own.retry.Fire = func() { s.takeRoom(own) }
		s.workers[w.Loop().ID] = own
		w.Set().OnProgress = s.onProgress
	}
}

func (s *Surface) worker(w *serve.Worker) *worker { return s.workers[w.Loop().ID] }

// Counts are the numbers of /healthz and /connections (R50, R52).
type Counts struct {
	Sessions    int
	Streams     int64 // live SSE streams
	Subscribers int64 // those and WebSocket subscriptions
	Connections int64 // WebSockets, before hello too
	UptimeS     int64
}

// Counts returns the present numbers. Any goroutine.
func (s *Surface) Counts() Counts {
	live := s.streams.Load()
	return Counts{
		Sessions:    s.cfg.Buffers.Sessions(),
		Streams:     live,
		Subscribers: live + s.subscriptions.Load(),
		Connections: s.open.Load(),
		UptimeS:     int64(time.Since(s.cfg.Started) / time.Second),
	}
}
