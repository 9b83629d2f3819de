package scenario

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"github.com/sluice-relay/sluice/bench/report"
)

// Options are what a run of the suite is given. Immutable once it runs.
type Options struct {
	// Relay and Rivals are the paths of the programs. Without Rivals only the
	// relay is measured.
	Relay, Rivals string
	// Only are patterns (path.Match) of scenario names; none means all.
	Only []string
	// Targets are the targets that are measured; none means all.
	Targets []string
	// Rounds overrides the scenarios' own, 0 does not.
	Rounds int
	// Quick runs the scenarios of the smoke run, one short round each.
	Quick bool
	// Env is set for the relay in every scenario, as NAME=value.
	Env []string
	// Progress is told of each measurement before and after it; may be nil.
	Progress func(Step)
	// During is called while a load of the relay is measured, on a goroutine
	// of its own, with its admin listener's host:port; the run goes on once it
	// has returned. Each load is then run twice, the second time with so many
	// events that it takes Length, and only that one is watched. May be nil.
	During func(load, admin string)
	Length time.Duration
}

// Step is one measurement of a run.
type Step struct {
	Number, Of       int
	Scenario, Target string
	Round, Rounds    int
	Done             bool
	Took             time.Duration
	Text             string // what came out, once Done
}

// ErrNothing tells that no scenario and target are left to run.
var ErrNothing = errors.New("scenario: nothing to run")

// step is one scenario against one target.
type step struct {
	s      Scenario
	target string
	round  int
}

// plan lists what is to be run, group by group and round by round.
func (o *Options) plan(suite []Scenario) (steps []step, err error) {
	var group []Scenario
	for i, s := range suite {
		match, err := o.wants(s)
		if err != nil {
			return nil, err
		}
		if match {
			if o.Quick {
				s = smaller(s)
			}
			if o.Rounds > 0 {
				s.Rounds = o.Rounds
			}
			group = append(group, s)
		}
		if last := i == len(suite)-1; last || s.Group == "" || s.Group != suite[i+1].Group {
			steps = o.planGroup(steps, group)
			group = group[:0]
		}
	}
	if len(steps) == 0 {
		return nil, ErrNothing
	}
	return steps, nil
}

// planGroup appends the rounds of one group.
func (o *Options) planGroup(steps []step, group []Scenario) []step {
	for round := 1; len(group) > 0 && round <= group[0].Rounds; round++ {
		for _, s := range group {
			for _, t := range s.Targets {
				switch {
				case round > 1 && slices.Contains(s.Once, t):
				case round%2 == 0 && slices.Contains(s.Alternate, t):
				case len(o.Targets) > 0 && !slices.Contains(o.Targets, t):
				case o.Rivals == "" && t != report.TargetSluice:
				default:
					steps = append(steps, step{s: s, target: t, round: round})
				}
			}
		}
	}
	return steps
}

func (o *Options) wants(s Scenario) (bool, error) {
	if o.Quick && !s.Quick && len(o.Only) == 0 {
		return false, nil
	}
	for _, pattern := range o.Only {
		if ok, err := path.Match(pattern, s.Name); err != nil {
			return false, fmt.Errorf("scenario: pattern %q: %w", pattern, err)
		} else if ok {
			return true, nil
		}
	}
	return len(o.Only) == 0, nil
}

// smaller returns a scenario for the smoke run: that everything works is all
// that it shows.
func smaller(s Scenario) Scenario {
	s.Rounds, s.Settle = 1, min(s.Settle, 200*time.Millisecond)
	s.Loads = slices.Clone(s.Loads)
	for i := range s.Loads {
		l := &s.Loads[i]
		l.Events, l.Warmup = (l.Events+3)/4, (l.Warmup+3)/4
	}
	return s
}

// check tells whether the programs are there.
func (o *Options) check() error {
	for _, p := range []string{o.Relay, o.Rivals} {
		if p == "" {
			continue
		}
		if _, err := os.Stat(p); err != nil {
			return fmt.Errorf("scenario: %w", err)
		}
	}
	return nil
}
