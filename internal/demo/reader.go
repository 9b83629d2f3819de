package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/coder/websocket"
)

// frame is what a link reads of a message.
type frame struct {
	Type   string          `json:"type"`
	T      json.RawMessage `json:"t"`
	Code   string          `json:"code"`
	Detail string          `json:"detail"`
}

// pong tells that all up to an event was processed, and how many of those after
// the last pong's were refused.
type pong struct{ number, refused int64 }

// reader reads one connection.
type reader struct {
	link  *link
	conn  *websocket.Conn
	pongs chan pong  // the latest
	lost  chan error // why reading ended

	refused int64 // since the last pong
}

func (r *reader) run(ctx context.Context) {
	for {
		_, text, err := r.conn.Read(ctx)
		if err == nil {
			err = r.message(ctx, text)
		}
		if err != nil {
			r.lost <- err
			return
		}
	}
}

func (r *reader) message(ctx context.Context, text []byte) error {
	var f frame
	if err := json.Unmarshal(text, &f); err != nil {
		return nil // no frame of ours; what it says is not needed
	}
	p := r.link.player
	switch {
	case strings.Contains(f.Type, "."):
		select {
		case p.commands <- fleetCommand{r.link.agent, text}:
		case <-ctx.Done():
		}
	case f.Type == "ping":
		return send(ctx, r.conn, []byte(`{"type":"pong","t":`+string(orNull(f.T))+`}`))
	case f.Type == "pong":
		n, err := strconv.ParseInt(string(f.T), 10, 64)
		if err != nil {
			return fmt.Errorf("pong with another t: %.50q", f.T)
		}
		select {
		case r.pongs <- pong{n, r.refused}:
			r.refused = 0
		case <-ctx.Done():
		}
	case f.Type == "error":
		r.refused++
		p.counts.refused.Add(1)
		p.counts.problem(fmt.Errorf("%s: %s", f.Code, f.Detail))
	}
	return nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}
