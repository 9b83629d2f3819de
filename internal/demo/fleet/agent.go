package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Bounds of what an agent keeps (F5).
const (
	pastSessions = 32  // sessions of before that can still be acknowledged in
	ackCount     = 256 // acknowledgements that can be repeated
	urgentCount  = 64  // events that commands brought and that are not out yet
)

// agent is one member of the fleet.
type agent struct {
	// Immutable after construction.
	fleet   *Fleet
	index   int
	name    string
	source  string
	profile *profile
	level   level

	rng   *rand.Rand
	ids   int // given so far
	names int // of sessions given so far
	calls int // of tools given so far
	ticks int

	now   time.Duration // of the event that is being made
	due   time.Duration // of the next event
	place int           // in the queue

	plan   []task // what comes, first first
	urgent []task // what comes before it, at once
	held   bool   // paused: the plan waits
	bye    bool   // nothing new is begun any more
	gone   bool   // the last events are planned
	fresh  bool   // the event that is being made is the first after a start

	main       *scope
	runsWanted int
	resume     bool // the next run continues one that was lost
	past       []*scope
	question   *question

	acks     map[string][]byte // by source and id of the command; nil while pending
	ackOrder []string
}

// task is one event to come.
type task struct {
	wait     float64 // seconds at scale 1, after the event before
	question bool    // made-up end of the open question: dropped if it is answered
	do       func() []byte
}

// scope is a session and what is open in it.
type scope struct {
	name       string
	open       bool // started and not ended
	epoch, seq uint64
	began      time.Duration
	runs       int
	run, step  string // open ones, "" if none
	runBegan   time.Duration
	runID      string // id of the event that started the run
	last       string // id of the last event
	trace      string // trace id of the run
}

func newAgent(f *Fleet, index int) *agent {
	p := &profiles[index%len(profiles)]
	a := &agent{
		fleet: f, index: index, profile: p,
		name: fmt.Sprintf("%s-%d", p.name, index/len(profiles)+1),
		rng:  rand.New(rand.NewPCG(f.cfg.Seed, uint64(index))),
		acks: map[string][]byte{},
	}
	a.source = "aep://demo-host/agent/" + a.name
	a.level = []level{levelRedacted, levelFull, levelMetadata}[index%3]
	a.fresh = true
	a.add(0.3*float64(index%16), func() []byte { return a.presence("online") })
	a.schedule()
	return a
}

// add appends an event to the plan.
func (a *agent) add(wait float64, do func() []byte) {
	a.plan = append(a.plan, task{wait: wait, do: do})
}

// insert puts events before all others of the plan.
func (a *agent) insert(tasks ...task) { a.plan = append(tasks, a.plan...) }

// act makes the event that is due.
func (a *agent) act(now time.Duration) (text []byte, fresh bool) {
	a.now = now
	list := &a.plan
	if len(a.urgent) > 0 {
		list = &a.urgent
	}
	t := (*list)[0]
	*list = (*list)[1:]
	text = t.do()
	fresh, a.fresh = a.fresh, false
	if len(a.plan)+len(a.urgent) == 0 && !a.gone {
		a.refill()
	}
	a.schedule()
	return text, fresh
}

// schedule sets when the agent acts next. The wait of the plan starts anew
// whenever something else came between.
func (a *agent) schedule() {
	switch {
	case len(a.urgent) > 0:
		a.due = a.now
	case a.held || len(a.plan) == 0:
		a.due = never
	default:
		seconds := a.plan[0].wait * a.fleet.scale * (0.6 + 0.8*a.rng.Float64())
		a.due = a.now + time.Duration(min(seconds, 3600)*float64(time.Second))
	}
}

// refill plans what comes next.
func (a *agent) refill() {
	switch {
	case a.bye:
		a.farewell()
	case a.main == nil || !a.main.open:
		a.planSession()
	case a.main.runs < a.runsWanted || a.resume:
		a.planRun()
	default:
		a.planEnd()
	}
}

// newScope names a session. It is open once its first event is made.
func (a *agent) newScope() *scope {
	a.names++
	s := &scope{name: fmt.Sprintf("%s.%s.%d", a.name, a.fleet.tag, a.names)}
	if a.past = append(a.past, s); len(a.past) > pastSessions {
		first := 0
		if a.past[0] == a.main {
			first = 1
		}
		a.past = slices.Delete(a.past, first, first+1)
	}
	return s
}

// scopeOf returns a session that the agent remembers, nil if it does not.
func (a *agent) scopeOf(name string) *scope {
	for _, s := range a.past {
		if s.name == name {
			return s
		}
	}
	return nil
}

// finish has the agent end all that is open, once what commands brought is out.
func (a *agent) finish(now time.Duration) {
	a.plan, a.bye, a.held = nil, true, false
	if len(a.urgent) == 0 {
		a.farewell()
	}
	a.now = max(a.now, now)
	a.schedule()
}

// farewell plans the agent's last events.
func (a *agent) farewell() {
	a.gone = true
	if a.question != nil {
		a.add(0, a.drop)
	}
	for _, s := range slices.Backward(a.past) { // sub-agents first
		if s.run != "" {
			a.add(0, func() []byte { return a.cancelRun(s, "shutdown", "the demonstration ends", "") })
		}
		if s.open {
			a.add(0, func() []byte { return a.endSession(s, "normal", "") })
		}
	}
	a.add(0, func() []byte { return a.presence("offline") })
}

// chance draws an event of a probability.
func (a *agent) chance(p float64) bool { return a.rng.Float64() < p }

// pick draws one of a list.
func pick[T any](a *agent, list []T) T { return list[a.rng.IntN(len(list))] }
