package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sluice-relay/sluice/internal/auth"
)

// ErrConfig tells of a Config that cannot be used.
var ErrConfig = errors.New("admin: bad configuration")

// Off is the address that stands for no admin listener.
const Off = "off"

const (
	// maxConns bounds the open connections (AD1): a few scrapers, a browser
	// and some profiles at once, and all that the descriptor reserve spares.
	maxConns = 32

	// snapshotTime bounds one snapshot. A loop turns every few milliseconds;
	// one that takes longer than a second is what readiness reports.
	snapshotTime = 2 * time.Second

	// snapshotCount bounds the snapshots under way at once: the loops do the
	// work of each.
	snapshotCount = 4

	// graceTime is how long Close lets requests finish before it cuts them.
	graceTime = 500 * time.Millisecond

	// maxHeaderBytes bounds a request's head. net/http adds 4 KiB.
	maxHeaderBytes = 8 << 10
)

// timing has the limits that tests shorten.
type timing struct {
	header, read, write, idle time.Duration
	snapshot                  time.Duration
}

// defaultTiming: the idle time is above the usual scrape intervals of 15 and
// 30 s, so that scrapers keep their connection.
var defaultTiming = timing{
	header:   5 * time.Second,
	read:     10 * time.Second,
	write:    10 * time.Second,
	idle:     60 * time.Second,
	snapshot: snapshotTime,
}

// Config is what a Server is made from.
type Config struct {
	// Addr is host:port to bind; port 0 asks the kernel for one. "off" and ""
	// mean that there is to be no server.
	Addr string
	// Source has the numbers. It is required unless Addr means none.
	Source Source
	// Log takes what an operator should know, nil for nothing.
	Log *slog.Logger
	// Version is that of this build.
	Version string
}

// Server is a running admin listener. A nil Server is one that is off. Its
// methods may be called by any goroutine.
type Server struct {
	// Immutable after construction.
	cfg     Config
	timing  timing
	gate    *gate
	guard   *auth.Guard
	http    *http.Server
	cancel  context.CancelFunc // ends requests under way
	drained chan struct{}      // closed when nothing is left
	pages   map[string]page
	metrics *exporter

	snapshots chan struct{} // one element a snapshot under way
}

// Start binds the address and serves in goroutines of its own. It returns nil
// and no error when Addr says that there is to be no server. A port that is
// taken, or an address that cannot be bound, is an error that wraps the
// system's; a caller turns it into a warning and goes on without. ErrConfig
// tells of an address without a port, or of a missing Source.
func Start(cfg Config) (*Server, error) { return start(cfg, defaultTiming) }

func start(cfg Config, limits timing) (*Server, error) {
	if cfg.Addr == "" || cfg.Addr == Off {
		return nil, nil
	}
	if cfg.Source == nil {
		return nil, fmt.Errorf("%w: no source", ErrConfig)
	}
	if _, _, err := net.SplitHostPort(cfg.Addr); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	s, err := newServer(cfg, limits, ln)
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	go s.serve()
	return s, nil
}

// newServer makes the server for a listener, which it takes over if there is
// no error.
func newServer(cfg Config, limits timing, ln net.Listener) (*Server, error) {
	loopback := isLoopback(ln.Addr())
	guard, err := auth.NewGuard(nil, false, loopback)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if !loopback {
		cfg.Log.Warn("admin listener can be reached from other hosts and asks for no token", "addr", ln.Addr().String())
	}
	base, cancel := context.WithCancel(context.Background())
	s := &Server{
		cfg:       cfg,
		timing:    limits,
		gate:      newGate(ln, maxConns),
		guard:     guard,
		cancel:    cancel,
		drained:   make(chan struct{}),
		snapshots: make(chan struct{}, snapshotCount),
	}
	if s.metrics, err = newExporter(s); err != nil {
		cancel()
		return nil, err
	}
	s.pages = s.makePages()
	s.http = &http.Server{
		Handler:                      s,
		ReadHeaderTimeout:            limits.header,
		ReadTimeout:                  limits.read,
		WriteTimeout:                 limits.write,
		IdleTimeout:                  limits.idle,
		MaxHeaderBytes:               maxHeaderBytes,
		ConnState:                    s.gate.connState,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),
		DisableGeneralOptionsHandler: true, // it answers before any check
	}
	return s, nil
}

// isLoopback reports whether only this machine reaches an address.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func (s *Server) serve() {
	defer close(s.drained)
	if err := s.http.Serve(s.gate); !errors.Is(err, http.ErrServerClosed) {
		s.cfg.Log.Error("admin listener ended", "error", err)
	}
	s.gate.drain()
}

// Addr returns the bound address as host:port, "" for a server that is off.
func (s *Server) Addr() string {
	if s == nil {
		return ""
	}
	return s.gate.Addr().String()
}

// Close stops listening, lets requests under way finish for half a second, and
// cuts those that are left. It returns nil when no connection and no goroutine
// is left (AD4), and the error of ctx when that ended first; then what is left
// ends by itself as soon as its handler returns. Later calls return the same
// way.
func (s *Server) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	grace, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	// Its errors are that the grace is over, or of closing the listener.
	_ = s.http.Shutdown(grace)
	s.cancel()
	_ = s.http.Close()
	select {
	case <-s.drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("admin: requests still under way: %w", ctx.Err())
	}
}
