package aepws

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// tell says events, one text frame each.
func (w *wire) tell(events ...string) {
	w.r.t.Helper()
	var all strings.Builder
	for _, e := range events {
		all.WriteString(text(e))
	}
	w.say(all.String())
}

func clientFrame(opcode byte, payload string) string {
	return string(relaytest.Frame{Opcode: opcode, Payload: []byte(payload)}.Bytes())
}

func text(payload string) string { return clientFrame(relaytest.OpText, payload) }

func closeFrame(code int) string {
	if code == 0 {
		return clientFrame(relaytest.OpClose, "")
	}
	return clientFrame(relaytest.OpClose, string(binary.BigEndian.AppendUint16(nil, uint16(code))))
}

// handshake is an upgrade that offers the subprotocol.
func handshake(query string, headers ...string) string {
	if query != "" {
		query = "?" + query
	}
	headers = append(headers, "Sec-WebSocket-Protocol: aep-0.1")
	return relaytest.HandshakeRequest("localhost", "/aep"+query, relaytest.WSOptions{Headers: headers})
}

// connect opens a socket on a loop, whose 101 is read.
func (r *rig) connect(loop int, query string, headers ...string) *wire {
	r.t.Helper()
	w := r.dial(loop)
	w.say(handshake(query, headers...))
	w.upgraded()
	return w
}

// upgraded reads the head of a 101.
func (w *wire) upgraded() {
	w.r.t.Helper()
	head, _, ok := strings.Cut(string(w.Received()[w.read:]), "\r\n\r\n")
	if !ok || !strings.HasPrefix(head, "HTTP/1.1 101 ") || strings.Count(head, "\r\nSec-WebSocket-Protocol: aep-0.1") != 1 ||
		strings.Contains(head, "Sec-WebSocket-Extensions") {
		w.r.t.Fatalf("B1, B5: the handshake was answered with %.300q", head)
	}
	w.read += len(head) + 4
}

// open opens a session on loop 0, or on the loop given.
func (r *rig) open(id string, loop ...int) *wire {
	r.t.Helper()
	at := 0
	if len(loop) > 0 {
		at = loop[0]
	}
	w := r.connect(at, "")
	w.tell(opened(id))
	w.want("B31", "session.ready "+id)
	return w
}

// opened is session.opened with more members of its payload.
func opened(id string, more ...string) string {
	return fmt.Sprintf(`{"type":"session.opened","id":"o1","payload":{"session_id":%q%s}}`, id, strings.Join(more, ""))
}

// event is a domain event with more members.
func event(id string, more ...string) string {
	return fmt.Sprintf(`{"aep_version":"0.1","id":%q,"type":"task.progress","source":"agent:a",`+
		`"created_at":"2026-01-01T00:00:00Z","payload":{"n":1}%s}`, id, strings.Join(more, ""))
}

// frames reads what the peer has received since it last looked, as summary says,
// and control frames as "ping", "pong text" and "close code".
func (w *wire) frames() (all []string) {
	w.r.t.Helper()
	for in := w.Received(); ; {
		rest := in[w.read:]
		size, head := frameLen(rest)
		if size < 0 || len(rest) < head+size {
			return all
		}
		payload := rest[head : head+size]
		w.read += head + size
		switch rest[0] {
		case 0x80 | relaytest.OpText:
			all = append(all, w.summary(payload))
		case 0x80 | relaytest.OpPing:
			all = append(all, "ping")
		case 0x80 | relaytest.OpPong:
			all = append(all, "pong "+string(payload))
		case 0x80 | relaytest.OpClose:
			code := 0
			if size > 0 {
				code = int(binary.BigEndian.Uint16(payload))
			}
			all = append(all, fmt.Sprintf("close %d", code))
		default:
			w.r.t.Fatalf("B10: a frame begins with %#x", rest[0])
		}
	}
}

// frameLen returns the length of a frame's payload and header, or -1 when not
// all of the header is there.
func frameLen(b []byte) (payload, header int) {
	switch {
	case len(b) < 2:
	case b[1] < 126:
		return int(b[1]), 2
	case b[1] == 126 && len(b) >= 4:
		return int(binary.BigEndian.Uint16(b[2:])), 4
	case b[1] == 127 && len(b) >= 10:
		return int(binary.BigEndian.Uint64(b[2:])), 10
	}
	return -1, 0
}

// written is an event of the relay.
type written struct {
	AEP           string `json:"aep_version"`
	Spec          string `json:"spec_version"`
	ID            string `json:"id"`
	Type          string `json:"type"`
	Source        string `json:"source"`
	CreatedAt     string `json:"created_at"`
	SessionID     string `json:"session_id"`
	CausationID   string `json:"causation_id"`
	CorrelationID string `json:"correlation_id"`
	Payload       struct {
		SessionID    *string         `json:"session_id"`
		Reason       string          `json:"reason"`
		EventID      *string         `json:"acknowledged_event_id"`
		Cursor       string          `json:"cursor"`
		Errors       []string        `json:"errors"`
		Capabilities json.RawMessage `json:"capabilities"`
		Error        *struct {
			Code      string         `json:"code"`
			Message   string         `json:"message"`
			Retryable *bool          `json:"retryable"`
			Details   map[string]any `json:"details"`
		} `json:"error"`
	} `json:"payload"`
}

// summary returns an event's type, and of its payload the session or the cursor,
// the event that is refused, the error's code, and its reason and state.
func (w *wire) summary(payload []byte) string {
	w.r.t.Helper()
	var e written
	if err := json.Unmarshal(payload, &e); err != nil {
		w.r.t.Fatalf("B10: %v in %q", err, payload)
	}
	if e.AEP != "0.1" || e.Spec != "0.1" || !strings.HasPrefix(e.ID, "evt_") || e.Source != "relay:sluice" || !strings.HasSuffix(e.CreatedAt, "Z") {
		w.r.t.Errorf("section 5: %s", payload)
	}
	parts := []string{e.Type}
	p := &e.Payload
	if strings.HasPrefix(e.Type, "session.") && p.SessionID != nil {
		parts = append(parts, *p.SessionID)
		if e.SessionID != *p.SessionID {
			w.r.t.Errorf("session_id twice, differing: %s", payload)
		}
	}
	if p.Cursor != "" {
		parts = append(parts, p.Cursor)
	} else if p.EventID != nil {
		parts = append(parts, *p.EventID)
		if e.CausationID != *p.EventID {
			w.r.t.Errorf("B29: causation: %s", payload)
		}
	}
	if p.Reason != "" {
		parts = append(parts, p.Reason)
	}
	if x := p.Error; x != nil {
		if x.Message == "" || x.Retryable == nil {
			w.r.t.Errorf("B26: the error lacks a part: %s", payload)
		}
		parts = append(parts, x.Code)
		for _, name := range []string{"reason", "state"} {
			if s, ok := x.Details[name].(string); ok {
				parts = append(parts, s)
			}
		}
	}
	return strings.Join(parts, " ")
}

// last returns the newest event that the peer has received.
func (w *wire) last() (e written) {
	w.r.t.Helper()
	in := w.Received()
	at := strings.LastIndex(string(in), `{"aep_version"`)
	if at < 0 {
		w.r.t.Fatal("no event came")
	}
	if err := json.NewDecoder(strings.NewReader(string(in[at:]))).Decode(&e); err != nil {
		w.r.t.Fatal(err)
	}
	return e
}

// want compares the frames that came since the peer last looked.
func (w *wire) want(what string, want ...string) {
	w.r.t.Helper()
	if got := w.frames(); !slices.Equal(got, want) {
		w.r.t.Errorf("%s: %d frames %.900q, want %d: %.900q", what, len(got), got, len(want), want)
	}
}

func (w *wire) wantState(what, want string) {
	w.r.t.Helper()
	if got := w.State(); got != want {
		w.r.t.Errorf("%s: the connection is %s, want %s", what, got, want)
	}
}

func (r *rig) wantRecords(what string, want ...string) {
	r.t.Helper()
	var got []string
	for name, n := range r.surface.Counters().Records {
		for range n {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: recorded %v, want %v", what, got, want)
	}
}
