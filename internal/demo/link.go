package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/internal/demo/fleet"
)

const (
	dialTimeout  = 15 * time.Second
	writeTimeout = 10 * time.Second

	// pingInterval is how long what was sent may be unconfirmed, and pingEvents
	// how much of it, before a ping asks. An unanswered ping is given
	// pongTimeout.
	pingInterval = 500 * time.Millisecond
	pingEvents   = heldCount / 4
	pongTimeout  = 20 * time.Second

	// readLimit bounds a message from the relay: commands and frames.
	readLimit = 1 << 20
)

var (
	errSilent = errors.New("the relay does not answer")
	errFresh  = errors.New("the agent starts anew")
	errDone   = errors.New("all is sent")
)

// links is a sender with a WebSocket for each agent.
type links struct{ all []*link }

func newLinks(p *player) *links {
	s := &links{}
	for i := range p.opts.Fleet.Agents {
		s.all = append(s.all, &link{player: p, agent: i, in: make(chan fleet.Event, queueCount)})
	}
	return s
}

func (s *links) queue(agent int) chan<- fleet.Event { return s.all[agent].in }

func (s *links) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range s.all {
		all.Go(func() { l.run(ctx) })
	}
	all.Wait()
}

func (s *links) close() {
	for _, l := range s.all {
		close(l.in)
	}
}

// link is the connection of one agent, over and over. It belongs to one
// goroutine, but for reading.
type link struct {
	player *player
	agent  int
	in     chan fleet.Event

	held   []sent       // not known to be in, oldest first
	count  int64        // sent so far
	next   *fleet.Event // taken from in and to be sent on another connection
	closed bool         // in is
	pause  backoff
}

// sent is an event that was written.
type sent struct {
	number int64
	text   []byte
}

// run connects again and again until all is sent, the relay refuses or ctx ends.
func (l *link) run(ctx context.Context) {
	counts := &l.player.counts
	for ctx.Err() == nil {
		err := l.connect(ctx)
		switch {
		case errors.Is(err, errDone), ctx.Err() != nil:
			return
		case errors.Is(err, ErrRefused):
			l.player.refuse(err)
			return
		case errors.Is(err, errFresh):
			continue
		}
		counts.reconnects.Add(1)
		counts.problem(err)
		if !l.player.pause(ctx, &l.pause, err, 0) {
			drop(ctx, l.in)
			return
		}
	}
}

// connect serves one connection. It returns why it ended, never nil.
func (l *link) connect(ctx context.Context) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	l.player.counts.connected.Add(1)
	defer l.player.counts.connected.Add(-1)

	ctx, cancel := context.WithCancel(ctx)
	r := &reader{link: l, conn: conn, pongs: make(chan pong, 1), lost: make(chan error, 1)}
	var reading sync.WaitGroup
	reading.Go(func() { r.run(ctx) })
	defer reading.Wait()
	defer cancel()
	return l.write(ctx, conn, r)
}

// dial opens the WebSocket and exchanges hellos. A refusal is ErrRefused.
func (l *link) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	relay := l.player.opts.Relay
	conn, response, err := websocket.Dial(ctx, relay.URL("/socket", nil), &websocket.DialOptions{
		HTTPClient: relay.HTTP, HTTPHeader: relay.Header(),
	})
	if err != nil {
		switch {
		case response == nil, response.StatusCode == http.StatusSwitchingProtocols:
			return nil, err
		case final(response.StatusCode):
			return nil, fmt.Errorf("%w: %w", ErrRefused, explain(response, relay.Token != ""))
		}
		return nil, explain(response, relay.Token != "")
	}
	conn.SetReadLimit(readLimit)
	if err := l.hello(ctx, conn); err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return conn, nil
}

func (l *link) hello(ctx context.Context, conn *websocket.Conn) error {
	capabilities := map[string]any{}
	if l.player.opts.Relay.Token != "" {
		capabilities["control"] = map[string]any{"accepts": fleet.Accepts()}
	}
	hello, err := json.Marshal(map[string]any{
		"type": "hello", "versions": []string{"0.1"}, "role": "emitter",
		"identity": map[string]string{"agent": l.player.fleet.Name(l.agent), "instance": "demo"}, "capabilities": capabilities,
	})
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, websocket.MessageText, hello); err != nil {
		return err
	}
	_, text, err := conn.Read(ctx)
	if err != nil {
		return err
	}
	var f frame
	if err := json.Unmarshal(text, &f); err != nil || f.Type != "hello" {
		return fmt.Errorf("the first frame is no hello: %.200q", text)
	}
	return nil
}

// write sends what is held, then what comes.
func (l *link) write(ctx context.Context, conn *websocket.Conn, r *reader) error {
	for _, s := range l.held {
		if err := send(ctx, conn, s.text); err != nil {
			return err
		}
	}
	w := &writer{link: l, conn: conn}
	if e := l.next; e != nil {
		l.next = nil
		if err := w.event(ctx, *e); err != nil {
			return err
		}
	}
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		if err := w.ask(ctx); err != nil {
			return err
		}
		in := l.in
		switch {
		case l.closed && len(l.held) == 0:
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return errDone
		case l.closed, len(l.held) >= heldCount:
			in = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-r.lost:
			return err
		case p := <-r.pongs:
			w.confirm(p)
		case <-tick.C:
			w.due = true
		case e, open := <-in:
			switch {
			case !open:
				l.closed, w.due = true, true
			case e.Fresh && l.count > 0:
				l.next = &e
				return errFresh
			default:
				if err := w.event(ctx, e); err != nil {
					return err
				}
			}
		}
	}
}

// writer is what the sending side knows of one connection.
type writer struct {
	link  *link
	conn  *websocket.Conn
	due   bool      // a ping may be sent
	asked time.Time // of the ping that is unanswered, zero if none is
}

func (w *writer) event(ctx context.Context, e fleet.Event) error {
	l := w.link
	l.count++
	l.held = append(l.held, sent{l.count, e.Text})
	return send(ctx, w.conn, e.Text)
}

// ask sends a ping if what is held should be confirmed, one at a time.
func (w *writer) ask(ctx context.Context) error {
	l := w.link
	if !w.asked.IsZero() {
		if time.Since(w.asked) > pongTimeout {
			return errSilent
		}
		return nil
	}
	if len(l.held) == 0 || !w.due && len(l.held) < pingEvents {
		return nil
	}
	w.due, w.asked = false, time.Now()
	return send(ctx, w.conn, []byte(`{"type":"ping","t":`+strconv.FormatInt(l.count, 10)+`}`))
}

// confirm forgets, and counts, what is known to be in.
func (w *writer) confirm(p pong) {
	l := w.link
	w.asked = time.Time{}
	i := 0
	for i < len(l.held) && l.held[i].number <= p.number {
		i++
	}
	l.held = append(l.held[:0], l.held[i:]...)
	l.player.counts.accepted.Add(max(int64(i)-p.refused, 0))
	if l.closed {
		w.due = true
	}
	l.pause.reset()
}

func send(ctx context.Context, conn *websocket.Conn, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, text)
}
