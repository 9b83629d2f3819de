package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// level is a capture level.
type level int

const (
	levelNone level = iota
	levelMetadata
	levelRedacted
	levelFull
)

func (l level) String() string { return [...]string{"none", "metadata", "redacted", "full"}[l] }

// envelope is an event in the order in which its members are written.
type envelope struct {
	AEP         string  `json:"aep"`
	ID          string  `json:"id"`
	Type        string  `json:"type"`
	Subject     string  `json:"subject,omitempty"`
	Time        string  `json:"time"`
	Source      string  `json:"source"`
	Agent       string  `json:"agent"`
	Session     string  `json:"session,omitempty"`
	Run         string  `json:"run,omitempty"`
	Step        string  `json:"step,omitempty"`
	Seq         *uint64 `json:"seq,omitempty"`
	Epoch       *uint64 `json:"epoch,omitempty"`
	Cause       string  `json:"cause,omitempty"`
	Traceparent string  `json:"traceparent,omitempty"`
	Severity    string  `json:"severity,omitempty"`
	Capture     string  `json:"capture"`
	Fleet       string  `json:"demofleet"` // an extension attribute, for filters
	Data        payload `json:"data,omitempty"`
}

// more is what an event has besides what its session gives it.
type more struct {
	subject  string
	cause    string
	severity string
	trace    bool
	data     payload
}

// emit makes the next event of a session.
func (a *agent) emit(s *scope, typ string, m more) []byte {
	seq, epoch := s.seq, s.epoch
	s.seq++
	e := a.envelope(typ, m)
	e.Session, e.Run, e.Step, e.Seq, e.Epoch = s.name, s.run, s.step, &seq, &epoch
	if m.trace && s.trace != "" {
		e.Traceparent = fmt.Sprintf("00-%s-%016x-01", s.trace, uint64(a.ids))
	}
	s.last = e.ID
	return encode(e)
}

// emitAgent makes an event of the agent itself, which has no session (R104).
func (a *agent) emitAgent(typ string, m more) []byte { return encode(a.envelope(typ, m)) }

func (a *agent) envelope(typ string, m more) *envelope {
	a.ids++
	e := &envelope{
		AEP:  "0.1",
		ID:   fmt.Sprintf("01%08X%016d", a.fleet.hash, a.ids),
		Type: typ, Subject: m.subject,
		Time:   a.fleet.base.Add(a.now).UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		Source: a.source, Agent: a.name, Cause: m.cause, Severity: m.severity,
		Capture: a.level.String(), Fleet: a.fleet.tag, Data: m.data,
	}
	if m.data == nil {
		// Nothing is captured; some emitters say so.
		if a.ids%2 == 0 {
			e.Capture = levelNone.String()
		} else {
			e.Capture = levelMetadata.String()
		}
	}
	return e
}

// encode returns the JSON text. The types are ours and cannot fail.
func encode(e *envelope) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		panic("fleet: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// payload is the data of an event, or an object in it. Members are added with
// the level that the registry gives them, and left out if the agent captures
// less (F2).
type payload map[string]any

// data is a payload that begins with a member of level metadata.
func data(name string, value any) payload { return payload{name: value} }

// with adds a member of level metadata.
func (p payload) with(name string, value any) payload {
	p[name] = value
	return p
}

// text adds a member of level redacted.
func (a *agent) text(p payload, name string, value any) payload {
	if a.level >= levelRedacted {
		p[name] = value
	}
	return p
}

// whole adds a member of level full.
func (a *agent) whole(p payload, name string, value any) payload {
	if a.level >= levelFull {
		p[name] = value
	}
	return p
}

// fault is an error object.
func (a *agent) fault(f fault) payload {
	return a.text(data("type", f.kind), "message", f.message)
}

// millis returns the time since then in milliseconds.
func (a *agent) millis(then time.Duration) int64 { return (a.now - then).Milliseconds() }

// digest is what stands for the arguments of a tool.
func (a *agent) digest() string { return fmt.Sprintf("%016x%016x", a.rng.Uint64(), a.rng.Uint64()) }

func (a *agent) callID() string {
	a.calls++
	return "c" + strconv.Itoa(a.calls)
}

// usage adds what a model counted.
func (a *agent) usage(p payload) payload {
	in, out := 200+a.rng.IntN(9000), 20+a.rng.IntN(2500)
	p["gen_ai.usage.input_tokens"], p["gen_ai.usage.output_tokens"] = in, out
	if a.chance(0.5) {
		prompt, completion := float64(in)*3e-6, float64(out)*15e-6
		p["cost"] = payload{
			"currency": "USD", "prompt": round(prompt), "completion": round(completion), "total": round(prompt + completion),
		}
	}
	return p
}

func round(x float64) float64 { return float64(int64(x*1e6+0.5)) / 1e6 }
