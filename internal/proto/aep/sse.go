package aep

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sluice-relay/sluice/codec/aep"
	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/sse"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/serve"
	"github.com/sluice-relay/sluice/engine/stream"
)

const (
	pingInterval = 25 * time.Second // R274, R330
	// streamFarewell is how long a stream may take to read what is queued when
	// the relay goes down; it leaves room for the end within R464's 5 s.
	streamFarewell = 3 * time.Second

	retryMinMillis = 1000 // R274
	retryMaxMillis = 5000
)

var (
	streamFields = []http1.Field{
		{Name: "Content-Type", Value: "text/event-stream"},
		{Name: "Cache-Control", Value: "no-cache, no-transform"},
		{Name: "X-Accel-Buffering", Value: "no"},
		{Name: "Connection", Value: "keep-alive"},
		corsField,
	}
	streamFields10 = append(streamFields[:3:3], corsField)
)

// streamRequest is what GET /stream asks for.
type streamRequest struct {
	filter  *aep.Filter
	ceiling aep.Ceiling
	plan    fanout.Plan
	live    bool
}

// stream implements GET /stream: refusals come before any output (R270).
func (s *Surface) stream(x *serve.Exchange) {
	req, refusal := s.parseStream(s.worker(x.Worker()), x.Head)
	if refusal != "" {
		respond(x, 400, textCORSFields, []byte(refusal+"\n"))
		return
	}
	fields := streamFields
	if x.HTTP10() {
		fields = streamFields10
	}
	st := &eventStream{s: s, live: req.live}
	x.Stream(fields, st, !req.live, func(p *serve.Peer) []byte { return st.begin(p, req) })
}

// parseStream reads the parameters in the order of R270.
func (s *Surface) parseStream(w *worker, h *http1.Head) (req streamRequest, refusal string) {
	get := func(name string) string {
		v, _ := http1.QueryValue(h.RawQuery, name)
		return v
	}
	var err error
	if req.filter, err = w.parseFilter([]byte(get("filter"))); err != nil {
		if errors.Is(err, aep.ErrFilterSyntax) {
			return req, "bad filter JSON"
		}
		return req, err.Error()
	}
	if req.ceiling, err = aep.ParseCeilingQuery([]byte(get("capture"))); err != nil {
		return req, err.Error()
	}
	positions, all, entries, err := aep.ParseFromQuery([]byte(get("from")), s.cfg.MaxFrom)
	switch {
	case errors.Is(err, aep.ErrFromTooLarge):
		return req, "from too large"
	case err != nil:
		return req, "bad from JSON"
	}
	req.live = get("live") != "0"
	if entries == 0 && !all {
		// Last-Event-ID counts only then (R276 to R278).
		if name, epoch, seq, ok := sse.ParseLastEventID(h.Header("Last-Event-ID")); ok {
			positions = []aep.Position{{Session: name, Epoch: epoch, Seq: seq}}
		}
	}
	req.plan = planOf(positions, all)
	if !req.live && !all {
		req.plan.Extra = extraSessions(req.filter.Sessions(), positions)
	}
	return req, ""
}

func planOf(positions []aep.Position, all bool) fanout.Plan {
	p := fanout.Plan{All: all}
	for _, at := range positions {
		p.From = append(p.From, fanout.From{
			Session: at.Session,
			After:   stream.Sequence{Epoch: at.Epoch, Seq: at.Seq},
		})
	}
	return p
}

// extraSessions are the sessions that a finite replay adds: those that the
// filter names and from does not (R279).
func extraSessions(wanted []string, positions []aep.Position) (extra []string) {
	named := make(map[string]bool, len(positions))
	for _, p := range positions {
		named[p.Session] = true
	}
	for _, name := range wanted {
		if !named[name] {
			named[name] = true
			extra = append(extra, name)
		}
	}
	return extra
}

// eventStream is one SSE stream. It implements serve.StreamHandler. Owned by
// its loop.
type eventStream struct {
	s      *Surface
	peer   *serve.Peer
	live   bool
	ending bool // shutting down: the timer is the end of patience
}

// begin registers the stream and returns its first block (R274).
func (st *eventStream) begin(p *serve.Peer, req streamRequest) []byte {
	st.peer = p
	if st.live {
		st.s.streams.Add(1)
		p.SetTimer(pingInterval)
	}
	wire := wirePlain
	if p.Chunked() {
		wire = wireChunked
	}
	p.Subscribe(&fanout.Sub{Selector: selector{req.filter}, Form: formOf(req.ceiling, wire)}, req.plan, nil)
	retry := retryMinMillis + rand.IntN(retryMaxMillis-retryMinMillis+1)
	return st.block(sse.AppendRetryOpen(nil, "open "+st.s.cfg.Boot, retry))
}

// block makes one frame of one SSE block.
func (st *eventStream) block(text []byte) []byte {
	if st.peer.Chunked() {
		return http1.AppendChunk(nil, text)
	}
	return text
}

func (st *eventStream) comment(text string) []byte { return st.block(sse.AppendComment(nil, text)) }

// AppendGap implements fanout.Owner (R274).
func (st *eventStream) AppendGap(dst []byte, _ *fanout.Sub, name string, at stream.Sequence) []byte {
	return append(dst, st.comment("replay-exhausted "+name+" "+
		strconv.FormatInt(at.Epoch, 10)+":"+strconv.FormatInt(at.Seq, 10))...)
}

// AppendShed implements fanout.Owner (R424a).
func (st *eventStream) AppendShed(dst []byte, n int64) []byte {
	return append(dst, st.comment("shed "+strconv.FormatInt(n, 10))...)
}

// Replayed implements fanout.Owner: live=0 ends here (R275).
func (st *eventStream) Replayed() {
	st.peer.Send(st.comment("replay-complete"))
	st.peer.EndStream()
}

// Cut implements fanout.Owner: what is queued is dropped, the connection reset
// (R427).
func (st *eventStream) Cut(c fanout.Cut) {
	st.s.cut(st.peer, "sse", reasonOf(c))
	st.peer.Abort()
}

// Stalled implements serve.StreamHandler.
func (st *eventStream) Stalled() {
	st.s.cut(st.peer, "sse", cutStalled)
	st.peer.Abort()
}

// OnTimer implements serve.StreamHandler.
func (st *eventStream) OnTimer() {
	if st.ending {
		st.s.cuts.add(cutShutdown)
		st.peer.Abort()
		return
	}
	st.peer.Urgent(st.comment("ping"))
	st.peer.SetTimer(pingInterval)
}

// OnShutdown implements serve.StreamHandler: what is queued, then the comment,
// then a regular end (R461).
func (st *eventStream) OnShutdown() {
	st.ending = true
	st.peer.SetTimer(streamFarewell)
	st.peer.Member().Finish()
}

// Finished implements fanout.Owner.
func (st *eventStream) Finished() { st.peer.NotifyDrained() }

// OnDrained implements serve.StreamHandler.
func (st *eventStream) OnDrained() {
	st.peer.Send(st.comment("shutting-down"))
	st.peer.EndStream()
}

// OnClose implements serve.StreamHandler (R281).
func (st *eventStream) OnClose() {
	if st.live {
		st.live = false
		st.s.streams.Add(-1)
	}
}
