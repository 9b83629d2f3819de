package upstream

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// counts is what a host is counted by. The words come from fixed sets, so the
// maps are bounded. Any goroutine.
type counts struct {
	frames, published, infos atomic.Int64

	mu sync.Mutex
	// Guarded by mu.
	dropped, misfits, failures map[string]int64
}

func (c *counts) drop(reason string) { c.add(c.dropped, reason) }

func (c *counts) misfit(word string) { c.add(c.misfits, word) }

func (c *counts) failure(reason string) { c.add(c.failures, reason) }

func (c *counts) add(words map[string]int64, word string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	words[word]++
}

// HostStats tells of one host. Counts are since the start.
type HostStats struct {
	Hostname  string
	Status    string
	Listed    bool // the operator lists it
	Connected bool

	LastSeq       int64 // the host's number through which all is done, -1 for none
	StoredSeq     int64 // the one that is stored (F63)
	AccountCount  int64
	FailuresInRow int // since the last progress (F55)

	Frames    int64            // messages that came, refused ones too
	Published int64            // passed on with a new number
	Infos     int64            // #info frames (F62)
	Dropped   map[string]int64 // frames, by reason: codec/firehose's words and F60, F64, F67
	Misfits   map[string]int64 // published commits that did not fit the stored state (F64)
	Failures  map[string]int64 // connections and attempts, by reason
}

// Stats is a snapshot of the whole.
type Stats struct {
	Hosts []HostStats // by name

	Repos           int   // repositories in memory
	NotStored       int   // of them, changed since they were stored (U4)
	Waits           int64 // times that a reader waited because of that bound
	Writes          int64 // batches that were stored
	WriteFailures   int64
	PublishFailures int64 // tries to publish that failed
}

// Stats returns a snapshot. The maps in it are the caller's. It does no I/O and
// waits for none.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	s := Stats{
		Repos: len(m.repos.entries), NotStored: len(m.repos.dirty) + len(m.repos.pending), Waits: m.waits,
		Writes: m.writes, WriteFailures: m.writeFailures, PublishFailures: m.publishFailures.Load(),
		Hosts: make([]HostStats, 0, len(m.hosts)),
	}
	hosts := slices.Collect(maps.Values(m.hosts))
	for _, h := range hosts {
		s.Hosts = append(s.Hosts, HostStats{
			Hostname: h.name, Status: h.row.Status, Listed: h.listed, Connected: h.connected.Load(),
			LastSeq: h.lastSeq, StoredSeq: h.row.LastSeq, AccountCount: h.accounts, FailuresInRow: h.inRow,
		})
	}
	m.mu.Unlock()
	for i, h := range hosts {
		to := &s.Hosts[i]
		to.Frames, to.Published, to.Infos = h.counts.frames.Load(), h.counts.published.Load(), h.counts.infos.Load()
		h.counts.mu.Lock()
		to.Dropped, to.Misfits, to.Failures = maps.Clone(h.counts.dropped), maps.Clone(h.counts.misfits), maps.Clone(h.counts.failures)
		h.counts.mu.Unlock()
	}
	slices.SortFunc(s.Hosts, func(x, y HostStats) int { return strings.Compare(x.Hostname, y.Hostname) })
	return s
}
