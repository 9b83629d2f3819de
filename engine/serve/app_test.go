package serve

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/stream"
)

// handlerFunc is a function as a Handler.
type handlerFunc func(*Exchange)

func (f handlerFunc) Serve(x *Exchange) { f(x) }

// app is a handler with a route for each way to answer. An answer's body is the
// target of its request, so that order can be seen.
type app struct {
	served []string    // paths in the order of their heads
	kept   []*Exchange // of /later
	bodies []*echoBody
	peers  []*recorder
	jobs   []chan struct{} // of /job: closed to let the job finish
	extra  map[string]func(*Exchange)
}

const bigAnswerBytes = 256 << 10

func (a *app) Serve(x *Exchange) {
	target := string(x.Head.Target)
	path := string(x.Head.Path)
	a.served = append(a.served, path)
	if f := a.extra[path]; f != nil {
		f(x)
		return
	}
	switch path {
	case "/now":
		reply(x, 200, target)
	case "/close":
		x.Respond(&http1.Response{Status: 200, Body: []byte(target)})
	case "/refuse":
		reply(x, 401, "")
	case "/big":
		reply(x, 200, strings.Repeat("b", bigAnswerBytes))
	case "/later":
		x.Keep()
		a.kept = append(a.kept, x)
	case "/job":
		a.job(x, target)
	case "/echo":
		b := &echoBody{w: x.Worker()}
		a.bodies = append(a.bodies, b)
		x.ReadBody(b)
	case "/stream", "/replay":
		p := &recorder{}
		a.peers = append(a.peers, p)
		x.Stream([]http1.Field{{Name: "Content-Type", Value: "text/event-stream"}}, p, path == "/replay", p.begin)
	case "/socket":
		p := &recorder{isSocket: true}
		a.peers = append(a.peers, p)
		p.peer = x.Upgrade(p)
	default:
		reply(x, 404, "")
	}
}

func (a *app) job(x *Exchange, target string) {
	gate := make(chan struct{})
	a.jobs = append(a.jobs, gate)
	err := x.Go(func() func(*Exchange) {
		<-gate
		return func(x *Exchange) { reply(x, 200, target) }
	})
	if err != nil {
		reply(x, 503, "")
	}
}

func reply(x *Exchange, status int, body string) {
	x.Respond(&http1.Response{Status: status, Body: []byte(body), KeepAlive: true})
}

// last returns the newest peer.
func (a *app) last() *recorder { return a.peers[len(a.peers)-1] }

// echoBody answers with the body, or with 503 when there is no room for it.
type echoBody struct {
	w     *Worker
	text  []byte
	taken int64
	done  int
}

func (b *echoBody) Data(x *Exchange, p []byte) {
	if !x.TakeBudget(int64(len(p))) {
		reply(x, 503, "")
		return
	}
	b.taken += int64(len(p))
	b.text = append(b.text, p...)
}

func (b *echoBody) End(x *Exchange) { reply(x, 200, string(b.text)) }

func (b *echoBody) Done() {
	b.done++
	b.w.GiveBudget(b.taken)
	b.taken, b.text = 0, nil
}

// recorder is a SocketHandler, and so a StreamHandler, that remembers what it
// was told. Each hook may act in its place.
type recorder struct {
	peer     *Peer
	isSocket bool
	log      []string
	hook     func(event string)
}

// begin answers with the head alone.
func (p *recorder) begin(peer *Peer) []byte {
	p.peer = peer
	return nil
}

func (p *recorder) note(event string) {
	p.log = append(p.log, event)
	if p.hook != nil {
		p.hook(event)
	}
}

func (p *recorder) count(event string) int {
	n := 0
	for _, e := range p.log {
		if e == event {
			n++
		}
	}
	return n
}

func (p *recorder) texts() string {
	var texts []string
	for _, e := range p.log {
		if t, ok := strings.CutPrefix(e, "text "); ok {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, ",")
}

func (p *recorder) AppendGap(dst []byte, _ *fanout.Sub, _ string, _ stream.Sequence) []byte {
	return append(dst, "gap"...)
}
func (p *recorder) AppendShed(dst []byte, _ int64) []byte { return append(dst, "shed"...) }
func (p *recorder) Replayed()                             { p.note("replayed") }
func (p *recorder) Cut(c fanout.Cut)                      { p.note("cut " + c.String()) }
func (p *recorder) OnTimer()                              { p.note("timer") }
func (p *recorder) OnDrained()                            { p.note("drained") }
func (p *recorder) Stalled()                              { p.note("stalled") }
func (p *recorder) OnClose()                              { p.note("close") }
func (p *recorder) OnText(text []byte)                    { p.note("text " + string(text)) }
func (p *recorder) OnBinary(data []byte)                  { p.note("binary " + string(data)) }
func (p *recorder) Overloaded() {
	p.note("overloaded")
	p.peer.CloseSocket(1013, "try again later", CloseTimeout)
}
func (p *recorder) Finished() { p.note("finished") }

func (p *recorder) OnShutdown() {
	p.note("shutdown")
	if p.isSocket {
		p.peer.CloseSocket(1001, "shutting down", CloseTimeout)
	} else {
		p.peer.EndStream()
	}
}

// Requests.

func get(target string, fields ...string) string {
	return request("GET", target, "", fields...)
}

func post(target, body string, fields ...string) string {
	fields = append(fields, fmt.Sprintf("Content-Length: %d", len(body)))
	return request("POST", target, body, fields...)
}

// chunked makes a request whose body comes in chunks of at most size octets.
func chunked(target, body string, size int) string {
	var b strings.Builder
	for at := 0; at < len(body); at += size {
		part := body[at:min(at+size, len(body))]
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	b.WriteString("0\r\n\r\n")
	return request("POST", target, b.String(), "Transfer-Encoding: chunked")
}

func request(method, target, body string, fields ...string) string {
	head := method + " " + target + " HTTP/1.1\r\nHost: relay\r\n"
	for _, f := range fields {
		head += f + "\r\n"
	}
	return head + "\r\n" + body
}

const upgradeHead = "GET /socket HTTP/1.1\r\nHost: relay\r\nUpgrade: websocket\r\n" +
	"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
	"Sec-WebSocket-Version: 13\r\n\r\n"

var testMask = [4]byte{0x12, 0x34, 0x56, 0x78}

// frame makes a client's frame.
func frame(op wsframe.Op, fin bool, payload string) string {
	return string(wsframe.AppendMasked(nil, op, fin, testMask, []byte(payload)))
}

func textFrame(payload string) string { return frame(wsframe.OpText, true, payload) }
func pingFrame(payload string) string { return frame(wsframe.OpPing, true, payload) }
func closeFrame(code int) string {
	if code == 0 {
		return frame(wsframe.OpClose, true, "")
	}
	return frame(wsframe.OpClose, true, string([]byte{byte(code >> 8), byte(code)}))
}

// badFrame has a reserved bit set.
const badFrame = "\xc1\x81\x00\x00\x00\x00x"

// openSocket dials and upgrades.
func openSocket(r *rig, a *app) (*sock, *recorder) {
	r.t.Helper()
	s := r.dial()
	s.send(upgradeHead)
	s.wantSwitching()
	return s, a.last()
}

// wantSwitching skips a 101, which must come next.
func (s *sock) wantSwitching() {
	s.r.t.Helper()
	rest := s.out[s.read:]
	end := bytes.Index(rest, []byte("\r\n\r\n"))
	if !bytes.HasPrefix(rest, []byte("HTTP/1.1 101 ")) || end < 0 {
		s.r.t.Fatalf("no 101 but %.100q", rest)
	}
	s.read += end + 4
}

// frames reads the server frames that came since the last call: "text:hello",
// "pong:", "close:1002 reason". Octets of an unfinished frame are not read.
func (s *sock) frames() string {
	s.r.t.Helper()
	var list []string
	for s.read < len(s.out) {
		reader := wsframe.Reader{Client: true, Limit: 64 << 20}
		n, msg, err := reader.Feed(s.out[s.read:], new(wsframe.Scratch))
		if err != nil {
			s.r.t.Fatalf("server frame: %v", err)
		}
		if !msg.Complete() {
			break
		}
		s.read += n
		switch msg.Op {
		case wsframe.OpText:
			list = append(list, "text:"+string(msg.Payload))
		case wsframe.OpPing:
			list = append(list, "ping:"+string(msg.Payload))
		case wsframe.OpPong:
			list = append(list, "pong:"+string(msg.Payload))
		case wsframe.OpClose:
			text := fmt.Sprintf("close:%d %s", msg.Code, msg.Payload)
			list = append(list, strings.TrimSuffix(text, " "))
		}
	}
	return strings.Join(list, "|")
}

func (s *sock) wantFrames(want string) {
	s.r.t.Helper()
	if got := s.frames(); got != want {
		s.r.t.Errorf("frames %.300q, want %.300q", got, want)
	}
}

func serverText(payload string) []byte { return wsframe.AppendText(nil, []byte(payload)) }

// event is what the tests append to the log; its frame is its only form.
type event struct{}

func (event) AppendKeys(dst []uint64) []uint64                          { return dst }
func (event) Resolve(stream.Form) (form, base stream.Form)              { return 0, 0 }
func (event) AppendFrame(dst []byte, _ stream.Form, base []byte) []byte { return append(dst, base...) }

// everything selects all events.
type everything struct{}

func (everything) Match(stream.Event) bool { return true }
func (everything) Candidates() [][]uint64  { return nil }
func (everything) Canonical() string       { return "" }

func newEntry(frame string) *stream.Entry { return stream.NewEntry(event{}, []byte(frame)) }

// publish appends an event whose frame is given, and lets the loop serve it.
func (r *rig) publish(frame []byte) {
	r.log.Append(newEntry(string(frame)))
	r.loop.Ring()
	r.run()
}

// subscribe makes the peer a live subscriber of everything.
func (p *recorder) subscribe() {
	p.peer.Subscribe(&fanout.Sub{ID: "s", Selector: everything{}}, fanout.Plan{}, nil)
	p.peer.c.w.loop.Ring()
}

// seconds is n seconds.
func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
