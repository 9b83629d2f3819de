package fleet

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Windows of questions, in seconds at scale 1: those that are left to commands
// have to be seen, read and answered by a human.
const (
	commandWindow = 45
	otherWindow   = 20
)

// question is an open attention request of an agent.
type question struct {
	scope     *scope
	id        string // of the request
	at        time.Duration
	kind      string
	options   []string // ids of what may be chosen, nil for a form
	allow     string   // the option that lets the agent go on
	byCommand bool     // nobody answers it but a command
	answered  bool     // it is told, and only the end is to come
	granted   *bool    // set by the answer
}

// answer is what a question was answered with.
type answer struct {
	Option string                     `json:"option"`
	Text   string                     `json:"text"`
	Values map[string]json.RawMessage `json:"values"`
}

// field is one of a form.
type field struct{ id, kind, label string }

var form = []field{
	{"staged", "boolean", "Deploy to staging first?"},
	{"percent", "number", "How many percent of the hosts?"},
	{"note", "string", "A note for the log"},
}

// planPermission calls a guarded tool, mostly after a human was asked.
func (a *agent) planPermission(s *scope, t tool) {
	if !a.chance(0.6) {
		a.plan = append(a.plan, a.call(s, t)...)
		return
	}
	granted := new(bool)
	options := [][2]string{{"allow", "Allow"}, {"deny", "Deny"}}
	a.ask(s, "permission", t.name, "Permission requested: "+t.name+" "+pick(a, t.values), options, granted)
	a.add(0.3, func() []byte {
		if !*granted {
			return a.denied(s, t, "user_setting")
		}
		call := a.call(s, t)
		a.insert(call[1:]...)
		return call[0].do()
	})
}

// planQuestion asks for something else than a permission.
func (a *agent) planQuestion(s *scope) {
	if a.chance(0.3) {
		a.ask(s, "form", "rollout", "How shall I roll this out?", nil, new(bool))
		return
	}
	q := pick(a, questions)
	a.ask(s, q.kind, q.subject, q.prompt, q.options, new(bool))
}

// ask plans a request, and how it ends if no command answers it.
func (a *agent) ask(s *scope, kind, subject, prompt string, options [][2]string, granted *bool) {
	byCommand := a.fleet.cfg.Control && a.chance(0.5)
	window, expires := float64(otherWindow), byCommand || a.chance(0.2)
	if byCommand {
		window = commandWindow
	}
	a.add(1, func() []byte {
		q := &question{scope: s, at: a.now, kind: kind, byCommand: byCommand, granted: granted}
		d := data("kind", kind)
		if a.level >= levelRedacted {
			d["prompt"] = prompt
		} else { // nothing but structure, as R249 has it
			d["prompt"] = a.name + " requests " + kind + ": " + subject
		}
		if kind == "form" {
			d["fields"] = a.fields()
		} else {
			d["options"] = a.options(q, options)
		}
		// The wait that is drawn for the end varies; the promise does not.
		open := time.Duration(window * a.fleet.scale * float64(time.Second))
		d["expires_at"] = a.fleet.base.Add(a.now + open).UTC().Format(time.RFC3339)
		d["respond_via"] = []string{"oob"}
		if a.fleet.cfg.Control {
			d["respond_via"] = []string{"control", "oob"}
		}
		b := a.emit(s, "attention.requested", more{subject: subject, severity: "notice", trace: true, cause: s.runID, data: d})
		q.id, a.question = s.last, q
		a.insert(a.ending(q, expires, window)...)
		return b
	})
}

// ending returns how a question ends without a command.
func (a *agent) ending(q *question, expires bool, window float64) []task {
	if expires {
		return []task{{wait: window, question: true, do: func() []byte {
			a.question = nil
			return a.emit(q.scope, "attention.timeout", more{
				subject: q.id, severity: "notice", cause: q.id, data: data("after_ms", a.millis(q.at)),
			})
		}}}
	}
	made := &answer{}
	switch {
	case q.kind == "form":
		made.Values = map[string]json.RawMessage{"staged": json.RawMessage("true"), "percent": json.RawMessage("20")}
	case a.chance(0.75):
		made.Option = q.allow
	default:
		made.Option = q.options[len(q.options)-1]
	}
	answered := ""
	return []task{
		{wait: 3 + 5*a.rng.Float64(), question: true, do: func() []byte {
			b := a.answered(q, made, "oob", q.id)
			answered = q.scope.last
			return b
		}},
		{wait: 0.1, question: true, do: func() []byte { return a.resolve("answered", answered) }},
	}
}

// answered tells how a question was answered.
func (a *agent) answered(q *question, w *answer, via, cause string) []byte {
	q.answered = true
	*q.granted = q.kind == "form" || w.Option == q.allow
	d := payload{}
	if w.Option != "" {
		d["option"] = w.Option
	}
	if w.Text != "" {
		a.text(d, "text", w.Text)
	}
	if w.Values != nil {
		d["values"] = a.values(w.Values)
	}
	m := more{subject: q.id, cause: cause, data: data("answer", d).with("via", via)}
	if via == "oob" {
		m.data.with("by", "colleague")
	}
	return a.emit(q.scope, "attention.answered", m)
}

// values keeps what the form asks for, and strings only where they may be.
func (a *agent) values(in map[string]json.RawMessage) payload {
	out := payload{}
	for _, f := range form {
		raw, present := in[f.id]
		if present && f.fits(raw) && (f.kind != "string" || a.level >= levelRedacted) {
			out[f.id] = raw
		}
	}
	return out
}

// fits tells whether a value is of the field's type.
func (f field) fits(raw json.RawMessage) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	kind := ""
	switch v.(type) {
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
	case string:
		kind = "string"
	}
	return kind == f.kind
}

// resolve closes the open question.
func (a *agent) resolve(how, cause string) []byte {
	q := a.question
	a.question = nil
	d := data("resolution", how).with("latency_ms", a.millis(q.at))
	return a.emit(q.scope, "attention.resolved", more{subject: q.id, cause: cause, data: d})
}

// drop closes the open question without an answer, if it has none.
func (a *agent) drop() []byte {
	if a.question.answered {
		return a.resolve("answered", a.question.id)
	}
	return a.resolve("dismissed", a.question.id)
}

// options returns what may be chosen; labels say nothing at level metadata
// (R250).
func (a *agent) options(q *question, list [][2]string) []payload {
	var out []payload
	for i, o := range list {
		label := o[1]
		if a.level < levelRedacted {
			label = strconv.Itoa(i + 1)
		}
		q.options = append(q.options, o[0])
		out = append(out, payload{"id": o[0], "label": label})
	}
	q.allow = q.options[0]
	return out
}

func (a *agent) fields() []payload {
	var out []payload
	for i, f := range form {
		label := f.label
		if a.level < levelRedacted {
			label = strconv.Itoa(i + 1)
		}
		out = append(out, payload{"id": f.id, "type": f.kind, "label": label})
	}
	return out
}

// check tells what is wrong with an answer, "" if nothing is.
func (q *question) check(w *answer) string {
	switch {
	case w == nil:
		return "no answer"
	case q.kind == "form" && w.Values == nil:
		return "a form wants answer.values"
	case q.kind == "form":
		for _, f := range form {
			if raw, present := w.Values[f.id]; present && !f.fits(raw) {
				return f.id + " wants a " + f.kind
			}
		}
	case !slices.Contains(q.options, w.Option):
		return "answer.option is none of the options"
	}
	return ""
}
