package fleet

import (
	"container/heap"
	"encoding/json"
	"slices"
	"time"
)

// Accepts are the commands that agents obey, as they declare it in their hello.
func Accepts() []string {
	return []string{typeRespond, typeCancel, typePause, typeResume}
}

const (
	typeRespond = "control.attention.respond"
	typeCancel  = "control.cancel"
	typePause   = "control.pause"
	typeResume  = "control.resume"
)

// command is what an agent reads of a command.
type command struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Source  string      `json:"source"`
	Session string      `json:"session"`
	Run     string      `json:"run"`
	Subject string      `json:"subject"`
	Cause   string      `json:"cause"`
	Data    commandData `json:"data"`
}

type commandData struct {
	Scope  string  `json:"scope"`
	Reason string  `json:"reason"`
	Answer *answer `json:"answer"`
}

// Command hands a command to an agent, at a time since the start. What it brings
// is due at once. It returns false for a command that stays unanswered: of a
// session that the agent does not know any more, one too many, or no command.
// Text is borrowed until return.
func (f *Fleet) Command(at time.Duration, agent int, text []byte) bool {
	if agent < 0 || agent >= len(f.agents) {
		return false
	}
	var c command
	wrong := json.Unmarshal(text, &c)
	if c.ID == "" || c.Session == "" || c.Source == "" || !slices.Contains(Accepts(), c.Type) {
		return false
	}
	due, _ := f.Due()
	f.now = max(f.now, min(at, due))
	a := f.agents[agent]
	if !a.take(&c, wrong) {
		return false
	}
	a.now = f.now
	a.schedule()
	heap.Fix(&f.queue, a.place)
	return true
}

// take plans what a command brings. Malformed tells that a member has a type
// that it cannot have.
func (a *agent) take(c *command, malformed error) bool {
	key := c.Source + "\x00" + c.ID
	ack, again := a.acks[key]
	s := a.scopeOf(c.Session)
	switch {
	case again && ack == nil: // on its way
		return true
	case len(a.urgent) >= urgentCount, !again && s == nil:
		return false
	case again:
		a.urgent = append(a.urgent, task{do: func() []byte { return slices.Clone(ack) }})
		return true
	}
	a.remember(key)
	a.fleet.commands++
	// It is judged when its turn comes, after what commands before it brought;
	// what follows an acceptance comes before all other commands.
	a.urgent = append(a.urgent, task{do: func() []byte {
		reason, detail, follow := "invalid", "a member has the wrong type", []task(nil)
		if malformed == nil {
			reason, detail, follow = a.obey(c, s)
		}
		if reason == "" {
			a.acks[key] = a.emit(s, "control.accepted", more{cause: c.ID})
		} else {
			a.acks[key] = a.emit(s, "control.rejected", more{
				cause: c.ID, severity: "notice", data: a.text(data("reason", reason), "detail", detail),
			})
		}
		a.urgent = append(follow, a.urgent...)
		return slices.Clone(a.acks[key])
	}})
	return true
}

// remember makes room for an acknowledgement (F4, F5).
func (a *agent) remember(key string) {
	a.acks[key] = nil
	if a.ackOrder = append(a.ackOrder, key); len(a.ackOrder) > ackCount {
		delete(a.acks, a.ackOrder[0])
		a.ackOrder = append(a.ackOrder[:0], a.ackOrder[1:]...)
	}
}

// obey returns the reason and the detail of a rejection, or no reason and what
// follows the acceptance.
func (a *agent) obey(c *command, s *scope) (reason, detail string, follow []task) {
	switch {
	case a.bye:
		return "refused", "the demonstration ends", nil
	case !s.open:
		return "invalid", "the session has ended", nil
	case s != a.main && c.Type != typeRespond:
		return "refused", "a sub-agent obeys its parent only: session " + a.main.name, nil
	}
	switch c.Type {
	case typeRespond:
		return a.respond(c, s)
	case typeCancel:
		return a.cancel(c, s)
	case typePause:
		a.held = true
		return "", "", []task{{do: func() []byte { return a.status(s, "paused", 0, "notice") }}}
	default:
		if !a.held {
			return "invalid", "the session is not paused", nil
		}
		a.held = false
		return "", "", []task{{do: func() []byte { return a.status(s, "goes on", 0, "notice") }}}
	}
}

func (a *agent) respond(c *command, s *scope) (reason, detail string, follow []task) {
	q := a.question
	if q == nil || q.answered || q.scope != s || c.Subject != q.id && c.Cause != q.id {
		return "invalid", "there is no such open request", nil
	}
	if wrong := q.check(c.Data.Answer); wrong != "" {
		return "invalid", wrong, nil
	}
	a.plan = slices.DeleteFunc(a.plan, func(t task) bool { return t.question })
	answered := ""
	return "", "", []task{
		{do: func() []byte {
			b := a.answered(q, c.Data.Answer, "control", c.ID)
			answered = s.last
			return b
		}},
		{do: func() []byte { return a.resolve("answered", answered) }},
	}
}

func (a *agent) cancel(c *command, s *scope) (reason, detail string, follow []task) {
	whole := c.Data.Scope == "session"
	switch {
	case !whole && c.Data.Scope != "run":
		return "invalid", "data.scope is neither run nor session", nil
	case !whole && s.run == "":
		return "invalid", "no run is open", nil
	case c.Run != "" && c.Run != s.run:
		return "invalid", "that run is not open", nil
	}
	a.plan, a.held, a.resume = nil, false, false
	then := func(do func() []byte) { follow = append(follow, task{do: do}) }
	if a.question != nil {
		then(a.drop)
	}
	for _, child := range a.past {
		if child == s || !child.open {
			continue
		}
		if child.run != "" {
			then(func() []byte { return a.cancelRun(child, "control", "its parent is cancelled", c.ID) })
		}
		then(func() []byte { return a.endSession(child, "killed", c.ID) })
	}
	if s.run != "" {
		then(func() []byte { return a.cancelRun(s, "control", c.Data.Reason, c.ID) })
	}
	if whole {
		then(func() []byte { return a.endSession(s, "killed", c.ID) })
	}
	return "", "", follow
}
