package fleet

import (
	"fmt"
	"strconv"
)

// planStep plans one step of a run: what an agent does between thoughts.
func (a *agent) planStep(s *scope, i, of int) {
	a.add(1, func() []byte {
		s.step = strconv.Itoa(i + 1)
		return a.emit(s, "run.step.started", more{data: a.text(data("initial_num_steps", of), "name", a.profile.steps[i])})
	})
	for range 1 + a.rng.IntN(3) {
		switch p := a.rng.Float64(); {
		case p < 0.55:
			a.planTool(s)
		case p < 0.72:
			says, percent := pick(a, a.profile.says), float64(a.rng.IntN(101))
			a.add(1, func() []byte { return a.status(s, says, percent, "info") })
		case p < 0.78:
			a.planRetrieval(s)
		case p < 0.83:
			a.planDelegation(s)
		case p < 0.89:
			a.planQuestion(s)
		case p < 0.94:
			a.planState(s)
		default:
			a.add(0.5, func() []byte { // of a vendor's own, with no payload
				return a.emit(s, "x.sluice-demo.run.thought", more{severity: "debug"})
			})
		}
	}
	a.add(0.5, func() []byte {
		b := a.emit(s, "run.step.finished", more{data: data("status", "success")})
		s.step = ""
		return b
	})
}

func (a *agent) status(s *scope, says string, percent float64, severity string) []byte {
	d := data("phase", "work").with("percent", percent)
	return a.emit(s, "progress.status", more{severity: severity, data: a.text(d, "message", says)})
}

// planTool plans a call of a tool: asked for first if it is guarded, failing or
// taking long now and then.
func (a *agent) planTool(s *scope) {
	t := pick(a, a.profile.tools)
	if t.guarded {
		a.planPermission(s, t)
		return
	}
	if a.chance(0.03) {
		a.add(1, func() []byte { return a.denied(s, t, "policy") })
		return
	}
	a.plan = append(a.plan, a.call(s, t)...)
}

// call returns the events of one call.
func (a *agent) call(s *scope, t tool) []task {
	id, cause, began := a.callID(), "", a.now
	tasks := []task{{wait: 0.8, do: func() []byte {
		began = a.now
		d := data("tool", payload{"name": t.name, "call_id": id}).with("args_digest", a.digest())
		args := payload{t.arg: pick(a, t.values)}
		a.text(d, "args_redacted", args)
		b := a.emit(s, "tool.requested", more{subject: t.name, trace: true, cause: s.runID, data: a.whole(d, "args", args)})
		cause = s.last
		return b
	}}}
	took := 0.3 + 1.5*a.rng.Float64()
	if t.long && a.chance(0.4) {
		for i := range 3 {
			tasks = append(tasks, task{wait: 3 + 3*a.rng.Float64(), do: func() []byte {
				return a.status(s, t.name+" is still at it", float64(25*(i+1)), "debug")
			}})
		}
	}
	failed := a.chance(0.12)
	return append(tasks, task{wait: took, do: func() []byte {
		d := data("tool", payload{"name": t.name, "call_id": id}).with("duration_ms", a.millis(began))
		m := more{subject: t.name, trace: true, cause: cause, data: d}
		if failed {
			m.severity = "error"
			d.with("error", a.fault(pick(a, t.faults)))
			return a.emit(s, "tool.failed", m)
		}
		result := pick(a, t.results)
		d.with("status", "success")
		a.text(d, "result_redacted", result)
		a.whole(d, "result", payload{"text": result})
		m.data = a.usage(d)
		return a.emit(s, "tool.completed", m)
	}})
}

func (a *agent) denied(s *scope, t tool, by string) []byte {
	d := data("tool", payload{"name": t.name, "call_id": a.callID()}).with("by", by)
	return a.emit(s, "tool.denied", more{
		subject: t.name, severity: "warning", trace: true, data: d.with("rule", "deny "+t.name),
	})
}

func (a *agent) planRetrieval(s *scope) {
	const query = "what do the notes of last month say?"
	cause, began := "", a.now
	a.add(1, func() []byte {
		began = a.now
		d := data("query_digest", a.digest()).with("corpus", "notes").with("top_k", 3)
		b := a.emit(s, "resource.retrieval.requested", more{trace: true, data: a.text(d, "query", query)})
		cause = s.last
		return b
	})
	a.add(0.4, func() []byte {
		var documents []payload
		for i := range 1 + a.rng.IntN(3) {
			d := data("id", fmt.Sprint("note-", a.rng.IntN(400))).with("score", round(0.9-0.1*float64(i)))
			documents = append(documents, a.text(d, "content_redacted", "a paragraph of a note"))
		}
		d := data("documents", documents).with("count", len(documents)).with("corpus", "notes")
		return a.emit(s, "resource.retrieval.returned", more{
			trace: true, cause: cause, data: d.with("duration_ms", a.millis(began)),
		})
	})
}

func (a *agent) planState(s *scope) {
	a.add(0.5, func() []byte {
		d := data("key", "plan").with("rev", 1)
		return a.emit(s, "state.snapshot", more{data: a.text(d, "state", payload{"done": 1, "phase": "work"})})
	})
	a.add(1, func() []byte {
		d := data("key", "plan").with("rev", 2)
		delta := []payload{{"op": "replace", "path": "/done", "value": 2}}
		return a.emit(s, "state.delta", more{data: a.text(d, "delta", delta)})
	})
}

// planDelegation hands work to a sub-agent, which has a session of its own.
func (a *agent) planDelegation(s *scope) {
	child := a.newScope()
	role := pick(a, []string{"searcher", "checker"})
	cause, began := "", a.now
	who := func(d payload) payload {
		return d.with("child", payload{"session": child.name, "agent": a.name}).with("agent_type", role)
	}
	a.add(1, func() []byte {
		began = a.now
		b := a.emit(s, "delegation.subagent.started", more{trace: true, data: who(data("role", role))})
		cause = s.last
		return b
	})
	a.add(0.4, func() []byte {
		return a.startSession(child, cause, payload{"session": s.name, "run": s.run, "agent": a.name})
	})
	a.add(0.4, func() []byte { return a.startRun(child, "agent", "look into it", child.last) })
	a.plan = append(a.plan, a.call(child, a.profile.tools[0])...)
	a.add(1, func() []byte { return a.endRun(child, "run.finished", "", child.runID, a.usage(payload{})) })
	a.add(0.3, func() []byte { return a.endSession(child, "normal", child.last) })
	a.add(0.3, func() []byte {
		d := who(data("status", "ok")).with("duration_ms", a.millis(began))
		return a.emit(s, "delegation.subagent.stopped", more{trace: true, cause: cause, data: d})
	})
}
