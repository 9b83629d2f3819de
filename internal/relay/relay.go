package relay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/netloop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/auth"
	"github.com/sluice-relay/sluice/internal/config"
	"github.com/sluice-relay/sluice/internal/proto/aep"
)

const (
	// windowEntries and windowBytes bound the live window. Half of it is how
	// far ingest may run ahead of a loop, the rest is for members that catch
	// up.
	windowEntries = 1 << 16
	windowBytes   = 64 << 20

	// heldBytes bounds bodies and unfinished messages of all connections (R46).
	heldBytes = 512 << 20

	jobWorkers = 4
	jobWaiting = 256

	// drainTime is how long after the signal everything has to be closed
	// (R464).
	drainTime = 5 * time.Second
	// stopTime is how long the loops themselves may take to end after that.
	stopTime = 5 * time.Second
)

// ErrNotDrained tells that connections were still open when the time for an
// orderly end was over (R464).
var ErrNotDrained = errors.New("relay: connections were still open at the end of the drain time")

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

	// served ends with the server; serveErr is set before.
	served   chan struct{}
	serveErr error

	stop    sync.Once
	stopErr error
}

// New makes a relay and binds its addresses; it serves after Start. The port is
// the bound one from here on, also for port 0.
func New(cfg config.Config, log *slog.Logger) (*Relay, error) {
	r := &Relay{cfg: cfg, log: log, served: make(chan struct{})}
	events := stream.NewLog(windowEntries, windowBytes)
	buffers := session.New(session.Config{
		EventsPerSession: cfg.BufferEvents,
		Sessions:         cfg.MaxSessions,
		Bytes:            cfg.BufferBytes,
	}, events)

	guard, err := newGuard(cfg)
	if err != nil {
		return nil, err
	}
	r.surface = aep.New(aep.Config{
		Auth:           auth.New(cfg.Token.Reveal()),
		Guard:          guard,
		Log:            log,
		Events:         events,
		Buffers:        buffers,
		BufferEvents:   cfg.BufferEvents,
		MaxBodyBytes:   cfg.MaxBodyBytes,
		MaxBatchEvents: cfg.MaxBatchEvents,
		MaxFrom:        cfg.MaxFrom,
		Boot:           bootID(),
		Started:        time.Now(),
	})

	r.server, err = netloop.New(netloop.Config{
		Addrs:    cfg.ListenAddrs(),
		Loops:    cfg.Loops,
		MaxConns: cfg.MaxConns,
		Log:      log,
	}, loop.SystemClock{}, r.accept)
	if err != nil {
		return nil, err
	}
	r.jobs = loop.NewJobs(jobWorkers, jobWaiting)
	r.makeWorkers(events, buffers)
	if err := r.server.Listen(); err != nil {
		r.jobs.Close()
		return nil, err
	}
	return r, nil
}

// newGuard returns the guard of a relay without a token (R38), nil for one that
// has a token.
func newGuard(cfg config.Config) (*auth.Guard, error) {
	if cfg.Token.IsSet() {
		return nil, nil
	}
	return auth.NewGuard(cfg.Origins, cfg.AnyOrigin, cfg.Loopback())
}

// bootID is drawn at each start, so that a consumer can tell that positions
// were forgotten (R55).
func bootID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func (r *Relay) makeWorkers(events *stream.Log, buffers *session.Buffers) {
	shared := serve.Config{
		Handler: r.surface,
		Budget:  serve.NewBudget(heldBytes),
		Jobs:    r.jobs,
		Log:     r.log,
	}
	for _, l := range r.server.Loops() {
		set := fanout.NewSet(l, events, buffers, fanout.Limits{})
		r.workers = append(r.workers, serve.NewWorker(shared, l, set))
	}
	r.surface.Attach(r.workers)
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
	return nil
}

// Addr returns the first bound address as host:port, or :port when every
// interface is bound.
func (r *Relay) Addr() string {
	addr, ok := r.server.Addrs()[0].(*net.TCPAddr)
	if !ok {
		return r.server.Addrs()[0].String()
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

// Shutdown ends the relay in an orderly way (R460 to R464): it stops accepting,
// tells streams and sockets, lets requests in flight finish, and closes what is
// left after 5 s, or when ctx ends, with ErrNotDrained. Later calls wait for
// the first and return its result.
func (r *Relay) Shutdown(ctx context.Context) error {
	r.stop.Do(func() { r.stopErr = r.shutdown(ctx) })
	return r.stopErr
}

func (r *Relay) shutdown(ctx context.Context) error {
	deadline := time.Now().Add(drainTime)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	r.server.StopAccepting()
	for _, w := range r.workers {
		if err := w.Loop().Post(w.Shutdown); err != nil {
			r.log.Warn("loop takes no mail at shutdown", "loop", w.Loop().ID, "error", err)
		}
	}
	err := r.awaitDrained(ctx)
	stopCtx, cancelStop := context.WithTimeout(context.Background(), stopTime)
	defer cancelStop()
	if stopErr := r.server.Stop(stopCtx); stopErr != nil && err == nil {
		err = stopErr
	}
	r.jobs.Close()
	return err
}

// awaitDrained waits until no connection is left.
func (r *Relay) awaitDrained(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.server.Conns() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (%d)", ErrNotDrained, r.server.Conns())
		case <-r.served:
			return r.serveErr
		}
	}
	return nil
}

// Run serves until ctx ends and then shuts down. It writes the line that says
// where the relay listens to stdout (R12). It returns nil after a complete
// shutdown.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, stdout io.Writer) error {
	r, err := New(cfg, log)
	if err != nil {
		return err
	}
	if err := r.Start(); err != nil {
		return err
	}
	state := "OFF (watch-only: no commands)"
	if cfg.Token.IsSet() {
		state = "on"
	}
	if _, err := fmt.Fprintf(stdout, "aep-relay listening on %s, auth %s\n", r.Addr(), state); err != nil {
		log.Warn("cannot write to standard output", "error", err)
	}
	select {
	case <-ctx.Done():
		log.Info("shutting down")
		return r.Shutdown(context.WithoutCancel(ctx))
	case <-r.Failed():
		if r.Err() == nil {
			return errors.New("relay: serving ended by itself")
		}
		return r.Err()
	}
}
