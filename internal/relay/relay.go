package relay

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strconv"
	stdsync "sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/netloop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/admin"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/limit"
	"github.com/sluice-relay/sluice/internal/proto/aep"
	"github.com/sluice-relay/sluice/internal/proto/sync"
	"github.com/sluice-relay/sluice/internal/store"
)

const (
	// windowEntries and windowBytes bound the live window. Half of it is how
	// far ingest may run ahead of a loop, the rest is for members that catch
	// up.
	windowEntries = 1 << 16
	windowBytes   = 64 << 20

	// heldBytes bounds bodies and unfinished messages of all connections (R46).
	heldBytes = 512 << 20

	// jobWorkers are more than the readers of a store, so that its slow reads
	// leave some for others. jobWaiting bounds what a burst of requests may ask.
	jobWorkers = 8
	jobWaiting = 4096
)

// Relay is one running relay: the composition of loops, log, buffers and
// surfaces. Its methods may be called by any goroutine.
type Relay struct {
	// Immutable after construction.
	cfg     config.Config
	log     *slog.Logger
	server  *netloop.Server
	workers []*serve.Worker
	jobs    *loop.Jobs
	surface *aep.Surface
	// sync and syncStore are nil when the surface is off.
	sync      *sync.Surface
	syncStore *store.Lazy
	firehose  *firehoseParts // nil when the surface is off
	aepws     *aepwsParts    // nil when the surface is off
	auth      *auth.Auth
	events    *stream.Log
	buffers   *session.Buffers
	budget    *serve.Budget
	rate      *limit.Rate
	gate      serve.Gate
	started   time.Time

	// Set by Run, before it serves.
	admin *admin.Server

	// Atomic.
	draining atomic.Bool

	hurry     chan struct{}
	hurryOnce stdsync.Once

	// served ends with the server; serveErr is set before.
	served   chan struct{}
	serveErr error

	stop    stdsync.Once
	stopErr error
}

// New makes a relay and binds its addresses; it serves after Start. The port is
// the bound one from here on, also for port 0. version is the build's.
func New(cfg config.Config, log *slog.Logger, version string) (*Relay, error) {
	r := &Relay{
		cfg: cfg, log: log, served: make(chan struct{}), hurry: make(chan struct{}),
		events: stream.NewLog(windowEntries, windowBytes),
		budget: serve.NewBudget(heldBytes), started: time.Now(),
	}
	r.buffers = session.New(session.Config{
		EventsPerSession: cfg.BufferEvents,
		Sessions:         cfg.MaxSessions,
		Bytes:            cfg.BufferBytes,
	}, r.events)
	proxies, err := limit.NewProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	r.rate = limit.NewRate(cfg.IngestRate, cfg.IngestBurst, r.started)
	r.gate = newGate(proxies, limit.NewAddresses(cfg.MaxConnsPerIP))

	guard, err := newGuard(cfg)
	if err != nil {
		return nil, err
	}
	tokens, err := cfg.Tokens()
	if err != nil {
		return nil, err
	}
	r.auth = auth.New(tokens...)
	r.surface = aep.New(aep.Config{
		Auth:           r.auth,
		Guard:          guard,
		Log:            log,
		Events:         r.events,
		Buffers:        r.buffers,
		Rate:           r.rate,
		BufferEvents:   cfg.BufferEvents,
		MaxBodyBytes:   cfg.MaxBodyBytes,
		MaxBatchEvents: cfg.MaxBatchEvents,
		MaxFrom:        cfg.MaxFrom,
		Boot:           bootID(),
		Started:        r.started,
	})

	if err := r.openSync(version); err != nil {
		return nil, err
	}
	if err := r.openFirehose(); err != nil {
		return nil, errors.Join(err, r.closeSync())
	}
	if err := r.openAEPWS(); err != nil {
		return nil, errors.Join(err, r.closeSync(), r.closeFirehose())
	}
	if err := r.bind(); err != nil {
		return nil, errors.Join(err, r.closeSync(), r.closeFirehose(), r.closeAEPWS())
	}
	return r, nil
}

// bind makes loops and workers and binds the addresses.
func (r *Relay) bind() (err error) {
	r.server, err = netloop.New(netloop.Config{
		Addrs:           r.cfg.ListenAddrs(),
		Loops:           r.cfg.Loops,
		MaxConns:        r.cfg.MaxConns,
		SendBufferBytes: r.cfg.SendBufferBytes,
		Log:             r.log,
	}, loop.SystemClock{}, r.accept)
	if err != nil {
		return err
	}
	for _, l := range r.server.Loops() {
		l.OnPanic(r.logPanic)
	}
	r.jobs = loop.NewJobs(jobWorkers, jobWaiting)
	r.makeWorkers()
	if err := r.server.Listen(); err != nil {
		r.jobs.Close()
		return err
	}
	return nil
}

// newGuard returns the guard of a relay without a token (R38), nil for one that
// has a token.
func newGuard(cfg config.Config) (*auth.Guard, error) {
	if cfg.HasToken() {
		return nil, nil
	}
	return auth.NewGuard(cfg.Origins, cfg.AnyOrigin, cfg.HostCheck())
}

// bootID is drawn at each start, so that a consumer can tell that positions
// were forgotten (R55).
func bootID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func (r *Relay) makeWorkers() {
	shared := serve.Config{
		Handler:   r.handler(),
		Refusals:  r.refusals,
		Budget:    r.budget,
		Jobs:      r.jobs,
		Log:       r.log,
		Gate:      r.gate,
		AccessLog: r.cfg.AccessLog,
	}
	for _, l := range r.server.Loops() {
		set := fanout.NewSet(l, r.events, r.buffers, fanout.Limits{})
		r.workers = append(r.workers, serve.NewWorker(shared, l, set))
	}
	r.surface.Attach(r.workers)
	if r.sync != nil {
		r.sync.Attach(r.syncStore, r.workers)
	}
	if r.firehose != nil {
		r.firehose.surface.Attach(r.workers)
	}
	if r.aepws != nil {
		r.aepws.surface.Attach(r.workers, r.jobs)
	}
}

// logPanic tells of a panic that a loop contained. What was being handled is
// not told: it may hold a token (R15).
func (r *Relay) logPanic(loopID int, value any) {
	r.log.Error("panic contained, its connection is closed", "loop", loopID, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
}

func (r *Relay) accept(l *loop.Loop, t loop.Transport) loop.Handler {
	return r.workers[l.ID].Accept(t)
}

// Start serves. It returns at once.
func (r *Relay) Start() error {
	go func() {
		r.serveErr = r.server.Serve()
		close(r.served)
	}()
	go r.reclaim()
	return r.startFirehose()
}

// Addr returns the first bound address as host:port, :port when every interface
// is bound, or unix:path.
func (r *Relay) Addr() string {
	addr, ok := r.server.Addrs()[0].(*net.TCPAddr)
	if !ok {
		return "unix:" + r.server.Addrs()[0].String()
	}
	if addr.IP.IsUnspecified() {
		return ":" + strconv.Itoa(addr.Port)
	}
	return addr.String()
}

// Failed is closed when the relay has ended, by Shutdown or because a loop
// died; Err then tells why.
func (r *Relay) Failed() <-chan struct{} { return r.served }

// Err returns why serving ended, nil after an orderly Shutdown. It is valid once
// Failed is closed.
func (r *Relay) Err() error { return r.serveErr }
