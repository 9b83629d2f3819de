package aep

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const claimShards = 64

// claims says which sockets claim a session (R141 to R147): one lock-sharded
// map keyed by session. Any goroutine.
type claims struct {
	seed   maphash.Seed
	once   sync.Once
	shards [claimShards]claimShard
	count  atomic.Int64
}

type claimShard struct {
	mu sync.Mutex
	// Guarded by mu.
	sessions map[string][]*socket
}

func (c *claims) shard(session string) *claimShard {
	c.once.Do(func() { c.seed = maphash.MakeSeed() })
	return &c.shards[maphash.String(c.seed, session)%claimShards]
}

// add makes a claim.
func (c *claims) add(session string, k *socket) {
	sh := c.shard(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.sessions == nil {
		sh.sessions = make(map[string][]*socket)
	}
	sh.sessions[session] = append(sh.sessions[session], k)
	c.count.Add(1)
}

// remove releases a claim.
func (c *claims) remove(session string, k *socket) {
	sh := c.shard(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	list := sh.sessions[session]
	for i, other := range list {
		if other == k {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			c.count.Add(-1)
			break
		}
	}
	if len(list) == 0 {
		delete(sh.sessions, session)
	} else {
		sh.sessions[session] = list
	}
}

// target returns the only claimant of a session, and how many there are (R391,
// R392). Its cost does not grow with the number of connections (R401).
func (c *claims) target(session string) (k *socket, count int) {
	sh := c.shard(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	list := sh.sessions[session]
	if len(list) == 1 {
		return list[0], 1
	}
	return nil, len(list)
}

// each calls f for every claim until it returns false. f must not use the
// claims.
func (c *claims) each(f func(session string, k *socket) bool) {
	for i := range c.shards {
		if !c.shards[i].each(f) {
			return
		}
	}
}

func (sh *claimShard) each(f func(session string, k *socket) bool) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for session, list := range sh.sessions {
		for _, k := range list {
			if !f(session, k) {
				return false
			}
		}
	}
	return true
}

// bySocket returns the sessions that each socket claims.
func (c *claims) bySocket() map[*socket][]string {
	all := make(map[*socket][]string)
	c.each(func(session string, k *socket) bool {
		all[k] = append(all[k], session)
		return true
	})
	return all
}

// registry lists the sockets that finished hello. Any goroutine.
type registry struct {
	mu sync.Mutex
	// Guarded by mu: a list, linked by the sockets' prev and next.
	first *socket
	count int
}

// add lists a socket that is not listed.
func (r *registry) add(k *socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.next = r.first; k.next != nil {
		k.next.prev = k
	}
	r.first = k
	r.count++
}

// remove takes a socket off the list. One that is not listed is left alone.
func (r *registry) remove(k *socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case k.prev != nil:
		k.prev.next = k.next
	case r.first == k:
		r.first = k.next
	default:
		return
	}
	if k.next != nil {
		k.next.prev = k.prev
	}
	k.prev, k.next = nil, nil
	r.count--
}

func (r *registry) greeted() []*socket {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*socket, 0, r.count)
	for k := r.first; k != nil; k = k.next {
		list = append(list, k)
	}
	return list
}
