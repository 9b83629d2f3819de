package upstream

import (
	"fmt"
	"strings"

	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// Host does what an operator asks for about a host (F70): connect, disconnect,
// ban or unban. Beyond their errors it returns ErrBadAction.
func (m *Manager) Host(hostname, action string) error {
	switch action {
	case "connect":
		return m.Connect(hostname)
	case "disconnect":
		return m.Disconnect(hostname)
	case "ban":
		return m.Ban(hostname)
	case "unban":
		return m.Unban(hostname)
	}
	return fmt.Errorf("%w: %.100q", ErrBadAction, action)
}

// Connect connects a host, which gets a row if it has none, or ends the pause
// of one that is tried again; a scheme counts from the next attempt on. A host
// that is idle, because its cursor was of the future, resumes live (F62). The
// name is as ParseUpstream reads it. It waits for the row to be stored, not for
// the connection. The errors are ErrBadHostname, ErrBanned, ErrTooManyHosts,
// ErrState and those of the Store.
func (m *Manager) Connect(hostname string) error {
	return m.operate(hostname, true, func(h *host, noSSL bool) error {
		m.mu.Lock()
		running, status, resumes := h.running, h.row.Status, h.row.Status == state.Idle
		other := strings.Contains(hostname, "://") && h.row.NoSSL != noSSL
		m.mu.Unlock()
		switch {
		case status == state.Banned:
			return fmt.Errorf("%w: %s", ErrBanned, h.name)
		case running:
			if other {
				if err := m.storeHost(h, func(row *state.Host) { row.NoSSL = noSSL }); err != nil {
					return err
				}
			}
			if !h.connected.Load() {
				select {
				case h.kick <- struct{}{}:
				default:
				}
			}
			return nil
		}
		err := m.storeHost(h, func(row *state.Host) {
			row.Status = state.Active
			if row.ID == 0 || strings.Contains(hostname, "://") {
				row.NoSSL = noSSL
			}
			if resumes {
				row.LastSeq = state.NoSeq
			}
		})
		if err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if resumes {
			h.lastSeq, h.moved = state.NoSeq, true
		}
		m.runLocked(h)
		return nil
	})
}

// Disconnect ends the connection of a host and makes it offline until Connect,
// or the next start. Its cursor stays. The errors are ErrBadHostname,
// ErrUnknownHost, ErrState and those of the Store; a host that is idle or
// banned stays that.
func (m *Manager) Disconnect(hostname string) error {
	return m.operate(hostname, false, func(h *host, _ bool) error {
		m.mu.Lock()
		active := h.row.Status == state.Active
		m.mu.Unlock()
		if !active {
			return nil
		}
		return m.settleStatus(h, state.Offline)
	})
}

// Ban ends the connection of a host, which is not connected again until Unban,
// or until the operator lists it. A host that is not known gets a row. The
// errors are as those of Connect.
func (m *Manager) Ban(hostname string) error {
	return m.operate(hostname, true, func(h *host, _ bool) error { return m.settleStatus(h, state.Banned) })
}

// Unban makes a banned host offline: Connect, or the next start, connects it.
// The errors are as those of Disconnect.
func (m *Manager) Unban(hostname string) error {
	return m.operate(hostname, false, func(h *host, _ bool) error {
		m.mu.Lock()
		banned := h.row.Status == state.Banned
		m.mu.Unlock()
		if !banned {
			return nil
		}
		return m.settleStatus(h, state.Offline)
	})
}

// operate finds a host and does something to it, one at a time. With make, a
// host that is not known becomes a new one, which is known once it is stored.
func (m *Manager) operate(hostname string, makes bool, do func(h *host, noSSL bool) error) error {
	name, noSSL, err := ParseUpstream(hostname)
	if err != nil {
		return err
	}
	m.admin.Lock()
	defer m.admin.Unlock()
	m.mu.Lock()
	h, phase, count := m.hosts[name], m.phase, len(m.hosts)
	m.mu.Unlock()
	switch {
	case phase != phaseRunning:
		return ErrState
	case h != nil:
	case !makes:
		return fmt.Errorf("%w: %s", ErrUnknownHost, name)
	case count >= maxHostCount:
		return fmt.Errorf("%w: %d", ErrTooManyHosts, count)
	default:
		h = newHost(m, state.Host{Hostname: name, NoSSL: noSSL, LastSeq: state.NoSeq, CreatedAt: m.cfg.Now()})
	}
	if err := do(h, noSSL); err != nil {
		return fmt.Errorf("upstream: %s: %w", name, err)
	}
	return nil
}

// settleStatus stores a status in which a host is not connected, then ends its
// connection. After an error nothing has changed.
func (m *Manager) settleStatus(h *host, status string) error {
	if err := m.storeHost(h, func(row *state.Host) { row.Status = status }); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.running {
		h.running = false
		h.life.cancel()
	}
	return nil
}
