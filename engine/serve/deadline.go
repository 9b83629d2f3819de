package serve

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-relay/sluice/engine/loop"
)

// dueKind is one of the deadlines of a connection. All share one timer.
type dueKind uint8

const (
	dueIdle  dueKind = iota // no request
	dueHead                 // head not complete
	dueBody                 // look at the rate of the body
	dueStall                // look at the progress of the output
	dueClose                // end of patience with a connection that closes
	dueOwner                // the peer's own timer
	dueKinds
)

// instant is a time in units of loop.WheelTick since the worker was made, at least
// 1: in four bytes it lasts for six years. No timer is more exact.
type instant uint32

// noInstant is later than all others.
const noInstant = ^instant(0)

// instantAt returns the first instant that is not before t.
func (w *Worker) instantAt(t time.Time) instant {
	return max(instant((t.Sub(w.began)+loop.WheelTick-1)/loop.WheelTick), 1)
}

// timeOf returns when t is.
func (w *Worker) timeOf(t instant) time.Time {
	return w.began.Add(time.Duration(t) * loop.WheelTick)
}

// setDeadline makes k due after d. The shared timer is only moved when it would
// fire too late, so that deadlines which are set again and again cost little.
func (c *Conn) setDeadline(k dueKind, d time.Duration) {
	at := c.w.instantAt(c.w.loop.Now().Add(d))
	c.due[k] = at
	if !c.timer.Scheduled() || at < c.nextDue(k) {
		c.w.loop.Schedule(&c.timer, c.w.timeOf(at))
	}
}

// hasten makes k due after d, unless it is due earlier.
func (c *Conn) hasten(k dueKind, d time.Duration) {
	if at := c.due[k]; at == 0 || c.w.instantAt(c.w.loop.Now().Add(d)) < at {
		c.setDeadline(k, d)
	}
}

// nextDue returns the earliest deadline other than k, noInstant if there is none.
func (c *Conn) nextDue(k dueKind) instant {
	next := noInstant
	for i, at := range c.due {
		if at != 0 && dueKind(i) != k {
			next = min(next, at)
		}
	}
	return next
}

func (c *Conn) clearDeadline(k dueKind) { c.due[k] = 0 }

// onTimer is the shared timer: it handles what is due and sets the timer for
// what is not.
func (c *Conn) onTimer() {
	defer c.contain()
	now := c.w.loop.Now()
	for k := range dueKinds {
		if at := c.due[k]; at != 0 && !c.w.timeOf(at).After(now) {
			c.due[k] = 0
			c.onDue(k)
			if c.phase == phaseGone {
				return
			}
		}
	}
	if next := c.nextDue(dueKinds); next != noInstant {
		c.w.loop.Schedule(&c.timer, c.w.timeOf(next))
	}
}

func (c *Conn) onDue(k dueKind) {
	switch k {
	case dueIdle:
		c.endIdle()
	case dueHead:
		c.w.stats.HeadTimeouts++
		c.refuse(408, "request head took too long")
	case dueBody:
		c.checkBodyRate()
	case dueStall:
		c.checkStall()
	case dueClose:
		c.endPatience()
	case dueOwner:
		if c.peer != nil {
			c.peer.handler.OnTimer()
			c.afterWrite()
		}
	}
}

// endIdle closes a connection without a request. One that still reads its last
// answer is not idle.
func (c *Conn) endIdle() {
	switch {
	case c.phase != phaseHTTP || c.x != nil:
	case c.out.OwedBytes() > 0:
		c.setDeadline(dueIdle, IdleTimeout)
	default:
		c.w.stats.IdleTimeouts++
		c.close()
	}
}

// endPatience ends a connection that did not close in time. An HTTP answer is
// not cut while its reader makes progress.
func (c *Conn) endPatience() {
	if c.phase == phaseFlush && c.socket == nil {
		c.flush()
		if c.phase != phaseFlush {
			return
		}
		if taken := c.out.TakenBytes(); c.owes != nil && taken != c.owes.flushedAt {
			c.owes.flushedAt = taken
			c.setDeadline(dueClose, FlushTimeout)
			return
		}
	}
	if c.phase == phaseLinger {
		c.close()
		return
	}
	c.abort()
}

// progress is how far an output that owes something has come.
type progress struct {
	taken     int64 // bytes, when progress was last looked for
	unacked   int   // bytes, then
	at        time.Time
	flushedAt int64 // taken bytes when patience with a flush last began

	loans []loan // in output order
}

// loan is a body that was lent: see Exchange.Lend.
type loan struct {
	end     int64 // taken bytes when the kernel has all of it
	release func()
}

// repay gives back the bodies of which the kernel has all.
func (p *progress) repay(taken int64) {
	n := 0
	for ; n < len(p.loans) && p.loans[n].end <= taken; n++ {
		p.loans[n].release()
	}
	p.loans = slices.Delete(p.loans, 0, n)
}

// watchProgress returns what is known of the output's progress.
func (c *Conn) watchProgress() *progress {
	if c.owes == nil {
		c.owes = c.w.progresses.get()
	}
	return c.owes
}

func (c *Conn) dropProgress() {
	p := c.owes
	if p == nil {
		return
	}
	c.owes = nil
	p.repay(math.MaxInt64) // taken, or dropped with the output
	c.w.progresses.put(p)
}

// watchStall starts watching the output's progress.
func (c *Conn) watchStall() {
	if c.due[dueStall] != 0 {
		return
	}
	p := c.watchProgress()
	p.at, p.taken, p.unacked = c.w.loop.Now(), c.out.TakenBytes(), c.tr.UnackedBytes()
	c.setDeadline(dueStall, c.retryInterval())
}

// checkStall tries a plain write and ends a connection whose peer took nothing
// for StallTimeout. One that makes any progress is kept (R424).
func (c *Conn) checkStall() {
	if c.owed() == 0 {
		c.afterWrite() // a pass has sent the rest
		return
	}
	c.setDeadline(dueStall, c.retryInterval()) // also: it is being watched
	c.flush()
	if c.phase == phaseGone || c.owed() == 0 {
		return
	}
	now := c.w.loop.Now()
	taken, unacked := c.out.TakenBytes(), c.tr.UnackedBytes()
	p := c.watchProgress()
	if taken != p.taken || unacked < p.unacked {
		p.at = now
	}
	p.taken, p.unacked = taken, unacked
	if now.Sub(p.at) >= c.stallTimeout() {
		c.w.stats.Stalled++
		if c.peer != nil && c.phase < phaseFlush {
			c.peer.handler.Stalled()
		} else {
			c.abort()
		}
	}
}

// checkBodyRate cuts a body that trickles.
func (c *Conn) checkBodyRate() {
	if c.x == nil || !c.inBody() || c.phase != phaseHTTP {
		return
	}
	if n := c.x.windowBytes; n < c.x.leastBytes && (!c.w.stopping || n == 0) {
		c.w.stats.BodyTimeouts++
		c.refuse(408, "request body took too long")
		return
	}
	c.x.windowBytes = 0
	if c.w.stopping { // progress is enough, but it has to go on
		c.setDeadline(dueBody, stoppingHead/2)
		return
	}
	c.setDeadline(dueBody, c.x.window)
}
