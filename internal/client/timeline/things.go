package timeline

import (
	"strconv"
	"strings"
)

// run puts in a start or an end of a run.
func (w *weaver) run(i *item) {
	if i.run == "" {
		w.event(w.root, i)
		return
	}
	n := w.runs[i.run]
	if i.typ == "run.started" {
		switch {
		case n == nil || n.begun && n.ended:
			n = w.add(w.root, KindRun, i)
			n.Name = i.run
			w.runs[i.run] = n
			delete(w.steps, i.run) // they begin anew
		case n.begun:
			w.event(n, i)
		default:
			w.begin(n, i)
		}
		return
	}
	if n == nil {
		n = w.unseen(w.root, KindRun, i.run, i)
		w.runs[i.run] = n
	}
	w.endOnce(n, i, map[string]Status{
		"run.finished": StatusFinished, "run.failed": StatusFailed, "run.cancelled": StatusCancelled,
	}[i.typ])
}

// endOnce ends a thing; of a second end it makes an event.
func (w *weaver) endOnce(n *Node, i *item, status Status) {
	if n.ended {
		w.event(n, i)
		return
	}
	w.end(n, i, status)
}

// step puts in a start or an end of a step.
func (w *weaver) step(i *item) {
	if i.run == "" || i.step == "" {
		w.event(w.parent(i), i)
		return
	}
	n := w.steps[i.run][i.step]
	if i.typ == "run.step.started" {
		switch {
		case n == nil || n.begun && n.ended:
			n = w.add(w.parent(&item{run: i.run, time: i.time, epoch: i.epoch}), KindStep, i)
			n.Name = i.step
			w.keepStep(i, n)
		case n.begun:
			w.event(n, i)
		default:
			w.begin(n, i)
		}
		return
	}
	if n == nil {
		n = w.parent(i) // makes it
	}
	n.StartMissing = !n.begun
	w.endOnce(n, i, StatusFinished)
}

// tool puts in a request of a tool or what became of it.
func (w *weaver) tool(i *item) {
	if i.typ == "tool.requested" {
		n := w.calls[[2]string{i.run, i.key}]
		switch {
		case i.key == "" || n == nil || n.begun && n.ended:
			n = w.add(w.parent(i), KindTool, i)
		case n.begun:
			w.event(n, i)
			return
		default:
			w.begin(n, i)
		}
		if i.key != "" {
			w.calls[[2]string{i.run, i.key}] = n
		}
		w.tools[i.id] = n
		name := [2]string{i.run, i.name}
		w.waiting[name] = append(w.waiting[name], n)
		return
	}
	status := map[string]Status{
		"tool.completed": StatusFinished, "tool.failed": StatusFailed, "tool.denied": StatusDenied,
	}[i.typ]
	n := w.request(i)
	if n == nil {
		n = w.unseen(w.parent(i), KindTool, i.name, i)
		n.StartMissing = status != StatusDenied // what is denied need not be requested
		if i.key != "" {
			w.calls[[2]string{i.run, i.key}] = n
		}
	}
	w.endOnce(n, i, status)
}

// request finds what a tool's outcome belongs to: by its call id, by its
// cause, or the first of that name in the run which is open.
func (w *weaver) request(i *item) *Node {
	if i.key != "" {
		if n := w.calls[[2]string{i.run, i.key}]; n != nil {
			return n
		}
	}
	if n := w.tools[i.cause]; n != nil && i.cause != "" && !n.ended && n.Name == i.name {
		return n
	}
	if i.key != "" {
		return nil
	}
	name := [2]string{i.run, i.name}
	for len(w.waiting[name]) > 0 {
		n := w.waiting[name][0]
		w.waiting[name] = w.waiting[name][1:]
		if !n.ended {
			return n
		}
	}
	return nil
}

// question puts in an attention request, its way and its end.
func (w *weaver) question(i *item) {
	if i.typ == "attention.requested" {
		n := w.attention[i.id]
		switch {
		case n == nil:
			w.attention[i.id] = w.add(w.parent(i), KindAttention, i)
		case n.begun:
			w.event(n, i)
		default:
			n.Name = i.name
			w.begin(n, i)
		}
		return
	}
	n := w.attention[i.subject]
	if n == nil || i.subject == "" {
		n = w.unseen(w.parent(i), KindAttention, "", i)
		n.ID = i.subject
		w.attention[i.subject] = n
	}
	switch i.typ {
	case "attention.answered":
		w.endOnce(n, i, StatusAnswered)
	case "attention.timeout":
		w.endOnce(n, i, StatusTimeout)
	case "attention.resolved":
		w.resolved(n, i)
	case "control.attention.respond":
		w.commands[i.id] = w.add(n, KindCommand, i)
	default:
		w.event(n, i)
	}
}

// resolved closes a question. Mostly it was answered before, and this adds
// what it took.
func (w *weaver) resolved(n *Node, i *item) {
	if n.ended && i.name == string(n.Status) {
		if i.duration >= 0 {
			n.DurationMillis = new(i.duration)
		}
		return
	}
	if i.words == "" {
		i.words = i.name
	}
	w.endOnce(n, i, StatusResolved)
}

// delegation puts in the start or the end of another agent's work.
func (w *weaver) delegation(i *item) {
	key := [2]string{i.run, i.key}
	n := w.delegations[key]
	if i.typ == "delegation.subagent.started" {
		switch {
		case n == nil || n.begun:
			n = w.add(w.parent(i), KindDelegation, i)
		default:
			w.begin(n, i)
		}
		w.delegations[key] = n
		return
	}
	if n == nil {
		n = w.unseen(w.parent(i), KindDelegation, i.name, i)
		w.delegations[key] = n
	}
	w.endOnce(n, i, StatusFinished)
}

// verdict puts in what an agent has said to a command.
func (w *weaver) verdict(i *item) {
	n := w.commands[i.cause]
	if n == nil || i.cause == "" {
		w.event(w.parent(i), i).Detail = strings.TrimSpace(i.words + " for=" + i.cause)
		return
	}
	status := StatusAccepted
	if i.typ == "control.rejected" {
		status = StatusRejected
	}
	w.endOnce(n, i, status)
}

// missing says what a gap lacks: the events from next up to and without seq.
func (w *weaver) missing(next, seq int64, restart bool) string {
	switch {
	case seq <= next:
		return "the relay has dropped events before this"
	case !w.placed || restart:
		return "begins at seq " + strconv.FormatInt(seq, 10) + ": what was before is not here"
	case seq == next+1:
		return "1 event is not here: seq " + strconv.FormatInt(next, 10)
	}
	return strconv.FormatInt(seq-next, 10) + " events are not here: seq " + strconv.FormatInt(next, 10) +
		" to " + strconv.FormatInt(seq-1, 10)
}
