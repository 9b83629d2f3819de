package serve

import (
	"net/netip"
	"slices"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
)

// Consumer is what an operator is told of one peer.
type Consumer struct {
	Remote    netip.AddrPort
	WebSocket bool
	fanout.State
	UnackedBytes int64
	Age          time.Duration
	Stalled      time.Duration // since it last took what it was owed, 0 if it is not
	// Filters are the canonical texts of its subscriptions' selectors.
	Filters []string
}

// maxFilters bounds how many selectors of one consumer are told.
const maxFilters = 4

// EachConsumer calls observe with the state of each peer, and returns the top
// ones that owe most bytes. It asks the kernel about those only. Loop only.
func (w *Worker) EachConsumer(top int, observe func(fanout.State)) []Consumer {
	type ranked struct {
		c     *Conn
		state fanout.State
	}
	var list []ranked
	bySize := func(a, b ranked) int { return int(min(max(b.state.QueuedBytes-a.state.QueuedBytes, -1), 1)) }
	for c := w.first; c != nil; c = c.next {
		if c.peer == nil {
			continue
		}
		s := c.peer.member.State()
		observe(s)
		if len(list) < top || s.QueuedBytes > list[len(list)-1].state.QueuedBytes {
			at, _ := slices.BinarySearchFunc(list, ranked{state: s}, bySize)
			list = slices.Insert(list, at, ranked{c, s})
			list = list[:min(len(list), top)]
		}
	}
	out := make([]Consumer, 0, len(list))
	for _, r := range list {
		out = append(out, r.c.consumer(r.state))
	}
	return out
}

func (c *Conn) consumer(s fanout.State) Consumer {
	now := c.w.loop.Now()
	out := Consumer{
		Remote: c.tr.RemoteAddr(), WebSocket: c.socket != nil, State: s,
		UnackedBytes: int64(c.tr.UnackedBytes()), Age: max(now.Sub(c.w.timeOf(c.opened)), 0),
	}
	if s.QueuedBytes > 0 && c.owes != nil {
		out.Stalled = now.Sub(c.owes.at)
	}
	c.peer.member.EachSub(func(sub *fanout.Sub) {
		if len(out.Filters) < maxFilters {
			out.Filters = append(out.Filters, sub.Selector.Canonical())
		}
	})
	return out
}
