package fanout_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/loop"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

// turner turns a loop on a goroutine of its own.
type turner struct {
	*loop.Loop
	set  *fanout.Set
	bell chan struct{}
	end  chan struct{}
}

func startTurner(t *testing.T, id int, log *stream.Log, buffers *session.Buffers, done *sync.WaitGroup) *turner {
	l := &turner{bell: make(chan struct{}, 1), end: make(chan struct{})}
	l.Loop = loop.New(id, loop.SystemClock{}, func(err error) { t.Error(err) })
	l.Bind(func() error { l.bell <- struct{}{}; return nil })
	l.set = fanout.NewSet(l.Loop, log, buffers, fanout.Limits{BatchBytes: 2000})
	done.Add(1)
	go func() {
		defer done.Done()
		for {
			select {
			case <-l.bell:
				l.Turn()
			case <-l.end:
				return
			}
		}
	}()
	return l
}

// counting is a socket that counts frames and tells when as many as it waits
// for have come.
type counting struct {
	simloop.Conn // for the frames of an owner; nothing else of it is used
	seen         atomic.Int64
	want         int64
	come         chan struct{}
}

func (c *counting) Write(p []byte) (int, error) {
	n := int64(bytes.Count(p, []byte{'['}))
	if before := c.seen.Add(n) - n; before < c.want && before+n >= c.want {
		close(c.come)
	}
	return len(p), nil
}

func (c *counting) WantWritable()              {}
func (c *counting) UnackedBytes() int          { return 0 }
func (c *counting) CloseWrite()                {}
func (c *counting) Abort()                     {}
func (c *counting) Close()                     {}
func (c *counting) StreamBuffers()             {}
func (c *counting) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }
func (c *counting) LocalAddr() netip.AddrPort  { return netip.AddrPort{} }

// TestDoorbellUnderLoad appends from several goroutines while loops of their
// own serve and subscriptions come, and expects each consumer to get each event
// once: nothing rings a loop for the last ones but the append itself.
//
// Two orders are at stake (architecture, section 5). A loop clears its pending
// flag before it reads the log's next position: with the two turned round in
// Loop.Turn this test stops within a few rounds, and loop.TestDoorbellOrder
// shows it without luck. A set becomes active before a subscription reads its
// first live position: turned round, an append in between rings nobody. That
// cannot be seen from here, because Subscribe rings the loop as well whenever
// its member can go on; the order is what keeps Reached honest for appenders.
func TestDoorbellUnderLoad(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		doorbellRound(t)
	}
}

func doorbellRound(t *testing.T) {
	const perWriter, writers = 300, 3
	log := stream.NewLog(4096, 1<<30)
	buffers := session.New(session.Config{EventsPerSession: 10_000, Sessions: 100}, log)
	var turning, working sync.WaitGroup
	var loops []*turner
	for i := range 2 {
		loops = append(loops, startTurner(t, i, log, buffers, &turning))
	}
	put := func(name string, w int, seq int64) {
		ev := &simloop.Event{Session: fmt.Sprint("s", w), Seq: stream.Sequence{Seq: seq}, Name: name}
		buffers.Put(ev.Entry(), ev.Key())
		for _, l := range loops {
			if l.set.Active() {
				l.Ring()
			}
		}
	}
	var conns []*counting
	for i := range 8 {
		c := &counting{want: 1 + writers*perWriter + 1, come: make(chan struct{})}
		conns = append(conns, c)
		l := loops[i%2]
		working.Go(func() {
			for range i * 20 {
				_ = l.Turns() // some time
			}
			_ = l.Post(func() {
				c.Out.Init(c)
				c.Member = l.set.NewMember(&c.Out, c, false)
				c.Member.Subscribe(subscription(t, "a", "all"), fanout.Plan{All: true}, []byte("[subscribed a]"))
			})
		})
	}
	for w := range writers {
		working.Go(func() {
			for i := range int64(perWriter) {
				put(fmt.Sprintf("w%d-%d", w, i), w, i)
			}
		})
	}
	working.Wait()
	put("last", 9, 1)
	for i, c := range conns {
		select {
		case <-c.come:
		case <-time.After(time.Minute):
			t.Fatalf("consumer %d got %d frames of %d", i, c.seen.Load(), c.want)
		}
	}
	for _, l := range loops {
		close(l.end)
	}
	turning.Wait()
	for i, c := range conns {
		if n := c.seen.Load(); n != c.want {
			t.Errorf("consumer %d got %d frames, want %d", i, n, c.want)
		}
	}
}
