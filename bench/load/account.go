//go:build linux

package load

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxGaps bounds the gaps that are remembered in a run. What comes late from
// one that is not counts as repeated.
const maxGaps = 1 << 20

// read reads a consumer's socket once. It is read again in the next turn if
// this leaves bytes behind, or if an end may stand behind the bytes: epoll will
// not tell of either again (L4).
func (c *Client) read(cn *consumer, key int32, events uint32) {
	n, e := rawRead(int(cn.fd), c.buf)
	if e == syscall.EAGAIN {
		return
	}
	if e != 0 || n == 0 {
		c.lose(cn, key)
		return
	}
	alive := c.take(cn, key, c.buf[:n], now())
	if alive && (n == len(c.buf) || events&ended != 0) {
		c.again = append(c.again, unix.EpollEvent{Fd: key, Events: events})
	}
}

// takeHello accounts for the bytes that came behind the handshake, and has the
// socket read to its end.
func (c *Client) takeHello(cn *consumer, key int32, at int64) {
	h := cn.hello
	cn.hello = nil
	if c.take(cn, key, h.buf[h.head:], at) {
		c.again = append(c.again, unix.EpollEvent{Fd: key, Events: ended})
	}
}

// take accounts for bytes that a consumer received at a time. It reports
// whether the connection still stands.
func (c *Client) take(cn *consumer, key int32, b []byte, at int64) bool {
	r, cl, f := c.run, &c.classes[cn.class], &c.found
	f.reset()
	err := cn.parser.parse(cl.Kind, b, &cl.shape, f)
	if r.measuring {
		r.out.Bytes += int64(len(b))
	}
	r.out.Other += f.other
	r.out.Corrupt += f.corrupt
	r.deliver(cn, cl, key, f.numbers, at)
	if err != nil {
		if err != errClosed {
			r.out.Corrupt++
		}
		c.lose(cn, key)
		return false
	}
	if len(f.replies) > 0 {
		_, _ = rawWrite(int(cn.fd), f.replies)
	}
	return true
}

// deliver accounts for the events that one read brought.
func (r *run) deliver(cn *consumer, cl *class, key int32, numbers []int64, at int64) {
	for _, n := range numbers {
		i := n - int64(r.span.low)
		if uint64(i) >= uint64(r.published) || int64(cl.owed.at(int(cn.next))) != n {
			r.mismatch(cn, cl, key, int(n), at)
			continue
		}
		cn.next++
		r.arrived(int(i), at)
		if r.missing[i]--; r.missing[i] == 0 {
			r.landed(int(i), at)
		}
	}
}

// arrived measures one delivery.
func (r *run) arrived(i int, at int64) {
	if i >= r.measureFrom {
		r.out.Latency.record(at - r.intended[i])
		r.last = at
	}
}

// landed takes an event out of flight.
func (r *run) landed(i int, at int64) {
	r.inFlight--
	r.room = true
	if i >= r.measureFrom && !r.flawed[i] {
		r.out.LastLatency.record(at - r.intended[i])
	}
}

// miss accounts for a delivery that will not come.
func (r *run) miss(i int) {
	r.flawed[i] = true
	if r.missing[i]--; r.missing[i] == 0 && i < r.published {
		r.landed(i, 0)
	}
}

// mismatch accounts for an event that is not the next one of its consumer's
// list.
func (r *run) mismatch(cn *consumer, cl *class, key int32, n int, at int64) {
	o := &cl.owed
	k, listed := o.index(n)
	switch {
	case n < r.span.low, !o.selected && n < o.first:
		r.out.Repeated++ // before its resume position, or of an earlier run
	case !listed, n >= r.span.low+r.published:
		r.out.Foreign++
	case k > int(cn.next):
		from := cn.next
		for ; int(cn.next) < k; cn.next++ {
			r.out.Lost++
			r.miss(o.at(int(cn.next)) - r.span.low)
		}
		if r.gapCount < maxGaps {
			r.gapCount++
			r.gaps[key] = append(r.gaps[key], [2]int32{from, cn.next})
		}
		r.deliver(cn, cl, key, []int64{int64(n)}, at)
	default:
		g := r.gaps[key]
		if !g.take(int32(k)) {
			r.out.Repeated++
			return
		}
		r.gaps[key] = g
		r.out.Lost--
		r.out.Disordered++
		r.arrived(n-r.span.low, at)
	}
}

// lose closes a consumer that lost its connection. What it has not received is
// not awaited any more; finish counts it as lost.
func (c *Client) lose(cn *consumer, key int32) {
	r, o := c.run, &c.classes[cn.class].owed
	_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, int(cn.fd), nil)
	c.reset(cn)
	r.out.ConnsLost++
	// cn.next stays, so that finish sees what is owed.
	for k := int(cn.next); k < o.count(); k++ {
		r.miss(o.at(k) - r.span.low)
	}
	delete(r.gaps, key)
}
