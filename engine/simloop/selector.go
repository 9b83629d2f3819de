package simloop

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-relay/sluice/engine/stream"
)

// ErrFilter tells that a filter cannot be read.
var ErrFilter = errors.New("simloop: bad filter")

// Selector is a filter of the scenario protocol: terms that must all hold.
// Immutable. It implements fanout.Selector.
//
//	all                every event
//	session:s1|s2      one of these sessions
//	attr:k=v|k=w       one of these attributes
//	sev:notice         this severity or above
//	panic:k=v          panics when asked about an event with this attribute
//
// Terms are joined with "&".
type Selector struct {
	text  string
	sets  [][]uint64 // each term that can be indexed
	least Severity
	fatal uint64 // key of the panic term, 0 for none
}

// ParseFilter reads a filter.
func ParseFilter(text string) (*Selector, error) {
	s := &Selector{text: text}
	for term := range strings.SplitSeq(text, "&") {
		if err := s.addTerm(term); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Selector) addTerm(term string) error {
	kind, rest, _ := strings.Cut(term, ":")
	switch kind {
	case "all":
		return nil
	case "sev":
		i := slices.Index(severityNames, rest)
		if i < 0 {
			return fmt.Errorf("%w: severity %q", ErrFilter, rest)
		}
		s.least = Severity(i)
		return nil
	case "panic":
		s.fatal = keyOf(rest)
		return nil
	case "session", "attr":
	default:
		return fmt.Errorf("%w: %q", ErrFilter, term)
	}
	var set []uint64
	for v := range strings.SplitSeq(rest, "|") {
		if kind == "session" {
			v = "session=" + v
		}
		set = append(set, keyOf(v))
	}
	s.sets = append(s.sets, set)
	return nil
}

// Match implements fanout.Selector.
func (s *Selector) Match(e stream.Event) bool {
	ev := e.(*Event)
	if s.fatal != 0 && slices.Contains(ev.keys, s.fatal) {
		panic("simloop: selector panics")
	}
	if ev.Severity < s.least {
		return false
	}
	for _, set := range s.sets {
		if !overlap(set, ev.keys) {
			return false
		}
	}
	return true
}

func overlap(a, b []uint64) bool {
	for _, k := range a {
		if slices.Contains(b, k) {
			return true
		}
	}
	return false
}

// Candidates implements fanout.Selector.
func (s *Selector) Candidates() [][]uint64 { return s.sets }

// Canonical implements fanout.Selector.
func (s *Selector) Canonical() string { return s.text }
