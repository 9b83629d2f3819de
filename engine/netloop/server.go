package netloop

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/sluice-relay/sluice/engine/loop"
)

// Server owns the listeners, the event loops and every connection. Its methods
// may be called by any goroutine.
type Server struct {
	// Immutable after construction.
	cfg      Config
	log      *slog.Logger
	clock    loop.Clock
	accept   loop.AcceptFunc
	limits   Limits
	reactors []*reactor
	spare    *spare
	lingers  *lingerers
	quit     chan struct{} // closed when stopping
	ended    chan struct{} // closed by Stop's end or a fatal error
	stopped  chan struct{} // closed when nothing is left
	dead     chan struct{} // closed by a fatal error
	// Set before Serve only (tests shorten them).
	checkEvery time.Duration
	deadChecks int

	// Set once by start.
	client    *gnet.Client
	watch     *watcher
	keepers   []*keeper
	enrolling chan enrolment

	// Guarded by bell: held for reading while an event loop is woken (N4).
	bell     sync.RWMutex
	bellShut bool

	// Guarded by place: the choice of a loop.
	place sync.Mutex

	// Guarded by mu.
	mu        sync.Mutex
	phase     phase
	listeners []net.Listener

	// Guarded by endMu; endErr is immutable once ended is closed.
	endMu   sync.Mutex
	isEnded bool
	endErr  error

	accepting  sync.WaitGroup
	background sync.WaitGroup // collector and liveness check

	// Atomic.
	stopping atomic.Bool
	conns    atomic.Int64
	gens     atomic.Int32
	refused  refusals
}

type phase int

const (
	created phase = iota
	listening
	serving
	stopping
)

// New makes a server and its loops; it opens nothing and starts no goroutine.
// It raises the process's soft descriptor limit to the hard one. accept makes
// the handler of each connection, on the connection's loop.
func New(cfg Config, clock loop.Clock, accept loop.AcceptFunc) (*Server, error) {
	cfg.ensureDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if accept == nil || clock == nil {
		return nil, fmt.Errorf("%w: no accept function or no clock", ErrConfig)
	}
	limit, err := raiseLimit()
	if err != nil {
		return nil, err
	}
	limits, err := deriveLimits(limit, openDescriptors(), &cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, clock: clock, accept: accept, limits: limits,
		spare: &spare{fd: -1}, lingers: newLingerers(limits.slots),
		quit: make(chan struct{}), ended: make(chan struct{}),
		stopped: make(chan struct{}), dead: make(chan struct{}),
		checkEvery: livenessEvery, deadChecks: livenessChecks,
		enrolling: make(chan enrolment, limits.slots),
	}
	for i := range cfg.Loops {
		r := &reactor{srv: s, loop: loop.New(i, clock, s.fail), reasons: map[*conn]error{}}
		r.loop.Bind(r.execute)
		r.loop.AddDrainer(r)
		s.reactors = append(s.reactors, r)
	}
	return s, nil
}

// Loops returns the loops, in the order of their IDs. Work may be posted to
// them at once; it runs when Serve has started them.
func (s *Server) Loops() []*loop.Loop {
	loops := make([]*loop.Loop, len(s.reactors))
	for i, r := range s.reactors {
		loops[i] = r.loop
	}
	return loops
}

// Listen opens every listener or none. Connections wait in the kernel until
// Serve.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case stopping:
		return ErrStopped
	case created:
	default:
		return ErrAlreadyListening
	}
	lns, err := listenAll(s.cfg.Addrs)
	if err != nil {
		return err
	}
	s.listeners = lns
	s.phase = listening
	s.log.Info("listening", "addrs", addrsOf(lns), "loops", len(s.reactors),
		"descriptor_limit", s.limits.Descriptors, "reserve", s.limits.Reserve,
		"max_conns", s.limits.Conns)
	return nil
}

// Addrs returns the bound addresses in the order of Config.Addrs, ports
// resolved; "localhost" gives one or two, the IPv4 one first. Empty before
// Listen.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return addrsOf(s.listeners)
}

func addrsOf(lns []net.Listener) []net.Addr {
	addrs := make([]net.Addr, len(lns))
	for i, ln := range lns {
		addrs[i] = ln.Addr()
	}
	return addrs
}

// Serve accepts and serves connections until Stop has ended, then returns nil,
// or Stop's error when its context ended first. It returns a non-nil error as
// soon as a loop died or hangs; the process cannot go on serving then, though
// Stop may still be called to close what can be closed.
func (s *Server) Serve() error {
	if err := s.start(); err != nil {
		return err
	}
	<-s.ended
	return s.endErr
}

// start brings everything up. On an error all of it is taken down again, the
// listeners included, and the server is finished.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case created:
		return ErrNotListening
	case serving:
		return ErrAlreadyListening
	case stopping:
		return nil // Serve waits for the end of Stop
	}
	if err := s.startLoops(); err != nil {
		closeListeners(s.listeners)
		s.phase = stopping
		s.stopping.Store(true)
		s.end(err)
		close(s.stopped)
		return err
	}
	s.phase = serving
	s.spare.fill()
	s.background.Go(s.collect)
	s.background.Go(s.checkLiveness)
	for _, ln := range s.listeners {
		s.accepting.Go(func() { s.acceptFrom(ln) })
	}
	return nil
}

func (s *Server) startLoops() (err error) {
	if s.watch, err = newWatcher(s.fail); err != nil {
		return err
	}
	s.client, err = gnet.NewClient(&events{srv: s}, gnet.WithNumEventLoop(s.cfg.Loops),
		gnet.WithLogger(reactorLog{s.log}))
	if err == nil {
		err = s.client.Start()
	}
	if err != nil {
		s.watch.close()
		return fmt.Errorf("netloop: starting the event loops: %w", err)
	}
	go s.watch.run()
	if err = s.enrolKeepers(); err != nil {
		s.stopping.Store(true)
		s.stopLoops()
		return err
	}
	for _, r := range s.reactors { // for what was rung before
		if err := r.execute(); err != nil {
			s.fail(err)
		}
	}
	return nil
}

// fail ends Serve with err: a loop is lost. The first error counts.
func (s *Server) fail(err error) {
	if s.stopping.Load() || !s.end(err) {
		return
	}
	s.log.Error("event loop lost", "error", err)
	close(s.dead)
}

// end lets Serve return err; false when it already has a reason to return.
func (s *Server) end(err error) bool {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.isEnded {
		return false
	}
	s.isEnded, s.endErr = true, err
	close(s.ended)
	return true
}

// StopAccepting closes the listeners for good (R460). Connections that the
// kernel holds but nobody accepted are reset by it; established ones stay.
func (s *Server) StopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeListeners(s.listeners)
}

// Stop stops accepting, closes the connections that remain, with OnClose for
// each, and ends the loops. It returns nil when nothing is left. When ctx ends
// first, because a handler blocks its loop, it returns ctx's error; what is
// left then ends when the handler returns. A second call waits for the first.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	was := s.phase
	s.phase = stopping
	s.mu.Unlock()
	if was != stopping {
		s.stopping.Store(true)
		close(s.quit)
		for _, r := range s.reactors {
			r.loop.SetStopping()
		}
		s.StopAccepting()
		go s.shutdown(was == serving)
	}
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		s.end(ctx.Err())
		return ctx.Err()
	}
}

// shutdown takes everything down, in the order in which things feed each
// other.
func (s *Server) shutdown(served bool) {
	if served {
		s.accepting.Wait()
		close(s.enrolling) // enrolments end while the loops still run
		s.background.Wait()
		s.lingers.stop()
		s.stopLoops()
		s.spare.empty()
	}
	s.end(nil)
	close(s.stopped)
}

// stopLoops ends the event loops, which closes their connections, then what
// the connections used.
func (s *Server) stopLoops() {
	s.bell.Lock()
	s.bellShut = true
	s.bell.Unlock()
	_ = s.client.Stop() // the error of a dead loop was told by fail
	s.watch.stop()
	for _, k := range s.keepers {
		closeDescriptor(k.peer)
	}
}
