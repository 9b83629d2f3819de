package fleet

import "fmt"

// planSession begins a session.
func (a *agent) planSession() {
	s := a.newScope()
	a.main, a.runsWanted = s, 1+a.rng.IntN(3)
	a.add(2, func() []byte { return a.startSession(s, "", nil) })
}

func (a *agent) startSession(s *scope, cause string, parent payload) []byte {
	s.open, s.began = true, a.now
	d := data("client", payload{"name": "sluice-demo", "version": "1"}).with("gen_ai.request.model", a.profile.model)
	if parent != nil {
		d.with("parent", parent)
	}
	a.text(d, "cwd", "/home/demo/"+a.profile.name)
	return a.emit(s, "session.started", more{cause: cause, data: a.text(d, "label", a.profile.name+" at work")})
}

func (a *agent) endSession(s *scope, reason, cause string) []byte {
	s.open = false
	d := data("reason", reason).with("duration_ms", a.millis(s.began)).with("runs", s.runs)
	return a.emit(s, "session.ended", more{cause: cause, data: d})
}

// planRun plans a run from its start to its end.
func (a *agent) planRun() {
	s, prompt := a.main, pick(a, a.profile.prompts)
	trigger := "user"
	if a.resume {
		trigger, a.resume = "resume", false
	} else if a.chance(0.5) {
		a.add(2, func() []byte {
			return a.emit(s, "message.user.submitted", more{data: a.text(payload{}, "text", prompt)})
		})
	}
	a.add(1, func() []byte { return a.startRun(s, trigger, prompt, "") })
	steps := 1 + a.rng.IntN(len(a.profile.steps))
	tasks := a.chance(0.6)
	if tasks {
		for i := range steps {
			a.add(0.2, func() []byte { return a.emit(s, "progress.task.planned", more{data: a.todo(i)}) })
		}
	}
	for i := range steps {
		a.planStep(s, i, steps)
		if tasks {
			a.add(0.3, func() []byte {
				return a.emit(s, "progress.task.completed", more{data: a.todo(i).with("status", "completed")})
			})
		}
		switch p := a.rng.Float64(); {
		case p < 0.02:
			a.planRestart(s)
			return
		case p < 0.06:
			a.planFailure(s)
			return
		}
	}
	a.planSuccess(s)
}

func (a *agent) todo(i int) payload {
	return data("task", a.text(data("id", fmt.Sprint("t", i+1)), "title", a.profile.steps[i]))
}

func (a *agent) startRun(s *scope, trigger, prompt, cause string) []byte {
	s.runs++
	s.run, s.runBegan = fmt.Sprint("r", s.runs), a.now
	s.trace = a.digest()
	b := a.emit(s, "run.started", more{cause: cause, trace: true, data: a.text(data("trigger", trigger), "prompt", prompt)})
	s.runID = s.last
	return b
}

// endRun makes the event that ends the open run, of a type with its data.
func (a *agent) endRun(s *scope, typ, severity, cause string, d payload) []byte {
	s.step = ""
	b := a.emit(s, typ, more{
		cause: cause, severity: severity, trace: true, data: d.with("duration_ms", a.millis(s.runBegan)),
	})
	s.run, s.trace = "", ""
	return b
}

func (a *agent) cancelRun(s *scope, by, reason, cause string) []byte {
	return a.endRun(s, "run.cancelled", "notice", cause, a.text(data("by", by), "reason", reason))
}

func (a *agent) failRun(s *scope, reason string, f fault) []byte {
	return a.endRun(s, "run.failed", "error", s.last, data("reason", reason).with("error", a.fault(f)))
}

func (a *agent) planSuccess(s *scope) {
	reply := pick(a, a.profile.replies)
	if a.chance(0.4) {
		a.add(1, func() []byte {
			n := a.rng.IntN(90_000)
			artifact := data("id", fmt.Sprint("a", s.seq)).with("mime", "text/markdown").with("bytes", n)
			a.text(artifact, "name", "report.md")
			return a.emit(s, "progress.artifact.produced", more{data: data("artifact", a.text(artifact, "uri", "file:///tmp/report.md"))})
		})
	}
	if a.chance(0.6) {
		a.add(1, func() []byte {
			return a.emit(s, "message.agent.replied", more{data: a.text(payload{}, "text", reply)})
		})
	}
	a.add(1, func() []byte {
		return a.endRun(s, "run.finished", "", s.runID, a.usage(a.text(payload{}, "summary", reply)))
	})
	if a.chance(0.25) {
		rating, label := 1, "thumbs_up"
		if a.chance(0.3) {
			rating, label = -1, "thumbs_down"
		}
		a.add(4, func() []byte {
			d := data("rating", rating).with("label", label).with("source", "human")
			return a.emit(s, "assessment.feedback.received", more{cause: s.last, data: a.text(d, "comment", "from the demonstration")})
		})
	}
}

func (a *agent) planFailure(s *scope) {
	f := pick(a, pick(a, a.profile.tools).faults)
	a.add(0.5, func() []byte {
		d := data("error", a.fault(f)).with("code", f.kind).with("fatal", true)
		return a.emit(s, "error.raised", more{severity: "critical", data: d})
	})
	a.add(0.5, func() []byte { return a.failRun(s, "error", f) })
}

// planRestart has the agent vanish in the middle of a run. It comes back as a
// new process that knows its session, but not how far its sequence went: so it
// begins a new epoch, as the envelope demands.
func (a *agent) planRestart(s *scope) {
	a.add(6, func() []byte {
		a.fresh = true
		a.fleet.restarts++
		return a.presence("online")
	})
	a.add(0.5, func() []byte {
		s.epoch, s.seq, s.step = s.epoch+1, 0, ""
		return a.failRun(s, "agent_restarted", fault{"process_ended", "the agent ended without a word"})
	})
	a.resume = true
}

// planEnd ends the session and has the agent rest.
func (a *agent) planEnd() {
	s := a.main
	if a.chance(0.3) {
		a.add(1, func() []byte {
			tokens := 60_000 + a.rng.IntN(60_000)
			d := data("trigger", "auto").with("strategy", "truncate-middle").with("estimated_token_count", tokens)
			return a.emit(s, "session.compacted", more{data: d.with("forgotten", 1+a.rng.IntN(20))})
		})
	}
	a.add(2, func() []byte { return a.endSession(s, "normal", "") })
	a.add(1, func() []byte {
		return a.emitAgent("agent.idle", more{data: data("since_ms", a.millis(s.began)).with("reason", "awaiting_input")})
	})
	if a.chance(0.3) {
		a.add(2, func() []byte {
			d := a.text(data("status", "degraded"), "detail", "tools answer slowly")
			return a.emitAgent("agent.health", more{severity: "warning", data: d})
		})
	}
	a.add(3, a.heartbeat)
}

func (a *agent) heartbeat() []byte {
	a.ticks++
	d := data("tick", a.ticks).with("interval_ms", 30_000)
	return a.emitAgent("agent.heartbeat", more{severity: "debug", data: d})
}

func (a *agent) presence(state string) []byte {
	return a.emitAgent("agent.presence", more{severity: "debug", data: data("state", state)})
}
