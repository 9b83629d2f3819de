package fanout

import "time"

// PassBounds are the upper bounds of the buckets of Durations.
var PassBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	time.Second,
}

// Durations counts durations in buckets: Counts[i] up to PassBounds[i], the last
// one above all of them. The zero value is ready.
type Durations struct {
	Counts [len(PassBounds) + 1]int64
	Sum    time.Duration
}

func (d *Durations) observe(v time.Duration) {
	i := 0
	for i < len(PassBounds) && v > PassBounds[i] {
		i++
	}
	d.Counts[i]++
	d.Sum += v
}

// State is what an operator is told of a member.
type State struct {
	QueuedBytes int64 // Q
	LagEvents   int64 // events that wait in the relay
	ShedEvents  int64 // left out since the peer was last told (R424a)
	CatchingUp  bool
}

// State returns the member's state. Loop only.
func (m *Member) State() State {
	s := State{QueuedBytes: m.QueuedBytes(), LagEvents: int64(m.records())}
	if m.lag != nil {
		s.ShedEvents = m.lag.shed
	}
	m.out.unsent(func(r *Record) {
		if r.entry != nil {
			s.LagEvents++
		}
	})
	if m.state == stateCatchUp {
		s.CatchingUp = true
		s.LagEvents += int64(m.set.log.Next() - min(m.cursor, m.set.log.Next()))
	}
	return s
}

// EachSub calls f for each subscription of the member. Loop only.
func (m *Member) EachSub(f func(*Sub)) {
	for _, s := range m.subs {
		if s.until == never {
			f(s)
		}
	}
}

// PassDurations returns how long passes took, from the first look at the log to
// the last write, pauses for the reactor included. Loop only.
func (s *Set) PassDurations() Durations { return s.durations }
