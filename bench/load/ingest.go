//go:build linux

package load

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxAnswer bounds an HTTP answer.
const maxAnswer = 64 << 10

// IngestLoad is a closed loop of HTTP requests: each of Conns keep-alive
// connections has one request under way.
type IngestLoad struct {
	Addr            string // HOST:PORT of the server, IPv4
	Conns, Requests int

	// Body appends a complete request, head and body.
	Body func(dst []byte, request int) []byte

	// Warmup is how many of the first requests are not measured. The measured
	// part begins when they are answered.
	Warmup int

	// OnMeasure is called when the measured part begins and ends; may be nil.
	OnMeasure func(begin bool)

	// Timeout bounds it all; 0 is 60 s.
	Timeout time.Duration
}

// IngestOutcome is what Ingest found. Failed is over all requests, the rest of
// the measured part.
type IngestOutcome struct {
	Requests  int64         // answered requests
	Failed    int64         // answers with a status other than 2xx
	Bytes     int64         // written
	Wall      time.Duration // first request written to last answer
	Latency   *Histogram    // each request, from its first byte written
	ClientCPU time.Duration
}

// poster is one connection of Ingest.
type poster struct {
	fd       int
	ready    bool // connected
	busy     bool // a request is under way
	measured bool // it is of the measured part
	out      []byte
	sent     int
	in       []byte
	begun    int64
}

// ingest is Ingest under way, on one thread.
type ingest struct {
	load      IngestLoad
	epoll     int
	posters   []poster
	buf       []byte
	connected int
	next      int // the next request
	phaseEnd  int
	underway  int
	measuring bool
	failure   string // the first refused request's status line
	out       IngestOutcome
}

// Ingest sends requests until all are answered. Answers other than 2xx are
// counted, not an error. Errors: ErrLoad, ErrAddress, ErrDescriptors,
// ErrTimeout, and those of the connections: the server has to keep them open.
func Ingest(ctx context.Context, l IngestLoad) (IngestOutcome, error) {
	if l.Conns <= 0 || l.Requests < 0 || l.Body == nil || l.Warmup < 0 || l.Warmup > l.Requests {
		return IngestOutcome{}, fmt.Errorf("%w: bad counts or no Body", ErrLoad)
	}
	if l.Timeout <= 0 {
		l.Timeout = defaultRunTimeout
	}
	lock()
	defer unlock()
	g := &ingest{load: l, buf: make([]byte, maxAnswer), epoll: -1, out: IngestOutcome{Latency: new(Histogram)}}
	defer g.close()
	if err := g.dial(); err != nil {
		return g.out, err
	}
	err := g.drive(ctx)
	if err != nil && g.failure != "" {
		err = fmt.Errorf("%w (first failed answer: %q)", err, g.failure)
	}
	return g.out, err
}

// dial begins all connections.
func (g *ingest) dial() error {
	addr, err := resolve(g.load.Addr)
	if err != nil {
		return err
	}
	raiseDescriptors()
	if err := checkDescriptors(g.load.Conns); err != nil {
		return err
	}
	if g.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("load: epoll_create1: %w", err)
	}
	for i := range g.load.Conns {
		fd, err := dial(g.epoll, &addr, i, 0, int32(i))
		if err != nil {
			return fmt.Errorf("load: connection %d: %w", i, err)
		}
		g.posters = append(g.posters, poster{fd: fd})
	}
	return nil
}

// close resets all connections.
func (g *ingest) close() {
	for i := range g.posters {
		closeReset(g.posters[i].fd)
	}
	if g.epoll >= 0 {
		_ = unix.Close(g.epoll)
	}
}

// drive runs the warm-up, if there is one, and the measured part.
func (g *ingest) drive(ctx context.Context) error {
	deadline := now() + int64(g.load.Timeout)
	g.phaseEnd = g.load.Warmup
	if err := g.phase(ctx, deadline); err != nil {
		return err
	}
	if g.load.OnMeasure != nil {
		g.load.OnMeasure(true)
		defer g.load.OnMeasure(false)
	}
	cpu, begun := threadCPU(), now()
	g.measuring, g.phaseEnd = true, g.load.Requests
	err := g.phase(ctx, deadline)
	g.out.Wall = time.Duration(now() - begun)
	g.out.ClientCPU = threadCPU() - cpu
	return err
}

// phase sends the requests below phaseEnd and waits for all answers. The first
// phase waits for the connections too.
func (g *ingest) phase(ctx context.Context, deadline int64) error {
	events := make([]unix.EpollEvent, maxEvents)
	for i := range g.posters {
		if err := g.send(&g.posters[i]); err != nil {
			return fmt.Errorf("load: connection %d: %w", i, err)
		}
	}
	for g.next < g.phaseEnd || g.underway > 0 || g.connected < len(g.posters) {
		t := now()
		if t > deadline {
			return fmt.Errorf("%w: %d requests sent, %d not answered in %v", ErrTimeout, g.next, g.underway, g.load.Timeout)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("load: %w", err)
		}
		got, err := wait(g.epoll, events, min(maxWait, time.Duration(deadline-t)))
		if err != nil {
			return err
		}
		for i := range got {
			if err := g.act(&g.posters[got[i].Fd]); err != nil {
				return fmt.Errorf("load: connection %d: %w", got[i].Fd, err)
			}
		}
	}
	return nil
}

// act acts on the events of a connection.
func (g *ingest) act(p *poster) error {
	if !p.ready {
		if err := connected(p.fd); err != nil {
			return err
		}
		p.ready = true
		g.connected++
	}
	if err := g.send(p); err != nil {
		return err
	}
	for {
		n, e := rawRead(p.fd, g.buf)
		switch {
		case e == syscall.EAGAIN:
			return nil
		case e != 0:
			return e
		case n == 0:
			return fmt.Errorf("closed by the server behind %q", excerpt(p.in))
		}
		p.in = append(p.in, g.buf[:n]...)
		if err := g.answered(p); err != nil {
			return err
		}
	}
}

// send begins the next request if the connection is free, and writes what the
// socket takes of it.
func (g *ingest) send(p *poster) error {
	if !p.ready {
		return nil
	}
	if !p.busy {
		if g.next >= g.phaseEnd {
			return nil
		}
		p.out, p.sent = g.load.Body(p.out[:0], g.next), 0
		p.busy, p.measured, p.begun = true, g.measuring, now()
		g.next++
		g.underway++
		if g.measuring {
			g.out.Bytes += int64(len(p.out))
		}
	}
	for p.sent < len(p.out) {
		n, e := rawWrite(p.fd, p.out[p.sent:])
		if e == syscall.EAGAIN {
			return nil
		}
		if e != 0 {
			return e
		}
		p.sent += n
	}
	return nil
}

// answered takes an answer that is complete, and begins the next request.
func (g *ingest) answered(p *poster) error {
	length, status, ends, err := answerOf(p.in)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %q", err, excerpt(p.in))
	case length == 0 && len(p.in) > maxAnswer:
		return fmt.Errorf("answer of more than %d bytes: %q", maxAnswer, excerpt(p.in))
	case length == 0:
		return nil
	case !p.busy || length < len(p.in) || p.sent < len(p.out):
		return fmt.Errorf("an answer before its request: %q", excerpt(p.in))
	}
	if status < 200 || status > 299 {
		if g.out.Failed++; g.failure == "" {
			g.failure = string(excerpt(p.in))
		}
	}
	if p.measured {
		g.out.Requests++
		g.out.Latency.record(now() - p.begun)
	}
	p.in, p.busy = p.in[:0], false
	g.underway--
	if ends {
		return fmt.Errorf("the server ends the connection, status %d", status)
	}
	return g.send(p)
}
