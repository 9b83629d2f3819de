package fanout

import "github.com/sluice-relay/sluice/engine/stream"

// Subscribe registers sub, replaces one of the same ID, and replays plan before
// it goes live. ack, which may be nil, precedes everything of sub; it follows
// everything ingested before this call that the connection is owed live (R329).
//
// Registering and choosing what to replay is one step: entries before the
// position read here come from the buffers, entries from it on are live (R192).
func (m *Member) Subscribe(sub *Sub, plan Plan, ack []byte) {
	if m.state == stateEnded {
		return
	}
	h := m.set.activate()
	m.step(h)
	m.drop(sub.ID, h)
	sub.from, sub.until = h, never
	m.subs = append(m.subs, sub)
	m.acknowledge(ack, h)
	if m.state == stateEnded {
		return
	}
	m.plan(sub, plan)
	if m.finite {
		sub.until = h
	}
	m.proceed()
}

// Unsubscribe ends the subscription, and sends ack after its last entry. It
// tells whether the subscription was known; ack is sent in any case (R326).
func (m *Member) Unsubscribe(id string, ack []byte) bool {
	if m.state == stateEnded {
		return false
	}
	h := m.set.log.Next()
	known := m.has(id)
	if known {
		m.step(h)
		m.drop(id, h)
		m.acknowledge(ack, h)
		m.proceed()
		return true
	}
	m.Reply(ack)
	return false
}

// step brings a live or idle member to CatchUp, at the position up to which it
// was served, for a change of its subscriptions at h.
func (m *Member) step(h stream.Pos) {
	m.since = h
	switch m.state {
	case stateIdle:
		m.cursor = h
	case stateLive:
		m.cursor = m.set.servedUpTo(m)
		m.leaveGroup(nil)
	}
	m.state = stateCatchUp
	m.set.catching[m] = struct{}{}
}

func (m *Member) has(id string) bool {
	for _, s := range m.subs {
		if s.ID == id && s.until == never {
			return true
		}
	}
	return false
}

// drop ends the subscription of that ID at h. When the member is replaying, or
// has nothing before h to deliver, it ends at once. So does one whose own replay
// is broken off: a live event after it would lead the peer past what it has not
// seen.
func (m *Member) drop(id string, h stream.Pos) {
	for i, s := range m.subs {
		if s.ID != id || s.until != never {
			continue
		}
		s.until = h
		replaying := m.replays
		broken := m.dropTasks(s)
		full := m.behind() && len(m.subs)-m.Subs() > maxEnding
		if replaying || broken || full || m.cursor >= h {
			m.subs = append(m.subs[:i:i], m.subs[i+1:]...)
			m.forget(s)
		}
		return
	}
}

// dropTasks drops what is left of the replay of s and tells whether there was
// anything.
func (m *Member) dropTasks(s *Sub) bool {
	broken := false
	for at := &m.tasks; *at != nil; {
		if (*at).sub == s {
			*at, broken = (*at).next, true
		} else {
			at = &(*at).next
		}
	}
	m.replays = m.replays && m.tasks != nil
	return broken
}

// forget drops the positions of a subscription that has ended.
func (m *Member) forget(s *Sub) {
	for k := range m.base {
		if k.sub == s {
			delete(m.base, k)
		}
	}
}

// current tells whether s has not been ended by its peer.
func (m *Member) current(s *Sub) bool { return s.until == never || m.finite }
