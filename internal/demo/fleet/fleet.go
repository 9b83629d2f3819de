package fleet

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"time"
)

// Bounds of a Config.
const (
	MaxAgents = 1000
	// MaxRate is what a demonstration needs at most; bench/load is for more.
	MaxRate = 10_000
)

// never is when an agent acts that waits for a command.
const never = time.Duration(math.MaxInt64)

// ErrConfig tells of a Config that is out of bounds.
var ErrConfig = errors.New("bad fleet")

// Config says what a fleet is like.
type Config struct {
	// Seed decides everything that is drawn, ids included.
	Seed uint64
	// Agents is how many there are, 1 to MaxAgents.
	Agents int
	// Rate is how many events a second they publish together, on average: above
	// 0, at most MaxRate. The script is played faster or slower for it.
	Rate float64
	// Start is what the clock shows at first.
	Start time.Time
	// Control tells that commands can reach the agents: then some questions are
	// left to whoever watches, until they expire. Otherwise agents say that
	// answers come by other ways, and most are made up.
	Control bool
}

// Validate returns ErrConfig if the fleet would be out of bounds.
func (c Config) Validate() error {
	switch {
	case c.Agents < 1 || c.Agents > MaxAgents:
		return fmt.Errorf("%w: %d agents, want 1 to %d", ErrConfig, c.Agents, MaxAgents)
	case !(c.Rate > 0 && c.Rate <= MaxRate): // NaN too
		return fmt.Errorf("%w: %v events a second, want more than 0 and at most %d", ErrConfig, c.Rate, MaxRate)
	}
	return nil
}

// Event is one event that an agent publishes.
type Event struct {
	Agent int           // who publishes it, from 0
	At    time.Duration // when, since the start
	Text  []byte        // one JSON text; transferred
	// Fresh tells that the agent was started anew before this event: its
	// connection, and with it its claims, were lost.
	Fresh bool
}

// Question is an open request of an agent for a human.
type Question struct {
	Agent   string
	Session string
	ID      string // the id of its attention.requested
	Option  string // the first of the options that may answer it, "" if none
}

// Stats counts what a fleet did, and what is open.
type Stats struct {
	Events    int64
	Commands  int64 // obeyed or rejected, each once
	Restarts  int64
	Sessions  int // open
	Questions int // open and left to commands
	Paused    int // agents
	// Waiting is the question that has been open for longest, nil if none is.
	Waiting *Question
}

// Fleet is a number of agents and their common clock.
type Fleet struct {
	cfg    Config
	hash   uint32 // of the seed: in all ids, so that fleets differ
	tag    string // of the seed: in all sessions and events
	scale  float64
	base   time.Time // Start, plus what was skipped
	now    time.Duration
	agents []*agent
	queue  agentQueue

	events, commands, restarts int64
}

// New returns a fleet at the beginning of its script. The error is ErrConfig.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := newFleet(cfg, 1)
	f = newFleet(cfg, float64(cfg.Agents)/cfg.Rate/f.meanPause())
	return f, nil
}

func newFleet(cfg Config, scale float64) *Fleet {
	f := &Fleet{cfg: cfg, scale: scale, base: cfg.Start, hash: uint32(cfg.Seed ^ cfg.Seed>>32)}
	f.tag = fmt.Sprintf("%04x", uint16(f.hash^f.hash>>16))
	for i := range cfg.Agents {
		a := newAgent(f, i)
		f.agents = append(f.agents, a)
	}
	f.queue = append(f.queue, f.agents...)
	heap.Init(&f.queue)
	return f
}

// calibrationEvents is how much of the script is played to learn its pace: some
// ten sessions, a few milliseconds.
const calibrationEvents = 1000

// meanPause returns how long an agent of this kind of fleet waits before an
// event on average, in seconds at scale 1. The fleet is of no use afterwards.
func (f *Fleet) meanPause() float64 {
	sample := f
	if f.cfg.Agents > len(profiles) {
		cfg := f.cfg
		cfg.Agents = len(profiles)
		sample = newFleet(cfg, 1)
	}
	for range calibrationEvents {
		sample.Next()
	}
	return sample.now.Seconds() * float64(sample.cfg.Agents) / calibrationEvents
}

// Due returns when the next event is due, and false if nothing happens until a
// command comes.
func (f *Fleet) Due() (time.Duration, bool) {
	due := f.queue[0].due
	return due, due != never
}

// Next moves the clock to when the next event is due and returns that. It
// returns false where Due does.
func (f *Fleet) Next() (Event, bool) {
	a := f.queue[0]
	if a.due == never {
		return Event{}, false
	}
	f.now = max(f.now, a.due)
	text, fresh := a.act(f.now)
	f.events++
	heap.Fix(&f.queue, 0)
	return Event{Agent: a.index, At: f.now, Text: text, Fresh: fresh}, true
}

// Skip tells that d passed in which the fleet stood still, so that events to
// come bear the right time.
func (f *Fleet) Skip(d time.Duration) { f.base = f.base.Add(d) }

// Finish has all agents end what they are at. Their last events are due now;
// after them nothing is.
func (f *Fleet) Finish() {
	for _, a := range f.agents {
		a.finish(f.now)
	}
	heap.Init(&f.queue)
}

// Name returns the name of an agent, as its events have it.
func (f *Fleet) Name(agent int) string { return f.agents[agent].name }

// Tag returns what all events of the fleet have as attribute demofleet, so that
// a filter may ask for them.
func (f *Fleet) Tag() string { return f.tag }

// Stats returns the counts of this moment.
func (f *Fleet) Stats() Stats {
	s := Stats{Events: f.events, Commands: f.commands, Restarts: f.restarts}
	var since time.Duration
	for _, a := range f.agents {
		if a.main != nil && a.main.open {
			s.Sessions++
		}
		if a.held {
			s.Paused++
		}
		q := a.question
		if q == nil || !q.byCommand || q.answered {
			continue
		}
		s.Questions++
		if s.Waiting == nil || q.at < since {
			since = q.at
			s.Waiting = &Question{Agent: a.name, Session: q.scope.name, ID: q.id, Option: q.allow}
		}
	}
	return s
}

// agentQueue is a heap of agents by when they act. Ties go by number, so that
// the order is the same in each run (F1).
type agentQueue []*agent

func (q agentQueue) Len() int { return len(q) }

func (q agentQueue) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].index < q[j].index
}

func (q agentQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *agentQueue) Push(x any) { *q = append(*q, x.(*agent)) }

func (q *agentQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
