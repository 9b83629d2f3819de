package relaytest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// TargetConfig describes a control target.
type TargetConfig struct {
	Addr    string // of the relay
	Token   string
	Session string   // claimed at start
	Accepts []string // declared as capabilities.control.accepts
	Agent   string   // default: control-target
}

// ControlTarget is a cooperating target of commands (AEP-0004, sections 2.3, 3,
// 4.2 and 6): it claims its session by starting it, answers each command with
// one acknowledgement, follows a cancel with run.cancelled, executes a command
// once however often it is sent, and repeats the recorded acknowledgement, byte
// for byte, on a retry. Safe for use from any goroutine.
type ControlTarget struct {
	cfg  TargetConfig
	ws   *WS
	done chan struct{}

	mu       sync.Mutex
	received []string
	acks     map[[2]string]string // (source, id) of a command -> ack text
	executed int
	seq      uint64
	stopped  bool
	err      error
}

// StartControlTarget connects, says hello, claims the session and serves until
// Close. On return the relay has processed the claim.
func StartControlTarget(cfg TargetConfig) (*ControlTarget, error) {
	if cfg.Agent == "" {
		cfg.Agent = "control-target"
	}
	ws, err := DialWS(cfg.Addr, "/socket", WSOptions{Token: cfg.Token})
	if err != nil {
		return nil, err
	}
	t := &ControlTarget{cfg: cfg, ws: ws, done: make(chan struct{}), acks: map[[2]string]string{}}
	if err := t.start(); err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	go t.serve()
	return t, nil
}

func (t *ControlTarget) start() error {
	hello := map[string]any{
		"type": "hello", "versions": []string{"0.1"}, "role": "both",
		"identity":     map[string]string{"agent": t.cfg.Agent, "instance": "double"},
		"capabilities": map[string]any{"control": map[string]any{"accepts": t.cfg.Accepts}},
	}
	if err := t.ws.SendJSON(hello); err != nil {
		return err
	}
	if err := t.ws.SendText(t.event("session.started", "", "", `{"client":{"name":"double"}}`)); err != nil {
		return err
	}
	if err := t.ws.SendText(`{"type":"ping","t":"claimed"}`); err != nil {
		return err
	}
	for {
		m, err := t.ws.Next(headTimeout)
		if err != nil {
			return fmt.Errorf("relaytest: control target start: %w", err)
		}
		if strings.Contains(string(m.Data), `"pong"`) {
			return nil
		}
		if strings.Contains(string(m.Data), `"error"`) {
			return fmt.Errorf("relaytest: control target refused: %s", m.Data)
		}
	}
}

// event builds the next event of the session. Caller holds mu, or is start.
func (t *ControlTarget) event(typ, run, cause, data string) string {
	e := Event{
		Type: typ, Session: t.cfg.Session, Seq: t.seq, Run: run, Cause: cause, Data: data,
		Agent: t.cfg.Agent, Source: "aep://test/agent/" + t.cfg.Agent,
		Time: time.Now().UTC().Format(time.RFC3339Nano),
	}
	t.seq++
	return e.JSON()
}

func (t *ControlTarget) serve() {
	defer close(t.done)
	for {
		m, err := t.ws.Next(time.Hour)
		if err == nil && m.Opcode == OpClose {
			err = errors.Join(t.ws.SendClose(m.Code, ""), fmt.Errorf("relaytest: closed with %d %q", m.Code, m.Reason))
		}
		if err == nil && m.Opcode == OpText {
			err = t.message(string(m.Data))
		}
		if err != nil {
			t.mu.Lock()
			if !t.stopped {
				t.err = err
			}
			t.mu.Unlock()
			return
		}
	}
}

// message acts on one text message. Frames are ignored, but for the relay's
// ping.
func (t *ControlTarget) message(text string) error {
	e, err := ParseEnvelope(text)
	if err != nil {
		return err
	}
	if e.Type == "ping" {
		return t.ws.SendText(`{"type":"pong","t":` + string(e.T) + `}`)
	}
	if !IsCommand(e.Type) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received = append(t.received, text)
	key := [2]string{e.Source, e.IDString()}
	if ack, again := t.acks[key]; again {
		return t.ws.SendText(ack)
	}
	accepted := false
	for _, a := range t.cfg.Accepts {
		accepted = accepted || a == e.Type
	}
	if !accepted {
		t.acks[key] = t.event("control.rejected", "", e.IDString(), `{"reason":"unsupported"}`)
		return t.ws.SendText(t.acks[key])
	}
	t.executed++
	t.acks[key] = t.event("control.accepted", "", e.IDString(), "")
	if err := t.ws.SendText(t.acks[key]); err != nil || e.Type != "control.cancel" {
		return err
	}
	return t.ws.SendText(t.event("run.cancelled", e.Run, e.IDString(), `{"reason":"cancelled"}`))
}

// Received is the text of each command as it came, retries included.
func (t *ControlTarget) Received() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.received...)
}

// Executed is the number of distinct commands acted upon.
func (t *ControlTarget) Executed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.executed
}

// Close disconnects and returns what went wrong while the target served.
func (t *ControlTarget) Close() error {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	_ = t.ws.Close()
	<-t.done
	return t.err
}

// IsCommand tells whether typ is a command type (R140).
func IsCommand(typ string) bool {
	switch typ {
	case "control.attention.respond", "control.cancel", "control.pause", "control.resume":
		return true
	}
	rest, vendor := strings.CutPrefix(typ, "x.")
	if !vendor {
		return false
	}
	_, rest, _ = strings.Cut(rest, ".")
	rest, ok := strings.CutPrefix(rest, "control.")
	return ok && rest != ""
}
