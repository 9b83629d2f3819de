package upstream

import (
	"fmt"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// persist writes what was noted half an interval ago and notes what has changed
// since, each half interval, until Stop.
func (m *Manager) persist() {
	defer close(m.done)
	for {
		select {
		case <-m.cfg.After(m.cfg.Persist / 2):
		case <-m.closing:
			return
		}
		m.tick()
	}
}

// tick is one step of persist. A batch that could not be written is tried again
// at the next tick, and nothing is noted until then (F63).
func (m *Manager) tick() {
	m.writing.Lock()
	defer m.writing.Unlock()
	err := m.saveHostsWriting()
	if !m.inGrace() {
		if applied := m.applyWriting(); applied != nil {
			err = applied
		} else {
			m.noteLatest()
		}
	}
	m.noteWrite(err)
}

// inGrace tells whether it is too early after the start to store cursors. Readers
// never wait for that.
func (m *Manager) inGrace() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cfg.Now().Before(m.graceEnd) && !m.repos.halfFull()
}

// writeAll writes everything there is, at a clean stop.
func (m *Manager) writeAll() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := m.saveHostsWriting(); err != nil {
		m.noteWrite(err)
		return fmt.Errorf("upstream: storing a host: %w", err)
	}
	for range 2 {
		err := m.applyWriting()
		m.noteWrite(err)
		if err != nil {
			return fmt.Errorf("upstream: storing cursors: %w", err)
		}
		m.noteLatest()
	}
	return nil
}

// noteLatest takes cursors and repositories as they are at this moment into the
// batch, which is empty (U3). The caller holds writing.
func (m *Manager) noteLatest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending.Repos = m.repos.note(m.pending.Repos[:0])
	m.pending.Cursors = m.pending.Cursors[:0]
	for _, h := range m.hosts {
		if h.moved {
			h.moved = false
			m.pending.Cursors = append(m.pending.Cursors, state.HostCursor{ID: h.row.ID, LastSeq: h.lastSeq, AccountCount: h.accounts})
		}
	}
}

// applyWriting stores the batch, if there is something in it. After an error it
// is as it was. The caller holds writing.
func (m *Manager) applyWriting() error {
	if len(m.pending.Repos)+len(m.pending.Cursors) == 0 {
		return nil
	}
	if err := m.cfg.Store.Apply(m.pending); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	for _, cursor := range m.pending.Cursors {
		h := m.byID[cursor.ID]
		h.row.LastSeq, h.row.AccountCount = cursor.LastSeq, cursor.AccountCount
	}
	m.repos.written()
	clear(m.pending.Repos)
	m.pending = state.Batch{Repos: m.pending.Repos[:0], Cursors: m.pending.Cursors[:0]}
	return nil
}

// noteWrite counts a failed write, and logs when writing begins to fail or to
// work.
func (m *Manager) noteWrite(err error) {
	m.mu.Lock()
	changed := m.storeFailing != (err != nil)
	m.storeFailing = err != nil
	if err != nil {
		m.writeFailures++
	}
	m.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		m.cfg.Log.Error("upstream state cannot be stored, trying again", "error", err)
	default:
		m.cfg.Log.Info("upstream state is stored again")
	}
}

// notePublish counts and logs in the same way.
func (m *Manager) notePublish(host string, err error) {
	if err == nil && !m.publishFailing.Load() {
		return
	}
	if err != nil {
		m.publishFailures.Add(1)
	}
	switch was := m.publishFailing.Swap(err != nil); {
	case was == (err != nil):
	case err != nil:
		m.cfg.Log.Error("upstream frame cannot be published, trying again", "host", host, "error", err)
	default:
		m.cfg.Log.Info("upstream frames are published again")
	}
}
