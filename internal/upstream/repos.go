package upstream

import (
	"context"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// entry is a repository in memory. Its place in the list of the clean counts
// only while it is neither dirty nor pending.
type entry struct {
	repo       state.Repo
	dirty      bool // changed since it was noted
	pendingAt  int  // place in the batch to be written, -1 for none
	prev, next *entry
}

func (e *entry) clean() bool { return !e.dirty && e.pendingAt < 0 }

// cache holds repositories, guarded by the Manager's mu. Entries that are not
// stored are never let go (U4); of the others those that were used last stay.
type cache struct {
	maxCount, maxDirty int

	entries map[string]*entry // by DID
	dirty   []*entry
	pending []*entry // in the order of the batch
	used    entry    // head of the ring of clean entries, the newest next
	roomy   chan struct{}
}

func newCache(maxCount, maxDirty int) cache {
	return cache{maxCount: maxCount, maxDirty: maxDirty, entries: map[string]*entry{}, roomy: make(chan struct{})}
}

// find returns a repository and makes it the newest.
func (c *cache) find(did []byte) (state.Repo, bool) {
	e := c.entries[string(did)]
	if e == nil {
		return state.Repo{}, false
	}
	if e.clean() {
		c.unlink(e)
		c.link(e)
	}
	return e.repo, true
}

// load takes in what the store has.
func (c *cache) load(repo state.Repo) {
	if c.entries[repo.DID] != nil {
		return
	}
	e := &entry{repo: repo, pendingAt: -1}
	c.entries[repo.DID] = e
	c.link(e)
	c.evict()
}

// put takes in a new state. It returns the host that had the repository.
func (c *cache) put(repo state.Repo) (before int64) {
	e := c.entries[repo.DID]
	switch {
	case e == nil:
		e = &entry{pendingAt: -1}
		c.entries[repo.DID] = e
	case e.clean():
		c.unlink(e)
	}
	before = e.repo.HostID
	e.repo = repo
	if !e.dirty {
		e.dirty = true
		c.dirty = append(c.dirty, e)
	}
	c.evict()
	return before
}

// full reports whether as many entries are not stored as may be.
func (c *cache) full() bool { return len(c.dirty)+len(c.pending) >= c.maxDirty }

// halfFull tells that the bound of full is near.
func (c *cache) halfFull() bool { return len(c.dirty)+len(c.pending) >= (c.maxDirty+1)/2 }

// note moves the dirty entries into a batch, appended to rows.
func (c *cache) note(rows []state.Repo) []state.Repo {
	c.pending, c.dirty = c.dirty, c.pending[:0]
	for i, e := range c.pending {
		e.dirty, e.pendingAt = false, i
		rows = append(rows, e.repo)
	}
	return rows
}

// written tells that the batch is stored.
func (c *cache) written() {
	for _, e := range c.pending {
		e.pendingAt = -1
		if e.clean() {
			c.link(e)
		}
	}
	clear(c.pending)
	c.pending = c.pending[:0]
	c.evict()
	close(c.roomy)
	c.roomy = make(chan struct{})
}

func (c *cache) link(e *entry) {
	if c.used.next == nil {
		c.used.next, c.used.prev = &c.used, &c.used
	}
	e.prev, e.next = &c.used, c.used.next
	e.prev.next, e.next.prev = e, e
}

func (c *cache) unlink(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

// evict lets the clean entries go that were not used for longest.
func (c *cache) evict() {
	for len(c.entries) > c.maxCount && c.used.prev != nil && c.used.prev != &c.used {
		e := c.used.prev
		c.unlink(e)
		delete(c.entries, e.repo.DID)
	}
}

// repo returns the state of a repository, from the store if need be. The caller
// holds the stripe of the DID, so that the answer stays right.
func (m *Manager) repo(did []byte) (state.Repo, bool, error) {
	m.mu.Lock()
	repo, found := m.repos.find(did)
	m.mu.Unlock()
	if found {
		return repo, true, nil
	}
	repo, found, err := m.cfg.Store.Repo(string(did))
	if err != nil || !found {
		return state.Repo{}, false, err
	}
	m.mu.Lock()
	m.repos.load(repo)
	m.mu.Unlock()
	return repo, true, nil
}

// note takes down in one step that a host is done with a frame and what the state of
// the frame's repository is now, if it has changed (U1, U3).
func (m *Manager) note(h *host, seq int64, repo *state.Repo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.lastSeq, h.moved, h.inRow = seq, true, 0
	if repo == nil {
		return
	}
	before := m.repos.put(*repo)
	if before == repo.HostID {
		return
	}
	if old := m.byID[before]; old != nil && old.accounts > 0 {
		old.accounts--
		old.moved = true
	}
	if owner := m.byID[repo.HostID]; owner != nil {
		owner.accounts++
		owner.moved = true
	}
}

// room waits while too much is not stored (U4). The error is that ctx ended.
func (m *Manager) room(ctx context.Context) error {
	for waited := false; ; waited = true {
		m.mu.Lock()
		full, roomy := m.repos.full(), m.repos.roomy
		if full && !waited {
			m.waits++
		}
		m.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-roomy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
