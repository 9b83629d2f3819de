package aepws

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

func second(s *Settings) { s.Heartbeat = time.Second }

var pong = clientFrame(relaytest.OpPong, "")

// B40: a socket that names no session.
func TestOpenTimeout(t *testing.T) {
	r := newRig(t, rigConfig{settings: func(s *Settings) { s.OpenTimeout = 2 * time.Second }})
	w, opens := r.connect(0, ""), r.connect(0, "")
	r.pass(2*time.Second - step)
	w.tell(event("e"))
	w.want("before", "event.rejected e protocol_error OPENED")
	opens.tell(opened("s"))
	r.pass(2 * step)
	w.want("B40", "session.error session_timeout", "close 1001")
	opens.want("B31", "session.ready s")
	r.wantRecords("B42", "open_timeout", "opened")
	r.pass(time.Hour / 60)
	opens.frames()
	opens.wantState("a session without traffic is judged by its Pongs alone", "open")
}

// B36, B37, B39: pings and heartbeats every T, in pairs.
func TestHeartbeats(t *testing.T) {
	r := newRig(t, rigConfig{settings: second})
	w := r.open("s")
	for range 10 {
		r.pass(time.Second)
		w.say(pong)
		w.want("B37, B39", "ping", "session.heartbeat s")
	}
	slow := r.connect(0, "")
	slow.tell(opened("slow", `,"capabilities":{"heartbeat_interval_ms":3000}`))
	off := r.connect(0, "")
	off.tell(opened("off", `,"capabilities":{"heartbeat_interval_ms":0}`))
	slow.want("B36", "session.ready slow")
	off.want("B36", "session.ready off")
	if c := string(off.last().Payload.Capabilities); !strings.Contains(c, `"heartbeat_interval_ms":0,`) {
		t.Errorf("B36: %s", c)
	}
	for range 3 {
		slow.want("B36: not yet")
		r.pass(time.Second)
	}
	r.pass(step / 2)
	slow.want("B36: three seconds", "ping", "session.heartbeat slow")
	r.pass(time.Hour / 60)
	off.want("B36: off")
	off.wantState("B36: off", "open")
}

// Case 20: what counts is the last Pong, and nothing else.
func TestPongTimeout(t *testing.T) {
	r := newRig(t, rigConfig{settings: second})
	w := r.open("s")
	r.pass(1500 * time.Millisecond)
	w.say(pong)
	since := time.Duration(0)
	for ; w.State() == "open" && since < 10*time.Second; since += step / 2 {
		w.tell(`{"type":"session.heartbeat"}`)
		w.say(clientFrame(relaytest.OpPing, ""))
		r.pass(step / 2)
		if frames := w.Received(); strings.Contains(string(frames), "session_timeout") {
			break
		}
	}
	if since < 3*time.Second-step || since > 4*time.Second {
		t.Errorf("case 20: cut %v after the last Pong", since)
	}
	got := slices.DeleteFunc(w.frames(), func(f string) bool {
		return f == "pong " || f == "ping" || f == "session.heartbeat s"
	})
	if !slices.Equal(got, []string{"session.error s session_timeout", "close 1001"}) {
		t.Errorf("case 20: %q", got)
	}
	r.wantRecords("B42", "opened", "pong_timeout")
	r.wantCalls("B45", "closed s")
}

// While the relay holds a socket's input it does not judge it by Pongs that may
// lie in it.
func TestPongsInHeldInput(t *testing.T) {
	r := newRig(t, rigConfig{settings: second, gated: true})
	w := r.open("s")
	for i := range maxAppends {
		w.tell(event(string(rune('a'+i%26)) + strings.Repeat("x", i/26)))
	}
	for range 10 {
		r.pass(time.Second)
		w.say(pong)
	}
	w.wantState("held", "open")
	r.letGo()
	r.answered()
	w.frames()
	r.pass(2 * time.Second)
	w.wantState("after it", "open")
	r.pass(2 * time.Second)
	if frames := w.frames(); frames[len(frames)-1] != "close 1001" {
		t.Errorf("B37: %q", frames)
	}
}
