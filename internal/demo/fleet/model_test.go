package fleet

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
)

// start is what the clock of all tests shows first.
var start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// seen is an event as the tests read it.
type seen struct {
	ID, Type, Subject, Time, Source, Agent, Session, Run, Step string
	Seq, Epoch                                                 *int64
	Cause, Severity, Capture, Demofleet                        string
	Data                                                       map[string]any
	text                                                       string
}

func parse(t testing.TB, text []byte) seen {
	t.Helper()
	e := seen{text: string(text)}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return e
}

// model follows what a fleet publishes and fails on what no agent would do.
type model struct {
	t        testing.TB
	scanner  aep.Scanner
	sessions map[string]*modelSession
	ids      map[string]bool
	types    map[string]int
	captures map[string]int
	severity map[string]int
	acks     map[string]string // by cause: the text
	epochs   int               // above 0
	last     time.Duration
}

type modelSession struct {
	agent      string
	next       int64
	epoch      int64
	open, over bool
	run        string
	step       string
	questions  map[string]string // by id: requested, answered, closed
}

func newModel(t testing.TB) *model {
	return &model{
		t: t, sessions: map[string]*modelSession{}, ids: map[string]bool{}, types: map[string]int{},
		captures: map[string]int{}, severity: map[string]int{}, acks: map[string]string{},
	}
}

// take checks one event: its envelope with the codec of the relay, and what it
// means after those before.
func (m *model) take(ev Event) seen {
	m.t.Helper()
	e := parse(m.t, ev.Text)
	if err := m.scanner.Scan(ev.Text); err != nil {
		m.t.Fatalf("%v: %s", err, ev.Text)
	}
	if _, err := m.scanner.Event(); err != nil {
		m.t.Fatalf("F2: %v: %s", err, ev.Text)
	}
	if ev.At < m.last {
		m.t.Fatalf("time goes from %v to %v", m.last, ev.At)
	}
	m.last = ev.At
	m.types[e.Type]++
	m.captures[e.Capture]++
	m.severity[e.Severity]++
	again := m.ids[e.Source+e.ID]
	m.ids[e.Source+e.ID] = true
	switch e.Type {
	case "control.accepted", "control.rejected":
		if text, known := m.acks[e.Cause]; known {
			if text != e.text {
				m.t.Fatalf("F4: second acknowledgement differs:\n%s\n%s", text, e.text)
			}
			return e
		}
		m.acks[e.Cause] = e.text
	}
	if again {
		m.t.Fatalf("id given twice: %s", ev.Text)
	}
	if e.Session != "" {
		if wrong := m.session(e); wrong != "" {
			m.t.Fatalf("%s: %s", wrong, ev.Text)
		}
	}
	return e
}

// session checks an event against what is open in its session.
func (m *model) session(e seen) string {
	s := m.sessions[e.Session]
	if s == nil {
		s = &modelSession{agent: e.Agent, questions: map[string]string{}}
		m.sessions[e.Session] = s
	}
	if *e.Epoch == s.epoch+1 && *e.Seq == 0 {
		s.epoch, s.next, s.step = *e.Epoch, 0, ""
		m.epochs++
	}
	if *e.Epoch != s.epoch || *e.Seq != s.next || e.Agent != s.agent {
		return fmt.Sprintf("F3: want epoch %d, seq %d", s.epoch, s.next)
	}
	s.next++
	if s.over && e.Type != "control.rejected" {
		return "event after the end of the session"
	}
	if s.run != e.Run && e.Type != "run.started" {
		return "run is not the open one"
	}
	return s.step1(e)
}

func (s *modelSession) step1(e seen) string {
	switch e.Type {
	case "session.started":
		if s.open || s.over {
			return "started twice"
		}
		s.open = true
	case "session.ended":
		if s.run != "" {
			return "ended with an open run"
		}
		for id, state := range s.questions {
			if state != "closed" {
				return "ended with the open question " + id
			}
		}
		s.open, s.over = false, true
	case "run.started":
		if s.run != "" || !s.open {
			return "run started where none can"
		}
		s.run = e.Run
	case "run.finished", "run.failed", "run.cancelled":
		if s.run == "" {
			return "no run is open"
		}
		s.run = ""
	case "attention.requested":
		s.questions[e.ID] = "requested"
	case "attention.answered":
		if s.questions[e.Subject] != "requested" {
			return "answers nothing"
		}
		s.questions[e.Subject] = "answered"
	case "attention.resolved", "attention.timeout":
		if state := s.questions[e.Subject]; state != "answered" && state != "requested" {
			return "resolves nothing"
		}
		s.questions[e.Subject] = "closed"
	}
	return ""
}

// open returns how many sessions are open.
func (m *model) open() (n int) {
	for _, s := range m.sessions {
		if s.open {
			n++
		}
	}
	return n
}
