package relay_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR333FrameRules covers R303, R333, W2, C19, C21 and C22: each broken rule
// closes this connection with its code, and only this one.
func TestR333FrameRules(t *testing.T) {
	t.Parallel()
	f := startRelay(t, map[string]string{"AEP_MAX_BODY": "1000"})
	bystander := f.socket(t, "")
	ping := []byte(`{"type":"ping","t":1}`)
	frames := func(fs ...relaytest.Frame) []byte {
		var b []byte
		for _, f := range fs {
			b = append(b, f.Bytes()...)
		}
		return b
	}
	const text, binary, cont, cls, pingOp = relaytest.OpText, relaytest.OpBinary, relaytest.OpContinuation, relaytest.OpClose, relaytest.OpPing
	closeWith := func(code int, reason string) relaytest.Frame {
		return relaytest.Frame{Opcode: cls, Payload: append([]byte{byte(code >> 8), byte(code)}, reason...)}
	}
	cases := []struct {
		name  string
		bytes []byte
		code  int
	}{
		{"C22 unmasked text", frames(relaytest.Frame{Opcode: text, Payload: ping, Unmasked: true}), 1002},
		{"C22 unmasked ping", frames(relaytest.Frame{Opcode: pingOp, Unmasked: true}), 1002},
		{"C22 opcode 3", frames(relaytest.Frame{Opcode: 3, Payload: ping}), 1002},
		{"C22 opcode 7", frames(relaytest.Frame{Opcode: 7, Payload: ping}), 1002},
		{"C22 opcode 0xB", frames(relaytest.Frame{Opcode: 0xB}), 1002},
		{"C22 opcode 0xF", frames(relaytest.Frame{Opcode: 0xF}), 1002},
		{"C22 RSV1", frames(relaytest.Frame{Opcode: text, Payload: ping, RSV: 4}), 1002},
		{"C22 RSV2", frames(relaytest.Frame{Opcode: text, Payload: ping, RSV: 2}), 1002},
		{"C22 RSV3 on a ping", frames(relaytest.Frame{Opcode: pingOp, RSV: 1}), 1002},
		{"C22 RSV1 on a continuation", frames(relaytest.Frame{Opcode: text, Payload: ping[:3], NotFinal: true}, relaytest.Frame{Payload: ping[3:], RSV: 4}), 1002},
		{"C22 continuation first", frames(relaytest.Frame{Opcode: cont, Payload: ping}), 1002},
		{"C22 new text inside a message", frames(relaytest.Frame{Opcode: text, Payload: ping[:3], NotFinal: true}, relaytest.Frame{Opcode: text, Payload: ping}), 1002},
		{"C22 binary inside a message", frames(relaytest.Frame{Opcode: text, Payload: ping[:3], NotFinal: true}, relaytest.Frame{Opcode: binary, Payload: ping}), 1002},
		{"C21 fragmented ping", frames(relaytest.Frame{Opcode: pingOp, NotFinal: true}), 1002},
		{"C21 ping of 126 bytes", frames(relaytest.Frame{Opcode: pingOp, Payload: make([]byte, 126)}), 1002},
		{"C21 Close of 126 bytes", frames(closeWith(1000, strings.Repeat("x", 124))), 1002},
		{"Close of one byte", frames(relaytest.Frame{Opcode: cls, Payload: []byte{3}}), 1002},
		{"Close 999", frames(closeWith(999, "")), 1002},
		{"Close 1004", frames(closeWith(1004, "")), 1002},
		{"Close 1005", frames(closeWith(1005, "")), 1002},
		{"Close 1006", frames(closeWith(1006, "")), 1002},
		{"Close 5000", frames(closeWith(5000, "")), 1002},
		{"Close with a reason that is not UTF-8", frames(closeWith(1000, "\xff")), 1007},
		{"not UTF-8", frames(relaytest.Frame{Opcode: text, Payload: []byte("\"\xff\"")}), 1007},
		{"surrogate in UTF-8", frames(relaytest.Frame{Opcode: text, Payload: []byte("\"\xed\xa0\x80\"")}), 1007},
		{"overlong UTF-8", frames(relaytest.Frame{Opcode: text, Payload: []byte("\"\xc0\xaf\"")}), 1007},
		{"character cut at the end", frames(relaytest.Frame{Opcode: text, Payload: []byte("\"\xe2\x82")}), 1007},
		{"character cut at the end of the last fragment", frames(relaytest.Frame{Opcode: text, NotFinal: true, Payload: []byte("\"\xe2")}, relaytest.Frame{Payload: []byte("\x82")}), 1007},
		{"C19 length 2^34", frames(relaytest.Frame{Opcode: text, Declared: 1 << 34}), 1009},
		{"C19 length 2^40", frames(relaytest.Frame{Opcode: text, Declared: 1 << 40}), 1009},
		{"C19 length 2^63-1", frames(relaytest.Frame{Opcode: text, Declared: 1<<63 - 1}), 1009},
		{"C19 length 2^63", frames(relaytest.Frame{Opcode: text, Declared: 1 << 63}), 1002},
		{"R332 one over", frames(relaytest.Frame{Opcode: text, Declared: 1<<20 + 1}), 1009},
		{"R332 fragments summed", frames(relaytest.Frame{Opcode: text, Payload: bytes.Repeat([]byte(" "), 1<<19), NotFinal: true}, relaytest.Frame{Declared: 1<<19 + 1}), 1009},
	}
	for _, c := range cases {
		for _, greeted := range []bool{true, false} {
			if !greeted && c.code == 1009 && strings.HasPrefix(c.name, "R332") {
				continue
			}
			var w *socket
			if greeted {
				w = f.socket(t, "")
			} else {
				w = f.dial(t, relaytest.WSOptions{})
			}
			if err := w.Send(c.bytes); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			m := w.next()
			if m.Opcode != cls || m.Code != c.code {
				t.Errorf("%s (after hello: %v): got opcode %d %q, close %d; want Close %d", c.name, greeted, m.Opcode, m.Data, m.Code, c.code)
				continue
			}
			_ = w.SendClose(m.Code, "")
			if _, err := w.Drain(patience); relaytest.IsTimeout(err) {
				t.Errorf("%s: connection stays open", c.name)
			}
		}
	}
	if got := bystander.barrier(); len(got) != 0 {
		t.Errorf("bystander got %q", got)
	}
	f.awaitHealth(t, "R334", func(h health) bool { return h.Connections == 1 })
}

// TestR332PreHelloLimit: 64 KiB before hello.
func TestR332PreHelloLimit(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	hello := func(size int) string { return helloBoth + strings.Repeat(" ", size-len(helloBoth)) }
	w := f.dial(t, relaytest.WSOptions{})
	w.send(hello(64 << 10))
	w.frame("hello")
	w = f.dial(t, relaytest.WSOptions{})
	w.send(hello(64<<10 + 1))
	if m := w.next(); m.Code != 1009 {
		t.Errorf("64 KiB + 1 before hello: %+v, want Close 1009", m)
	}
}

// TestR332Limit: the larger of AEP_MAX_BODY and 1 MiB, exactly.
func TestR332Limit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env   string
		limit int
	}{{"1000", 1 << 20}, {"2000000", 2_000_000}} {
		f := startRelay(t, map[string]string{"AEP_MAX_BODY": c.env})
		w := f.socket(t, "")
		ping := `{"type":"ping","t":1}`
		text := ping + strings.Repeat(" ", c.limit-len(ping))
		w.send(text)
		w.frame("pong")
		third := c.limit / 3
		_ = w.SendFrame(relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(text[:third]), NotFinal: true})
		_ = w.SendFrame(relaytest.Frame{Payload: []byte(text[third : 2*third]), NotFinal: true})
		_ = w.SendFrame(relaytest.Frame{Payload: []byte(text[2*third:])})
		w.frame("pong")
		_ = w.SendText(text + " ")
		if m := w.next(); m.Code != 1009 {
			t.Errorf("AEP_MAX_BODY=%s: %d bytes: %+v, want Close 1009", c.env, c.limit+1, m)
		}
	}
}

// TestR303Fragments: fragments, pings between them, and characters across them.
func TestR303Fragments(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	text := `{"type":"ping","t":"é€😀"}`
	for cut := range len(text) {
		payload := fmt.Sprint("p", cut)
		_ = w.SendFrame(relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(text[:cut]), NotFinal: true})
		_ = w.SendFrame(relaytest.Frame{Opcode: relaytest.OpPing, Payload: []byte(payload)})
		_ = w.SendFrame(relaytest.Frame{NotFinal: true})
		_ = w.SendFrame(relaytest.Frame{Payload: []byte(text[cut:])})
		if m := w.next(); m.Opcode != relaytest.OpPong || string(m.Data) != payload {
			t.Fatalf("C21: cut at %d: got %+v, want the pong", cut, m)
		}
		if e := w.frame("pong"); string(e.T) != `"é€😀"` {
			t.Fatalf("cut at %d: t %s", cut, e.T)
		}
	}
	_ = w.SendFrame(relaytest.Frame{Opcode: relaytest.OpPing, Payload: bytes.Repeat([]byte("x"), 125)})
	if m := w.next(); m.Opcode != relaytest.OpPong || len(m.Data) != 125 {
		t.Errorf("ping of 125 bytes: %+v", m)
	}
	_ = w.SendFrame(relaytest.Frame{Opcode: relaytest.OpPong, Payload: []byte("unasked")})
	wantTexts(t, "an unasked pong", w.barrier(), nil)
	for i := range len(text) { // one byte a frame
		_ = w.SendFrame(relaytest.Frame{Opcode: byte(1 - min(i, 1)), Payload: []byte(text[i : i+1]), NotFinal: i < len(text)-1})
	}
	w.frame("pong")
}

// TestR303Close: a close is answered with a close of the same code.
func TestR303Close(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	for _, c := range []struct {
		code   int
		reason string
	}{{0, ""}, {1000, ""}, {1000, "bye é"}, {1001, strings.Repeat("x", 123)}, {3000, ""}, {4999, "x"}} {
		for _, greeted := range []bool{true, false} {
			w := f.dial(t, relaytest.WSOptions{})
			if greeted {
				w.send(helloBoth)
				w.frame("hello")
			}
			if err := w.SendClose(c.code, c.reason); err != nil {
				t.Fatal(err)
			}
			m := w.next()
			if m.Opcode != relaytest.OpClose || c.code != 0 && m.Code != c.code {
				t.Errorf("Close %d %q answered with opcode %d, code %d", c.code, c.reason, m.Opcode, m.Code)
			}
			if err := w.AwaitEOF(patience); err != nil {
				t.Errorf("after the closing handshake: %v", err)
			}
		}
	}
	f.awaitHealth(t, "R334", func(h health) bool { return h.Connections == 0 })
}

// TestR334GaugesFall: whatever way a connection ends, its state goes.
func TestR334GaugesFall(t *testing.T) {
	t.Parallel()
	f := startTokenRelay(t, nil)
	for name, leave := range map[string]func(*socket) error{
		"FIN": func(w *socket) error { return w.Close() }, "RST": func(w *socket) error { return w.Reset() },
		"Close":          func(w *socket) error { return w.SendClose(1000, "") },
		"half close":     func(w *socket) error { return w.CloseWrite() },
		"protocol error": func(w *socket) error { return w.SendFrame(relaytest.Frame{Opcode: 3}) },
	} {
		w := f.socket(t, "")
		w.subscribe(`{"type":"subscribe","id":1}`)
		w.subscribe(`{"type":"subscribe","id":2}`)
		w.subscribe(`{"type":"subscribe","id":2}`)
		w.send(relaytest.Event{Session: "s"}.JSON())
		w.barrier()
		if h := f.health(t); h.Connections != 1 || h.Subscribers != 2 {
			t.Errorf("%+v, want one connection with two subscriptions (W21)", h)
		}
		if err := leave(w); err != nil {
			t.Fatal(err)
		}
		f.awaitHealth(t, "R334 "+name, func(h health) bool { return h.Connections == 0 && h.Subscribers == 0 })
		_ = w.Close()
	}
	probe := f.socket(t, "")
	probe.send(relaytest.Command("control.pause", "s").JSON())
	probe.refused("no-route")
}
