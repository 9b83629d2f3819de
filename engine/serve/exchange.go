package serve

import (
	"errors"
	"net/netip"
	"time"

	"github.com/sluice-relay/sluice/codec/http1"
	"github.com/sluice-relay/sluice/engine/loop"
)

// ErrExchangeOver tells that an exchange was answered or lost before.
var ErrExchangeOver = errors.New("serve: exchange is over")

// Body takes the body of a request as it arrives. Loop only.
type Body interface {
	// Data takes the next octets, free of chunk framing: borrowed until return.
	// It may respond; what still comes is then dropped.
	Data(x *Exchange, p []byte)
	// End tells that the body is complete. It responds, or something does
	// later.
	End(x *Exchange)
	// Done tells that the exchange is over, answered or not: what was kept for
	// it can go. It is called once.
	Done()
}

// Exchange is one request and its answer. Loop only. It is dead once it was
// answered, and after Body.Done: then what would change it does nothing, and
// its accessors must not be called. Unless it was kept it must not be referred
// to after the call in which it was answered, because it is used again.
type Exchange struct {
	// Head is the request head, valid only inside Handler.Serve.
	Head *http1.Head

	conn      *Conn
	body      Body
	length    int64 // of the body, -1 chunked
	http10    bool
	keepAlive bool
	expects   bool // the client waits for 100 Continue
	reading   bool // ReadBody was called
	responded bool
	ended     bool // the request is complete
	kept      bool // a job or a caller refers to it
	noted     *note
	dropped   int64
	refusal   Refusal // of Config.Refusals

	windowBytes int64         // of the current window of the body
	window      time.Duration // of the least rate of the body
	leastBytes  int64         // in each such window
}

// Worker returns the worker of the connection's loop.
func (x *Exchange) Worker() *Worker { return x.conn.w }

// RemoteAddr returns the peer's address.
func (x *Exchange) RemoteAddr() netip.AddrPort { return x.conn.tr.RemoteAddr() }

// HTTP10 tells that the request was HTTP/1.0.
func (x *Exchange) HTTP10() bool { return x.http10 }

// Alive tells whether an answer is still wanted.
func (x *Exchange) Alive() bool { return x.conn != nil && x.conn.x == x && !x.responded }

// ReadBody asks for the body. It is called inside Handler.Serve, at most once.
// A client that waits for 100 Continue gets it now.
func (x *Exchange) ReadBody(b Body) {
	if !x.Alive() {
		return
	}
	x.AwaitBody(b)
	x.Continue()
}

// AwaitBody is ReadBody for a request that may yet be refused by its head: a
// client that waits for 100 Continue goes on waiting until Continue.
func (x *Exchange) AwaitBody(b Body) {
	if x.Alive() {
		x.body, x.reading = b, true
	}
}

// Continue tells a client that waits for it to send the body.
func (x *Exchange) Continue() {
	if x.Alive() && x.expects {
		x.expects = false
		x.conn.out.Send(continueFrame)
		x.conn.afterSend()
	}
}

// BodyRate sets the least rate of the body, in place of BodyWindowBytes in each
// BodyWindow. It is called inside Handler.Serve.
func (x *Exchange) BodyRate(window time.Duration, leastBytes int64) {
	if !x.Alive() {
		return
	}
	x.window, x.leastBytes = window, leastBytes
	if c := x.conn; c.due[dueBody] != 0 {
		c.setDeadline(dueBody, window)
	}
}

var continueFrame = []byte(http1.Continue)

// TakeBudget reserves memory for what is kept of a body, and tells whether it
// may be kept (R46). Whatever was taken is given back by Worker.GiveBudget.
func (x *Exchange) TakeBudget(n int64) bool { return x.conn != nil && x.conn.w.cfg.Budget.Take(n) }

// Keep tells that the exchange is answered later, after Serve and Body.End have
// returned: it will not be reused.
func (x *Exchange) Keep() { x.kept = true }

// Go runs work off the loop and then, if the answer is still wanted, the
// function that it returns on the loop. A panic in either ends the connection.
// It returns an error, and does nothing, when the job pool is full or closed
// (loop.ErrJobsFull, loop.ErrJobsClosed) or the exchange is over.
func (x *Exchange) Go(work func() (answer func(*Exchange))) error {
	if !x.Alive() {
		return ErrExchangeOver
	}
	w := x.conn.w
	if w.cfg.Jobs == nil {
		return loop.ErrJobsClosed
	}
	x.kept = true
	return w.cfg.Jobs.Submit(w.loop, func() (completion func()) {
		defer func() {
			if r := recover(); r != nil {
				w.loop.CountPanic(r)
				completion = x.fail
			}
		}()
		answer := work()
		return func() {
			if x.Alive() {
				defer x.conn.contain()
				answer(x)
			}
		}
	})
}

// fail ends the connection of an exchange that nobody will answer.
func (x *Exchange) fail() {
	if x.Alive() {
		x.conn.abort()
	}
}

// Respond answers the request. r is borrowed until return. The connection is
// closed afterwards if r says so, if the client asked for it, or if too much of
// the body is still to come.
func (x *Exchange) Respond(r *http1.Response) {
	if x.Alive() {
		x.respond(r, r.NoBody)
		x.settle()
	}
}

// Lend is Respond with a body that is not copied: it is shared and must not
// change until release, which is called once, on the loop, when the kernel has
// all of it or the connection is gone. What r holds besides is borrowed.
func (x *Exchange) Lend(r *http1.Response, release func()) {
	if !x.Alive() {
		release()
		return
	}
	c := x.conn
	x.respond(r, true)
	if !r.NoBody {
		c.out.Send(r.Body)
	}
	if owed := c.out.OwedBytes(); owed == 0 {
		release()
	} else {
		p := c.watchProgress()
		p.loans = append(p.loans, loan{c.out.TakenBytes() + owed, release})
		c.watchStall()
	}
	x.settle()
}

// respond sends an answer, or its head.
func (x *Exchange) respond(r *http1.Response, headOnly bool) {
	c := x.conn
	x.responded = true
	keep := x.keepAlive && r.KeepAlive && !c.w.stopping && x.canDrain()
	x.keepAlive = keep
	res := *r
	res.KeepAlive, res.HTTP10, res.NoBody = keep, x.http10, headOnly
	c.w.buf = http1.AppendResponse(c.w.buf[:0], &res, c.w.date())
	c.out.SendBorrowed(c.w.buf)
	x.logAccess(r.Status, len(r.Body))
	if cap(c.w.buf) > 64<<10 {
		c.w.buf = nil
	}
}

// canDrain tells whether the rest of the body may be read and dropped, so that
// the connection can go on.
func (x *Exchange) canDrain() bool {
	return x.ended || (!x.expects && x.length <= drainBody)
}

// settle ends the exchange when it is answered and its request complete.
func (x *Exchange) settle() {
	c := x.conn
	if c.x != x || !x.responded {
		return
	}
	goesOn := x.keepAlive && !c.w.stopping
	if goesOn && !x.ended {
		return
	}
	c.x = nil
	x.lost()
	c.w.freeExchange(x)
	if !goesOn {
		c.closeAfterFlush()
	}
	c.afterWrite()
}

// data takes octets of the body. Those that nobody wants are dropped, up to
// drainBody: then the connection is closed once the request is answered.
func (x *Exchange) data(p []byte) {
	if x.responded || !x.reading {
		if x.dropped += int64(len(p)); x.dropped > drainBody {
			x.keepAlive = false
			x.settle()
		}
		return
	}
	defer x.conn.contain()
	x.body.Data(x, p)
}

// end is called when the request is complete.
func (x *Exchange) end() {
	x.ended = true
	if x.responded {
		x.settle()
		return
	}
	if x.reading {
		defer x.conn.contain()
		x.body.End(x)
	}
}

// lost tells the body that it is over.
func (x *Exchange) lost() {
	if b := x.body; b != nil {
		x.body = nil
		x.conn.w.done(b)
	}
	x.responded = true
}

// Stream answers with a stream: a head whose body follows until the stream is
// ended. finite streams are ended by their handler and let the connection go on
// with the next request; on others further input is dropped.
//
// begin is called before anything is written, so that whoever has seen the head
// is registered (R192); what it returns goes out with the head. It returns nil
// when the answer is no longer wanted, and when the relay goes down, in which
// case it has answered 503.
func (x *Exchange) Stream(fields []http1.Field, h StreamHandler, finite bool, begin func(*Peer) []byte) *Peer {
	if !x.Alive() || x.refuseStopping() {
		return nil
	}
	c := x.conn
	chunked := !x.http10
	goesOn := x.keepAlive && chunked && finite && x.length == 0
	http10 := x.http10
	x.logAccess(200, 0)
	c.x = nil
	x.lost()
	c.w.freeExchange(x)
	if !goesOn { // what follows the request means nothing (R49)
		c.dropHeld()
	}
	c.clearDeadline(dueBody)
	c.tr.StreamBuffers()
	if !goesOn {
		c.dropParser()
	}
	p := c.newPeer(h, finite)
	p.chunked, p.goesOn = chunked, goesOn
	c.phase = phaseStream
	first := begin(p)
	res := http1.Response{Status: 200, Fields: fields, Stream: true, Chunked: chunked, KeepAlive: goesOn || !finite, HTTP10: http10}
	c.w.buf = http1.AppendResponse(c.w.buf[:0], &res, c.w.date())
	c.w.buf = append(c.w.buf, first...)
	c.out.SendBorrowed(c.w.buf)
	c.afterSend()
	return p
}

// refuseStopping answers what would begin a stream or a socket after those were
// told that the relay goes down.
func (x *Exchange) refuseStopping() bool {
	if !x.conn.w.stopping {
		return false
	}
	x.refuse(503, "shutting down")
	return true
}

// Now returns the loop's time.
func (x *Exchange) Now() time.Time { return x.conn.w.loop.Now() }

// Loop returns the connection's loop.
func (x *Exchange) Loop() *loop.Loop { return x.conn.w.loop }
