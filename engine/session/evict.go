package session

import "github.com/sluice-relay/sluice/engine/stream"

// trimRun is how many entries leave under one hold of a shard's lock: some
// tens of microseconds.
const trimRun = 256

// dropOldestLocked drops the least recently written session whole (R164) and
// leaves its name and its highest position in the record (R170). It needs
// evict.
func (b *Buffers) dropOldestLocked() {
	b.withOldestLocked(everySession, func(sh *shard, s *buffer) {
		delete(sh.sessions, s.name)
		for l := range sh.lists {
			sh.lists[l].remove(s)
		}
		b.countLocked(s.size(), size{})
		b.sessions.Add(-1)
		b.dropped.add(s.name, s.highest())
	})
}

// trimBytes brings the retained bytes back under their bound (R175): entries
// leave lowest position first from the session least recently written, until
// the bound is met with some slack.
func (b *Buffers) trimBytes() {
	b.evict.Lock()
	defer b.evict.Unlock()
	if b.bytes.Load() <= b.cfg.Bytes {
		return // another Put did it
	}
	target := b.cfg.Bytes - b.slackBytes
	for b.bytes.Load() > target && b.trimOldestLocked(target) {
	}
}

// trimOldestLocked trims a run of entries from the least recently written
// session that holds some, and tells whether there was one. It needs evict.
func (b *Buffers) trimOldestLocked(target int64) bool {
	return b.withOldestLocked(holdingSession, func(sh *shard, s *buffer) {
		before := s.size()
		spare := b.bytes.Load() - target
		for n := 0; n < trimRun && s.order.count > 0 && before.bytes-s.bytes < spare; n++ {
			s.trimFirst()
		}
		b.countLocked(before, s.size())
		if s.order.count == 0 {
			sh.lists[holdingSession].remove(s)
		}
	})
}

// withOldestLocked calls f with the least recently written session of a list,
// under the lock of its shard, and tells whether the list had any. It needs
// evict.
//
// The shards are looked at one after the other. A session's recency only grows
// and none is made while evict is held, so what was seen of a shard is a lower
// bound for it: the session that is first of its shard now, and not above any
// other shard's bound, is the oldest of all (B6). Otherwise it was written in
// between, and the search starts again. (A session which holds nothing may be
// filled meanwhile. For trimming it then counts as one that was filled after.)
func (b *Buffers) withOldestLocked(list int, f func(*shard, *buffer)) bool {
	for {
		oldest, bound := b.oldestShard(list)
		if oldest == nil {
			return false
		}
		if oldest.withFirst(list, bound, f) {
			return true
		}
	}
}

// oldestShard returns the shard with the least recently written session of a
// list, nil if there is none, and the lowest recency of the other shards.
func (b *Buffers) oldestShard(list int) (oldest *shard, bound stream.Pos) {
	least := ^stream.Pos(0)
	bound = least
	for i := range b.shards {
		sh := &b.shards[i]
		written, ok := sh.oldest(list)
		switch {
		case !ok:
		case written < least:
			oldest, least, bound = sh, written, least
		default:
			bound = min(bound, written)
		}
	}
	return oldest, bound
}

// oldest returns the recency of the least recently written session of a list.
func (sh *shard) oldest(list int) (written stream.Pos, ok bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.lists[list].first
	if s == nil {
		return 0, false
	}
	return s.written, true
}

// withFirst calls f with the first session of a list, under the shard's lock,
// if its recency is not above bound.
func (sh *shard) withFirst(list int, bound stream.Pos, f func(*shard, *buffer)) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.lists[list].first
	if s == nil || s.written > bound {
		return false
	}
	f(sh, s)
	return true
}
