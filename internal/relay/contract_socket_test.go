package relay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// TestR306BeforeHello is the left column of the table of R306 (W3).
func TestR306BeforeHello(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	notHello := []string{
		`null`, `[]`, `5`, `"x"`, `true`, `{}`, `{"type":5}`, `{"type":null}`, `{"type":"subscribe","id":1}`, `{"type":"ping"}`,
		`{"type":"pong"}`, `{"type":"roster"}`, `{"type":"unknown"}`, `{"type":"HELLO","versions":["0.1"]}`,
		relaytest.Event{Session: "s"}.JSON(), relaytest.AgentEvent().JSON(), `{"type":"not.valid"}`,
	}
	for _, text := range notHello {
		w := f.dial(t, relaytest.WSOptions{})
		w.send(text)
		w.refused("hello-required")
		if reason := w.closes(1002); reason != "hello required" {
			t.Errorf("%s: reason %q", text, reason)
		}
	}
	for _, hello := range []string{
		`{"type":"hello"}`, `{"type":"hello","versions":[]}`, `{"type":"hello","versions":["0.2"]}`, `{"type":"hello","versions":"0.1"}`,
		`{"type":"hello","versions":{"0.1":true}}`, `{"type":"hello","versions":[0.1]}`, `{"type":"hello","versions":null}`, `{"type":"hello","versions":[["0.1"]]}`,
	} {
		w := f.dial(t, relaytest.WSOptions{})
		w.send(hello)
		if e := w.refused("version-unsupported"); len(e.Versions) != 1 || e.Versions[0] != "0.1" {
			t.Errorf("%s: versions %q", hello, e.Versions)
		}
		if reason := w.closes(1002); reason != "version unsupported" {
			t.Errorf("%s: reason %q", hello, reason)
		}
	}
	w := f.dial(t, relaytest.WSOptions{})
	for _, text := range []string{"", " ", "{", "hello", `{"type":"hello"} x`, `{"type":"hello",}`} {
		w.send(text)
		w.refused("bad-json")
	}
	w.send(helloBoth) // it stayed open
	w.frame("hello")
	if held := f.held(t); len(held) != 0 {
		t.Errorf("events before hello were taken: %q", held)
	}
}

// TestR306AfterHello is the right column.
func TestR306AfterHello(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	w.send(
		`null`, `[]`, `5`, `"x"`, `{}`, `{"type":5}`, `{"type":null}`, `{"type":["a.b"]}`, `{"x":1}`,
		helloBoth, `{"type":"hello","versions":["9"]}`, `{"type":"pong","t":1}`, `{"type":"subscribed","id":1}`, `{"type":"unsubscribed","id":1}`,
		`{"type":"closing"}`, `{"type":"error","code":"x"}`, `{"type":"replay-exhausted"}`, `{"type":"shed"}`, `{"type":"no-such-frame","x":{}}`, `{"type":""}`,
	)
	wantTexts(t, "ignored", w.barrier(), nil)
	for _, text := range []string{"", "{", `{"a":1}{"b":2}`, `nul`, `{"type":"ping","t":01}`} {
		w.send(text)
		w.refused("bad-json")
	}
	w.send(`{"type":"tool.completed"}`)
	wantInvalidEvent(t, `{"type":"tool.completed"}`, w.text())
	w.send(`{"type":"tool.completed","id":5}`)
	wantInvalidEvent(t, `{"type":"tool.completed","id":5}`, w.text())
	wantTexts(t, "the connection survives", w.barrier(), nil)
}

// TestR306Binary: refused with a frame and a close, before and after hello.
func TestR306Binary(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	for _, greeted := range []bool{false, true} {
		w := f.dial(t, relaytest.WSOptions{})
		if greeted {
			w.send(helloBoth)
			w.frame("hello")
		}
		if err := w.SendFrame(relaytest.Frame{Opcode: relaytest.OpBinary, Payload: []byte(helloBoth)}); err != nil {
			t.Fatal(err)
		}
		w.refused("binary-unsupported")
		w.closes(1003)
	}
}

// TestR308HelloTimeout: no hello within 10 s.
func TestR308HelloTimeout(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	f := startRelay(t, nil)
	begin := time.Now()
	w := f.dial(t, relaytest.WSOptions{})
	w.refused("hello-required")
	w.closes(1002)
	if took := time.Since(begin); took < 8*time.Second || took > 20*time.Second {
		t.Errorf("cut after %v, want 10 s", took)
	}
}

// TestR309Pipelined: everything in one write, answers in order.
func TestR309Pipelined(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	e := relaytest.Event{Session: "s"}.JSON()
	var glued []byte
	for _, text := range []string{
		helloBoth, `{"type":"subscribe","id":"a"}`, e, `{"type":"roster","id":1}`, `{"type":"unsubscribe","id":"a"}`, e,
		`{"type":"subscribe","id":"b","from":"all"}`, `{"type":"ping","t":2}`,
	} {
		glued = append(glued, relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(text)}.Bytes()...)
	}
	w := f.dial(t, relaytest.WSOptions{Glued: glued})
	w.frame("hello")
	w.frame("subscribed")
	w.frame("progress.status")
	if r := w.frame("roster"); len(r.Entries) != 1 {
		t.Errorf("R383: roster has %d entries, want the claim made just before", len(r.Entries))
	}
	w.frame("unsubscribed")
	w.frame("subscribed")
	rest := []string{w.text(), w.text()} // R329: in either order
	if slices.Sort(rest); rest[0] != e || !isFrame(rest[1], "pong") {
		t.Errorf("after the second subscribed: %q, want one replayed event and a pong", rest)
	}
	wantTexts(t, "and no more", w.barrier(), nil)
}

// TestR311Hello covers R310 and R311: what a hello may say.
func TestR311Hello(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	for _, hello := range []string{
		`{"type":"hello","versions":["0.1"]}`,
		`{"versions":["9","0.1",7,null],"type":"hello","role":"boss","identity":null,"capabilities":null}`,
		`{"type":"hello","versions":["0.1"],"role":5,"identity":"x","capabilities":[],"future":{"a":[1]}}`,
		`{"type":"hello","versions":["0.1"],"role":"emitter","identity":{},"capabilities":{"control":null,"emits":5,"x":{}}}`,
		` {"type":"hello","versions":["0.1"],"role":"consumer","capabilities":{"control":7}} `,
	} {
		w := f.socket(t, hello)
		wantTexts(t, hello, w.barrier(), nil)
	}
}

// TestR312HelloLimits: what is kept of a hello is bounded.
func TestR312HelloLimits(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	hello := func(member string, size int) string {
		v := `{"accepts":["` + strings.Repeat("x", size-len(`{"accepts":[""]}`)) + `"]}`
		return `{"type":"hello","versions":["0.1"],"capabilities":{"` + member + `":` + v + `}}`
	}
	for _, member := range []string{"control", "emits"} {
		f.socket(t, hello(member, 4096))
		w := f.dial(t, relaytest.WSOptions{})
		w.send(hello(member, 4097))
		w.refused("limit-exceeded")
		w.closes(1008)
	}
	f.socket(t, hello("other", 40_000))
}

// TestR330ClientPing: t comes back as spelled.
func TestR330ClientPing(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w := f.socket(t, "")
	for _, v := range []string{`1`, `1.0`, `1E3`, `12345678901234567890123`, `"x"`, `"\u0041\n"`, `{"a": [1, 2]}`, `null`, `true`, `-0`, `1e999`} {
		w.send(`{"type":"ping","t":` + v + `}`)
		text := w.text()
		if !isFrame(text, "pong") || !strings.Contains(text, v) {
			t.Errorf("t %s answered %s", v, text)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &members); err != nil || string(members["t"]) != v || len(members) != 2 {
			t.Errorf("t %s answered %s", v, text)
		}
	}
	w.send(`{"type":"ping"}`, `{"id":1,"type":"ping","x":2}`)
	for range 2 {
		wantJSON(t, "absent t", w.text(), `{"type":"pong"}`)
	}
}

// TestR330RelayPing: the relay pings at 25 s, in both ways (R331), and a stream
// gets its comment (R274).
func TestR330RelayPing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 25 s")
	}
	f := startRelay(t, nil)
	begin := time.Now()
	w, s := f.socket(t, ""), f.stream(t, "", relaytest.StreamOptions{})
	var frames, protocol int
	for frames == 0 || protocol == 0 {
		m, err := w.Next(patience)
		if err != nil {
			t.Fatal(err)
		}
		if m.Opcode == relaytest.OpPing {
			protocol++
			continue
		}
		e, err := relaytest.ParseEnvelope(string(m.Data))
		if err != nil || e.Type != "ping" {
			t.Fatalf("got %q", m.Data)
		}
		var ms int64
		if err := json.Unmarshal(e.T, &ms); err != nil || time.Since(time.UnixMilli(ms)).Abs() > time.Minute {
			t.Errorf("t is %s, want ms since 1970", e.T)
		}
		frames++
	}
	if took := time.Since(begin); took < 20*time.Second || took > 45*time.Second {
		t.Errorf("pings after %v, want 25 s", took)
	}
	b, err := s.Next(patience)
	if took := time.Since(begin); err != nil || b.Raw != ": ping" || took > 45*time.Second {
		t.Errorf("stream: %q, %v after %v; want \": ping\" at 25 s", b.Raw, err, took)
	}
}

// TestR14Garbage throws bytes of all kinds at the port; bystanders notice
// nothing.
func TestR14Garbage(t *testing.T) {
	t.Parallel()
	f := startRelay(t, nil)
	w, s := f.socket(t, ""), f.stream(t, "", relaytest.StreamOptions{})
	w.subscribe(`{"type":"subscribe","id":"a"}`)
	for i := range 200 {
		var b []byte
		for k := range 1 + i*7%600 {
			b = append(b, byte(k*k*31+i*17+k>>3))
		}
		switch i % 4 {
		case 0:
		case 1:
			b = append([]byte("POST /events HTTP/1.1\r\nHost: "+f.addr+"\r\nAEP-Version: 0.1\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"), b...)
		case 2:
			b = append([]byte(relaytest.HandshakeRequest(f.addr, "/socket", relaytest.WSOptions{})), b...)
		default:
			payload := []byte(fmt.Sprintf(`{"type":%q,"x":%q}`, b[:min(len(b), 20)], b))
			b = append([]byte(relaytest.HandshakeRequest(f.addr, "/socket", relaytest.WSOptions{})),
				relaytest.Frame{Opcode: relaytest.OpText, Payload: payload}.Bytes()...)
		}
		c := f.raw(t, 0)
		_ = c.Send(b)
		if i%2 == 0 {
			_ = c.CloseWrite()
		} else {
			_ = c.Reset()
		}
	}
	e := relaytest.Event{Session: "s"}.JSON()
	f.post(t, e)
	if got := s.event().Data; got != e {
		t.Errorf("stream: %s", got)
	}
	if got := w.text(); got != e {
		t.Errorf("socket: %s", got)
	}
}
