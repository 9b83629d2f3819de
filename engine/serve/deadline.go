package serve

import "time"

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

// setDeadline makes k due after d. The shared timer is only moved when it would
// fire too late, so that deadlines which are set again and again cost little.
func (c *Conn) setDeadline(k dueKind, d time.Duration) {
	now := c.w.loop.Now()
	at := max(now.Sub(c.epoch)+d, 1)
	c.due[k] = at
	if !c.timer.Scheduled() || at < c.nextDue(k) {
		c.w.loop.Schedule(&c.timer, now.Add(d))
	}
}

// hasten makes k due after d, unless it is due earlier.
func (c *Conn) hasten(k dueKind, d time.Duration) {
	if at := c.due[k]; at == 0 || c.w.loop.Now().Sub(c.epoch)+d < at {
		c.setDeadline(k, d)
	}
}

// nextDue returns the earliest deadline other than k.
func (c *Conn) nextDue(k dueKind) time.Duration {
	next := time.Duration(1<<63 - 1)
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
	now := c.w.loop.Now().Sub(c.epoch)
	for k := range dueKinds {
		if at := c.due[k]; at != 0 && at <= now {
			c.due[k] = 0
			c.onDue(k)
			if c.phase == phaseGone {
				return
			}
		}
	}
	if next := c.nextDue(dueKinds); next != 1<<63-1 {
		c.w.loop.Schedule(&c.timer, c.epoch.Add(next))
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
		if taken := c.out.TakenBytes(); taken != c.flushedAt {
			c.flushedAt = taken
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

// watchStall starts watching the output's progress.
func (c *Conn) watchStall() {
	if c.due[dueStall] != 0 {
		return
	}
	c.progressAt = c.w.loop.Now()
	c.stalledAt, c.stalledQueue = c.out.TakenBytes(), c.tr.UnackedBytes()
	c.setDeadline(dueStall, RetryInterval)
}

// checkStall tries a plain write and ends a connection whose peer took nothing
// for StallTimeout. One that makes any progress is kept (R424).
func (c *Conn) checkStall() {
	if c.owed() == 0 {
		c.afterWrite() // a pass has sent the rest
		return
	}
	c.setDeadline(dueStall, RetryInterval) // also: it is being watched
	c.flush()
	if c.phase == phaseGone || c.owed() == 0 {
		return
	}
	now := c.w.loop.Now()
	unacked := c.tr.UnackedBytes()
	if c.out.TakenBytes() != c.stalledAt || unacked < c.stalledQueue {
		c.progressAt = now
	}
	c.stalledAt, c.stalledQueue = c.out.TakenBytes(), unacked
	if now.Sub(c.progressAt) >= StallTimeout {
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
	if c.x == nil || !c.parser.InBody() || c.phase != phaseHTTP {
		return
	}
	if c.bodyBytes < BodyWindowBytes && (!c.w.stopping || c.bodyBytes == 0) {
		c.w.stats.BodyTimeouts++
		c.refuse(408, "request body took too long")
		return
	}
	c.bodyBytes = 0
	if c.w.stopping { // progress is enough, but it has to go on
		c.setDeadline(dueBody, stoppingHead/2)
		return
	}
	c.setDeadline(dueBody, BodyWindow)
}
