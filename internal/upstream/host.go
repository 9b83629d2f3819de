package upstream

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// host is one host, known by its row.
type host struct {
	// Immutable after construction.
	m    *Manager
	name string
	kick chan struct{} // ends a pause

	listed bool // the operator lists it; immutable after Start

	counts    counts
	connected atomic.Bool

	// Written under the Manager's writing and mu, read under either.
	row state.Host // as stored, but for what unsaved tells

	// Guarded by the Manager's mu.
	unsaved  bool  // the row has changed since it was stored
	running  bool  // life is not told to end
	life     *life // the newest goroutine; nil if there was none
	lastSeq  int64 // now; the row's is the stored one
	accounts int64 // now; the row's is the stored one
	moved    bool  // one of both was changed since it was noted
	inRow    int   // failures since the last progress
}

// life is one goroutine of a host. A later one waits for it.
type life struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newHost(m *Manager, row state.Host) *host {
	h := &host{
		m: m, name: row.Hostname, kick: make(chan struct{}, 1),
		row: row, lastSeq: row.LastSeq, accounts: row.AccountCount,
	}
	h.counts.dropped, h.counts.misfits, h.counts.failures = map[string]int64{}, map[string]int64{}, map[string]int64{}
	return h
}

// run connects over and over until ctx ends or the host is given up (F55).
func (h *host) run(ctx context.Context, l, before *life) {
	defer close(l.done)
	defer l.cancel()
	if before != nil {
		<-before.done
	}
	for failures := 0; ctx.Err() == nil; {
		progressed, err := h.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if progressed {
			failures = 0
		}
		failures++
		h.setInRow(failures)
		reason := reasonOf(err)
		h.counts.failure(reason)
		switch {
		case reason == failFuture:
			h.giveUp(l, state.Idle, err)
			return
		case reason == failLoop:
			h.giveUp(l, state.Banned, err)
			return
		case failures >= maxFailures && !h.listed:
			h.giveUp(l, state.Offline, err)
			return
		}
		pause := h.pause(failures)
		h.m.cfg.Log.Info("upstream lost", "host", h.name, "reason", reason, "error", clip(err.Error()), "failures", failures, "retry_in", pause)
		select {
		case <-h.m.cfg.After(pause):
		case <-h.kick:
			failures = 0
		case <-ctx.Done():
		}
	}
}

// pause returns how long to wait after so many failures in a row (F55).
func (h *host) pause(failures int) time.Duration {
	d := doubled(firstPause, longestPause, failures-1)
	return d + time.Duration(h.m.cfg.Rand()*float64(d)/2)
}

// giveUp ends a life on its own account, with a status that is stored now or
// at one of the next ticks.
func (h *host) giveUp(l *life, status string, why error) {
	m := h.m
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	if h.life != l || !h.running { // an operator was faster
		m.mu.Unlock()
		return
	}
	h.running = false
	h.row.Status, h.unsaved = status, true
	m.mu.Unlock()
	m.cfg.Log.Warn("upstream given up", "host", h.name, "status", status, "error", clip(why.Error()))
	m.noteWrite(m.saveHostsWriting())
}

// setInRow notes the failures since the last progress.
func (h *host) setInRow(failures int) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.inRow = failures
}

// target returns how to connect, and from where on (F54).
func (h *host) target() (noSSL bool, cursor int64) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return h.row.NoSSL, h.lastSeq
}

// storeHost changes the row of a host and stores it. After an error the row is
// as it was. A new host becomes known.
func (m *Manager) storeHost(h *host, change func(*state.Host)) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	return m.storeHostWriting(h, change)
}

// storeHostWriting is storeHost with writing held.
func (m *Manager) storeHostWriting(h *host, change func(*state.Host)) error {
	row := h.row
	change(&row)
	row.UpdatedAt = m.cfg.Now()
	id, err := m.cfg.Store.SaveHost(row)
	if err == nil && id == 0 {
		err = errors.New("store gave a host no ID")
	}
	if err != nil {
		return err
	}
	row.ID = id
	m.mu.Lock()
	defer m.mu.Unlock()
	h.row, h.unsaved = row, false
	m.addLocked(h)
	return nil
}

// saveHostsWriting stores the rows that giveUp could not store, and those that
// the start has changed. It goes on after an error and returns the last one.
func (m *Manager) saveHostsWriting() error {
	m.mu.Lock()
	var unsaved []*host
	for _, h := range m.hosts {
		if h.unsaved {
			unsaved = append(unsaved, h)
		}
	}
	m.mu.Unlock()
	var last error
	for _, h := range unsaved {
		if err := m.storeHostWriting(h, func(*state.Host) {}); err != nil {
			last = err
		}
	}
	return last
}

// clip bounds text of a stranger in the log.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most]
	}
	return text
}
