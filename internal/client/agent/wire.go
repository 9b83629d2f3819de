package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// say sends a control event.
func (s *session) say(kind string, payload any) error {
	_, err := s.ask(kind, payload)
	return err
}

// ask sends a control event and returns its id.
func (s *session) ask(kind string, payload any) (id string, err error) {
	now := time.Now()
	id = string(s.ids.AppendEvent(nil, now))
	m := outgoing{
		AEPVersion: aepws.Version, SpecVersion: aepws.Version, ID: id, Type: kind, Source: source,
		CreatedAt: timeText(now), SessionID: s.id, TenantID: s.peer.Tenant, Payload: payload,
	}
	text, err := json.Marshal(m)
	if err != nil {
		return id, err
	}
	return id, s.write(text)
}

// write sends one text message, borrowed until return (B10).
func (s *session) write(text []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// broken returns why a write failed: what the relay said last, if it did.
func (s *session) broken(err error) error {
	s.hurry()
	for {
		<-s.box.more
		list, ended, told := s.take()
		for _, m := range list {
			if m.faulty == "" && s.scanner.Scan(m.text, &s.env) == nil {
				a := answerOf(&s.env)
				if err := ending(s.env.Kind, &a); err != nil {
					return err
				}
			}
		}
		switch {
		case ended && !errors.Is(told, errLate):
			return told
		case ended:
			return endOf(err)
		}
	}
}

// hurry lets the session end by itself soon.
func (s *session) hurry() { time.AfterFunc(s.peer.close, func() { s.cancel(errLate) }) }

// farewell ends the session in an orderly way, and gives what still comes to
// hear until the relay has closed or it takes too long (B41).
func (s *session) farewell(hear func(message)) (orderly bool) {
	s.hurry()
	if s.say("session.closed", closing{SessionID: s.id, Reason: "normal"}) != nil {
		return false
	}
	for {
		<-s.box.more
		list, ended, err := s.take()
		for _, m := range list {
			hear(m)
		}
		if ended {
			closed, ok := errors.AsType[*closedError](err)
			return ok && closed.code == websocket.StatusNormalClosure
		}
	}
}

// end ends the connection and its goroutines.
func (s *session) end() {
	s.stop()
	s.cancel(nil)
	_ = s.conn.CloseNow() // nothing is owed to the relay
	s.wg.Wait()
}

// read reads messages into the inbox until the connection ends.
func (s *session) read() error {
	var buf bytes.Buffer
	for {
		s.steps.Add(1)
		kind, body, err := s.conn.Reader(s.ctx)
		s.steps.Add(1)
		if err == nil {
			buf.Reset()
			_, err = buf.ReadFrom(counted{body, &s.steps})
		}
		if err != nil {
			if cause := context.Cause(s.ctx); cause != nil {
				return cause
			}
			return endOf(err)
		}
		m := message{text: bytes.Clone(buf.Bytes())}
		if kind != websocket.MessageText {
			m = message{faulty: "it is binary, not text"}
		}
		if buf.Cap() > maxWaitingBytes {
			buf = bytes.Buffer{}
		}
		if err := s.box.put(s.ctx, m); err != nil {
			return context.Cause(s.ctx)
		}
	}
}

// counted counts the beginnings and ends of reads.
type counted struct {
	io.Reader
	steps *atomic.Int64
}

// Read implements io.Reader.
func (c counted) Read(p []byte) (int, error) {
	c.steps.Add(1)
	defer c.steps.Add(1)
	return c.Reader.Read(p)
}

// watch ends the connection when nothing is heard of the relay: neither of its
// pings and heartbeats (B37, B39), nor, where there are none, the answer to a
// ping. A reader that is not reading, because the sink takes its time, is no
// sign of a dead relay.
func (s *session) watch(beat time.Duration) {
	every := beat
	if beat == 0 {
		every = s.peer.heartbeat
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last, quiet := int64(-1), 0
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		now := s.steps.Load()
		if now%2 == 0 || now != last {
			last, quiet = now, 0
			continue
		}
		quiet++
		silent := quiet >= missedBeats
		if beat == 0 {
			ctx, done := context.WithTimeout(s.ctx, every)
			silent = s.conn.Ping(ctx) != nil && s.steps.Load() == now
			done()
		}
		if silent && s.ctx.Err() == nil {
			s.cancel(errSilent)
			return
		}
	}
}
