package publish

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/internal/client"
)

// Types of commands (R140).
const (
	TypeCancel  = "control.cancel"
	TypePause   = "control.pause"
	TypeResume  = "control.resume"
	TypeRespond = "control.attention.respond"
)

const (
	typeAccepted = "control.accepted"
	typeRejected = "control.rejected"

	// DefaultWindow is how long an acknowledgement is waited for.
	DefaultWindow = 10 * time.Second
	// resends is how often a command is sent within the window.
	resends = 4
)

// Errors of Command.
var (
	// ErrNoRoute tells that no agent, or more than one, is there to obey.
	ErrNoRoute = errors.New("the command has no target")
	// ErrUnauthorized tells that the relay routes no commands.
	ErrUnauthorized = errors.New("the relay takes no commands")
)

// Decision is what became of a command.
type Decision uint8

// Decisions.
const (
	Unanswered Decision = iota // sent, and not acknowledged in time
	Accepted
	Rejected // by the agent, or by the relay for it (R393)
)

func (d Decision) String() string {
	return [...]string{"no answer", "accepted", "rejected"}[d]
}

// Result is what Command found out.
type Result struct {
	ID       string // of the command: the same ID may be sent again
	Decision Decision
	Reason   string // of a rejection; safe for a terminal
	// End is the event that tells how it ended, nil if it was not waited for
	// or did not come. EndType is its type.
	End     []byte
	EndType string
}

// Order is a command to the agent of a session (AEP-0004).
type Order struct {
	Type    string
	Session string
	Run     string          // attribute run, "" for none
	Subject string          // attribute subject: the attention request of TypeRespond
	Capture string          // level of Data, "" for metadata
	Data    json.RawMessage // nil for none

	// ID is the command's id, "" for a new one. An agent obeys an id once and
	// repeats its acknowledgement when it comes again.
	ID     string
	Source string // URI of the sender
	Agent  string // name of the sender

	// Window is how long the acknowledgement is waited for, 0 for
	// DefaultWindow.
	Window time.Duration
	// Wait is how long the end of what was asked for is waited for, after it
	// was accepted; 0 is not at all.
	Wait time.Duration

	// Message is called with the text of each message that is about the
	// command, Decided once with the decision when it comes, before its end is
	// waited for, and Notice with sentences about delays. They may be nil.
	Message func(text []byte)
	Decided func(Result)
	Notice  func(string)
}

// envelope is the command as an event.
type envelope struct {
	AEP     string          `json:"aep"`
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Subject string          `json:"subject,omitempty"`
	Time    string          `json:"time"`
	Source  string          `json:"source"`
	Agent   string          `json:"agent"`
	Session string          `json:"session"`
	Run     string          `json:"run,omitempty"`
	Cause   string          `json:"cause,omitempty"`
	Capture string          `json:"capture,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// text returns the command as it is sent, each time the same.
func (o *Order) text(now time.Time) ([]byte, error) {
	e := envelope{
		AEP: "0.1", ID: o.ID, Type: o.Type, Subject: o.Subject, Time: now.UTC().Format(time.RFC3339Nano),
		Source: o.Source, Agent: o.Agent, Session: o.Session, Run: o.Run, Capture: o.Capture, Data: o.Data,
	}
	if o.Type == TypeRespond {
		e.Cause = o.Subject // as the request is what it answers
	}
	return json.Marshal(e)
}

// Command sends a command and waits for its acknowledgement, and for its end if
// that is asked for. It sends the same text again while there is none, also
// over another connection: the relay routes it again (R399), and the agent acts
// on an id once. The acknowledgement is looked for among what the relay holds
// as well, so it is not missed while there is no connection.
//
// A Result with Unanswered, Accepted or Rejected comes without an error. Errors
// are ErrNoRoute, ErrUnauthorized, ErrFinal, ErrGaveUp if there was no way to
// send it within the window, and that of ctx.
func Command(ctx context.Context, relay *client.Relay, o Order) (Result, error) {
	if o.ID == "" {
		o.ID = rand.Text()
	}
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	if o.Message == nil {
		o.Message = func([]byte) {}
	}
	if o.Decided == nil {
		o.Decided = func(Result) {}
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	text, err := o.text(time.Now())
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrFinal, err)
	}
	c := &command{
		relay: relay, order: o, text: text, result: Result{ID: o.ID},
		window: time.NewTimer(o.Window), outage: outage{timeout: o.Window, notice: o.Notice},
	}
	defer c.window.Stop()
	for {
		done, err := c.connection(ctx)
		var later *laterError
		switch {
		case done:
			return c.result, nil
		case ctx.Err() != nil:
			return c.result, ctx.Err()
		case errors.Is(err, ErrFinal), errors.Is(err, ErrNoRoute), errors.Is(err, ErrUnauthorized),
			errors.Is(err, ErrGaveUp):
			return c.result, err
		}
		var atLeast time.Duration
		if errors.As(err, &later) {
			atLeast = later.after
		}
		if err := c.outage.wait(ctx, err, atLeast); err != nil {
			if errors.Is(err, ErrGaveUp) && c.sent {
				return c.result, nil
			}
			return c.result, err
		}
	}
}

// command is a Command under way. One goroutine uses it.
type command struct {
	relay  *client.Relay
	order  Order
	text   []byte
	result Result
	outage outage

	window *time.Timer // of the acknowledgement, then of the end
	ack    *message
	sent   bool // at least once, over any connection
}

// connection goes on over a new connection. Done tells that the result is
// final.
func (c *command) connection(ctx context.Context) (done bool, err error) {
	conn, err := dial(ctx, c.relay, newHello("consumer", c.order.Agent, "", nil))
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	messages, broken, read := make(chan *message), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(read)
		for {
			m, err := conn.read(ctx)
			if err != nil {
				broken <- err
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		conn.abandon()
		<-read
	}()
	t := &talk{command: c, conn: conn}
	if err := t.begin(ctx); err != nil {
		return false, err
	}
	again := time.NewTicker(max(c.order.Window/resends, 10*time.Millisecond))
	defer again.Stop()
	alarm := time.NewTicker(idlePing)
	defer alarm.Stop()
	heard := time.Now()
	for {
		select {
		case m := <-messages:
			heard = time.Now()
			if done, err := t.hear(ctx, m); done || err != nil {
				return done, err
			}
		case err := <-broken:
			text, _ := closeReason(err)
			return false, errors.New(text)
		case <-again.C:
			if c.ack == nil && t.open {
				err = conn.write(ctx, c.text)
			}
		case <-alarm.C:
			if time.Since(heard) > silence {
				return false, fmt.Errorf("the relay has said nothing for %v", silence)
			}
			err = conn.write(ctx, []byte(`{"type":"ping"}`))
		case <-c.window.C:
			if c.ack == nil && !c.sent {
				return false, fmt.Errorf("%w: the relay did not answer a subscribe in time", ErrGaveUp)
			}
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if err != nil {
			text, _ := closeReason(err)
			return false, errors.New(text)
		}
	}
}

// Identities of the two subscriptions.
const (
	ackSub = "ack"
	endSub = "end"
)

// talk is what a command does on one connection.
type talk struct {
	*command
	conn *socketConn
	open bool // the acknowledgement cannot be missed any more
	ends bool // the end neither
}

// subscribeFrame is a subscribe.
type subscribeFrame struct {
	Type   string         `json:"type"`
	ID     string         `json:"id"`
	Filter map[string]any `json:"filter"`
	From   []any          `json:"from,omitempty"`
}

// begin subscribes to what names the command as its cause, from the first event
// held on.
func (t *talk) begin(ctx context.Context) error {
	if !t.sent || t.ack != nil {
		if err := t.awaitEnd(ctx); err != nil {
			return err
		}
	}
	return t.subscribe(ctx, subscribeFrame{
		ID:     ackSub,
		Filter: map[string]any{"session": t.order.Session, "cause": t.order.ID},
		From:   []any{map[string]any{"session": t.order.Session}},
	})
}

// awaitEnd subscribes to what may be the end, from the acknowledgement on if
// there is one.
func (t *talk) awaitEnd(ctx context.Context) error {
	types := t.order.endTypes()
	if t.ends || t.order.Wait <= 0 || len(types) == 0 {
		return nil
	}
	t.ends = true
	f := subscribeFrame{ID: endSub, Filter: map[string]any{"session": t.order.Session, "type": types}}
	if t.ack != nil {
		at := map[string]any{"session": t.order.Session, "seq": t.ack.Seq}
		if t.ack.Epoch != "" {
			at["epoch"] = t.ack.Epoch
		}
		f.From = []any{at}
	}
	return t.subscribe(ctx, f)
}

func (t *talk) subscribe(ctx context.Context, f subscribeFrame) error {
	f.Type = "subscribe"
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFinal, err)
	}
	return t.conn.write(ctx, text)
}

// hear acts on a message. Done tells that the result is final.
func (t *talk) hear(ctx context.Context, m *message) (done bool, err error) {
	switch id := stringOf(m.ID); {
	case m.Type == "subscribed" && id == ackSub:
		t.open = true
		if t.ack == nil {
			t.sent = true
			return false, t.conn.write(ctx, t.text)
		}
	case m.Type == "error" && (id == ackSub || id == endSub):
		return false, fmt.Errorf("%w: the relay says %s", ErrFinal, m.why())
	case m.Type == "error" && m.cause() == t.order.ID && t.ack == nil:
		t.order.Message(m.text)
		return t.refused(m)
	case m.Session != t.order.Session:
	case (m.Type == typeAccepted || m.Type == typeRejected) && m.cause() == t.order.ID:
		return t.acknowledged(ctx, m)
	case t.order.isEnd(m, t.ack != nil) && t.result.End == nil:
		t.order.Message(m.text)
		t.result.End, t.result.EndType = m.text, m.Type
		return t.ack != nil, nil
	}
	return false, nil
}

// refused acts on an error of the relay about the command (R390 to R393).
func (t *talk) refused(m *message) (done bool, err error) {
	switch m.Code {
	case "unsupported":
		t.result.Decision, t.result.Reason = Rejected, m.why()
		t.order.Decided(t.result)
		return true, nil
	case "unauthorized":
		return false, fmt.Errorf("%w (%s): it routes them only when it has a token: "+
			"start it with AEP_TOKEN, and give the same to this command", ErrUnauthorized, m.why())
	case "no-route":
		return false, fmt.Errorf("%w (%s): the agent of the session is not connected over a WebSocket", ErrNoRoute, m.why())
	case "ambiguous":
		return false, fmt.Errorf("%w (%s): more than one connection sends events of the session", ErrNoRoute, m.why())
	}
	return false, fmt.Errorf("%w: the relay says %s", ErrFinal, m.why())
}

// acknowledged takes the agent's decision. It comes again with each copy of the
// command; the first counts.
func (t *talk) acknowledged(ctx context.Context, m *message) (done bool, err error) {
	if t.ack != nil {
		return false, nil
	}
	t.ack = m
	t.outage.over()
	t.order.Message(m.text)
	if m.Type == typeRejected {
		var why struct{ Reason, Detail string }
		_ = json.Unmarshal(m.Data, &why) // its reason may be down-leveled away
		t.result.Decision = Rejected
		t.result.Reason = strings.TrimSuffix(printable(why.Reason)+": "+printable(why.Detail), ": ")
		t.order.Decided(t.result)
		return true, nil
	}
	t.result.Decision = Accepted
	t.order.Decided(t.result)
	if t.order.Wait <= 0 || t.result.End != nil {
		return true, nil
	}
	t.window.Reset(t.order.Wait)
	t.outage.timeout = t.order.Wait
	return false, t.awaitEnd(ctx)
}

// endTypes are the types that may end what a command asks for, besides events
// that name it as their cause.
func (o *Order) endTypes() []string {
	switch {
	case o.Type == TypeCancel && o.Run != "":
		return []string{"run.cancelled", "run.finished", "run.failed", "session.ended"}
	case o.Type == TypeCancel:
		return []string{"session.ended"}
	case o.Type == TypeRespond:
		return []string{"attention.answered", "attention.resolved", "attention.timeout"}
	}
	return nil
}

// isEnd reports whether an event of the session tells how a command ended. One
// that names it as the cause does; another only if it comes after the
// acknowledgement and is about the same thing.
func (o *Order) isEnd(m *message, acknowledged bool) bool {
	types := o.endTypes()
	if m.cause() == o.ID {
		return types == nil && !strings.HasPrefix(m.Type, "control.") || slices.Contains(types, m.Type)
	}
	if !acknowledged || !slices.Contains(types, m.Type) {
		return false
	}
	switch {
	case o.Type == TypeRespond:
		return m.Subject == o.Subject
	case m.Type == "session.ended":
		return true
	}
	return m.Run == o.Run
}
