package timeline

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/internal/client/render"
)

// maxWordBytes is how much of any text of an event is kept.
const maxWordBytes = 1000

// item is what is kept of an event.
type item struct {
	id, source, typ, agent string
	run, step              string
	subject, cause         string
	time                   time.Time
	severity               aep.Severity
	epoch, seq             int64
	hasSeq                 bool

	name     string // of the tool, question or delegation
	key      string // call id of a tool, session of a child
	duration int64  // milliseconds, -1 if it is not told
	words    string // the rest of the payload
}

// newItem takes what is kept of an event; the payload is the caller's no more.
func newItem(e render.Event) item {
	i := item{
		id: keep(e.ID), source: keep(e.Source), typ: keep(e.Type), agent: keep(e.Agent),
		run: keep(e.Run), step: keep(e.Step), subject: keep(e.Subject), cause: keep(e.Cause),
		time: e.Time, severity: e.Severity, epoch: e.Epoch, seq: e.Seq, hasSeq: e.HasSeq,
		duration: -1,
	}
	take := func(member string) {
		if ms, ok := e.Data.Millis(member); ok {
			i.duration = ms
			delete(e.Data, member)
		}
	}
	category, _, _ := strings.Cut(e.Type, ".")
	switch category {
	case "run":
		take("duration_ms")
	case "tool":
		take("duration_ms")
		if i.name = keep(e.Data.Text("tool", "name")); i.name == "" {
			i.name = i.subject
		}
		i.key = keep(e.Data.Text("tool", "call_id"))
		for _, told := range []string{"tool", "args_digest", "result_digest"} {
			delete(e.Data, told) // a digest tells nothing to people
		}
		e.Subject = ""
	case "attention":
		take("latency_ms")
		i.name = keep(e.Data.Text("kind") + e.Data.Text("resolution"))
		delete(e.Data, "kind")
		delete(e.Data, "resolution")
		e.Subject = ""
	case "control":
		i.name = strings.TrimPrefix(i.typ, "control.")
		e.Subject, e.Cause = "", ""
	case "delegation":
		take("duration_ms")
		for _, member := range []string{"session", "run", "agent"} {
			if i.key = keep(e.Data.Text("child", member)); i.key != "" {
				break
			}
		}
		i.name = keep(e.Data.Text("agent_type"))
		delete(e.Data, "agent_type")
	}
	e.ID = ""
	i.words = keep(e.Summary())
	return i
}

// sizeBytes returns about what the item takes.
func (i *item) sizeBytes() int {
	return 300 + len(i.id) + len(i.source) + len(i.typ) + len(i.agent) + len(i.run) + len(i.step) +
		len(i.subject) + len(i.cause) + len(i.name) + len(i.key) + len(i.words)
}

// keep returns a copy of s, cut to maxWordBytes at a rune.
func keep(s string) string {
	if len(s) <= maxWordBytes {
		return strings.Clone(s)
	}
	end := maxWordBytes
	for end > maxWordBytes-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
