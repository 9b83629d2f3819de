package scenario

import (
	"time"

	"github.com/sluice-relay/sluice/bench/load"
)

// Scenario is a set of consumers and the loads put on it. Immutable.
type Scenario struct {
	// Name is of the scenario itself; results carry the names of the loads.
	Name string
	// Group is shared by neighbours that are compared with each other: a round
	// runs all of them, so that they were measured at the same time. They have
	// the same number of rounds. "" is a group of one.
	Group string
	// Kind and Consumers are the protocol of the consumers and how many there
	// are, without the stalled ones.
	Kind      load.Kind
	Consumers int
	// Split says who asks for what.
	Split Split
	// Filters is the number of different sessions that are asked for; 0 means
	// that everyone asks for everything.
	Filters int
	// Stalled consumers stand beside the others: they subscribe, and never
	// read.
	Stalled int
	// RecvBytes is the receive buffer of each consumer, 0 for the kernel's.
	RecvBytes int
	// Herd opens all connections at once, with positions, in front of a
	// server that holds events already.
	Herd bool

	Loads   []Load
	Targets []string
	// Once lists targets that are measured in the first round only, because
	// they take long and no goal depends on them.
	Once []string
	// Alternate lists targets that are measured in every second round, the
	// first one included, because they take long.
	Alternate []string
	// Absent has targets that there are none of, and why: a goal speaks of them.
	Absent map[string]string
	// Rounds is how often the scenario is run against each target.
	Rounds int
	// Settle is how long the connections stand idle before their memory is
	// read; 0 when nobody asks for it.
	Settle time.Duration
	// Quick says that the smoke run has it too, smaller.
	Quick bool
	// Env is set for the relay, besides what every scenario sets.
	Env []string
}

// Split says how consumers differ.
type Split int

const (
	// Alike: all ask for the same, or for their own session when there are
	// Filters.
	Alike Split = iota
	// ByCeiling: a quarter each asks for one of the four capture ceilings.
	ByCeiling
)

// Load is one measurement on the connections of a scenario. Immutable.
type Load struct {
	// Name is what the result is called; Title is for people. A load without
	// a name prepares the next one and is not reported.
	Name, Title string
	// Kind is how the load is made.
	Kind Kind
	// SizeBytes is the size of one event's text.
	SizeBytes int
	// Events is how many are measured, after Warmup that are not.
	Events, Warmup int
	// Window is the number of events in flight, Batch how many are published
	// at once when all of them have arrived; Rate is in events per second and
	// goes by a schedule.
	Window, Batch int
	Rate          float64
	// Lines is how many events a request of an ingest load has, Conns the
	// number of its connections.
	Lines, Conns int

	watched bool // by Options.During
}

// longer returns l for somebody who watches: it took one time, and is to take
// another.
func (l Load) longer(took, length time.Duration) Load {
	times := max(1, int(length/max(took, time.Millisecond))+1)
	l.Events, l.watched = l.Events*times, true
	return l
}

// Kind is how a load is made.
type Kind int

const (
	// FanOut publishes events and waits for all deliveries.
	FanOut Kind = iota
	// Ingest posts events that nobody follows.
	Ingest
	// Idle only looks at the memory of the connections.
	Idle
	// Herd waits for the replay of all that was published before.
	Herd
)
