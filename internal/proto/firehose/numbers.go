package firehose

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// MaxNumber is the highest sequence number (F15).
const MaxNumber = 1<<53 - 1

const (
	cleanWindow   = 10 * time.Minute // F26, F27
	freshWindow   = 10 * time.Minute // F26
	freshNumbers  = 10_000           // F26
	lostStateFrom = 1 << 40          // F26: cursors of a lost state are at least this
	floorPerMilli = 1024             // F26

	// A cursor of a lost state raises the numbers without a wait; reserving a
	// minute of floor at once bounds the records that strangers can cause.
	raiseAhead = 60 * 1000 * floorPerMilli
)

// Errors of the numbers.
var (
	ErrStopped   = errors.New("firehose: stopped")
	ErrExhausted = errors.New("firehose: no number below 2^53 is left")
	ErrState     = errors.New("firehose: stored numbers are out of range")
)

// State is the durable record of the numbers. The zero value is that of a
// state which has never issued one.
type State struct {
	Reserved int64 // all numbers up to it are taken

	// A clean stop, if Clean is set: L, E and when.
	Clean    bool
	Last     int64
	Outdated int64
	At       time.Time
}

// Marks keeps a State durably. Each method has synced when it returns nil, and
// has changed all or nothing. Calls do not overlap.
type Marks interface {
	Load() (State, error)
	Reserve(upTo int64) error
	EraseClean() error
	StoreClean(last, outdated int64, at time.Time) error
}

// FloorMode is where numbers start (F26).
type FloorMode uint8

// The modes. With FloorNumber the floor is NumbersConfig.Floor.
const (
	FloorAuto FloorMode = iota
	FloorClock
	FloorNumber
)

// NumbersConfig says how numbers are given. The zero value is the default.
type NumbersConfig struct {
	Mode  FloorMode
	Floor int64            // for FloorNumber, 1 to MaxNumber
	Block int64            // numbers per reservation; 0 is 65,536 (F25)
	Now   func() time.Time // nil is time.Now
}

// Numbers gives sequence numbers that never repeat over restarts (F25 to F28).
type Numbers struct {
	// Immutable after construction.
	marks   Marks
	cfg     NumbersConfig
	started time.Time
	resume  int64 // the L whose cursor is live (F27), or 0

	recorded int64 // what the last run had reserved: records never go back

	// Guarded by mu, which is never held during I/O.
	mu       sync.Mutex
	idle     sync.Cond // signalled when busy becomes false
	busy     bool      // a call of marks runs
	next     int64     // N
	durable  int64     // numbers up to it were recorded as taken in this run
	ahead    int64     // what to reserve up to at least, after a raise
	issued   int64
	unraised bool // small numbers in auto mode, to be raised to the floor
	clean    bool // a clean mark stands
	stopped  bool
}

// OpenNumbers reads the state and decides the next number. It writes nothing.
func OpenNumbers(marks Marks, cfg NumbersConfig) (*Numbers, error) {
	if cfg.Block == 0 {
		cfg.Block = 65536
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Block < 1 || cfg.Block > 1<<40 {
		return nil, fmt.Errorf("firehose: reserve of %d is not in 1 to 2^40", cfg.Block)
	}
	if cfg.Mode > FloorNumber || cfg.Mode == FloorNumber && (cfg.Floor < 1 || cfg.Floor > MaxNumber) {
		return nil, fmt.Errorf("firehose: floor %d of mode %d is out of range", cfg.Floor, cfg.Mode)
	}
	s, err := marks.Load()
	if err != nil {
		return nil, fmt.Errorf("firehose: load numbers: %w", err)
	}
	if s.Reserved < 0 || s.Reserved > MaxNumber || s.Clean && (s.Last < 0 || s.Last > MaxNumber) {
		return nil, fmt.Errorf("%w: reserved %d, last %d", ErrState, s.Reserved, s.Last)
	}
	n := &Numbers{marks: marks, cfg: cfg, started: cfg.Now(), clean: s.Clean, recorded: s.Reserved}
	n.idle.L = &n.mu
	n.decide(s)
	return n, nil
}

// decide sets the first number of this start (F26, F27).
func (n *Numbers) decide(s State) {
	taken := s.Reserved
	if s.Clean {
		taken = s.Last
	}
	age := n.started.Sub(s.At)
	recent := s.Clean && age >= 0 && age < cleanWindow
	if recent {
		n.resume = s.Last
	}
	n.next = taken + 1
	switch {
	case n.cfg.Mode != FloorAuto:
		n.next = max(n.next, n.floor())
	case taken == 0, recent && taken < lostStateFrom:
		n.unraised = true // small numbers of a run before are no reason to stay small
	case !recent:
		n.next = max(n.next, n.floor())
	}
}

// floor returns the least number of a start (F26).
func (n *Numbers) floor() int64 {
	if n.cfg.Mode == FloorNumber {
		return n.cfg.Floor
	}
	return min(max(n.cfg.Now().UnixMilli(), 0), MaxNumber/floorPerMilli) * floorPerMilli
}

// Start returns L, which every cursor up to now may have missed, and the
// cursor that has missed nothing (F27), or 0.
func (n *Numbers) Start() (last, resume int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next - 1, n.resume
}

// Use calls publish with the next number, once the number's record is durable,
// and takes the number if publish succeeds (N1, N2). It waits for the disk only
// when the block reserved ahead is used up. publish must not block.
func (n *Numbers) Use(publish func(seq int64) error) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if n.stopped {
			return 0, ErrStopped
		}
		n.raiseFreshLocked()
		if n.next > MaxNumber {
			return 0, ErrExhausted
		}
		if n.next <= n.durable && !n.clean {
			break
		}
		if n.busy {
			n.idle.Wait()
			continue
		}
		if err := n.reserveLocked(); err != nil {
			return 0, err
		}
	}
	seq := n.next
	if err := publish(seq); err != nil {
		return 0, err
	}
	n.next++
	n.issued++
	n.reserveAheadLocked()
	return seq, nil
}

// raiseFreshLocked ends the small numbers of a fresh state (F26).
func (n *Numbers) raiseFreshLocked() {
	if n.unraised && (n.issued >= freshNumbers || n.cfg.Now().Sub(n.started) >= freshWindow) {
		n.unraised = false
		n.next = max(n.next, n.floor())
	}
}

// Raise answers a cursor above L. If it is of a state that was lost, the
// numbers rise above it, skip is called with the new L, and Raise reports true
// (F26). It does no I/O; skip must not block.
func (n *Numbers) Raise(cursor int64, skip func(last int64)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cfg.Mode == FloorNumber || cursor < lostStateFrom || n.stopped {
		return false
	}
	floor := n.floor()
	if cursor < n.next || cursor > floor || cursor > MaxNumber-2 {
		return false
	}
	n.unraised = false
	n.next = max(floor, cursor+2) // so that the cursor is below L
	n.ahead = min(n.next+raiseAhead, MaxNumber)
	skip(n.next - 1)
	n.reserveAheadLocked()
	return true
}

// reserveAheadLocked reserves in the background when half of a block is left.
// A failure is met again by the publisher that needs the number.
func (n *Numbers) reserveAheadLocked() {
	if n.busy || n.stopped || n.next > MaxNumber || n.durable == MaxNumber ||
		!n.clean && n.durable-n.next+1 > n.cfg.Block/2 {
		return
	}
	n.busy = true
	go func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.busy = false
		if n.stopped {
			n.idle.Broadcast()
			return
		}
		_ = n.reserveLocked()
	}()
}

// reserveLocked erases a clean mark and records the next block as taken. It
// lets go of mu during both.
func (n *Numbers) reserveLocked() error {
	upTo := min(max(n.next-1, n.durable, n.ahead-n.cfg.Block)+n.cfg.Block, MaxNumber)
	upTo = max(upTo, n.recorded) // after a clean stop it may be higher
	clean := n.clean
	n.busy = true
	n.mu.Unlock()
	var err error
	if clean {
		err = n.marks.EraseClean()
	}
	erased := clean && err == nil
	if err == nil {
		err = n.marks.Reserve(upTo)
	}
	n.mu.Lock()
	n.busy = false
	n.idle.Broadcast()
	if erased {
		n.clean = false
	}
	if err != nil {
		return fmt.Errorf("firehose: reserve numbers: %w", err)
	}
	n.durable = max(n.durable, upTo)
	return nil
}

// Stop ends the giving of numbers, waits for a reservation under way, and
// stores the clean mark with E if clean is set (F25, F48). A second call does
// nothing.
func (n *Numbers) Stop(outdated int64, clean bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil
	}
	n.stopped = true
	for n.busy {
		n.idle.Wait()
	}
	last := n.next - 1
	if !clean {
		return nil
	}
	n.busy = true
	n.mu.Unlock()
	err := n.marks.StoreClean(last, outdated, n.cfg.Now())
	n.mu.Lock()
	n.busy = false
	n.idle.Broadcast()
	if err != nil {
		return fmt.Errorf("firehose: store the clean stop: %w", err)
	}
	return nil
}
