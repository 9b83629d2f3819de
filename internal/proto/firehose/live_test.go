package firehose

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	codec "github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// F19 to F21, F30, F35, F36, case 12: consumers that connect with random cursors
// while frames are published get gapless ascending runs of the numbers.
func TestJoinWhilePublishing(t *testing.T) {
	const frames, consumers = 10_000, 50
	r := newLiveRig(t, nil)
	published := make(chan error, 1)
	connected := make(chan struct{}, consumers)
	go func() {
		for n := range frames {
			// They come all the while, and the last one before the last frame, so
			// that each gets one.
			if n%(frames/consumers) == 0 && n > 0 || n == frames-1 {
				<-connected
			}
			if _, err := r.producer.Publish(plain{KindCommit, n % 300}); err != nil {
				published <- err
				return
			}
		}
		published <- nil
	}()
	var wg sync.WaitGroup
	for i := range consumers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 3))
			last, _ := r.ring.Numbers()
			query, from := "", int64(-1)
			if i%5 > 0 && last > 0 {
				from = rnd.Int64N(last) + 1
				query = fmt.Sprintf("?cursor=%d", from)
			}
			w, err := relaytest.DialWS(r.addr, subscribePath+query, relaytest.WSOptions{})
			connected <- struct{}{}
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = w.Close() }()
			atMost := int64(frames) // 101 came: this one is delivered at the latest
			if now, _ := r.ring.Numbers(); from < 0 {
				atMost = min(now+1, frames)
			}
			if err := gapless(w, from, last, atMost, frames); err != nil {
				t.Errorf("consumer %d, cursor %d at %d: %v", i, from, last, err)
			}
		})
	}
	wg.Wait()
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	if c := r.surface.Counters(); c.Connected != consumers || c.TooSlow != 0 {
		t.Errorf("counters %+v", c)
	}
}

// gapless reads frames up to the last one. The first is the one behind from, or
// without a cursor one from behind last up to atMost.
func gapless(w *relaytest.WS, from, last, atMost, end int64) error {
	next := from + 1
	for seq := int64(0); seq < end; {
		m, err := w.Next(patience)
		if err != nil {
			return fmt.Errorf("after %d: %w", seq, err)
		}
		if _, err := fmt.Sscanf(string(m.Data), "commit=%d", &seq); err != nil || m.Opcode != relaytest.OpBinary || m.Frames != 1 {
			return fmt.Errorf("message %q in %d frames", m.Data, m.Frames)
		}
		if from < 0 && next == 0 {
			if seq <= last || seq > atMost {
				return fmt.Errorf("the first is %d, not in %d to %d", seq, last+1, atMost)
			}
			next = seq
		}
		if seq != next {
			return fmt.Errorf("%d came, not %d", seq, next)
		}
		next++
	}
	return nil
}

// F36: a consumer that reads nothing at all holds up nobody, over real sockets;
// it is told when it reads again.
func TestStalledSocket(t *testing.T) {
	r := newLiveRig(t, func(s *Settings, _ *Parts) { s.ReplayFrames = 50 })
	stuck, err := relaytest.DialWS(r.addr, subscribePath, relaytest.WSOptions{RecvBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stuck.Close() }()
	w := r.subscribe("")
	seq := int64(0)
	for r.surface.Counters().TooSlow == 0 {
		if seq++; seq > 10_000 {
			t.Fatal("F32: 10,000 frames and nobody is too slow")
		}
		if _, err := r.producer.Publish(plain{KindCommit, 50_000}); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimRight(string(r.message(w)), "."); got != commit(seq) {
			t.Fatalf("the other has %q, want %q", got, commit(seq))
		}
		if frames, _ := r.ring.Held(); frames > 100 {
			t.Fatalf("F37: %d frames are held", frames)
		}
	}
	for next := int64(1); ; next++ { // a gapless run, then the error, then the close
		m, err := stuck.Next(patience)
		if err != nil {
			t.Fatal(err)
		}
		if m.Data[0] >= 0x80 {
			break
		}
		if got := strings.TrimRight(string(m.Data), "."); got != commit(next) || next > seq {
			t.Fatalf("%q, want %q", got, commit(next))
		}
	}
	if m, err := stuck.Next(patience); err != nil || m.Code != closePolicy || m.Reason != codec.ConsumerTooSlow {
		t.Errorf("F49: close %d %q: %v", m.Code, m.Reason, err)
	}
}

// identity is a frame to publish over HTTP (F52), with a number of its own or
// none.
func identity(did string, seq int64) string {
	frame, err := (&codec.Identity{DID: did, Time: "2026-07-09T10:00:00Z", Handle: "a.example.com"}).Append(nil, seq)
	if err != nil {
		panic(err)
	}
	return string(frame)
}

const frameField = "Content-Type: " + frameType

// F52: a frame over HTTP gets the next number and goes to the consumers.
func TestPublish(t *testing.T) {
	r := newLiveRig(t, nil)
	w := r.subscribe("")
	for seq := int64(1); seq <= 40; seq++ {
		res := r.do("POST", publishPath, publishToken, identity("did:plc:a", 77), frameField)
		r.wantBody("F52", res, 200, fmt.Sprintf(`{"seq":%d}`, seq))
		if got := string(r.message(w)); got != identity("did:plc:a", seq) {
			t.Fatalf("F61: % x came", got)
		}
	}
	r.wantBody("chunked", r.raw("POST", "POST "+publishPath+" HTTP/1.1\r\nHost: x\r\nAuthorization: bearer  "+publishToken+
		"\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked(identity("did:plc:b", 1))), 200, `{"seq":41}`)
	if got := string(r.message(w)); got != identity("did:plc:b", 41) {
		t.Errorf("% x came", got)
	}
	if n := r.surface.Counters().Published; n != 41 {
		t.Errorf("%d frames are counted", n)
	}
}

func chunked(body string) string {
	return fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", 10, body[:10], len(body)-10, body[10:])
}

// F17, F28, F52: what is not published, and changes nothing.
func TestPublishRefused(t *testing.T) {
	const most = 4000
	r := newLiveRig(t, func(s *Settings, _ *Parts) { s.MaxFrameBytes = most })
	good := identity("did:plc:a", 1)
	big := strings.Repeat("x", most+1)
	f := func(what string, status int, name, token, body string, fields ...string) {
		t.Helper()
		r.wantError("F52: "+what, r.do("POST", publishPath, token, body, fields...), status, name)
	}
	f("no token", 401, "AuthenticationRequired", "", good, frameField)
	f("wrong token", 401, "AuthenticationRequired", "x"+publishToken, good, frameField)
	f("the other token", 401, "AuthenticationRequired", adminToken, good, frameField)
	f("part of the token", 401, "AuthenticationRequired", publishToken[:5], good, frameField)
	f("content type", 400, "InvalidRequest", publishToken, good, "Content-Type: application/json")
	f("nothing", 400, "InvalidRequest", publishToken, "", frameField)
	f("no CBOR", 400, "InvalidRequest", publishToken, "hello", frameField)
	f("half", 400, "InvalidRequest", publishToken, good[:len(good)-1], frameField)
	f("more", 400, "InvalidRequest", publishToken, good+"\x00", frameField)
	f("#info", 400, "InvalidRequest", publishToken, string((&codec.Info{Name: "x"}).Append(nil)), frameField)
	f("an error", 400, "InvalidRequest", publishToken, string((&codec.Error{Name: "x"}).Append(nil)), frameField)
	f("a bad DID", 400, "InvalidRequest", publishToken, strings.Replace(good, "did:plc:a", "did_plc_a", 1), frameField)
	f("F17", 413, "FrameTooBig", publishToken, big, frameField)
	res := r.raw("POST", "POST "+publishPath+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+publishToken+
		"\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked(big))
	r.wantError("F17 in chunks", res, 413, "FrameTooBig")
	r.wantError("method", r.do("GET", publishPath, publishToken, ""), 405, "InvalidRequest")
	basic := r.do("POST", publishPath, "", good, frameField, "Authorization: Basic "+publishToken)
	r.wantError("scheme", basic, 401, "AuthenticationRequired")
	if basic.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("401 lacks WWW-Authenticate: %v", basic.Header)
	}
	if last, _ := r.ring.Numbers(); last != 0 {
		t.Errorf("%d numbers were used", last)
	}

	r.disk.setFail(errDisk)
	for seq := 1; ; seq++ { // numbers that are reserved already still go out
		res := r.do("POST", publishPath, publishToken, good, frameField)
		if res.Status == 200 && seq < 100 {
			continue
		}
		r.wantError("F28", res, 503, "NotListening")
		if res.Header.Get("Retry-After") != "1" {
			t.Errorf("503 lacks Retry-After: %v", res.Header)
		}
		break
	}
	last, _ := r.ring.Numbers()
	r.disk.setFail(nil)
	r.wantBody("F28", r.do("POST", publishPath, publishToken, good, frameField), 200, fmt.Sprintf(`{"seq":%d}`, last+1))
	if err := r.producer.Stop(nil, nil); err != nil {
		t.Fatal(err)
	}
	f("F48: stopped", 503, "NotListening", publishToken, good, frameField)
}

// F52: frames wait in a bounded queue of jobs and count against the budget,
// also when their clients hang up.
func TestPublishBounds(t *testing.T) {
	r := newLiveRig(t, nil)
	busy, release := make(chan struct{}), make(chan struct{})
	for range 2 { // both workers of the pool
		if err := r.jobs.Submit(r.surface.feeds[0].w.Loop(), func() func() { busy <- struct{}{}; <-release; return func() {} }); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // or they would have a place in the queue
		<-busy
	}
	body := identity("did:plc:a", 1)
	head := "POST " + publishPath + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + publishToken + "\r\nContent-Length: "
	var clients []*relaytest.Conn
	for range 8 {
		c, err := relaytest.Dial(r.addr)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		if err := c.SendString(fmt.Sprintf("%s%d\r\n\r\n%s", head, len(body), body)); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("all eight are counted", func() bool { return r.budget.UsedBytes() == int64(8*len(body)) })
	for _, c := range clients {
		_ = c.Close()
	}
	r.eventually("their clients are gone", func() bool { return r.server.Conns() == 0 })
	r.wantError("the queue is full", r.do("POST", publishPath, publishToken, body), 503, "NotListening")
	if n := r.budget.UsedBytes(); n != int64(8*len(body)) {
		t.Errorf("%d bytes are counted for 8 frames of %d", n, len(body))
	}
	close(release)
	r.eventually("the frames were published", func() bool { last, _ := r.ring.Numbers(); return last == 8 })
}

// F70: _health asks the store.
func TestHealth(t *testing.T) {
	r := newLiveRig(t, nil)
	r.wantBody("F70", r.do("GET", healthPath, "", ""), 200, `{"status":"ok"}`)
	if res := r.do("HEAD", healthPath, "", ""); res.Status != 200 || len(res.Body) != 0 {
		t.Errorf("HEAD: %d %q", res.Status, res.Body)
	}
	r.setHealth(errDisk)
	r.wantBody("F70", r.do("GET", healthPath, "", ""), 500, `{"status":"error"}`)
	r.setHealth(nil)
	r.wantBody("F70", r.do("GET", healthPath, "", ""), 200, `{"status":"ok"}`)
	r.wantError("method", r.do("POST", healthPath, "", ""), 405, "InvalidRequest")
	r = newLiveRig(t, func(_ *Settings, p *Parts) { p.Health = nil })
	r.wantBody("without a store", r.do("GET", healthPath, "", ""), 200, `{"status":"ok"}`)
}

// F70: getRepoStatus.
func TestRepoStatus(t *testing.T) {
	r := newLiveRig(t, nil)
	r.upstream.know(RepoStatus{DID: "did:plc:a", Active: true, Rev: "3kdgeujwlq32y"})
	r.upstream.know(RepoStatus{DID: "did:web:x.example:y", Status: "takendown"})
	get := func(query string) *relaytest.Response { return r.do("GET", statusPath+query, "", "") }
	r.wantBody("active", get("?did=did:plc:a"), 200, `{"did":"did:plc:a","active":true,"rev":"3kdgeujwlq32y"}`)
	r.wantBody("not active", get("?did=did%3Aweb:x.example:y"), 200, `{"did":"did:web:x.example:y","active":false,"status":"takendown"}`)
	r.wantError("unknown", get("?did=did:plc:b"), 400, "RepoNotFound")
	r.wantError("empty", get("?did="), 400, "InvalidRequest")
	r.wantError("absent", get(""), 400, "InvalidRequest")
	r.upstream.setFail(&RequestError{Name: "InvalidRequest", Message: "no DID"})
	r.wantError("a fault of who asks", get("?did=x"), 400, "InvalidRequest")
	r.upstream.setFail(errDisk)
	r.wantError("a fault of the store", get("?did=did:plc:a"), 503, "NotListening")
	r.wantError("method", r.do("POST", statusPath, "", ""), 405, "InvalidRequest")
}

// F70: the admin routes.
func TestAdmin(t *testing.T) {
	r := newLiveRig(t, nil)
	f := func(path, body, call string) {
		t.Helper()
		r.wantBody(body, r.do("POST", path, adminToken, body), 200, "{}")
		if got := r.upstream.taken(); got != call {
			t.Errorf("%s: %q, want %q", body, got, call)
		}
	}
	f(hostPath, `{"hostname":"pds.example.com","action":"ban"}`, "host pds.example.com ban")
	f(accountPath, `{"did":"did:plc:a","action":"takedown"}`, "account did:plc:a takedown")

	refused := func(what string, status int, name, path, token, body string) {
		t.Helper()
		r.wantError(what, r.do("POST", path, token, body), status, name)
		if got := r.upstream.taken(); got != "" {
			t.Errorf("%s: it was done: %s", what, got)
		}
	}
	for path, body := range map[string]string{hostPath: `{"hostname":"a","action":"ban"}`, accountPath: `{"did":"a","action":"takedown"}`} {
		refused("no token", 401, "AuthenticationRequired", path, "", body)
		refused("the other token", 401, "AuthenticationRequired", path, publishToken, body)
		refused("no JSON", 400, "InvalidRequest", path, adminToken, "x")
		refused("nothing", 400, "InvalidRequest", path, adminToken, "")
		refused("no name", 400, "InvalidRequest", path, adminToken, `{"action":"ban"}`)
		refused("another type", 400, "InvalidRequest", path, adminToken, `{"hostname":1,"did":2}`)
		refused("too large", 413, "InvalidRequest", path, adminToken, strings.Repeat(" ", adminBytes)+body)
		r.wantError("method", r.do("GET", path, adminToken, ""), 405, "InvalidRequest")
		r.upstream.setFail(&RequestError{Name: "HostNotFound", Message: "none"})
		refused("a fault of who asks", 400, "HostNotFound", path, adminToken, body)
		r.upstream.setFail(errDisk)
		refused("a fault of the store", 503, "NotListening", path, adminToken, body)
		r.upstream.setFail(nil)
	}
	huge := r.raw("POST", "POST "+hostPath+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+adminToken+
		"\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked(strings.Repeat(" ", adminBytes+1)))
	r.wantError("too large in chunks", huge, 413, "InvalidRequest")
}

// F2, F8: what cannot be read on the way to a path of ours.
func TestUnreadRequests(t *testing.T) {
	r := newLiveRig(t, nil)
	for what, text := range map[string]string{
		"two lengths":    "POST " + publishPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"no host":        "GET " + subscribePath + " HTTP/1.1\r\n\r\n",
		"bad field":      "GET " + subscribePath + " HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
		"bad chunk size": "POST " + publishPath + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + publishToken + "\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"bad line":       "GET " + subscribePath + "\r\n\r\n",
	} {
		r.wantError(what, r.raw("GET", text), 400, "InvalidRequest")
	}
	if n := r.surface.Counters().Refused["request"]; n != 5 {
		t.Errorf("%d refusals were counted", n)
	}
}

// The counters' reasons have names, each its own.
func TestReasonNames(t *testing.T) {
	seen := slices.Clone(reasonNames[:])
	slices.Sort(seen)
	if seen[0] == "" || len(slices.Compact(seen)) != reasons {
		t.Errorf("names %q", reasonNames)
	}
	if err := error(&RequestError{Name: "A", Message: "b"}); err.Error() != "b" || !errors.As(err, new(*RequestError)) {
		t.Error(err)
	}
}

// F26 over the wire: a cursor of a lost state raises the numbers and is told.
func TestLostStateOverWire(t *testing.T) {
	cfg := rigConfig{}
	r := newLoopRig(t, cfg)
	clock := newClock()
	numbers := open(t, &disk{t: t}, clock, FloorAuto, 0, 0)
	r.surface.parts.Producer = NewProducer(Config{Ring: r.ring, Numbers: numbers})
	t.Cleanup(func() { _ = r.surface.parts.Producer.Stop(nil, nil) })
	r.surface.parts.Producer.phase.Store(uint32(PhaseListening))
	seq := clock.floor() - int64(time.Hour/time.Millisecond)*floorPerMilli
	w := r.subscribe(fmt.Sprintf("cursor=%d", seq))
	w.want("F26", outdated...)
	r.subscribe(fmt.Sprintf("cursor=%d", clock.floor()+1)).want("F23", futureEnd...)
}
