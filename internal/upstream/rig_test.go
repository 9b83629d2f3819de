package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/internal/relaytest"

	"github.com/coder/websocket"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// patience is how long a test waits for what must come. It is only used up when
// a test fails.
const patience = 30 * time.Second

var errDisk = errors.New("disk is full")

func TestMain(m *testing.M) {
	os.Exit(relaytest.RunLeakFree(m, "internal/upstream.(*", "coder/websocket"))
}

// await polls until done reports true.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// clock is a time that stands until it is moved, with waits that end when the
// test says so.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	waits map[time.Duration][]chan time.Time
	asked []time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *clock) after(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.waits[d] = append(c.waits[d], ch)
	c.asked = append(c.asked, d)
	return ch
}

// waiting returns how many waits of d there are, given up ones too.
func (c *clock) waiting(d time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waits[d])
}

// end waits until there is a wait of d, and ends all of them.
func (c *clock) end(t testing.TB, d time.Duration) {
	t.Helper()
	await(t, fmt.Sprintf("a wait of %v", d), func() bool { return c.waiting(d) > 0 })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.waits[d] {
		ch <- c.at
	}
	delete(c.waits, d)
}

// memory is a Store in memory.
type memory struct {
	t  testing.TB
	mu sync.Mutex

	hosts   map[int64]state.Host
	repos   map[string]state.Repo
	batches []state.Batch
	writing bool
	fail    error // of everything
	gate    chan struct{}
}

func newMemory(t testing.TB) *memory {
	return &memory{t: t, hosts: map[int64]state.Host{}, repos: map[string]state.Repo{}}
}

// clone is the store as a start after a kill finds it.
func (s *memory) clone() *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &memory{t: s.t, hosts: maps.Clone(s.hosts), repos: maps.Clone(s.repos)}
}

func (s *memory) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *memory) Hosts() ([]state.Host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.hosts)), s.fail
}

func (s *memory) Repo(did string) (state.Repo, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	repo, found := s.repos[did]
	return repo, found, s.fail
}

// write runs a change alone.
func (s *memory) write(change func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing {
		s.t.Error("writes of the store overlap")
	}
	if gate := s.gate; gate != nil {
		s.writing = true
		s.mu.Unlock()
		<-gate
		s.mu.Lock()
		s.writing = false
	}
	if s.fail != nil {
		return s.fail
	}
	change()
	return nil
}

func (s *memory) SaveHost(host state.Host) (int64, error) {
	err := s.write(func() {
		if host.ID == 0 {
			host.ID = int64(len(s.hosts) + 1)
		}
		s.hosts[host.ID] = host
	})
	return host.ID, err
}

func (s *memory) Apply(batch state.Batch) error {
	return s.write(func() {
		for _, repo := range batch.Repos {
			s.repos[repo.DID] = repo
		}
		for _, cursor := range batch.Cursors {
			host, known := s.hosts[cursor.ID]
			if !known {
				s.t.Errorf("cursor of host %d", cursor.ID)
			}
			host.LastSeq, host.AccountCount = cursor.LastSeq, cursor.AccountCount
			s.hosts[cursor.ID] = host
		}
		s.batches = append(s.batches, state.Batch{Repos: slices.Clone(batch.Repos), Cursors: slices.Clone(batch.Cursors)})
	})
}

// host returns the stored row of a host.
func (s *memory) host(name string) state.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range s.hosts {
		if host.Hostname == name {
			return host
		}
	}
	return state.Host{}
}

func (s *memory) repo(did string) state.Repo {
	repo, _, _ := s.Repo(did)
	return repo
}

// stream is what was published, in place of the producer.
type stream struct {
	mu      sync.Mutex
	frames  [][]byte // with the numbers of their hosts
	fail    error
	tries   int
	gate    chan struct{} // each publish takes one of it, if not nil
	blocked int
}

func (p *stream) publish(f *firehose.Frame) (int64, error) {
	p.mu.Lock()
	gate := p.gate
	p.blocked++
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked--
	p.tries++
	if p.fail != nil {
		return 0, p.fail
	}
	frame, err := f.Append(nil, f.Seq)
	if err != nil {
		return 0, err
	}
	p.frames = append(p.frames, frame)
	return int64(len(p.frames)), nil
}

func (p *stream) setFail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

func (p *stream) state() (tries, blocked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries, p.blocked
}

func (p *stream) all() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.frames)
}

// lines returns the frames in short, such as "commit 5".
func (p *stream) lines(t testing.TB) []string {
	t.Helper()
	var lines []string
	var s firehose.Scanner
	for _, message := range p.all() {
		var f firehose.Frame
		if err := s.Scan(message, &f); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s %d", firehose.KindName(f.Kind()), f.Seq)
		if f.Kind() == firehose.KindAccount {
			line += fmt.Sprintf(" %v %s", f.Active, f.Status)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// answerWait is the time for the answer to a ping, told apart from the interval.
const answerWait = pingInterval + time.Second

// rig is a Manager with everything around it.
type rig struct {
	*Manager
	t      testing.TB
	clock  *clock
	store  *memory
	stream *stream
}

// newRig starts a Manager; its state is written only by tick, or by the end of
// waits of an hour.
func newRig(t testing.TB, store *memory, upstreams []string, change func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, store: store, stream: &stream{},
		clock: &clock{at: time.Date(2026, 7, 9, 10, 0, 0, 0, time.UTC), waits: map[time.Duration][]chan time.Time{}},
	}
	cfg := Config{
		Upstreams: upstreams, Persist: 2 * time.Hour, Publish: r.stream.publish, Store: store,
		Now: r.clock.now, After: r.clock.after, Rand: func() float64 { return 0 },
	}
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err == nil {
		m.answer = answerWait
		err = m.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Manager = m
	t.Cleanup(func() { r.kill() })
	return r
}

// kill ends everything without a write, as far as the test's store goes.
func (r *rig) kill() {
	r.store.setFail(errors.New("killed"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Stop(ctx); ctx.Err() != nil {
		r.t.Errorf("stop: %v", err)
	}
}

// want waits until exactly these frames were published.
func (r *rig) want(rule string, lines ...string) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%s: %d frames", rule, len(lines)), func() bool { return len(r.stream.all()) >= len(lines) })
	if got := r.stream.lines(r.t); !slices.Equal(got, lines) {
		r.t.Errorf("%s: published %q, want %q", rule, got, lines)
	}
}

// of returns what is known of one host.
func (r *rig) of(name string) HostStats {
	for _, h := range r.Stats().Hosts {
		if h.Hostname == name {
			return h
		}
	}
	return HostStats{}
}

// until waits for a state of a host.
func (r *rig) until(what, name string, done func(HostStats) bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for !done(r.of(name)) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not within %v: %+v", what, patience, r.of(name))
		}
		time.Sleep(time.Millisecond)
	}
}

// at waits until a host is done with the frame of a number.
func (r *rig) at(name string, seq int64) {
	r.t.Helper()
	r.until(fmt.Sprintf("frame %d", seq), name, func(h HostStats) bool { return h.LastSeq == seq })
}

// pinged ends intervals until a ping waits for its answer: a reader that is not
// quite done with its last frame is not pinged.
func (r *rig) pinged() {
	r.t.Helper()
	for r.clock.waiting(answerWait) == 0 {
		r.clock.end(r.t, pingInterval)
		await(r.t, "a ping, or the next interval", func() bool {
			return r.clock.waiting(answerWait) > 0 || r.clock.waiting(pingInterval) > 0
		})
	}
}

// origin is a host that sends a stream.
type origin struct {
	t      testing.TB
	name   string
	server *httptest.Server
	peers  chan *peer
	header string // Server
	deaf   bool   // never reads
	refuse int    // status instead of an upgrade

	location string // of a redirect
	tls      bool
}

// peer is one connection to an origin.
type peer struct {
	t      testing.TB
	ws     *websocket.Conn
	cursor string // as sent, "-" if none
	gone   chan struct{}
	over   chan struct{}
	once   sync.Once
}

func newOrigin(t testing.TB, change func(*origin)) *origin {
	t.Helper()
	o := &origin{t: t, peers: make(chan *peer, 100)}
	if change != nil {
		change(o)
	}
	o.server = httptest.NewUnstartedServer(http.HandlerFunc(o.serve))
	if o.tls {
		o.server.Config.ErrorLog = log.New(io.Discard, "", 0)
		o.server.StartTLS()
	} else {
		o.server.Start()
	}
	_, o.name, _ = strings.Cut(o.server.URL, "://")
	t.Cleanup(o.server.Close)
	return o
}

// url is the host as an operator writes it.
func (o *origin) url() string { return "ws://" + o.name }

func (o *origin) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/xrpc/com.atproto.sync.subscribeRepos" || r.Header.Get("Sec-WebSocket-Extensions") != "" {
		o.t.Errorf("asked for %s with extensions %q", r.URL, r.Header.Get("Sec-WebSocket-Extensions"))
	}
	if o.header != "" {
		w.Header().Set("Server", o.header)
	}
	if o.refuse != 0 {
		if o.location != "" {
			w.Header().Set("Location", o.location+r.URL.Path)
		}
		w.WriteHeader(o.refuse)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	p := &peer{t: o.t, ws: ws, cursor: "-", gone: make(chan struct{}), over: make(chan struct{})}
	if r.URL.Query().Has("cursor") {
		p.cursor = r.URL.Query().Get("cursor")
	}
	o.peers <- p
	if o.deaf {
		<-p.over
		_ = ws.CloseNow()
		return
	}
	_, _, _ = ws.Read(context.Background()) // nothing comes but the end
	close(p.gone)
	_ = ws.CloseNow()
}

// next returns the next connection.
func (o *origin) next() *peer {
	o.t.Helper()
	select {
	case p := <-o.peers:
		o.t.Cleanup(p.close)
		return p
	case <-time.After(patience):
		o.t.Fatal("no connection")
		return nil
	}
}

// send sends messages.
func (p *peer) send(messages ...[]byte) {
	p.t.Helper()
	for _, message := range messages {
		if err := p.ws.Write(context.Background(), websocket.MessageBinary, message); err != nil {
			p.t.Fatal(err)
		}
	}
}

// dropped waits until the connection has ended.
func (p *peer) dropped(rule string) {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		p.t.Fatalf("%s: the connection is not dropped", rule)
	}
}

func (p *peer) close() {
	p.once.Do(func() { close(p.over) })
	_ = p.ws.CloseNow()
}
