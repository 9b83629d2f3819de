package firehose

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// F3, F19 to F24, cases 1 to 8: what a cursor meets, over the wire.
func TestCursors(t *testing.T) {
	f := func(name string, reserved, published int64, query string, want []string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			r := newLoopRig(t, rigConfig{Settings: bounded(4).Settings, Reserved: reserved})
			r.publish(int(published), 0)
			w := r.subscribe(query)
			next := reserved + published + 1
			if len(want) > 1 && want[0] == futureEnd[0] {
				r.publish(1, 0)
				w.want("F23", want...)
				return
			}
			w.want("replay", want...)
			r.publish(2, 0)
			w.want("F19: live after it", commits(next, next+1)...)
		})
	}
	// Four frames of ten are held: E is 6 and L is 10.
	f("F19 absent", 0, 10, "", nil)
	f("F3, case 1: empty", 0, 10, "cursor=", nil)
	f("F3: empty before another", 0, 10, "cursor=&cursor=8", nil)
	f("F3: without a sign of equality", 0, 10, "cursor", nil)
	f("F3: the first one", 0, 10, "cursor=8&cursor=2", commits(9, 10))
	f("F3: escaped", 0, 10, "x=1&curso%72=%38", commits(9, 10))
	f("F3: zeros in front", 0, 10, "cursor=0008", commits(9, 10))
	f("F21, case 4: L", 0, 10, "cursor=10", nil)
	f("F21, F24: between", 0, 10, "cursor=7", commits(8, 10))
	f("F21, case 6: E", 0, 10, "cursor=6", commits(7, 10))
	f("F22, case 6: below E", 0, 10, "cursor=5", list(outdated, commits(7, 10)))
	f("F22: the lowest", 0, 10, "cursor=1", list(outdated, commits(7, 10)))
	f("F20: 0 and E above it", 0, 10, "cursor=0", list(outdated, commits(7, 10)))
	f("F20: 0 and all held", 0, 3, "cursor=0", commits(1, 3))
	f("F20: 0 and nothing ever", 0, 0, "cursor=0", nil)
	f("F20, case 7: 0 after a crash", 100, 0, "cursor=0", outdated)
	f("F22, case 8: from before a crash", 100, 0, "cursor=50", outdated)
	f("F22, case 8: and frames since", 100, 3, "cursor=50", list(outdated, commits(101, 103)))
	f("F21: L after a crash", 100, 0, "cursor=100", nil)
	f("F23, case 5: L + 1", 0, 10, "cursor=11", futureEnd)
	f("F23, case 3: beyond any number", 0, 10, "cursor=99999999999999999999999", futureEnd)
	f("F23: the largest of 64 bits", 0, 10, "cursor=9223372036854775807", futureEnd)
	f("F23: nothing ever", 0, 0, "cursor=1", futureEnd)
}

// F3, case 2: a cursor that is no number is refused before the upgrade.
func TestBadCursors(t *testing.T) {
	r := newLoopRig(t, rigConfig{})
	for _, cursor := range []string{
		"-1", "1.5", "abc", "+1", "%201", "1%20", "1+", "0x1", "1e3", "%2B1", "1%00", "%31%zz", "1_000", "%EF%BC%91",
	} {
		w := r.dial(0)
		w.say(handshake("cursor=" + cursor))
		w.refused("F3: "+cursor, 400, "InvalidRequest")
	}
	if n := r.surface.Counters().Refused["cursor"]; n != 14 {
		t.Errorf("%d refusals were counted", n)
	}
}

// F23: a consumer of the future gets nothing else, and is not kept.
func TestFutureEnds(t *testing.T) {
	r := newLoopRig(t, rigConfig{})
	w := r.subscribe("cursor=7")
	w.want("F23", futureEnd...)
	if c := r.surface.Counters(); c.Future != 1 || c.Consumers != 0 {
		t.Errorf("counters %+v", c)
	}
	w.say(clientFrame(relaytest.OpClose, "\x03\xf0"))
	w.wantState("F49: after the peer's Close", "closed")
	w.want("nothing after the Close")
}

// F19, F35: the consumer is registered before its 101 is written, so a frame
// that is published between comes.
func TestRegisteredBefore101(t *testing.T) {
	for _, query := range []string{"", "cursor=2", "cursor=0"} {
		r := newLoopRig(t, rigConfig{})
		r.publish(2, 0)
		w := r.dial(0)
		w.onWrite = func(p []byte) {
			if strings.HasPrefix(string(p), "HTTP/1.1 101 ") {
				w.onWrite = nil
				r.put(KindCommit, 0)
			}
		}
		w.say(handshake(query))
		w.upgraded()
		want := commits(3, 3)
		if query == "cursor=0" {
			want = commits(1, 3)
		}
		w.want("F35 "+query, want...)
	}
}

// F1, F8: no subprotocol, no extension, and the Server field of the mode.
func TestSwitching(t *testing.T) {
	f := func(change func(*Settings), server string) {
		t.Helper()
		cfg := bounded(4)
		change(&cfg.Settings)
		r := newLoopRig(t, cfg)
		w := r.dial(0)
		w.say(relaytest.HandshakeRequest("x", subscribePath, relaytest.WSOptions{Headers: []string{
			"Sec-WebSocket-Protocol: a, b", "Sec-WebSocket-Extensions: permessage-deflate",
		}}))
		head := string(w.Received())
		w.upgraded()
		if !strings.Contains(head, "\r\nServer: "+server+"\r\n") || strings.Count(head, "Server:") != 1 {
			t.Errorf("F8: 101 is %q, want Server %q", head, server)
		}
		if strings.Contains(head, "Sec-WebSocket-Protocol") || strings.Contains(head, "Sec-WebSocket-Extensions") {
			t.Errorf("F1: 101 is %q", head)
		}
		w = r.dial(0)
		w.say(handshake("cursor=x"))
		w.refused("F8", 400, "InvalidRequest", "Server: "+server)
	}
	f(func(*Settings) {}, "sluice")
	f(func(s *Settings) { s.Upstreams = []string{"pds.example.com"} }, "sluice (atproto-relay)")
	f(func(s *Settings) { s.Server = "mine/1" }, "mine/1")
	f(func(s *Settings) { s.Upstreams, s.Server = []string{"pds.example.com"}, "mine/1" }, "mine/1")
}

// F2, F8: what is refused before an upgrade, each as JSON with a Server field,
// and no refusal leaves a consumer or a pin behind.
func TestRefusedHandshakes(t *testing.T) {
	get := "GET " + subscribePath + " HTTP/1.1\r\nHost: x\r\n"
	ws := "Upgrade: websocket\r\nConnection: Upgrade\r\n"
	version, key := "Sec-WebSocket-Version: 13\r\n", "Sec-WebSocket-Key: "+relaytest.WSKey+"\r\n"
	f := func(name, request string, status int, code string, fields ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			r := newLoopRig(t, bounded(4))
			r.publish(2, 0)
			w := r.dial(0)
			w.say(request)
			w.refused(name, status, code, fields...)
			if c := r.surface.Counters(); c.Consumers != 0 || c.Connected != 0 {
				t.Errorf("counters %+v", c)
			}
			r.publish(20, 0)
			r.wantHeld("no pin is left", 4)
		})
	}
	f("F2 plain GET", get+"\r\n", 426, "InvalidRequest", "Upgrade: websocket")
	f("F2 POST", "POST "+subscribePath+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, "InvalidRequest", "Allow: GET")
	f("F2 OPTIONS", "OPTIONS "+subscribePath+" HTTP/1.1\r\nHost: x\r\n\r\n", 405, "InvalidRequest", "Allow: GET")
	f("F2 PUT with upgrade", "PUT "+subscribePath+" HTTP/1.1\r\nHost: x\r\n"+ws+version+key+"\r\n", 405, "InvalidRequest", "Allow: GET")
	f("no key", get+ws+version+"\r\n", 400, "InvalidRequest")
	f("bad key", get+ws+version+"Sec-WebSocket-Key: abc\r\n\r\n", 400, "InvalidRequest")
	f("no version", get+ws+key+"\r\n", 400, "InvalidRequest", "Sec-WebSocket-Version: 13")
	f("version 8", get+ws+key+"Sec-WebSocket-Version: 8\r\n\r\n", 400, "InvalidRequest", "Sec-WebSocket-Version: 13")
	f("F2 no Connection", get+"Upgrade: websocket\r\n"+version+key+"\r\n", 426, "InvalidRequest", "Upgrade: websocket")
	f("another upgrade", get+"Upgrade: h2c\r\nConnection: Upgrade\r\n"+version+key+"\r\n", 400, "InvalidRequest")
	f("HTTP/1.0", strings.Replace(get, "1.1", "1.0", 1)+ws+version+key+"\r\n", 400, "InvalidRequest")
	f("body", get+ws+version+key+"Content-Length: 1\r\n\r\nx", 400, "InvalidRequest")
	f("replay and no key", strings.Replace(get, " HTTP", "?cursor=0 HTTP", 1)+ws+version+"\r\n", 400, "InvalidRequest")
	f("no such route", "GET /xrpc/com.atproto.sync.nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NotFound")
	f("F52 without a token", "POST /firehose/publish HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404, "NotFound")
	f("F70 without upstreams", "GET /xrpc/com.atproto.sync.getRepoStatus?did=did:plc:a HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NotFound")
	f("F70 without an admin token", "POST /admin/firehose/host HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404, "NotFound")
	f("HTTP: two lengths", "POST "+publishPath+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "InvalidRequest")
}

// F8: what is no HTTP names the server too, once the path is known.
func TestBrokenBody(t *testing.T) {
	r := newLoopRig(t, rigConfig{})
	w := r.dial(0)
	w.say("GET " + subscribePath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	w.refused("F2: plain GET with a body", 426, "InvalidRequest", "Upgrade: websocket")
	if f := r.surface.Refusals([]byte("/other")); f != nil {
		t.Error("the path of another is refused")
	}
	for status, name := range map[int]string{400: "InvalidRequest", 408: "InvalidRequest", 429: "TooManyRequests", 503: "NotListening"} {
		res := r.surface.Refusals([]byte("/xrpc/x"))(status, "why")
		retry := false
		for _, field := range res.Fields {
			retry = retry || field.Name == "Retry-After"
		}
		if !strings.Contains(string(res.Body), name) || retry != (status == 429 || status == 503) {
			t.Errorf("F2: %d is %q with %v", status, res.Body, res.Fields)
		}
	}
}

// F2, F40, case 20: nobody connects while booting, or after the stop.
func TestNotListening(t *testing.T) {
	cfg := bounded(4)
	r := newLoopRig(t, rigConfig{Settings: cfg.Settings, Booting: true})
	w := r.dial(0)
	w.say(handshake("cursor=0"))
	w.refused("case 20", 503, "NotListening", "Retry-After: 1")
	r.listen()
	w.say(handshake(""))
	w.upgraded()
	if err := r.producer.Stop(nil, nil); err != nil {
		t.Fatal(err)
	}
	w = r.dial(0)
	w.say(handshake(""))
	w.refused("F48", 503, "NotListening", "Retry-After: 1")
	if n := r.surface.Counters().Refused["not-listening"]; n != 2 {
		t.Errorf("%d refusals were counted", n)
	}
}

// F2: a loop that goes down refuses as the surface does.
func TestRefusedWhileStopping(t *testing.T) {
	r := newLoopRig(t, rigConfig{})
	w := r.dial(0)
	w.say("GET " + subscribePath + " HTTP/1.1\r\n") // in flight
	r.workers[0].StopServing()
	w.say(strings.SplitN(handshake(""), "\r\n", 2)[1])
	w.refused("F2", 503, "NotListening", "Retry-After: 1")
}

// F2: no more than FIREHOSE_MAX_CONSUMERS over all loops; one that leaves makes
// room, and one that was refused or ended takes none.
func TestMaxConsumers(t *testing.T) {
	cfg := rigConfig{Settings: DefaultSettings(), Loops: 2}
	cfg.Settings.MaxConsumers = 3
	r := newLoopRig(t, cfg)
	a := r.subscribe("", 0)
	r.subscribe("cursor=99", 1).want("F23", futureEnd...)
	r.subscribe("", 1)
	r.subscribe("", 1)
	for range 3 {
		w := r.dial(0)
		w.say(handshake(""))
		w.refused("F2", 429, "TooManyConsumers", "Retry-After: 1")
	}
	a.Reset()
	r.run()
	r.subscribe("", 0)
	if c := r.surface.Counters(); c.Consumers != 3 || c.Connected != 5 || c.Refused["consumers"] != 3 {
		t.Errorf("counters %+v", c)
	}
}

// F4, F38, case 27: frames of excluded kinds are skipped, in replay and live.
func TestExclude(t *testing.T) {
	r := newLoopRig(t, rigConfig{Settings: bounded(10_000).Settings})
	for range 5000 {
		r.put(KindCommit, 0)
	}
	account := r.put(KindAccount, 0)
	w := r.subscribe("cursor=0&exclude=commit")
	w.want("case 27", names("account", account, account)...)

	f := func(query string, want ...string) *wire {
		t.Helper()
		w := r.subscribe(query)
		w.want(query)
		return w
	}
	all := f("")
	unknown := f("exclude=info&exclude=Commit&exclude=%23commit&exclude=&exclude=error&exclude=commit%20")
	three := f("exclude=sync&x=1&exclude=identity&exclude=%61ccount&exclude=sync")
	none := f("exclude=commit&exclude=sync&exclude=identity&exclude=account")
	base := account + 1
	for _, kind := range []uint8{KindCommit, KindSync, KindIdentity, KindAccount, KindCommit} {
		r.put(kind, 0)
	}
	r.run()
	want := list(commits(base, base), names("sync", base+1, base+1), names("identity", base+2, base+2),
		names("account", base+3, base+3), commits(base+4, base+4))
	all.want("F4: all", want...)
	unknown.want("F4: unknown values", want...)
	three.want("F4: three", want[0], want[4])
	none.want("F4: none")
	w.want("F4: but commits", want[1], want[2], want[3])
	r.subscribe("cursor=99999&exclude=commit&exclude=sync&exclude=error").want("F4: errors stay", futureEnd...)
}

// F4: #info stays, whatever is excluded.
func TestExcludeKeepsInfo(t *testing.T) {
	r := newLoopRig(t, bounded(4))
	r.publish(10, 0)
	w := r.subscribe("cursor=1&exclude=commit&exclude=info&exclude=sync&exclude=identity&exclude=account")
	w.want("F4", outdated...)
	if c := r.surface.Counters(); c.Outdated != 1 || c.Consumers != 1 {
		t.Errorf("counters %+v", c)
	}
}

// F5, case 28: what a consumer sends is read and dropped, up to 64 KiB; pings
// and Close are answered.
func TestMessagesDropped(t *testing.T) {
	r := newLoopRig(t, rigConfig{})
	w := r.subscribe("")
	w.say(clientFrame(relaytest.OpText, "hello"))
	w.say(clientFrame(relaytest.OpBinary, strings.Repeat("x", 60<<10)))
	w.say(clientFrame(relaytest.OpText, strings.Repeat("x", 64<<10)))
	w.say(clientFrame(relaytest.OpBinary, ""))
	w.say(string(relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte("a"), NotFinal: true}.Bytes()))
	w.say(clientFrame(relaytest.OpPing, "in a message"))
	w.want("F5: pings", "pong in a message")
	w.say(clientFrame(relaytest.OpContinuation, "b"))
	w.say(clientFrame(relaytest.OpPong, "unasked"))
	r.publish(1, 0)
	w.want("F5: the stream goes on", commits(1, 1)...)
	w.say(clientFrame(relaytest.OpClose, "\x03\xe8bye"))
	w.want("F5: Close", "close 1000 ")
	w.wantState("F5", "closed")
	if n := r.surface.Counters().Consumers; n != 0 {
		t.Errorf("%d consumers are counted", n)
	}
}

// F5, case 28: above 64 KiB.
func TestMessageTooBig(t *testing.T) {
	whole := clientFrame(relaytest.OpBinary, strings.Repeat("x", 64<<10+1))
	pieces := string(relaytest.Frame{Opcode: relaytest.OpText, Payload: []byte(strings.Repeat("x", 40<<10)), NotFinal: true}.Bytes()) +
		clientFrame(relaytest.OpContinuation, strings.Repeat("x", 40<<10))
	for name, message := range map[string]string{"whole": whole, "in pieces": pieces} {
		r := newLoopRig(t, rigConfig{})
		w, other := r.subscribe(""), r.subscribe("")
		w.say(message)
		w.want("F5: "+name, "close 1009 ")
		r.publish(1, 0)
		w.want("F5: nothing more")
		other.want("F5: others go on", commits(1, 1)...)
	}
}

// pingAfter lets time go by until a ping comes, and returns how long it took.
func (w *wire) pingAfter(most time.Duration) time.Duration {
	w.r.t.Helper()
	for took := step; took <= most; took += step {
		w.r.pass(step)
		switch got := w.frames(); {
		case len(got) == 1 && got[0] == "ping":
			return took
		case len(got) != 0:
			w.r.t.Fatalf("frames %q", got)
		}
	}
	w.r.t.Fatalf("F6: no ping within %v", most)
	return 0
}

// F6: a ping after so long without a write, and the end after two that were not
// answered.
func TestPings(t *testing.T) {
	const interval = 4 * time.Second
	const look = interval/pingSteps + 2*step
	cfg := rigConfig{Settings: DefaultSettings()}
	cfg.Settings.PingInterval = interval
	r := newLoopRig(t, cfg)
	w := r.subscribe("")
	for range 5 { // less than the interval after each write
		r.pass(interval - step)
		r.publish(1, 0)
	}
	w.want("F6: no ping between writes", commits(1, 5)...)
	for n := range 4 { // answered pings keep it
		if took := w.pingAfter(interval + look); took < interval {
			t.Errorf("F6: ping %d after %v", n, took)
		}
		if n < 3 {
			w.say(clientFrame(relaytest.OpPong, ""))
		}
	}
	w.pingAfter(interval + look)
	r.pass(interval - 2*step)
	w.wantState("F6: one unanswered, and time for the second", "open")
	r.pass(look + 2*step)
	w.want("F6: nothing more")
	w.wantState("F6: two unanswered", "reset")
	if c := r.surface.Counters(); c.Unanswered != 1 || c.Consumers != 0 {
		t.Errorf("counters %+v", c)
	}
}

// F6: an answer to the second ping is early enough, and the count starts anew.
func TestPingAnsweredLate(t *testing.T) {
	const interval = 4 * time.Second
	cfg := rigConfig{Settings: DefaultSettings()}
	cfg.Settings.PingInterval = interval
	r := newLoopRig(t, cfg)
	w := r.subscribe("")
	for range 4 {
		w.pingAfter(2 * interval)
		w.pingAfter(2 * interval)
		r.pass(interval - 2*step)
		w.say(clientFrame(relaytest.OpPong, ""))
		w.wantState("F6", "open")
	}
}

// A consumer that takes nothing for FIREHOSE_WRITE_TIMEOUT_MS is reset, and one
// that takes a little is not.
func TestWriteTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{2 * time.Second, 30 * time.Second} {
		cfg := rigConfig{Settings: DefaultSettings()}
		cfg.Settings.WriteTimeout = timeout
		r := newLoopRig(t, cfg)
		stuck, slow := r.subscribe(""), r.subscribe("")
		stuck.Stall()
		slow.Stall()
		r.publish(2, 5000)
		for range 4 {
			r.pass(timeout - 2*step)
			stuck.wantState("it takes a little", "open")
			for _, w := range []*wire{stuck, slow} {
				w.Room(100)
			}
			r.run()
		}
		for range 2 { // it is looked at as often as the timeout, or every 10 s
			r.pass(timeout - 2*step)
			slow.Room(100)
			r.run()
		}
		r.pass(4 * step)
		stuck.wantState("after the timeout", "reset")
		slow.wantState("one that takes a little", "open")
		if c := r.surface.Counters(); c.Stalled != 1 || c.Consumers != 1 {
			t.Errorf("%v: counters %+v", timeout, c)
		}
	}
}

// F4 is read from the query pair by pair.
func TestExcluded(t *testing.T) {
	f := func(query string, want ...uint8) {
		t.Helper()
		if got := excluded([]byte(query)); got != stream.KindsOf(want...) {
			t.Errorf("%q: %b", query, got)
		}
	}
	f("")
	f("exclude")
	f("exclude=&exclude=commit", KindCommit)
	f("a=b&exclude=commit&exclude=account&&", KindCommit, KindAccount)
	f("exclude=commit,sync")
	f("exclude=info&exclude=error&exclude=unknown")
	f("EXCLUDE=commit")
	f("exclude=identity;exclude=sync")
	f("%65xclude=s%79nc", KindSync)
}
