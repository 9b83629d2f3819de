package upstream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

const stripeCount = 256

// phase is where a Manager is in its life. It only grows.
type phase uint8

const (
	phaseNew phase = iota
	phaseRunning
	phaseStopped
)

// Manager reads other hosts' streams into the producer.
//
// Two hosts may carry one repository, so a look at its state, the publishing
// and the note of the new state are one step under a lock that is chosen by the
// DID (U2). The lock is let go between two tries to publish, so that a takedown
// gets through while numbers cannot be recorded.
type Manager struct {
	// Immutable after construction.
	cfg     Config
	listed  []listedHost
	client  *http.Client
	ping    time.Duration // between pings
	answer  time.Duration // for the answer to one
	seed    maphash.Seed
	closing chan struct{} // closed by Stop
	done    chan struct{} // closed when the state is no longer written by the ticker

	// Held by what an operator asks for, Start and the first part of Stop.
	admin sync.Mutex

	// Held by DID, around the look, the publishing and the note.
	stripes [stripeCount]sync.Mutex

	// Held while the store is written, so that writes do not overlap and rows of
	// hosts and pending change only beside them.
	writing sync.Mutex

	// Guarded by mu, which is never held during I/O.
	mu    sync.Mutex
	phase phase
	hosts map[string]*host // by name
	byID  map[int64]*host
	repos cache

	graceEnd time.Time
	pending  state.Batch // noted, to be written at the next tick (U3)

	storeFailing          bool // to log changes alone
	writes, writeFailures int64
	waits                 int64 // readers that met the bound of U4

	// Atomic.
	publishFailing  atomic.Bool // to log changes alone
	publishFailures atomic.Int64
}

type listedHost struct {
	name  string
	noSSL bool
}

// New checks the settings. It does no I/O; the errors are ErrConfig and
// ErrBadHostname.
func New(cfg Config) (*Manager, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, ping: pingInterval, answer: answerTimeout, seed: maphash.MakeSeed(),
		closing: make(chan struct{}), done: make(chan struct{}),
		hosts: map[string]*host{}, byID: map[int64]*host{},
		repos: newCache(cfg.RepoCount, cfg.DirtyCount),
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
				TLSHandshakeTimeout: dialTimeout,
				DisableKeepAlives:   true, // a refused upgrade leaves nothing open
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, text := range cfg.Upstreams {
		name, noSSL, err := ParseUpstream(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(m.listed, func(l listedHost) bool { return l.name == name }) {
			return nil, fmt.Errorf("%w: upstream %s is named twice", ErrConfig, name)
		}
		m.listed = append(m.listed, listedHost{name, noSSL})
	}
	if len(m.listed) > maxHostCount {
		return nil, fmt.Errorf("%w: %w: %d", ErrConfig, ErrTooManyHosts, len(m.listed))
	}
	return m, nil
}

// Start reads the rows of the hosts, makes those of new upstreams, and connects
// all upstreams and all hosts that were active, or offline (F54, F55). Frames
// are published from now on. After an error nothing runs, and Start may be
// called again.
func (m *Manager) Start() error {
	m.admin.Lock()
	defer m.admin.Unlock()
	if m.phaseNow() != phaseNew {
		return ErrState
	}
	rows, err := m.cfg.Store.Hosts()
	if err != nil {
		return fmt.Errorf("upstream: reading hosts: %w", err)
	}
	m.mu.Lock()
	for _, row := range rows {
		m.addLocked(newHost(m, row))
	}
	m.mu.Unlock()
	for _, l := range m.listed {
		if err := m.list(l); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase, m.graceEnd = phaseRunning, m.cfg.Now().Add(m.cfg.Grace)
	for _, h := range m.hosts {
		if h.row.Status == state.Offline { // F55: until a restart
			h.row.Status, h.unsaved = state.Active, true
		}
		if h.row.Status == state.Active {
			m.runLocked(h)
		}
	}
	go m.persist()
	return nil
}

// list sees to the row of a host that the operator lists.
func (m *Manager) list(l listedHost) error {
	m.mu.Lock()
	h := m.hosts[l.name]
	m.mu.Unlock()
	if h == nil {
		h = newHost(m, state.Host{Hostname: l.name, LastSeq: state.NoSeq, CreatedAt: m.cfg.Now()})
	}
	h.listed = true // nothing runs yet
	was := h.row
	if was.ID != 0 && was.Status == state.Active && was.NoSSL == l.noSSL {
		return nil
	}
	if was.Status == state.Banned || was.Status == state.Idle {
		m.cfg.Log.Warn("upstream is connected because it is listed", "host", l.name, "status", was.Status)
	}
	return m.storeHost(h, func(row *state.Host) { row.Status, row.NoSSL = state.Active, l.noSSL })
}

// addLocked makes a host known.
func (m *Manager) addLocked(h *host) {
	m.hosts[h.name] = h
	if h.row.ID != 0 {
		m.byID[h.row.ID] = h
	}
}

// runLocked starts the goroutine of a host.
func (m *Manager) runLocked(h *host) {
	ctx, cancel := context.WithCancel(context.Background())
	before := h.life
	h.life, h.running = &life{cancel: cancel, done: make(chan struct{})}, true
	go h.run(ctx, h.life, before)
}

// phaseNow returns the phase.
func (m *Manager) phaseNow() phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.phase
}

// stripe returns the lock of a DID.
func (m *Manager) stripe(did []byte) *sync.Mutex {
	return &m.stripes[maphash.Bytes(m.seed, did)%stripeCount]
}

// wait waits for d, and reports false when ctx ends before.
func (m *Manager) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-m.cfg.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// doubled returns first, doubled n times, up to last.
func doubled(first, last time.Duration, n int) time.Duration {
	d := first
	for ; n > 0 && d < last; n-- {
		d *= 2
	}
	return min(d, last)
}

// Stop ends all connections, waits until the frames under way are published or
// given up, and writes the state at once (F63). When ctx ends before that, the
// state is written without the frames that still wait to be published, or not
// at all if a write hangs. It returns what kept the state from being stored
// completely. A second call returns ErrState.
func (m *Manager) Stop(ctx context.Context) error {
	m.admin.Lock()
	m.mu.Lock()
	before := m.phase
	m.phase = phaseStopped
	var lives []*life
	for _, h := range m.hosts {
		if h.life != nil {
			h.life.cancel()
			lives = append(lives, h.life)
		}
		h.running = false
	}
	m.mu.Unlock()
	m.admin.Unlock()
	if before != phaseRunning {
		return ErrState
	}
	close(m.closing)
	var faults []error
	for _, l := range lives {
		select {
		case <-l.done:
			continue
		case <-ctx.Done():
		}
		select { // both may be ready
		case <-l.done:
			continue
		default:
		}
		faults = append(faults, fmt.Errorf("upstream: a frame is still being published: %w", ctx.Err()))
		break
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		select {
		case <-m.done:
		default:
			return errors.Join(append(faults, fmt.Errorf("upstream: state is still being written: %w", ctx.Err()))...)
		}
	}
	m.client.CloseIdleConnections()
	return errors.Join(append(faults, m.writeAll())...)
}
