package firehose

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/stream"
)

// Kinds of message frames, as the ring stores them.
const (
	KindCommit uint8 = iota
	KindSync
	KindIdentity
	KindAccount
)

// Errors of the producer. A call that returns one has published nothing.
var (
	ErrPhase       = errors.New("firehose: wrong phase")
	ErrKind        = errors.New("firehose: body is of another kind")
	ErrFrameTooBig = errors.New("firehose: frame is too big, use #sync")
	ErrHeldFull    = errors.New("firehose: held commits have reached the ring's byte bound")
	ErrLogBehind   = errors.New("firehose: the synced log is behind a commit held before")
)

// Body is a message that has no number yet. Once handed over it must not
// change until it is published or refused.
type Body interface {
	// Kind is one of the Kind constants.
	Kind() uint8
	// Check reports a breach of F14. It is asked once, when handed over.
	Check() error
	// SizeBytes is at least the length of what Append appends.
	SizeBytes() int
	// Append appends header and body with the number seq (F9). After a Check
	// without fault it does not fail.
	Append(dst []byte, seq int64) ([]byte, error)
}

// Phase is where a producer is in its life (F39). It only grows.
type Phase uint32

// The phases.
const (
	PhaseNew Phase = iota
	PhaseBooting
	PhaseListening
	PhaseStopped
)

// Config is what a Producer works with.
type Config struct {
	Ring    *stream.Ring
	Numbers *Numbers

	// SyncLog syncs the producer's log and returns the position through which
	// it is synced (F44). Nil when the log is always synced before a frame is
	// handed over. Calls do not overlap.
	SyncLog func() (position uint64, err error)

	SyncInterval  time.Duration // 0 is 100 ms (F45)
	HeldBytes     int64         // bound of held commits; 0 is 128 MiB (F46)
	MaxFrameBytes int           // 0 is 5,000,000 (F17)

	// Published is called after frames were published, to wake the loops. It
	// must not block or call the producer. May be nil.
	Published func()
	// Failed is told of what no caller is told: failed syncs and reservations
	// in the background, dropped commits. Same limits. May be nil.
	Failed func(error)

	// After is time.After when nil.
	After func(time.Duration) <-chan time.Time
}

// Producer takes the frames of a producer in the same program in order, holds
// commits until the log is synced, and numbers and publishes (F39 to F51).
//
// All that is handed over goes through one queue. Its front leaves when it is
// ready: a commit when the log is synced through its position, anything else
// when a sync succeeded that began after it entered. So no lock is held while
// the log syncs, and the order is that of entry. A reservation of numbers that
// does not come ahead of need holds up all publishers (F28).
type Producer struct {
	// Immutable after construction.
	cfg     Config
	wake    chan struct{} // something is held
	closing chan struct{}
	done    chan struct{}

	// Held while SyncLog runs, so that calls of it do not overlap.
	syncMu sync.Mutex

	// Guarded by mu.
	mu        sync.Mutex
	queue     []*entered
	heldBytes int64
	synced    uint64 // log position
	lastEntry uint64 // number of the last that entered the queue
	fatal     error  // the boot passed its bound (F40)

	// Atomic, written under mu.
	phase atomic.Uint32
}

// entered is one body in the queue.
type entered struct {
	// Immutable after entry.
	body     Body
	number   uint64 // order of entry
	position uint64 // log position of a held commit
	waits    bool   // a call waits for it: it is not a held commit

	needsSync bool // of one that waits: the log has to be synced for it (F44)

	// Guarded by the producer's mu.
	ready bool // of one that waits
	over  bool
	seq   int64
	err   error
}

// NewProducer returns a producer in PhaseNew and sets the ring's numbers.
func NewProducer(cfg Config) *Producer {
	if cfg.SyncInterval <= 0 {
		cfg.SyncInterval = 100 * time.Millisecond
	}
	if cfg.HeldBytes <= 0 {
		cfg.HeldBytes = 128 << 20
	}
	if cfg.MaxFrameBytes <= 0 {
		cfg.MaxFrameBytes = 5_000_000
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	if cfg.Published == nil {
		cfg.Published = func() {}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(error) {}
	}
	cfg.Ring.Start(cfg.Numbers.Start())
	p := &Producer{cfg: cfg, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	go p.background()
	return p
}

// Phase returns where the producer is. Any goroutine; it takes no lock.
func (p *Producer) Phase() Phase { return Phase(p.phase.Load()) }

// Booting begins the boot phase (F40).
func (p *Producer) Booting() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Phase() != PhaseNew {
		return ErrPhase
	}
	p.phase.Store(uint32(PhaseBooting))
	return nil
}

// Listening publishes what is held, after a last sync, and ends the boot phase
// (F39, F41). If the sync or the numbers fail it returns their error and the
// phase stays.
func (p *Producer) Listening() error {
	if p.Phase() != PhaseBooting {
		return ErrPhase
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Phase() != PhaseBooting {
		return ErrPhase
	}
	if p.fatal != nil {
		return p.fatal
	}
	if err := p.cfg.Ring.Listening(); err != nil {
		return err
	}
	p.phase.Store(uint32(PhaseListening))
	return nil
}

// Join answers a cursor for a stream of the pin's loop, which calls it (F19 to
// F23, F35). A cursor of a lost state raises the numbers (F26). It returns
// ErrPhase unless the producer is listening (F2).
func (p *Producer) Join(pin *stream.Pin, cursor int64) (stream.Pos, stream.Answer, error) {
	if p.Phase() != PhaseListening {
		return 0, stream.Future, ErrPhase
	}
	pos, answer := pin.Join(cursor)
	if answer == stream.Future {
		p.cfg.Numbers.Raise(cursor, p.cfg.Ring.Skip)
		pos, answer = pin.Join(cursor)
	}
	return pos, answer, nil
}

// Commit hands over a commit whose write the log holds at position. It is
// published when the log is synced through it (F43). An error means that it
// was not taken; what goes wrong later keeps it held and goes to Failed.
func (p *Producer) Commit(body Body, position uint64) error {
	if err := p.check(body, KindCommit); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.openLocked(); err != nil {
		return err
	}
	size := int64(body.SizeBytes())
	if p.heldBytes+size > p.cfg.HeldBytes {
		return ErrHeldFull
	}
	p.heldBytes += size
	p.enterLocked(&entered{body: body, position: position})
	if err := p.releaseLocked(); err != nil {
		p.cfg.Failed(err)
	}
	if len(p.queue) > 0 {
		p.wakeBackground()
	}
	return p.fatal
}

// Sync, Identity and Account sync the log, publish the commits held before
// them, then themselves, and return the number (F44).
func (p *Producer) Sync(body Body) (int64, error) { return p.publish(body, KindSync, true) }

// Identity is as Sync.
func (p *Producer) Identity(body Body) (int64, error) { return p.publish(body, KindIdentity, true) }

// Account is as Sync.
func (p *Producer) Account(body Body) (int64, error) { return p.publish(body, KindAccount, true) }

// Publish publishes a body of any kind whose log the caller has synced (F52,
// F61). The log is synced only if commits are held before it.
func (p *Producer) Publish(body Body) (int64, error) { return p.publish(body, body.Kind(), false) }

// LogSynced tells that the log is synced through position, and publishes what
// was held for that.
func (p *Producer) LogSynced(position uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = max(p.synced, position)
	if p.Phase() == PhaseStopped {
		return
	}
	if err := p.releaseLocked(); err != nil {
		p.cfg.Failed(err)
	}
}

// Held returns how many commits are held and their bytes. Any goroutine.
func (p *Producer) Held() (commits int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.queue {
		if !e.waits {
			commits++
		}
	}
	return commits, p.heldBytes
}

// check looks at a body before it enters.
func (p *Producer) check(body Body, kind uint8) error {
	if body.Kind() != kind || kind > KindAccount {
		return fmt.Errorf("%w: %d", ErrKind, body.Kind())
	}
	if size := body.SizeBytes(); size > p.cfg.MaxFrameBytes {
		return fmt.Errorf("%w: %d bytes", ErrFrameTooBig, size)
	}
	return body.Check()
}

// openLocked reports why nothing can be handed over.
func (p *Producer) openLocked() error {
	if phase := p.Phase(); phase != PhaseBooting && phase != PhaseListening {
		return ErrPhase
	}
	return p.fatal
}

// encode returns the WebSocket frame of a body in one allocation (F18).
func encode(body Body, seq int64) ([]byte, error) {
	const room = 10 // the longest header of an unmasked frame (RFC 6455, 5.2)
	frame := make([]byte, room, room+body.SizeBytes())
	frame, err := body.Append(frame, seq)
	if err != nil {
		return nil, err
	}
	payload := len(frame) - room
	start := room - wsframe.HeaderLen(payload)
	wsframe.AppendHeader(frame[start:start], wsframe.OpBinary, payload)
	return frame[start:], nil
}
