package aep

import (
	"bytes"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/serve"
)

// post implements POST /events as far as the head decides (R70 checks 2 to 4).
func (s *Surface) post(x *serve.Exchange) {
	h := x.Head
	if h.HeaderCount("AEP-Version") != 1 || string(h.Header("AEP-Version")) != "0.1" {
		respond(x, 426, jsonFields, aep.AppendVersions(nil))
		return
	}
	ndjson, ok := mediaType(h.Header("Content-Type"))
	if !ok {
		respond(x, 415, nil, nil)
		return
	}
	if h.ContentLength > s.cfg.MaxBodyBytes {
		s.tooLarge(x)
		return
	}
	x.ReadBody(&body{s: s, w: s.worker(x.Worker()), ndjson: ndjson, declared: h.ContentLength})
}

// mediaType tells whether a Content-Type is one of the two that are taken: the
// text before the first semicolon, trimmed, case ignored (R70 check 3).
func mediaType(v []byte) (ndjson, ok bool) {
	v, _, _ = bytes.Cut(v, []byte{';'})
	v = bytes.TrimSpace(v)
	switch {
	case bytes.EqualFold(v, []byte("application/json")):
		return false, true
	case bytes.EqualFold(v, []byte("application/x-ndjson")):
		return true, true
	}
	return false, false
}

// tooLarge answers 413 and closes; the client can still read it (R76).
func (s *Surface) tooLarge(x *serve.Exchange) {
	x.Respond(&http1.Response{Status: 413, Fields: jsonFields, Body: aep.AppendTooLarge(nil, s.cfg.MaxBodyBytes)})
}

// body admits a request body line by line while it arrives. It keeps verdicts
// and admitted events; nothing is ingested before the last line has passed all
// checks (R71).
type body struct {
	s        *Surface
	w        *worker
	ndjson   bool
	declared int64

	size     int64
	line     []byte // an incomplete line
	taken    int64  // of the budget
	lines    int    // not blank
	events   []*aep.Event
	notUTF8  fault
	notJSON  fault
	notEvent fault
	command  fault
}

// fault is the first line that breaks one check.
type fault struct {
	set    bool
	line   int
	detail string
}

func (f *fault) record(line int, detail string) {
	if !f.set {
		*f = fault{true, line, detail}
	}
}

// Data implements serve.Body.
func (b *body) Data(x *serve.Exchange, p []byte) {
	if b.size += int64(len(p)); b.size > b.s.cfg.MaxBodyBytes {
		b.s.tooLarge(x)
		return
	}
	if !b.ndjson {
		b.whole(x, p)
		return
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			b.keep(x, p)
			return
		}
		line := p[:i]
		if len(b.line) > 0 {
			if !b.keep(x, line) {
				return
			}
			line = b.line
		}
		ok := b.admitLine(x, line)
		b.dropLine()
		if !ok {
			return
		}
		p = p[i+1:]
	}
}

// whole takes a piece of a body that is one event. A body that comes in one
// piece is not copied.
func (b *body) whole(x *serve.Exchange, p []byte) {
	if b.size == b.declared && len(b.line) == 0 {
		b.admit(x, p)
		return
	}
	b.keep(x, p)
}

// keep holds a piece of an incomplete line.
func (b *body) keep(x *serve.Exchange, p []byte) bool {
	if len(p) == 0 {
		return true
	}
	if !b.take(x, int64(len(p))) {
		return false
	}
	if b.line == nil && b.declared > 0 && !b.ndjson {
		b.line = make([]byte, 0, min(b.declared, 64<<10))
	}
	b.line = append(b.line, p...)
	return true
}

func (b *body) dropLine() {
	if n := int64(len(b.line)); n > 0 {
		b.give(n)
		b.line = b.line[:0]
	}
	if cap(b.line) > 64<<10 {
		b.line = nil
	}
}

// take reserves memory or answers 503 (R46).
func (b *body) take(x *serve.Exchange, n int64) bool {
	if !x.TakeBudget(n) {
		busy(x)
		return false
	}
	b.taken += n
	return true
}

func (b *body) give(n int64) {
	b.w.GiveBudget(n)
	b.taken -= n
}

// admitLine checks one line of NDJSON. White space around it is ignored, blank
// lines are skipped (R74).
func (b *body) admitLine(x *serve.Exchange, line []byte) bool {
	line = bytes.Trim(line, " \t\r")
	if len(line) == 0 {
		return true
	}
	return b.admit(x, line)
}

// admit runs checks 5 to 9 on one text. After a fault only what could still
// come before it in the order of R70 is looked for.
func (b *body) admit(x *serve.Exchange, text []byte) bool {
	line := b.lines
	b.lines++
	if b.notJSON.set || b.ndjson && b.lines > b.s.cfg.MaxBatchEvents {
		if !utf8.Valid(text) {
			b.notUTF8.record(line, "body is not UTF-8")
		}
		return true
	}
	if err := b.w.scanner.Scan(text); err != nil {
		if !utf8.Valid(text) {
			b.notUTF8.record(line, "body is not UTF-8")
		}
		b.notJSON.record(line, err.Error())
		b.dropEvents()
		return true
	}
	if b.notEvent.set {
		return true
	}
	ev, err := b.w.scanner.Event()
	var refused *aep.EnvelopeError
	switch {
	case errors.As(err, &refused):
		b.notEvent.record(line, refused.Error())
		b.dropEvents()
	case b.command.set:
	case ev.Class() == aep.ClassCommand:
		b.command.record(line, "commands travel on a WebSocket only")
		b.dropEvents()
	default:
		if !b.take(x, int64(ev.SizeBytes())) {
			return false
		}
		b.events = append(b.events, ev)
	}
	return true
}

// dropEvents forgets what was admitted: the request will be refused.
func (b *body) dropEvents() { b.events = nil }

// End implements serve.Body.
func (b *body) End(x *serve.Exchange) {
	switch {
	case b.ndjson && len(b.line) > 0:
		if !b.admitLine(x, b.line) {
			return
		}
	case !b.ndjson && b.lines == 0:
		if !b.admit(x, b.line) {
			return
		}
	}
	switch {
	case b.verdict(x) || b.overRate(x):
	case b.s.shut.Load():
		busy(x)
	default:
		b.ingest(x)
	}
}

// verdict answers a request that fails a check, the first one first.
func (b *body) verdict(x *serve.Exchange) (refused bool) {
	status, answer := 400, []byte(nil)
	switch {
	case b.notUTF8.set:
		answer = aep.AppendInvalidJSON(nil, b.jsonLine(b.notUTF8), b.notUTF8.detail)
	case b.ndjson && b.lines > b.s.cfg.MaxBatchEvents:
		status, answer = 413, aep.AppendTooMany(nil, b.s.cfg.MaxBatchEvents, b.lines)
	case b.notJSON.set:
		answer = aep.AppendInvalidJSON(nil, b.jsonLine(b.notJSON), b.notJSON.detail)
	case b.notEvent.set:
		answer = aep.AppendInvalidEvent(nil, b.notEvent.line, b.notEvent.detail)
	case b.command.set:
		status, answer = 403, aep.AppendControlRefused(nil, b.command.line, b.command.detail)
	default:
		return false
	}
	b.s.refused.Add(1)
	respond(x, status, jsonFields, answer)
	return true
}

// overRate answers a request whose client publishes more than its rate. It
// counts the events of the whole batch at once, so that nothing of it is taken.
func (b *body) overRate(x *serve.Exchange) bool {
	ok, wait := b.s.cfg.Rate.Allow(x.ClientAddr(), len(b.events), x.Now())
	if ok {
		return false
	}
	b.s.overRate.Add(1)
	seconds := strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
	respond(x, 429, []http1.Field{{Name: "Retry-After", Value: seconds}, textType}, []byte("too many events from this address\n"))
	return true
}

// jsonLine is the line named by invalid-json: for NDJSON only (R73).
func (b *body) jsonLine(f fault) int {
	if b.ndjson {
		return f.line
	}
	return -1
}

// ingest takes in all events and answers when the last one is in (R78).
func (b *body) ingest(x *serve.Exchange) {
	x.Keep()
	in := &batch{s: b.s, w: b.w, events: b.events}
	in.done = func(ok bool) {
		switch {
		case !ok:
			respond(x, 500, textFields, []byte("internal error\n"))
		case b.s.shut.Load(): // perhaps too late for the streams; it is sent again
			busy(x)
		default:
			respond(x, 202, nil, nil)
		}
	}
	in.start()
}

// Done implements serve.Body.
func (b *body) Done() {
	b.w.GiveBudget(b.taken)
	b.taken, b.line, b.events = 0, nil, nil
}
