package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aep"
)

const (
	socketBatchLines = 1000
	socketBatchBytes = 1 << 20
	// window is how many batches may be under way: one is being sent while the
	// pong of the other is due.
	window = 2
	// silence is how long a relay may owe a pong without a word.
	silence = 30 * time.Second
	// idlePing is how often a connection is tried on which nothing is sent.
	idlePing = 20 * time.Second
)

// flight is some lines of a batch that are sent together, with a ping behind.
type flight struct {
	batch *batch
	span
	ping  uint64
	again bool // sent before
	claim bool // only there to claim sessions: nobody counts it
}

// stream sends the input over one WebSocket after the other.
type stream struct {
	*sender
	scanner aep.Scanner
	claims  *claims
	pings   uint64

	batches <-chan *batch
	input   error // of the feed; valid once batches is closed
	drained bool  // batches is closed, or nothing more is wanted
	ending  error // of a line refused here, returned once those ahead are in

	queue []flight // to be sent, the oldest first
	sent  []flight // their pong is due, the oldest first

	// careful sends single lines, to find the one that a relay closed for
	// (R332), until what was under way then is through.
	careful bool
}

// overSocket sends the input over WebSockets.
func (s *sender) overSocket(ctx context.Context) (Stats, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan *batch)
	st := &stream{sender: s, claims: newClaims(), batches: batches}
	go func() {
		defer close(batches)
		for {
			b, err := s.feed.next()
			if b == nil {
				st.input = err
				return
			}
			select {
			case batches <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	for first := true; ; first = false {
		done, err := st.connection(ctx, first)
		var later *laterError
		switch {
		case done && st.ending != nil:
			return s.stats, st.ending
		case done:
			return s.stats, inputError(st.input)
		case ctx.Err() != nil:
			return s.stats, ctx.Err()
		case errors.Is(err, ErrFinal), errors.Is(err, ErrRefusedLine):
			return s.stats, err
		}
		var atLeast time.Duration
		if errors.As(err, &later) {
			atLeast = later.after
		}
		if err := s.outage.wait(ctx, err, atLeast); err != nil {
			return s.stats, err
		}
	}
}

// connection sends over one connection as long as it lives. Done tells that
// everything is in or refused.
func (s *stream) connection(ctx context.Context, first bool) (done bool, err error) {
	agent := s.o.Socket
	accepts := append([]string{}, agent.Accepts...)
	conn, err := dial(ctx, s.relay, newHello("emitter", agent.Agent, agent.Instance, accepts))
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	in := newInbox(conn, agent.OnCommand)
	read := make(chan struct{})
	go func() {
		defer close(read)
		in.read(ctx)
	}()
	defer func() {
		if done {
			conn.close()
		}
		cancel()
		conn.abandon()
		<-read
	}()
	s.requeue(first)
	return s.drive(ctx, conn, in)
}

// requeue puts what no pong has covered back in front of the queue, behind the
// claims.
func (s *stream) requeue(first bool) {
	for i := range s.sent {
		s.sent[i].again = true
	}
	again := slices.DeleteFunc(append(s.sent, s.queue...), func(f flight) bool { return f.claim })
	s.sent, s.queue = nil, again
	if len(again) == 0 {
		s.outage.over()
	}
	if b := s.claims.batch(); !first && len(b.lines) > 0 {
		s.queue = append([]flight{{batch: b, span: span{0, len(b.lines)}, claim: true}}, again...)
	}
}

// drive is the loop of a connection.
func (s *stream) drive(ctx context.Context, conn *socketConn, in *inbox) (done bool, err error) {
	heard := time.Now()
	alarm := time.NewTicker(time.Second)
	defer alarm.Stop()
	for {
		if len(s.queue) > 0 && len(s.sent) < s.window() {
			if err := s.launch(ctx, conn); err != nil {
				return false, s.broken(in, err)
			}
			continue
		}
		idle := len(s.queue)+len(s.sent) == 0
		if idle && s.drained {
			return true, nil
		}
		var more <-chan *batch
		if !s.drained && len(s.queue) == 0 && len(s.sent) < s.window() {
			more = s.batches
		}
		select {
		case b, open := <-more:
			s.accept(b, open)
			if len(s.sent) == 0 {
				heard = time.Now() // nothing was owed
			}
		case <-in.ready:
			heard = time.Now()
			results, err := in.take()
			for _, r := range results {
				if err := s.settle(r); err != nil {
					return false, err
				}
			}
			if err != nil {
				return false, s.broken(in, err)
			}
		case <-alarm.C:
			switch quiet := time.Since(heard); {
			case quiet > silence+idlePing, !idle && quiet > silence:
				return false, fmt.Errorf("the relay has said nothing for %v", quiet.Round(time.Second))
			case idle && quiet > idlePing:
				if err := conn.write(ctx, []byte(`{"type":"ping"}`)); err != nil {
					return false, s.broken(in, err)
				}
			}
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// window is how many flights may be under way.
func (s *stream) window() int {
	if s.careful {
		return 1
	}
	return window
}

// accept takes a batch of the input: lines that may not be sent are refused
// here, the rest is queued. With Strict the first such line ends the input, and
// only the lines ahead of it are still sent.
func (s *stream) accept(b *batch, open bool) {
	if !open {
		s.drained = true
		return
	}
	s.screen(b)
	if err := s.refuseUnsent(b); err != nil {
		s.ending, s.drained = err, true
	}
	if len(b.lines) == 0 {
		s.finish(b)
		return
	}
	s.queue = append(s.queue, flight{batch: b, span: span{0, len(b.lines)}})
}

// screen takes out of a batch what is no event: a frame would be obeyed, and an
// error about a text without an id could not be told from others (R340). With
// Strict only the first line that is refused is kept, and what is ahead of it.
func (s *stream) screen(b *batch) {
	kept := b.lines[:0]
	for i, l := range b.lines {
		if s.o.Strict && len(b.refused) > 0 && b.refused[0].Line < l.number {
			break
		}
		text := b.text(i)
		session, reason := s.inspect(text)
		if reason != "" {
			if s.o.Strict {
				b.refused = b.refused[:0] // those are behind it
			}
			b.refused = append(b.refused, Refusal{Line: l.number, Reason: reason})
			continue
		}
		if session != "" {
			s.claims.add(session, text)
		}
		kept = append(kept, l)
	}
	b.lines = kept
	if s.o.Strict {
		b.refused = b.refused[:min(len(b.refused), 1)]
	}
}

// inspect returns the session that an event claims, "" for none, or a reason
// not to send it.
func (s *stream) inspect(text []byte) (session, reason string) {
	if err := s.scanner.Scan(text); err != nil {
		return "", printable("invalid-json: " + err.Error())
	}
	typ, ok := s.scanner.Type()
	if !ok || !strings.Contains(string(typ), ".") {
		return "", "invalid-event: type is no string with a dot (R103)"
	}
	ordinary := aep.ClassOf(string(typ)) == aep.ClassOrdinary
	if id, ok := s.scanner.StringMember("id"); !ok || id == "" {
		return "", "invalid-event: id is missing or no string (R102)"
	}
	if ordinary {
		session, _ = s.scanner.StringMember("session")
	}
	return session, ""
}

// launch sends the first flight of the queue and its ping.
func (s *stream) launch(ctx context.Context, conn *socketConn) error {
	f := s.queue[0]
	if s.careful && !f.claim && f.to-f.from > 1 {
		rest := f
		rest.from++
		f.to = f.from + 1
		s.queue[0] = rest
	} else {
		s.queue = s.queue[1:]
	}
	s.pings++
	f.ping = s.pings
	s.sent = append(s.sent, f)
	s.stats.Requests++
	if f.again {
		s.stats.Retries++
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for i := f.from; i < f.to; i++ {
		if err := conn.ws.Write(ctx, websocket.MessageText, f.batch.text(i)); err != nil {
			return err
		}
	}
	ping := strconv.AppendUint([]byte(`{"type":"ping","t":`), f.ping, 10)
	return conn.write(ctx, append(ping, '}'))
}

// settle takes what the relay said about the flights up to a ping.
func (s *stream) settle(r settled) error {
	for len(s.sent) > 0 && s.sent[0].ping <= r.ping {
		f := s.sent[0]
		s.sent = s.sent[1:]
		s.outage.over()
		if f.claim {
			continue
		}
		err := s.count(f, r.errors)
		r.errors = nil
		if f.to == len(f.batch.lines) {
			s.finish(f.batch)
		}
		if err != nil {
			return err
		}
	}
	if len(s.queue)+len(s.sent) == 0 {
		s.careful = false
	}
	return nil
}

// count counts the lines of a flight that is through, and reports the ones that
// errors name.
func (s *stream) count(f flight, errs []*message) error {
	var strict error
	refused := map[int]bool{}
	lines := s.linesOf(f, errs)
	for _, m := range errs {
		r := Refusal{Reason: m.why()}
		if at := lines[m.cause()]; len(at) > 0 {
			r.Line, refused[at[0]] = f.batch.lines[at[0]].number, true
			lines[m.cause()] = at[1:]
		} else if cause := m.cause(); cause != "" {
			// A command that could not be handed on (R397), of a batch whose
			// lines are counted.
			r.Reason += " (id " + printable(cause) + ")"
			s.stats.Events--
		}
		s.refuse(r)
		if strict == nil {
			strict = s.strict(r)
		}
	}
	for i := f.from; i < f.to; i++ {
		if !refused[i] {
			s.stats.Events++
			s.stats.Bytes += int64(len(f.batch.text(i)) + 1)
		}
	}
	return strict
}

// linesOf returns which lines of a flight have which id, if there are errors.
// One id may be that of several lines: their errors come in the same order.
func (s *stream) linesOf(f flight, errs []*message) map[string][]int {
	if len(errs) == 0 {
		return nil
	}
	lines := map[string][]int{}
	for i := f.from; i < f.to; i++ {
		if s.scanner.Scan(f.batch.text(i)) == nil {
			if id, ok := s.scanner.StringMember("id"); ok {
				lines[id] = append(lines[id], i)
			}
		}
	}
	return lines
}

// finish is done with a batch.
func (s *stream) finish(b *batch) {
	s.o.Progress(b.input)
	s.feed.give(b)
}

// broken says why a connection ended. If that was a message which is too long
// for the relay, and it is known which one, that line is refused; otherwise the
// next connection finds out.
func (s *stream) broken(in *inbox, err error) error {
	// What the relay said, rather than that it is gone.
	results, cause := in.last()
	if cause != nil {
		err = cause
	}
	for _, r := range results {
		if err := s.settle(r); err != nil {
			return err
		}
	}
	text, tooBig := closeReason(err)
	if !tooBig {
		return errors.New(text)
	}
	s.careful = true
	if f := s.sent; len(f) == 1 && !f[0].claim && f[0].to-f[0].from == 1 {
		r := Refusal{Line: f[0].batch.lines[f[0].from].number, Reason: "longer than the relay takes"}
		s.refuse(r)
		s.sent = nil
		if f[0].to == len(f[0].batch.lines) {
			s.finish(f[0].batch)
		}
		if err := s.strict(r); err != nil {
			return err
		}
	}
	return errors.New(text)
}
