package timeline

import (
	"slices"
	"strings"

	"github.com/sluice-relay/sluice/codec/aep"
)

// weaver makes the tree of items in order.
type weaver struct {
	t    *Timeline
	root *Node
	gaps map[position]struct{}

	runs        map[string]*Node
	steps       map[string]map[string]*Node // by run and step
	calls       map[[2]string]*Node         // run, call id
	waiting     map[[2]string][]*Node
	tools       map[string]*Node // by the id of the request
	attention   map[string]*Node // by the id of the request
	commands    map[string]*Node
	delegations map[[2]string]*Node // run, key

	last   position
	placed bool // last is set
}

func newWeaver(b *Builder) *weaver {
	return &weaver{
		t:    &Timeline{Session: b.session, Events: len(b.items), Repeated: b.repeated, LeftOut: b.leftOut},
		root: &Node{}, gaps: b.gaps,
		runs: map[string]*Node{}, steps: map[string]map[string]*Node{}, calls: map[[2]string]*Node{},
		waiting: map[[2]string][]*Node{}, tools: map[string]*Node{}, attention: map[string]*Node{},
		commands: map[string]*Node{}, delegations: map[[2]string]*Node{},
	}
}

// weave puts one item into the tree.
func (w *weaver) weave(i *item) {
	w.header(i)
	if i.hasSeq {
		w.position(i)
	}
	switch i.typ {
	case "run.started", "run.finished", "run.failed", "run.cancelled":
		w.run(i)
	case "run.step.started", "run.step.finished":
		w.step(i)
	case "tool.requested", "tool.completed", "tool.failed", "tool.denied":
		w.tool(i)
	case "attention.requested", "attention.routed", "attention.answered", "attention.resolved",
		"attention.timeout", "control.attention.respond":
		w.question(i)
	case "delegation.subagent.started", "delegation.subagent.stopped":
		w.delegation(i)
	case "control.accepted", "control.rejected":
		w.verdict(i)
	default:
		if aep.ClassOf(i.typ) == aep.ClassCommand {
			w.commands[i.id] = w.add(w.parent(i), KindCommand, i)
			return
		}
		w.event(w.parent(i), i)
	}
}

// header keeps what is told of the session as a whole.
func (w *weaver) header(i *item) {
	if !slices.Contains(w.t.Agents, i.agent) && len(w.t.Agents) < 100 {
		w.t.Agents = append(w.t.Agents, i.agent)
	}
	if i.hasSeq && !i.time.IsZero() { // others' clocks do not count
		if w.t.Start.IsZero() || i.time.Before(w.t.Start) {
			w.t.Start = i.time
		}
		if i.time.After(w.t.End) {
			w.t.End = i.time
		}
	}
	switch {
	case i.typ == "session.ended":
		w.t.Ended = true
	case i.hasSeq && !strings.HasPrefix(i.typ, "control."): // the answer to a command comes late
		w.t.Ended = false
	}
	if i.typ == "error.raised" {
		w.t.Errors++
	}
}

// position tells of restarts and gaps before an item (T4).
func (w *weaver) position(i *item) {
	now := position{i.epoch, i.seq}
	next := w.last.seq + 1
	restart := w.placed && i.epoch > w.last.epoch
	if restart || !w.placed {
		next = 0
	}
	parent := w.root
	if run := w.runs[i.run]; run != nil && !run.ended && i.run != "" {
		parent = run
	}
	if restart {
		w.mark(parent, &Node{Kind: KindRestart, Epoch: i.epoch})
	}
	_, announced := w.gaps[now]
	if i.seq > next || announced {
		w.mark(parent, &Node{
			Kind: KindGap, Epoch: i.epoch, Missing: max(i.seq-next, 0), Announced: announced,
			Name: w.missing(next, i.seq, restart),
		})
	}
	w.last, w.placed = now, true
}

// mark adds a node that is no event.
func (w *weaver) mark(parent, n *Node) { parent.Children = append(parent.Children, n) }

// parent returns what an item belongs into: its step, its run, or the session.
// What is not there is made.
func (w *weaver) parent(i *item) *Node {
	if i.run == "" {
		return w.root
	}
	run := w.runs[i.run]
	if run == nil {
		run = w.unseen(w.root, KindRun, i.run, i)
		w.runs[i.run] = run
	}
	if i.step == "" {
		return run
	}
	step := w.steps[i.run][i.step]
	if step == nil {
		step = w.unseen(run, KindStep, i.step, i)
		step.Status, step.StartMissing = StatusNone, false // a step needs no events of its own
		w.keepStep(i, step)
	}
	return step
}

// keepStep makes n the step that events of its name belong to.
func (w *weaver) keepStep(i *item, n *Node) {
	if w.steps[i.run] == nil {
		w.steps[i.run] = map[string]*Node{}
	}
	w.steps[i.run][i.step] = n
}

// add adds a thing that begins with an item.
func (w *weaver) add(parent *Node, kind Kind, i *item) *Node {
	n := &Node{Kind: kind, Name: i.name, Status: StatusOpen}
	w.begin(n, i)
	parent.Children = append(parent.Children, n)
	return n
}

// unseen adds a thing whose start was not seen, but the item of it.
func (w *weaver) unseen(parent *Node, kind Kind, name string, i *item) *Node {
	n := &Node{Kind: kind, Name: name, Status: StatusOpen, Start: i.time, Epoch: i.epoch, StartMissing: true}
	parent.Children = append(parent.Children, n)
	return n
}

// begin makes an item the start of a thing, which may have ended already.
func (w *weaver) begin(n *Node, i *item) {
	n.begun, n.StartMissing = true, false
	n.Start, n.Detail, n.Epoch = i.time, i.words, i.epoch
	if n.Kind == KindAttention || n.Kind == KindCommand {
		n.ID = i.id
	}
	if n.Status == StatusNone {
		n.Status = StatusOpen
	}
	n.rate(i)
	if n.ended {
		n.measure()
	}
}

// end makes an item the end of a thing.
func (w *weaver) end(n *Node, i *item, status Status) {
	n.ended, n.Status, n.End, n.Outcome = true, status, i.time, i.words
	if i.duration >= 0 {
		n.DurationMillis = new(i.duration)
	}
	n.rate(i)
	n.measure()
}

// measure sets a duration that was not told.
func (n *Node) measure() {
	if n.DurationMillis == nil && n.begun && !n.Start.IsZero() && !n.End.Before(n.Start) {
		n.DurationMillis = new(n.End.Sub(n.Start).Milliseconds())
	}
}

// rate keeps the highest severity of a thing's own events.
func (n *Node) rate(i *item) {
	if old, ok := aep.ParseSeverity(n.Severity); !ok && i.severity != aep.SeverityInfo || ok && i.severity > old {
		n.Severity = i.severity.String()
	}
}

// event adds an item as a line of its own.
func (w *weaver) event(parent *Node, i *item) *Node {
	n := &Node{Kind: KindEvent, Name: i.typ, Start: i.time, Epoch: i.epoch, Detail: i.words, begun: true}
	n.rate(i)
	parent.Children = append(parent.Children, n)
	return n
}

// finish decides what is open, and counts (T3).
func (w *weaver) finish() *Timeline {
	w.t.Children = w.root.Children
	w.t.Totals = map[Kind]map[Status]int{}
	w.settle(w.root, w.t.Ended)
	return w.t
}

func (w *weaver) settle(parent *Node, over bool) {
	for _, n := range parent.Children {
		if n.Status == StatusOpen && over {
			n.Status = StatusUnended
		}
		if n.Kind != KindEvent {
			if w.t.Totals[n.Kind] == nil {
				w.t.Totals[n.Kind] = map[Status]int{}
			}
			w.t.Totals[n.Kind][n.Status]++
		}
		w.settle(n, over || n.ended)
	}
}
