package echo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/netloop"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
)

// Bounds of Config.LimitBytes. The default is 16 MiB, which conformance suites
// go up to, and some slack.
const (
	DefaultLimitBytes = 16<<20 + 64<<10
	MaxLimitBytes     = 256 << 20
)

const (
	// leastBudget and budgetMessages give the budget (E2).
	leastBudget    = 64 << 20
	budgetMessages = 16

	// drainTime is how long peers may take to close at a shutdown: as long as
	// the relay gives them (R464). stopTime is what the loops may take then.
	drainTime = 5 * time.Second
	stopTime  = 5 * time.Second
)

var (
	// ErrLimit tells of a limit outside of 1 to MaxLimitBytes.
	ErrLimit = fmt.Errorf("echo: message limit is not in 1 to %d bytes", MaxLimitBytes)
	// ErrNotDrained tells that connections were still open when the time for an
	// orderly end was over.
	ErrNotDrained = errors.New("echo: connections were still open at the end of the drain time")
)

// Config is what a Server is made from.
type Config struct {
	// Addr is the address to listen on, as netloop.Config.Addrs has it.
	Addr string
	// LimitBytes bounds one message, fragments summed; 0 is DefaultLimitBytes.
	// A longer one is refused with 1009.
	LimitBytes int64
	// Log takes what an operator should know, nil for nothing.
	Log *slog.Logger
}

// Server is a running echo server. Any goroutine.
type Server struct {
	// Immutable after construction.
	cfg     Config
	server  *netloop.Server
	workers []*serve.Worker
	budget  *serve.Budget

	// served ends with the server; serveErr is set before.
	served   chan struct{}
	serveErr error

	stop    sync.Once
	stopErr error
}

// New makes a server and binds its address; it serves after Start. It returns
// ErrLimit, or an error of netloop's.
func New(cfg Config) (*Server, error) {
	if cfg.LimitBytes == 0 {
		cfg.LimitBytes = DefaultLimitBytes
	}
	if cfg.LimitBytes < 0 || cfg.LimitBytes > MaxLimitBytes {
		return nil, fmt.Errorf("%w: %d", ErrLimit, cfg.LimitBytes)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg:    cfg,
		budget: serve.NewBudget(max(leastBudget, budgetMessages*cfg.LimitBytes)),
		served: make(chan struct{}),
	}
	var err error
	s.server, err = netloop.New(netloop.Config{Addrs: []string{cfg.Addr}, Log: cfg.Log}, loop.SystemClock{}, s.accept)
	if err != nil {
		return nil, err
	}
	s.makeWorkers()
	if err := s.server.Listen(); err != nil {
		return nil, err
	}
	return s, nil
}

// makeWorkers gives each loop its connections. Nothing is ever published, so
// that log and buffers have the least size.
func (s *Server) makeWorkers() {
	events := stream.NewLog(1, 1)
	buffers := session.New(session.Config{}, events)
	shared := serve.Config{Handler: handler{s.cfg.LimitBytes}, Budget: s.budget, Log: s.cfg.Log}
	// No echo is cut for what it owes: E1 bounds that. The slack is for pongs.
	limits := fanout.Limits{HardBytes: OwedBytes + s.cfg.LimitBytes + 64<<10}
	for _, l := range s.server.Loops() {
		l.OnPanic(s.logPanic)
		s.workers = append(s.workers, serve.NewWorker(shared, l, fanout.NewSet(l, events, buffers, limits)))
	}
}

func (s *Server) logPanic(loopID int, value any) {
	s.cfg.Log.Error("panic contained, its connection is closed",
		"loop", loopID, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
}

func (s *Server) accept(l *loop.Loop, t loop.Transport) loop.Handler {
	return s.workers[l.ID].Accept(t)
}

// Start serves. It returns at once and is called once.
func (s *Server) Start() {
	go func() {
		s.serveErr = s.server.Serve()
		close(s.served)
	}()
}

// Addr returns the first bound address as host:port, or as unix:path.
func (s *Server) Addr() string {
	addr := s.server.Addrs()[0]
	if _, ok := addr.(*net.TCPAddr); !ok {
		return "unix:" + addr.String()
	}
	return addr.String()
}

// Conns returns the number of open connections.
func (s *Server) Conns() int64 { return s.server.Conns() }

// HeldBytes returns what unfinished messages and waiting input hold (E2).
func (s *Server) HeldBytes() int64 { return s.budget.UsedBytes() }

// Failed is closed when the server has ended, by Shutdown or because a loop
// died; Err then tells why.
func (s *Server) Failed() <-chan struct{} { return s.served }

// Err returns why serving ended, nil after an orderly Shutdown. It is valid once
// Failed is closed.
func (s *Server) Err() error { return s.serveErr }

// Shutdown ends the server in an orderly way: it stops accepting, closes the
// sockets with 1001, and resets what is left after 5 s, or when ctx ends, with
// ErrNotDrained. Later calls wait for the first and return its result.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop.Do(func() { s.stopErr = s.shutdown(ctx) })
	return s.stopErr
}

func (s *Server) shutdown(ctx context.Context) error {
	s.server.StopAccepting()
	for _, w := range s.workers {
		w.Loop().Later(w.Shutdown)
	}
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err := s.awaitDrained(ctx)
	stopCtx, cancelStop := context.WithTimeout(context.Background(), stopTime)
	defer cancelStop()
	return errors.Join(err, s.server.Stop(stopCtx))
}

// awaitDrained waits until no connection is left.
func (s *Server) awaitDrained(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.server.Conns() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (%d)", ErrNotDrained, s.server.Conns())
		case <-s.served:
			return s.serveErr
		}
	}
	return nil
}
