package limit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	// MaxRate bounds events per second: from here on the rounding of an
	// event's time to nanoseconds would be more than 1 %.
	MaxRate = 10_000_000
	// MaxBurst bounds a bucket: the default of twice the largest rate.
	MaxBurst = 2 * MaxRate

	// shardCount locks keep the loops of a large machine apart. Together the
	// shards hold at most 65,536 buckets, which is about 6 MiB (T1).
	shardCount   = 16
	shardBuckets = 65_536 / shardCount

	// spanBound keeps sums of three spans within 63 bits: 73 years.
	spanBound = time.Duration(1) << 61
)

// Rate is a token bucket for each address: burst events at once, and rate
// events per second from then on. A nil Rate allows everything. Any
// goroutine.
//
// A bucket is one number: the time at which it is full again. It holds
// burst - (full-now) * rate events.
type Rate struct {
	// immutable after construction
	start    time.Time
	perEvent float64       // nanoseconds in which a bucket gains one event
	refill   time.Duration // in which an empty bucket becomes full
	seed     maphash.Seed

	shards [shardCount]shard
}

// NewRate returns buckets of burst events that gain rate events per second,
// at most MaxRate and MaxBurst; less than one for burst is one. No limit, that
// is rate <= 0, is nil. start is now, by the clock that [Rate.Allow] is
// called with.
func NewRate(rate, burst int, start time.Time) *Rate {
	return newRate(rate, burst, start, shardBuckets)
}

// newRate is NewRate with a bound on the buckets of a shard.
func newRate(rate, burst int, start time.Time, buckets int) *Rate {
	if rate <= 0 {
		return nil
	}
	r := &Rate{
		start:    start,
		perEvent: float64(time.Second) / float64(min(rate, MaxRate)),
		seed:     maphash.MakeSeed(),
	}
	r.refill = r.cost(min(max(burst, 1), MaxBurst))
	for i := range r.shards {
		r.shards[i].init(buckets)
	}
	return r
}

// cost returns the time in which a bucket gains n events, n >= 1. It is
// rounded down, so that burst events one by one fit into a bucket.
func (r *Rate) cost(n int) time.Duration {
	ns := float64(n) * r.perEvent
	if ns >= float64(spanBound) {
		return spanBound
	}
	return time.Duration(ns)
}

// Allow takes n events out of the bucket of an address and returns true, or
// takes nothing and returns false and how long it is until the same call
// would be allowed, if no other is before. A full bucket grants any n and
// then owes what it did not have, so that no batch is impossible (T2). For n
// <= 0 and for an invalid address there is nothing to limit. now is a time of
// the clock that the Rate was started with; one that is older, as another
// loop may have it, only makes the bucket emptier. Does not allocate, unless
// there are more addresses than ever before.
func (r *Rate) Allow(addr netip.Addr, n int, now time.Time) (ok bool, retryAfter time.Duration) {
	if r == nil || n <= 0 || !addr.IsValid() {
		return true, 0
	}
	k := keyOf(addr)
	at := min(max(now.Sub(r.start), 0), spanBound)
	cost := r.cost(n)
	s := &r.shards[maphash.Bytes(r.seed, k[:])%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.touchLocked(k, at)
	owed := max(b.full-at, 0)
	if owed > 0 && owed+cost > r.refill {
		// What is over a whole bucket needs a full one.
		return false, owed + min(cost, r.refill) - r.refill
	}
	b.full = at + owed + cost
	return true, 0
}

// Len returns the number of addresses that are remembered.
func (r *Rate) Len() int {
	if r == nil {
		return 0
	}
	n := 0
	for i := range r.shards {
		n += r.shards[i].len()
	}
	return n
}

// shard is a part of the buckets with its lock.
type shard struct {
	// immutable after construction
	most int

	mu sync.Mutex

	// guarded by mu
	index map[key]int32 // into buckets
	// buckets has no pointers, so the collector does not walk it. Element 0
	// is the anchor of the list in order of use: its next is the last used
	// bucket, its prev the one that was idle for the longest time.
	buckets []bucket
	free    int32 // first of the unused elements, linked by next; 0 is none
}

// bucket is the state of one address.
type bucket struct {
	full       time.Duration // when it is full again, since Rate.start
	next, prev int32
	key        key
}

func (s *shard) init(most int) {
	s.most = most
	s.index = map[key]int32{}
	s.buckets = make([]bucket, 1)
}

func (s *shard) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.index)
}

// touchLocked returns the bucket of a key, made full if there is none, and
// puts it first in the order of use. The pointer is valid until the next
// call.
func (s *shard) touchLocked(k key, at time.Duration) *bucket {
	i, found := s.index[k]
	if found {
		s.unlinkLocked(i)
	} else {
		s.forgetLocked(at)
		i = s.takeLocked()
		s.index[k] = i
		s.buckets[i].key, s.buckets[i].full = k, at
	}
	first := s.buckets[0].next
	s.buckets[i].next, s.buckets[i].prev = first, 0
	s.buckets[first].prev = i
	s.buckets[0].next = i
	return &s.buckets[i]
}

// forgetLocked makes room for one bucket: it drops up to two idle ones that
// are full again, so that their number goes back without a timer, and
// whatever is oldest when the shard is full.
func (s *shard) forgetLocked(at time.Duration) {
	for range 2 {
		oldest := s.buckets[0].prev
		full := len(s.index) >= s.most
		if oldest == 0 || !full && s.buckets[oldest].full > at {
			return
		}
		s.unlinkLocked(oldest)
		delete(s.index, s.buckets[oldest].key)
		s.buckets[oldest].next = s.free
		s.free = oldest
	}
}

// takeLocked returns an unused element.
func (s *shard) takeLocked() int32 {
	if i := s.free; i != 0 {
		s.free = s.buckets[i].next
		return i
	}
	s.buckets = append(s.buckets, bucket{})
	return int32(len(s.buckets) - 1)
}

func (s *shard) unlinkLocked(i int32) {
	next, prev := s.buckets[i].next, s.buckets[i].prev
	s.buckets[next].prev = prev
	s.buckets[prev].next = next
}
