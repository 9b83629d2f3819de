package session

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-relay/sluice/engine/stream"
)

// Shards is the number of shards that the sessions are spread over by name.
// 64 keeps two writers of different sessions apart 63 times in 64.
const Shards = 64

// SlotBytes is what a buffer keeps per held entry on top of the entry: its
// slot and its key in the dedupe set. Measured 53 bytes in a full buffer of
// 10,000 filled in order, 66 in one filled at random, 76 in buffers of 100
// (BenchmarkRetained).
const SlotBytes = 64

// maxSlackBytes bounds how far one pass over the byte bound trims below it.
// It amortises finding the least recently written session over some dozens of
// entries, and keeps one pass short.
const maxSlackBytes = 64 << 10

// Key is the opaque identity of an event within its session. Equal keys are
// the same event. The protocol makes it a hash with a random seed: the dedupe
// set uses its bits as they are.
type Key [16]byte

// Config bounds the buffers.
type Config struct {
	// EventsPerSession is how many entries a session holds at most (R163).
	// Zero holds nothing; floors are kept all the same.
	EventsPerSession int
	// Sessions is how many sessions there are at most (R164), at least one.
	// As many names of dropped sessions are remembered (R170).
	Sessions int
	// Bytes bounds what all buffers retain together (R175), each entry counted
	// as its SizeBytes plus SlotBytes. Zero is no bound.
	Bytes int64
}

// Buffers holds the session buffers of one log. All methods may be called by
// any goroutine.
type Buffers struct {
	// Immutable after construction.
	cfg        Config
	slackBytes int64
	log        *stream.Log
	seed       maphash.Seed

	// Held while a session is made or dropped and while bytes are trimmed. It
	// is taken with no shard lock held.
	evict sync.Mutex

	shards  [Shards]shard
	dropped record

	// Atomic. Changed under the shard lock of the entry they count.
	sessions atomic.Int64
	events   atomic.Int64
	bytes    atomic.Int64
}

// shard holds the sessions whose names hash to it.
type shard struct {
	mu sync.Mutex

	// Guarded by mu.
	sessions map[string]*buffer
	lists    [lists]recency

	_ [64]byte // neighbours are locked by other cores
}

// New returns buffers that append what is put into them to log. A negative
// bound is taken as zero, fewer than one session as one.
func New(cfg Config, log *stream.Log) *Buffers {
	cfg.EventsPerSession = max(cfg.EventsPerSession, 0)
	cfg.Sessions = max(cfg.Sessions, 1)
	cfg.Bytes = max(cfg.Bytes, 0)
	b := &Buffers{
		cfg:        cfg,
		slackBytes: min(cfg.Bytes/64, maxSlackBytes),
		log:        log,
		seed:       maphash.MakeSeed(),
	}
	for i := range b.shards {
		sh := &b.shards[i]
		sh.sessions = make(map[string]*buffer)
		for l := range sh.lists {
			sh.lists[l].list = l
		}
	}
	b.dropped.init(cfg.Sessions)
	return b
}

// Put is the step between admit and append. In one step against every reader
// (B1) it refreshes its session's recency, inserts e unless key is already held
// there (R161) and appends e to the log in either case (R190). It tells whether
// e was inserted: false for a duplicate, for an entry that would be the lowest
// of a full buffer (R163), and when buffers hold nothing.
//
// A session that is new may cost the least recently written one its place
// (R164). Over the byte bound the lowest entries of the least recently written
// sessions leave (R175) before Put returns, which in the last resort may be e.
//
// e.Session and e.Sequence must be set and e not yet appended. Any goroutine.
func (b *Buffers) Put(e *stream.Entry, key Key) (buffered bool) {
	sh := b.shard(e.Session)
	buffered, ok := b.putHeld(sh, e, key)
	if !ok {
		buffered = b.putNew(sh, e, key)
	}
	if b.cfg.Bytes > 0 && b.bytes.Load() > b.cfg.Bytes {
		b.trimBytes()
	}
	return buffered
}

// Sessions returns how many sessions there are. Any goroutine.
func (b *Buffers) Sessions() int { return int(b.sessions.Load()) }

// Events returns how many entries are held. Any goroutine.
func (b *Buffers) Events() int64 { return b.events.Load() }

// Bytes returns what the held entries count against Config.Bytes. Any
// goroutine.
func (b *Buffers) Bytes() int64 { return b.bytes.Load() }

func (b *Buffers) shard(session string) *shard {
	return &b.shards[maphash.String(b.seed, session)%Shards]
}

// putHeld puts e into its session, if there is one.
func (b *Buffers) putHeld(sh *shard, e *stream.Entry, key Key) (buffered, ok bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.sessions[e.Session]
	if s == nil {
		return false, false
	}
	return b.putLocked(sh, s, e, key), true
}

// putNew puts e into a session that was not there a moment ago. The room for
// it is made first: evict is held throughout, so that nobody else takes it and
// a Put to the session which has to go comes after this one.
func (b *Buffers) putNew(sh *shard, e *stream.Entry, key Key) (buffered bool) {
	b.evict.Lock()
	defer b.evict.Unlock()
	if buffered, ok := b.putHeld(sh, e, key); ok {
		return buffered
	}
	name := strings.Clone(e.Session) // not the bytes that the event came in
	s := newBuffer(name, e.Sequence)
	s.prior, s.hasPrior = b.dropped.look(name) // the drop may push it out
	for b.Sessions() >= b.cfg.Sessions {
		b.dropOldestLocked()
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b.dropped.forget(name)
	sh.sessions[name] = s
	sh.lists[everySession].pushBack(s)
	b.sessions.Add(1)
	buffered = b.putLocked(sh, s, e, key)
	s.created = e.Pos()
	return buffered
}

// putLocked needs sh.mu. The append comes first, because order and recency
// need the position.
func (b *Buffers) putLocked(sh *shard, s *buffer, e *stream.Entry, key Key) (buffered bool) {
	s.written = b.log.Append(e)
	before := s.size()
	buffered = s.put(e, key, b.cfg.EventsPerSession)
	b.countLocked(before, s.size())
	sh.refreshLocked(s)
	return buffered
}

// countLocked accounts for a buffer's change from before to after. It needs
// the lock of the buffer's shard.
func (b *Buffers) countLocked(before, after size) {
	if d := after.events - before.events; d != 0 {
		b.events.Add(int64(d))
	}
	if d := after.bytes - before.bytes; d != 0 {
		b.bytes.Add(d)
	}
}

// refreshLocked makes s the most recently written session. It needs sh.mu.
func (sh *shard) refreshLocked(s *buffer) {
	sh.lists[everySession].moveToBack(s)
	holding := &sh.lists[holdingSession]
	switch {
	case s.links[holdingSession].listed:
		holding.moveToBack(s)
	case s.order.count > 0:
		holding.pushBack(s)
	}
}
