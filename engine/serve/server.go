package serve

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/codec/wsframe"
	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
)

// Handler answers requests. Serve is called on the connection's loop with a
// complete request head; it must not block. It responds, asks for the body,
// starts a stream or an upgrade, or keeps the exchange and responds later.
type Handler interface {
	Serve(x *Exchange)
}

// Timeouts of connections.
const (
	HeadTimeout  = 10 * time.Second // from the first octet of a head (R47)
	FirstTimeout = 30 * time.Second // without any request
	IdleTimeout  = 75 * time.Second // between requests
	// BodyWindow and BodyWindowBytes are the least rate of a body: so many
	// bytes arrive in each window, or the request is cut.
	BodyWindow      = 10 * time.Second
	BodyWindowBytes = 4 << 10
	// FlushTimeout is how long a connection that is to be closed may take
	// nothing of what it is still owed; LingerTimeout is how long its input is
	// read and dropped after that, so that it can read the answer (R76).
	FlushTimeout  = 10 * time.Second
	LingerTimeout = 5 * time.Second
	// RetryInterval is how often a plain write is tried while bytes are owed:
	// with autotuned buffers writability was seen 97 s late.
	RetryInterval = 10 * time.Second
	// StallTimeout is how long a peer may take nothing while it is owed bytes
	// (R424).
	StallTimeout = 90 * time.Second
	// stoppingHead is how long a head that was begun may take once the relay
	// goes down, and how long a body may show no progress then: less than the
	// 5 s of R464.
	stoppingHead = 2 * time.Second
	// stoppingClose is how long a closing handshake that was begun may take then:
	// less than a stop as a whole (R464).
	stoppingClose = 4 * time.Second
	// shortLinger is LingerTimeout for a WebSocket, whose peer was told in its
	// own protocol, and for everybody once the relay goes down.
	shortLinger = 2 * time.Second
)

// Bounds of what one connection may hold.
const (
	HeldBytes    = 1 << 20 // input behind an unfinished answer (R49)
	HeldRequests = 64
	// drainBody is the longest body that is read and dropped to keep a
	// connection whose request was answered before it had all come.
	drainBody = 1<<20 + 64<<10
	// owedAnswer is how much of an answer may be unsent when the next request
	// is begun.
	owedAnswer = 64 << 10
)

// Budget bounds bytes that many hold together, such as the bodies and unfinished
// messages of all connections (R46). Any goroutine.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n bytes and tells whether they were there.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// Give returns n bytes.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// UsedBytes returns what is reserved.
func (b *Budget) UsedBytes() int64 { return b.used.Load() }

// Config is what the workers of one server share. Immutable.
type Config struct {
	Handler Handler
	Budget  *Budget
	Jobs    *loop.Jobs // for Exchange.Go; may be nil
	Log     *slog.Logger
	Gate    Gate // may be nil
	// Refusals says how requests for a path are refused by this package itself;
	// path is nil when that is not known. It is called on the loops. A nil
	// function, or one that returns nil, is a line of text.
	Refusals func(path []byte) Refusal
	// AccessLog writes one line a request: never a query (R15).
	AccessLog bool
}

// Refusal makes the answer to a request that is refused before its handler
// could, or because of its connection: of status, for a reason in a few words.
type Refusal func(status int, reason string) http1.Response

// Worker is the HTTP side of one loop: its connections and the scratch memory
// that they share. Loop only, except where it says otherwise.
type Worker struct {
	// Immutable after construction.
	cfg   Config
	loop  *loop.Loop
	set   *fanout.Set
	began time.Time // ticks count from here

	// Owned by the loop.
	heads    *http1.Scratch
	frames   wsframe.Scratch
	buf      []byte // of a response being built
	first    *Conn  // list of connections
	dateText []byte
	dateAt   int64
	serving  bool // Handler.Serve runs: its head lies in heads
	reading  bool // OnData of a connection runs
	after    func()
	stopping bool
	stats    Stats

	exchanges  pool[Exchange]
	parsers    pool[http1.Parser]
	readers    pool[wsframe.Reader]
	progresses pool[progress]

	// Atomic.
	conns atomic.Int64
}

// Stats are a worker's counters. Owned by the loop.
type Stats struct {
	Requests int64
	Upgrades int64
	Refused  int64 // requests that were no HTTP

	HeadTimeouts int64
	BodyTimeouts int64
	IdleTimeouts int64
	Stalled      int64 // took nothing for StallTimeout

	OverLimit      int64 // connections that held too much input
	PerAddress     int64 // refused by the Gate
	ProtocolErrors int64 // WebSockets that broke the protocol
}

// NewWorker returns the HTTP side of l, whose fan-out state is set.
func NewWorker(cfg Config, l *loop.Loop, set *fanout.Set) *Worker {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Worker{cfg: cfg, loop: l, set: set, began: l.Now(), heads: http1.NewScratch()}
}

// Accept makes the handler of a new connection on the worker's loop: what a
// loop.AcceptFunc returns.
func (w *Worker) Accept(t loop.Transport) loop.Handler {
	c := &Conn{w: w, tr: t}
	c.out.Init((*outlet)(c))
	c.timer.Fire = c.onTimer
	c.link()
	c.setDeadline(dueIdle, FirstTimeout)
	if w.stopping { // accepted before the listener closed
		c.setDeadline(dueIdle, stoppingHead)
	}
	c.admit()
	return c
}

// GiveBudget returns what Exchange.TakeBudget reserved.
func (w *Worker) GiveBudget(n int64) { w.cfg.Budget.Give(n) }

// Conns returns the number of open connections. Any goroutine.
func (w *Worker) Conns() int64 { return w.conns.Load() }

// Loop returns the worker's loop. Any goroutine.
func (w *Worker) Loop() *loop.Loop { return w.loop }

// AfterInput calls f once the input that a connection is being read for has been
// worked off, or at once when there is none. Of several calls for one input the
// last one counts, so that a protocol does once for all messages of a read what
// need not be done for each. Loop only.
func (w *Worker) AfterInput(f func()) {
	if w.reading {
		w.after = f
		return
	}
	f()
}

// inputDone ends what AfterInput speaks of, also when the input's handler
// panicked.
func (w *Worker) inputDone() {
	w.reading = false
	if f := w.after; f != nil {
		w.after = nil
		f()
	}
}

// Set returns the loop's fan-out state.
func (w *Worker) Set() *fanout.Set { return w.set }

// Stats returns the counters.
func (w *Worker) Stats() Stats { return w.stats }

// Shutdown ends what can be ended: idle connections are closed, requests in
// flight get their answer and no other, peers are told (R461 to R463).
func (w *Worker) Shutdown() {
	w.StopServing()
	w.TellPeers(int(w.conns.Load()))
}

// StopServing begins the shutdown: idle connections are closed, requests in
// flight get their answer and no other. Peers go on until TellPeers.
func (w *Worker) StopServing() {
	w.stopping = true
	for c := w.first; c != nil; {
		next := c.next
		if c.peer == nil && !c.told {
			c.shutdown()
		}
		c = next
	}
}

// TellPeers tells count of the peers that were not told yet of the shutdown
// (R461, R462).
func (w *Worker) TellPeers(count int) {
	for c := w.first; c != nil && count > 0; {
		next := c.next
		if c.peer != nil && !c.told {
			count--
			c.shutdown()
		}
		c = next
	}
}

// RequestsLeft returns how many connections have a request in flight, or may
// still get one, and are no peers.
func (w *Worker) RequestsLeft() (left int) {
	for c := w.first; c != nil; c = c.next {
		if c.phase == phaseHTTP {
			left++
		}
	}
	return left
}

// PeersLeft returns how many peers were not told yet.
func (w *Worker) PeersLeft() (left int) {
	for c := w.first; c != nil; c = c.next {
		if c.peer != nil && !c.told {
			left++
		}
	}
	return left
}

// CloseAll resets every connection that is left.
func (w *Worker) CloseAll() {
	for c := w.first; c != nil; {
		next := c.next
		c.abort()
		c = next
	}
}

// date returns the value of a Date field, made once a second.
func (w *Worker) date() []byte {
	now := w.loop.Now()
	if s := now.Unix(); s != w.dateAt || w.dateText == nil {
		w.dateAt = s
		w.dateText = http1.AppendDate(w.dateText[:0], now)
	}
	return w.dateText
}

// done tells b that it is over. A panic there is counted and ends nothing: what
// the body was for has ended already.
func (w *Worker) done(b Body) {
	defer w.loop.Recover()
	b.Done()
}

// freeExchange takes back an exchange that nobody may refer to any more: not
// one that was kept for a job.
func (w *Worker) freeExchange(x *Exchange) {
	if x.kept {
		*x = Exchange{}
		return
	}
	w.exchanges.put(x)
}

// maxSpare bounds each pool of a worker.
const maxSpare = 32

// pool keeps what connections need only for a while, for the next one that needs
// it. The zero value is empty.
type pool[T any] struct{ spare []*T }

// get returns a zero T.
func (p *pool[T]) get() *T {
	n := len(p.spare)
	if n == 0 {
		return new(T)
	}
	v := p.spare[n-1]
	p.spare[n-1] = nil
	p.spare = p.spare[:n-1]
	return v
}

// put takes v back, to which nobody refers any more.
func (p *pool[T]) put(v *T) {
	var zero T
	*v = zero
	if len(p.spare) < maxSpare {
		p.spare = append(p.spare, v)
	}
}
