package render

import "strings"

// tellers has for each registered type with a payload what is told of it
// (AEP-0002, section 4; payload schemas of AEP 0.1).
var tellers = map[string]func(*summary){
	"session.started": func(s *summary) {
		s.text("label")
		s.text("client", "name")
		s.text("client", "version")
		s.tag("model", s.Data.Text("gen_ai.request.model"))
		s.tag("parent", slash(s.Data.Text("parent", "session"), s.Data.Text("parent", "run")))
		s.tag("cwd", s.Data.Text("cwd"))
	},
	"session.ended": func(s *summary) {
		s.text("reason")
		s.millis("duration_ms")
		s.tag("runs", s.Data.Text("runs"))
	},
	"session.compacted": func(s *summary) {
		s.text("trigger")
		s.text("strategy")
		s.tag("forgotten", s.Data.Text("forgotten"))
		s.tag("estimate", s.Data.Text("estimated_token_count"))
		s.usage()
	},
	"run.started": func(s *summary) {
		s.add(colon(s.Data.Text("trigger"), s.Data.Text("prompt")))
		s.usage()
	},
	"run.finished": func(s *summary) {
		s.millis("duration_ms")
		s.usage()
		s.text("summary")
	},
	"run.failed": func(s *summary) {
		s.add(colon(s.Data.Text("reason"), s.Data.Failure()))
		s.millis("duration_ms")
	},
	"run.cancelled": func(s *summary) {
		s.add(colon(prefixed("by ", s.Data.Text("by")), s.Data.Text("reason")))
		s.millis("duration_ms")
	},
	"run.step.started": func(s *summary) {
		s.text("name")
		s.tag("steps", s.Data.Text("initial_num_steps"))
	},
	"run.step.finished": func(s *summary) { s.text("status") },

	"tool.requested": func(s *summary) {
		s.tool()
		s.content("args", "args_redacted")
	},
	"tool.completed": func(s *summary) {
		s.tool()
		s.text("status")
		s.millis("duration_ms")
		s.usage()
		s.content("result", "result_redacted")
	},
	"tool.failed": func(s *summary) {
		s.tool()
		s.failure()
		s.millis("duration_ms")
	},
	"tool.denied": func(s *summary) {
		s.tool()
		s.add(colon(prefixed("by ", s.Data.Text("by")), s.Data.Text("rule")))
	},

	"attention.requested": func(s *summary) {
		s.add(colon(s.Data.Text("kind"), s.Data.Text("prompt")))
		if options := s.Data.Names("options", "id", listed); options != nil {
			s.add("[" + strings.Join(options, "|") + "]")
		}
		if fields := s.Data.Names("fields", "id", listed); fields != nil {
			s.tag("fields", strings.Join(fields, ","))
		}
		s.tag("expires", s.Data.Text("expires_at"))
		s.tag("id", s.ID) // what an answer has to name
	},
	"attention.answered": func(s *summary) {
		s.add(s.Data.Answer())
		s.tag("by", s.Data.Text("by"))
		s.tag("via", s.Data.Text("via"))
		s.tag("for", s.Subject)
	},
	"attention.routed": func(s *summary) {
		s.tag("to", s.Data.Text("to"))
		s.tag("via", s.Data.Text("via"))
		s.tag("for", s.Subject)
	},
	"attention.resolved": func(s *summary) {
		s.text("resolution")
		s.millis("latency_ms")
		s.tag("for", s.Subject)
	},
	"attention.timeout": func(s *summary) {
		if ms, ok := s.Data.Millis("after_ms"); ok {
			s.add("after " + FormatMillis(ms))
		}
		s.tag("for", s.Subject)
	},

	"control.cancel": func(s *summary) {
		s.add(colon(s.Data.Text("scope"), s.Data.Text("reason")))
		s.tag("id", s.ID)
	},
	"control.pause":  func(s *summary) { s.tag("id", s.ID) },
	"control.resume": func(s *summary) { s.tag("id", s.ID) },
	"control.attention.respond": func(s *summary) {
		s.add(s.Data.Answer())
		s.tag("for", s.Subject)
		s.tag("id", s.ID)
	},
	"control.accepted": func(s *summary) { s.tag("for", s.Cause) },
	"control.rejected": func(s *summary) {
		s.add(colon(s.Data.Text("reason"), s.Data.Text("detail")))
		s.tag("for", s.Cause)
	},

	"progress.status": func(s *summary) {
		if percent := s.Data.Text("percent"); percent != "" {
			s.add(percent + "%")
		}
		s.add(colon(s.Data.Text("phase"), s.Data.Text("message")))
	},
	"progress.task.planned": func(s *summary) {
		s.add(colon(s.Data.Text("task", "id"), s.Data.Text("task", "title")))
		s.tag("parent", s.Data.Text("parent"))
	},
	"progress.task.completed": func(s *summary) {
		s.add(colon(s.Data.Text("task", "id"), s.Data.Text("task", "title")))
		s.text("status")
	},
	"progress.artifact.produced": func(s *summary) {
		name := s.Data.Text("artifact", "name")
		if name == "" {
			name = s.Data.Text("artifact", "id")
		}
		s.add(name)
		s.text("artifact", "mime")
		if n, ok := s.Data.Integer("artifact", "bytes"); ok && n >= 0 {
			s.add(formatBytes(n))
		}
		s.text("artifact", "uri")
	},

	"delegation.subagent.started": func(s *summary) {
		s.child()
		s.text("role")
	},
	"delegation.subagent.stopped": func(s *summary) {
		s.child()
		s.text("status")
		s.millis("duration_ms")
	},

	"error.raised": func(s *summary) {
		s.failure()
		s.tag("code", s.Data.Text("code"))
		s.tag("fatal", s.Data.Text("fatal"))
	},

	"agent.presence": func(s *summary) { s.text("state") },
	"agent.heartbeat": func(s *summary) {
		s.tag("tick", s.Data.Text("tick"))
		if ms, ok := s.Data.Millis("interval_ms"); ok {
			s.add("every " + FormatMillis(ms))
		}
	},
	"agent.idle": func(s *summary) {
		if ms, ok := s.Data.Millis("since_ms"); ok {
			s.add("for " + FormatMillis(ms))
		}
		s.text("reason")
	},
	"agent.health": func(s *summary) { s.add(colon(s.Data.Text("status"), s.Data.Text("detail"))) },

	"resource.retrieval.requested": func(s *summary) {
		s.query()
		s.tag("top", s.Data.Text("top_k"))
	},
	"resource.retrieval.returned": func(s *summary) {
		s.count("documents", "document")
		s.tag("corpus", s.Data.Text("corpus"))
		s.millis("duration_ms")
	},
	"resource.retrieval.reranked": func(s *summary) {
		s.count("output_documents", "document")
		s.tag("model", s.Data.Text("model"))
		s.millis("duration_ms")
		s.query()
	},
	"resource.citation.recorded": func(s *summary) {
		s.count("citations", "citation")
		for i, citation := range s.Data.List("citations") {
			if i == listed {
				break
			}
			object, _ := citation.(map[string]any)
			s.add(Payload(object).Text("source", "id"))
		}
	},

	"assessment.evaluation.recorded": func(s *summary) {
		s.text("gen_ai.evaluation.name")
		s.text("gen_ai.evaluation.score.value")
		s.add(colon(s.Data.Text("gen_ai.evaluation.score.label"), s.Data.Text("gen_ai.evaluation.explanation")))
		s.tag("by", s.Data.Text("evaluator"))
	},
	"assessment.feedback.received": func(s *summary) {
		s.text("rating")
		s.add(colon(s.Data.Text("label"), s.Data.Text("comment")))
		s.tag("correction", s.Data.Text("correction"))
		s.tag("from", s.Data.Text("source"))
	},
	"assessment.guardrail.recorded": func(s *summary) {
		g := s.Data.Object("guardrail")
		s.add(g.Text("stage"))
		s.add(colon(g.Text("verdict"), g.Text("explanation")))
		if names := g.Names("categories", "name", listed); names != nil {
			s.tag("categories", strings.Join(names, ","))
		}
		s.tag("by", g.Text("detector", "name"))
	},

	"state.snapshot": func(s *summary) {
		s.text("key")
		s.tag("rev", s.Data.Text("rev"))
		s.content("state")
	},
	"state.delta": func(s *summary) {
		s.text("key")
		s.tag("rev", s.Data.Text("rev"))
		s.content("delta")
	},
}

// child adds whom a run was delegated to.
func (s *summary) child() {
	s.text("agent_type")
	s.text("child", "agent")
	s.add(slash(s.Data.Text("child", "session"), s.Data.Text("child", "run")))
}

// query adds what was looked for, and where.
func (s *summary) query() {
	query := s.Data.Text("query")
	if query == "" {
		query = s.Data.Text("query_digest")
	}
	s.add(query)
	s.tag("corpus", s.Data.Text("corpus"))
}

// slash returns "a/b", or whichever there is.
func slash(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "/" + b
}

// prefixed returns prefix and text, or nothing without text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
