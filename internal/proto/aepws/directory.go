package aepws

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const directoryShards = 64

// sessionKey names a session. The same id under another tenant is another
// session.
type sessionKey struct{ tenant, id string }

// holder is the connection that has a session, and with which credential.
type holder[C comparable] struct {
	conn       C
	credential credential
}

// directory knows which connection holds which session (B44). C tells
// connections apart for as long as they are in it. Any goroutine; not to be
// copied.
type directory[C comparable] struct {
	// Immutable after construction.
	seed  maphash.Seed
	limit int64

	// Atomic.
	count atomic.Int64 // of all shards: at most limit

	shards [directoryShards]directoryShard[C]
}

type directoryShard[C comparable] struct {
	mu sync.Mutex
	// Guarded by mu.
	sessions map[sessionKey]holder[C]
}

// newDirectory returns an empty directory for at most limit sessions.
func newDirectory[C comparable](limit int) *directory[C] {
	return &directory[C]{seed: maphash.MakeSeed(), limit: int64(limit)}
}

func (d *directory[C]) shard(key sessionKey) *directoryShard[C] {
	return &d.shards[maphash.Comparable(d.seed, key)%directoryShards]
}

// open gives a session to conn, unless a connection with another credential
// holds it or the directory is full: then nothing changes. With
// verdictReplaced, old is the connection that held it and has to be told, on its
// own loop; that may be conn itself, which keeps it. Any goroutine.
func (d *directory[C]) open(key sessionKey, c credential, conn C) (old C, v verdict) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if h, ok := sh.sessions[key]; ok {
		if h.credential != c {
			return old, verdictTaken
		}
		sh.sessions[key] = holder[C]{conn, c}
		return h.conn, verdictReplaced
	}
	if !d.seat() {
		return old, verdictFull
	}
	if sh.sessions == nil {
		sh.sessions = make(map[sessionKey]holder[C])
	}
	sh.sessions[key] = holder[C]{conn, c}
	return old, verdictOpened
}

// seat counts one more, unless the directory is full. It never counts too many
// for a moment, so nobody is refused for another's sake.
func (d *directory[C]) seat() bool {
	for {
		n := d.count.Load()
		if n >= d.limit {
			return false
		}
		if d.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// close gives a session up if conn holds it, and tells whether it did: one that
// was replaced has nothing to give up. Any goroutine.
func (d *directory[C]) close(key sessionKey, conn C) bool {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if h, ok := sh.sessions[key]; !ok || h.conn != conn {
		return false
	}
	delete(sh.sessions, key)
	d.count.Add(-1)
	return true
}

// holder returns the connection that holds a session. Any goroutine.
func (d *directory[C]) holder(key sessionKey) (conn C, ok bool) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	h, ok := sh.sessions[key]
	return h.conn, ok
}

// size returns how many sessions are held. Any goroutine.
func (d *directory[C]) size() int { return int(d.count.Load()) }
