package serve

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
)

// patience bounds waits for other goroutines; nothing waits for it when all is
// well.
const patience = time.Minute

// manualClock is a clock that only moves when it is told to.
type manualClock struct {
	mu     sync.Mutex
	now    time.Time
	alarms []*alarm
}

type alarm struct {
	clock *manualClock
	at    time.Time
	fire  func()
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) AfterFunc(d time.Duration, f func()) loop.Stopper {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{c, c.now.Add(d), f}
	c.alarms = append(c.alarms, a)
	return a
}

func (a *alarm) Stop() bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return a.clock.remove(a)
}

func (c *manualClock) remove(a *alarm) bool {
	for i, other := range c.alarms {
		if other == a {
			c.alarms = append(c.alarms[:i], c.alarms[i+1:]...)
			return true
		}
	}
	return false
}

// next moves the clock to the next alarm that is not after limit and returns
// its function, or moves to limit and returns nil.
func (c *manualClock) next(limit time.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *alarm
	for _, a := range c.alarms {
		if !a.at.After(limit) && (first == nil || a.at.Before(first.at)) {
			first = a
		}
	}
	if first == nil {
		c.now = limit
		return nil
	}
	if first.at.After(c.now) {
		c.now = first.at
	}
	c.remove(first)
	return first.fire
}

// rig is one worker with a loop, a clock and sockets that the test drives. The
// test's goroutine is the loop.
type rig struct {
	t      testing.TB
	clock  *manualClock
	bell   chan struct{}
	loop   *loop.Loop
	log    *stream.Log
	set    *fanout.Set
	budget *Budget
	worker *Worker
	jobs   *loop.Jobs
	socks  []*sock
	faults int64 // panics that the test provoked
	unix   bool  // peers have no address
}

// newRig returns a rig whose requests go to serve. Its end checks that nothing
// was leaked.
func newRig(t testing.TB, h Handler) *rig {
	return newRigConfig(t, Config{Handler: h, Budget: NewBudget(64 << 20)})
}

func newRigConfig(t testing.TB, cfg Config) *rig {
	t.Helper()
	r := &rig{
		t:      t,
		clock:  &manualClock{now: time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)},
		bell:   make(chan struct{}, 1),
		budget: cfg.Budget,
		jobs:   cfg.Jobs,
		log:    stream.NewLog(1<<12, 64<<20),
	}
	r.loop = loop.New(0, r.clock, func(err error) { t.Errorf("loop: %v", err) })
	r.loop.Bind(func() error {
		select {
		case r.bell <- struct{}{}:
		default:
		}
		return nil
	})
	buffers := session.New(session.Config{EventsPerSession: 100, Sessions: 10}, r.log)
	r.set = fanout.NewSet(r.loop, r.log, buffers, fanout.Limits{})
	r.worker = NewWorker(cfg, r.loop, r.set)
	t.Cleanup(r.finish)
	return r
}

// finish closes everything and checks that all was given back.
func (r *rig) finish() {
	r.t.Helper()
	if r.jobs != nil {
		r.jobs.Close()
		r.run()
	}
	for _, s := range r.socks {
		s.hangUp()
	}
	r.run()
	if n := r.worker.Conns(); n != 0 {
		r.t.Errorf("%d connections are left", n)
	}
	if r.worker.first != nil {
		r.t.Error("the list of connections is not empty")
	}
	if n := r.budget.UsedBytes(); n != 0 {
		r.t.Errorf("%d bytes of the budget were not given back", n)
	}
	if n := r.set.Members(); n != 0 {
		r.t.Errorf("%d members are left", n)
	}
	if n := r.loop.Panics(); n != r.faults {
		r.t.Errorf("%d panics were counted, want %d", n, r.faults)
	}
	for i, s := range r.socks {
		if s.escaped != nil {
			r.t.Errorf("socket %d: a panic left the connection: %v", i, s.escaped)
		}
	}
}

// run turns the loop until it has nothing to do, and closes sockets that are
// to be closed.
func (r *rig) run() {
	for {
		select {
		case <-r.bell:
			r.loop.Turn()
			continue
		default:
		}
		busy := false
		for _, s := range r.socks {
			busy = s.reap() || busy
		}
		if !busy {
			return
		}
	}
}

// await turns the loop until cond holds; other goroutines ring it.
func (r *rig) await(what string, cond func() bool) {
	r.t.Helper()
	limit := time.After(patience)
	for r.run(); !cond(); r.run() {
		select {
		case <-r.bell:
			r.loop.Turn()
		case <-limit:
			r.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// pass lets d go by; timers fire at their time.
func (r *rig) pass(d time.Duration) {
	limit := r.clock.Now().Add(d)
	for {
		f := r.clock.next(limit)
		if f == nil {
			r.run()
			return
		}
		f()
		r.run()
	}
}

var errSockClosed = errors.New("sock: closed")

// sock is a simulated socket: the transport that a connection sees, and the
// peer at its other end.
type sock struct {
	r *rig
	h loop.Handler

	out     []byte // what the peer can read
	room    int    // bytes that the kernel still takes, negative without end
	unacked int
	writes  int // calls of Write
	want    bool
	fin     bool
	doomed  bool
	aborted bool
	ended   bool // OnClose was called
	broken  error
	streams bool   // StreamBuffers was called
	read    int    // bytes of out that answers took
	escaped any    // a panic that came out of the handler
	lent    []byte // memory of OnData, overwritten after each call
}

// dial opens a connection without a bound on what its peer reads.
func (r *rig) dial() *sock {
	s := &sock{r: r, room: -1}
	s.h = r.worker.Accept(s)
	r.socks = append(r.socks, s)
	r.run()
	return s
}

func (s *sock) Write(p []byte) (int, error) {
	s.writes++
	if s.broken != nil {
		s.doomed = true
		return 0, s.broken
	}
	if s.doomed || s.ended || s.fin {
		return 0, errSockClosed
	}
	n := len(p)
	if s.room >= 0 {
		n = min(n, s.room)
		s.room -= n
	}
	s.out = append(s.out, p[:n]...)
	return n, nil
}

func (s *sock) WantWritable()     { s.want = true }
func (s *sock) UnackedBytes() int { return s.unacked }
func (s *sock) CloseWrite()       { s.fin = true }
func (s *sock) Close()            { s.doomed = true }
func (s *sock) Abort()            { s.doomed, s.aborted = true, true }
func (s *sock) StreamBuffers()    { s.streams = true }

// RemoteAddr implements loop.Transport.
func (s *sock) RemoteAddr() netip.AddrPort {
	if s.r.unix {
		return netip.AddrPort{}
	}
	return netip.MustParseAddrPort("192.0.2.1:4711")
}
func (s *sock) LocalAddr() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.2:80") }

// reap tells a doomed socket's handler, as a loop does after its call.
func (s *sock) reap() bool {
	if !s.doomed || s.ended {
		return false
	}
	s.end(nil)
	return true
}

func (s *sock) end(err error) {
	if !s.ended {
		s.ended = true
		s.call(func() { s.h.OnClose(err) })
	}
}

// hangUp is the loss of the connection.
func (s *sock) hangUp() {
	s.end(errSockClosed)
	s.r.run()
}

// call guards a call of the handler as a transport does.
func (s *sock) call(f func()) {
	defer func() {
		if e := recover(); e != nil {
			s.escaped = e
			s.Abort()
		}
	}()
	f()
}

// send delivers p in one read. What the peer sends to a closed socket is lost.
func (s *sock) send(p string) {
	s.deliver([]byte(p))
	s.r.run()
}

func (s *sock) deliver(p []byte) {
	if s.doomed || s.ended {
		return
	}
	s.lent = append(s.lent[:0], p...)
	s.call(func() { s.h.OnData(s.lent) })
	for i := range s.lent {
		s.lent[i] = 0xAA // borrowed until return
	}
}

// sendBytes delivers p octet by octet.
func (s *sock) sendBytes(p string) {
	for i := range len(p) {
		s.deliver([]byte{p[i]})
		s.r.run()
	}
}

// take lets the kernel take n more bytes and says so if it was asked.
func (s *sock) take(n int) {
	s.room = n
	if s.want && !s.doomed && !s.ended {
		s.want = false
		s.call(s.h.OnWritable)
	}
	s.r.run()
}

// takeAll reads whatever comes from now on.
func (s *sock) takeAll() { s.take(-1) }

// conn returns the machine behind the socket.
func (s *sock) conn() *Conn { return s.h.(*Conn) }

// text returns everything that the peer got.
func (s *sock) text() string { return string(s.out) }

// answer is one response as an independent client reads it.
type answer struct {
	status int
	body   string
	closes bool
	header http.Header
}

// answers reads the complete responses that came since the last call. Bytes
// behind them are an error.
func (s *sock) answers() []answer {
	s.r.t.Helper()
	list, rest := s.answersAnd()
	if rest != "" {
		s.r.t.Errorf("bytes that are no whole response: %.200q", rest)
	}
	return list
}

// answersAnd is answers for a connection that went over to something else; a
// response whose body ends with the connection is left in rest.
func (s *sock) answersAnd() (list []answer, rest string) {
	in := s.out[s.read:]
	for len(in) > 0 {
		src := bytes.NewReader(in)
		br := bufio.NewReader(src)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			break
		}
		if res.StatusCode == 101 || res.ContentLength < 0 && res.TransferEncoding == nil {
			break
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			break
		}
		list = append(list, answer{res.StatusCode, string(body), res.Close, res.Header})
		in = in[len(in)-br.Buffered()-src.Len():]
	}
	s.read = len(s.out) - len(in)
	return list, string(in)
}

// statuses reads the responses that came and gives their codes and bodies in
// short: "200 body|404 |".
func (s *sock) statuses() string {
	s.r.t.Helper()
	var b strings.Builder
	for _, a := range s.answers() {
		b.WriteString(http.StatusText(a.status))
		if a.body != "" {
			b.WriteString(" " + a.body)
		}
		if a.closes {
			b.WriteString(" (close)")
		}
		b.WriteByte('|')
	}
	return b.String()
}

// state names how the connection stands: open, fin (half closed), closed or
// reset.
func (s *sock) state() string {
	switch {
	case s.aborted:
		return "reset"
	case s.doomed || s.ended:
		return "closed"
	case s.fin:
		return "fin"
	}
	return "open"
}

func (s *sock) wantState(want string) {
	s.r.t.Helper()
	if got := s.state(); got != want {
		s.r.t.Errorf("connection is %s, want %s", got, want)
	}
}

func (s *sock) wantAnswers(want string) {
	s.r.t.Helper()
	if got := s.statuses(); got != want {
		s.r.t.Errorf("answers %q, want %q", got, want)
	}
}
