package fanout

// MaxPositions is how many positions Delivered tells at most.
const MaxPositions = maxPositions

// Replaying tells whether m has to replay something.
func (m *Member) Replaying() bool { return m.tasks != nil }

// Behind tells whether m owes its peer something.
func (m *Member) Behind() bool { return m.behind() }

// Endings returns how many subscriptions of m have ended and are still owed
// something.
func (m *Member) Endings() int { return len(m.subs) - m.Subs() }

// OwedBatches returns the identities of the batches that m's output holds.
func (m *Member) OwedBatches() (all []*Batch) {
	if q := m.out.owed; q != nil {
		for _, s := range q.segs {
			all = append(all, s.b)
		}
	}
	return all
}

// Positions returns how many positions the group of m holds.
func (m *Member) Positions() int { return len(m.group.last) }

// Lagging returns how many members of m's group lag.
func (m *Member) Lagging() int { return m.group.lagging }

// OwnPositions returns how many positions m keeps for itself.
func (m *Member) OwnPositions() int { return len(m.base) }

// Spare returns how many batches wait for their next use.
func (s *Set) Spare() int { return len(s.spare) }
