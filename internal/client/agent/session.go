package agent

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/aepws"
	"github.com/sluice-relay/sluice/internal/client"
)

const (
	// DefaultPath is where a relay has the binding (AEPWS_PATH).
	DefaultPath = "/aep"

	// handshakeTimeout bounds the handshake, openTimeout the wait for
	// session.ready, writeTimeout the writing of one message, closeTimeout the
	// wait for the relay's close frame, which is due within a second (B41).
	handshakeTimeout = 30 * time.Second
	openTimeout      = 30 * time.Second
	writeTimeout     = time.Minute
	closeTimeout     = 2 * time.Second
	// heartbeat is the interval that is asked for (B36), and how long nothing
	// is heard before a ping where the relay sends no heartbeats.
	heartbeat = 20 * time.Second
	// missedBeats is how many intervals a relay may be silent (B37).
	missedBeats = 3
	// maxMessageBytes bounds one message of the relay.
	maxMessageBytes = 64 << 20
)

// NewRelay returns the relay whose binding is at a ws, wss, http, https or unix
// URL (unix:/path). An address without a path gets DefaultPath. The error is
// client.ErrURL.
func NewRelay(address, token string) (*client.Relay, error) {
	for from, to := range map[string]string{"ws://": "http://", "wss://": "https://"} {
		if len(address) >= len(from) && strings.EqualFold(address[:len(from)], from) {
			address = to + address[len(from):]
			break
		}
	}
	r, err := client.New(address, token)
	if err != nil {
		return nil, err
	}
	if r.Base.Path == "" {
		r.Base.Path = DefaultPath
	}
	return r, nil
}

// Peer says which relay is spoken to, and as whom. Immutable while it is used.
type Peer struct {
	Relay *client.Relay // see NewRelay; its Token is sent in the handshake (B7)
	// SessionID names the session, "" for one of the relay's (B32). Who opens
	// it last has it (B44).
	SessionID string
	Tenant    string // of the session, "" for none (B46)

	// pause waits between two attempts; the others are the constants above.
	// Tests have no time for them.
	pause                           func(context.Context, time.Duration) error
	open, close, heartbeat, minBeat time.Duration
}

// withDefaults fills in what is not set.
func (p Peer) withDefaults() Peer {
	if p.pause == nil {
		p.pause = client.Pause
	}
	for d, to := range map[*time.Duration]time.Duration{
		&p.open: openTimeout, &p.close: closeTimeout, &p.heartbeat: heartbeat,
		&p.minBeat: aepws.MinHeartbeatMillis * time.Millisecond,
	} {
		if *d == 0 {
			*d = to
		}
	}
	return p
}

// session is one connection with a session that is ready. One goroutine uses
// it; two more read and watch it.
type session struct {
	peer    *Peer
	id      string // as session.ready names it
	conn    *websocket.Conn
	box     *inbox
	ids     *aepws.IDs
	scanner aepws.Scanner
	env     aepws.Envelope

	maxBytes int64 // what the relay takes in a message, 0 if it did not say

	ctx    context.Context // ends with the session alone
	cancel context.CancelCauseFunc
	stop   func() bool // takes back what ends it after its parent
	wg     sync.WaitGroup
	early  []message // came with session.ready, behind it
	// steps counts the beginnings and ends of reads, twice each ping: it is odd
	// while the relay is waited for, and the same only as long as nothing comes.
	steps atomic.Int64
}

// begin opens a connection and its session. The error is a Refusal, a busyError
// or one of the connection.
func (p *Peer) begin(ctx context.Context) (*session, error) {
	s := &session{peer: p, box: newInbox(), ids: aepws.NewIDs()}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.dial(ctx); err != nil {
		s.cancel(nil)
		return nil, err
	}
	s.stop = context.AfterFunc(ctx, s.hurry)
	s.wg.Go(func() { s.box.end(s.read()) })
	beat, err := s.open(ctx)
	if err != nil {
		s.end()
		return nil, err
	}
	s.wg.Go(func() { s.watch(beat) })
	return s, nil
}

// dial makes the connection (B1).
func (s *session) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	relay := s.peer.Relay
	h := *relay.HTTP
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	conn, resp, err := websocket.Dial(ctx, relay.URL("", nil), &websocket.DialOptions{
		HTTPClient: &h, HTTPHeader: relay.Header(), Subprotocols: []string{aepws.Subprotocol},
		OnPingReceived: func(context.Context, []byte) bool {
			s.steps.Add(2)
			return true
		},
	})
	switch {
	case err == nil && conn.Subprotocol() != aepws.Subprotocol:
		_ = conn.CloseNow()
		return &Refusal{Text: "what is at this address does not speak " + aepws.Subprotocol}
	case err == nil:
		conn.SetReadLimit(maxMessageBytes)
		s.conn = conn
		return nil
	case resp == nil:
		return plain(err)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return &Refusal{Text: clean(err.Error())}
	}
	return judge(resp, time.Now())
}

// open names the session and waits until it is ready (B31 to B36). It returns
// the interval of heartbeats that is in force, 0 for none.
func (s *session) open(ctx context.Context) (beat time.Duration, err error) {
	p := s.peer
	err = s.say("session.opened", opening{
		SessionID: p.SessionID, Version: aepws.Version,
		Capabilities: map[string]int{"heartbeat_interval_ms": int(p.heartbeat / time.Millisecond)},
	})
	if err != nil {
		return 0, s.broken(err)
	}
	late := time.NewTimer(p.open)
	defer late.Stop()
	for {
		select {
		case <-s.box.more:
		case <-late.C:
			return 0, errLate
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		list, ended, err := s.box.take()
		for i, m := range list {
			if m.faulty != "" || s.scanner.Scan(m.text, &s.env) != nil {
				continue // the relay has nothing to say yet but what is below
			}
			a := answerOf(&s.env)
			switch s.env.Kind {
			case aepws.KindSessionReady:
				if s.id = a.SessionID; s.id == "" {
					s.id = string(s.env.SessionID)
				}
				if s.early = list[i+1:]; len(s.early) > 0 {
					signal(s.box.more)
				}
				s.maxBytes = max(a.Capabilities.MaxBytes, 0)
				if ms := a.Capabilities.HeartbeatMillis; ms > 0 {
					beat = time.Duration(min(ms, aepws.MaxHeartbeatMillis)) * time.Millisecond
					beat = max(beat, p.minBeat)
				}
				return beat, nil
			case aepws.KindEventRejected:
				if a.Error.Retryable {
					return 0, errors.New("the relay says " + a.Error.words())
				}
				return 0, &Refusal{Text: a.Error.words()}
			}
			if err := ending(s.env.Kind, &a); err != nil {
				return 0, err
			}
		}
		if ended {
			return 0, err
		}
	}
}

// ending returns the error of a control event that ends a session, nil for
// others (B43, B44).
func ending(kind aepws.Kind, a *answer) error {
	switch kind {
	case aepws.KindSessionClosed:
		if a.Reason == "replaced" {
			return ErrReplaced
		}
		return errors.New("the relay has closed the session: " + clean(a.Reason))
	case aepws.KindSessionError:
		return sessionError(&a.Error)
	}
	return nil
}

// take returns the messages that came since the last call, and reports whether
// that was all.
func (s *session) take() (list []message, ended bool, err error) {
	list, ended, err = s.box.take()
	if len(s.early) > 0 {
		list, s.early = append(s.early, list...), nil
	}
	return list, ended, err
}
