package fanout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

// subscription returns a tracked subscription.
func subscription(t testing.TB, id, filter string) *fanout.Sub {
	t.Helper()
	selector, err := simloop.ParseFilter(filter)
	if err != nil {
		t.Fatal(err)
	}
	return &fanout.Sub{ID: id, Selector: selector, Track: true}
}

func settle(t testing.TB, e *simloop.Engine) {
	t.Helper()
	if err := e.Settle(1_000_000); err != nil {
		t.Fatal(err)
	}
}

// frameTexts returns what a connection has received since the last call.
func frameTexts(t testing.TB, c *simloop.Conn) (all []string) {
	t.Helper()
	frames, _, err := c.Frames()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		all = append(all, f.Text())
	}
	return all
}

// event returns an event of session s, with a frame of 100 bytes.
func event(session string, seq int64) *simloop.Event {
	return &simloop.Event{
		Session: session, Seq: stream.Sequence{Seq: seq}, Name: fmt.Sprint("n", seq),
		Severity: simloop.Notice, Bytes: 100,
	}
}

// TestLaggardsShareBatches: laggards that start at the same record are given
// the same batch; one that starts elsewhere, and one for which something was
// shed, are not.
func TestLaggardsShareBatches(t *testing.T) {
	e := simloop.New(simloop.Config{Limits: fanout.Limits{LagBytes: 250, SoftBytes: 700}})
	var conns []*simloop.Conn
	for i := range 5 {
		c := e.Connect(fmt.Sprint("c", i), 0, 50, false)
		c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
		conns = append(conns, c)
	}
	settle(t, e)
	conns[3].Socket.Room(100) // takes the first event whole, and lags from the second
	for seq := range int64(8) {
		ev := event("s1", seq)
		if seq == 4 {
			ev.Severity = simloop.Info
			conns[4].Urgent(strings.Repeat("x", 400)) // over SOFT for it alone
		}
		e.Append(ev)
		settle(t, e)
	}
	if n := e.Sets[0].Stats().Shed; n != 1 || conns[0].Member.Lagging() != 5 {
		t.Fatalf("%d events were shed, want 1; %d members lag", n, conns[0].Member.Lagging())
	}
	for i, c := range conns {
		c.Socket.Room(100) // what is owed of the first event, and part of a batch
		if i == 4 {
			c.Socket.Room(len("[urgent ]") + 400)
		}
	}
	settle(t, e)
	batch := func(i int) *fanout.Batch { return conns[i].Member.OwedBatches()[0] }
	if batch(0) != batch(1) || batch(1) != batch(2) {
		t.Error("laggards that stand at the same record have batches of their own")
	}
	if batch(3) == batch(0) {
		t.Error("a laggard that stands elsewhere shares")
	}
	if batch(4) == batch(0) {
		t.Error("a laggard for which something was shed shares")
	}
	conns[2].Unsubscribe("a")
	if n := conns[0].Member.Lagging(); n != 4 {
		t.Errorf("%d members lag after one of five has left", n)
	}
	for i, c := range conns {
		c.Socket.Room(simloop.Unlimited)
		settle(t, e)
		got := slices.DeleteFunc(frameTexts(t, c), func(s string) bool { return s[:4] != "[s1 " })
		want := 8
		if i == 4 {
			want = 7
		}
		if len(got) != want || got[0] != "[s1 0:0 n0]" {
			t.Errorf("c%d got %v", i, got)
		}
	}
	if n := conns[0].Member.Lagging(); n != 0 {
		t.Errorf("%d members lag when all is done", n)
	}
}

// TestLongQueue: a queue of many passes that is taken and filled by turns
// loses nothing and repeats nothing.
func TestLongQueue(t *testing.T) {
	e := simloop.New(simloop.Config{Limits: fanout.Limits{LagBytes: 150}})
	c := e.Connect("c", 0, 20, false)
	c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
	settle(t, e)
	var got []string
	seq := int64(0)
	for _, step := range []struct{ events, room int }{{200, 15_000}, {100, 7_000}, {5, 2_000}, {60, simloop.Unlimited}} {
		for range step.events {
			e.Append(event("s1", seq))
			settle(t, e)
			seq++
		}
		c.Socket.Room(step.room)
		settle(t, e)
		got = append(got, frameTexts(t, c)...)
	}
	if len(got) != int(seq)+1 {
		t.Fatalf("%d events of %d", len(got)-1, seq)
	}
	for i, text := range got[1:] {
		if want := fmt.Sprintf("[s1 0:%d n%d]", i, i); text != want {
			t.Fatalf("event %d is %s", i, text)
		}
	}
}

// growing appends to the log while it is asked, as another loop may.
type growing struct {
	simloop.Selector
	when func() bool
	grow func()
}

func (g *growing) Match(e stream.Event) bool {
	if g.when() {
		g.grow()
	}
	return true
}

func (g *growing) Candidates() [][]uint64 { return nil }

func (g *growing) Canonical() string { return "growing" }

// TestOverrunInsidePass: the log overtakes a loop in the middle of reading it.
// What was read is delivered, and the positions at the cut are right (R423,
// R430).
func TestOverrunInsidePass(t *testing.T) {
	for _, catchUp := range []bool{false, true} {
		e := simloop.New(simloop.Config{LogEntries: 8})
		room := simloop.Unlimited
		if catchUp {
			room = 5 // of its acknowledgement: it stays behind
		}
		c := e.Connect("c", 0, room, false)
		asked, due := 0, 3
		if catchUp {
			due++ // skimming asks once for the first entry that is owed
		}
		selector := &growing{
			when: func() bool { asked++; return asked == due },
			grow: func() {
				for i := range int64(20) {
					e.Append(event("s2", i))
				}
			},
		}
		c.Subscribe(&fanout.Sub{ID: "a", Selector: selector, Track: true}, fanout.Plan{})
		settle(t, e)
		for i := range int64(6) {
			e.Append(event("s1", i))
		}
		if catchUp {
			e.Loops[0].Turn(0) // the loop passes, the member does not
			c.Socket.Room(simloop.Unlimited)
		}
		settle(t, e)
		got := frameTexts(t, c)
		want := []string{"[subscribed a]", "[s1 0:0 n0]", "[s1 0:1 n1]", "[s1 0:2 n2]", "[closing log-overrun]"}
		if !slices.Equal(got, want) {
			t.Errorf("catching up %v: got %v, want %v", catchUp, got, want)
		}
		if err := compareTexts("delivered", positionTexts(c.Delivered), []string{"a/s1@0:2"}); err != nil {
			t.Error(err)
		}
	}
}

// TestPanickingOwner: an owner that panics when it is told of its cut disturbs
// nobody else.
func TestPanickingOwner(t *testing.T) {
	e := simloop.New(simloop.Config{LogEntries: 8})
	var conns []*simloop.Conn
	for i := range 3 {
		c := e.Connect(fmt.Sprint("c", i), 0, simloop.Unlimited, false)
		c.Subscribe(subscription(t, "a", "all&panic:k=bad"), fanout.Plan{})
		conns = append(conns, c)
	}
	other := e.Connect("other", 0, simloop.Unlimited, false)
	other.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
	settle(t, e)
	conns[0].OnCut = func(fanout.Cut) { panic("owner") }
	ev := event("s1", 1)
	ev.Attrs = []string{"k=bad"}
	e.Append(ev)
	settle(t, e)
	if conns[1].Reason != fanout.CutPanic || conns[2].Reason != fanout.CutPanic {
		t.Error("members of the group were not cut")
	}
	if got := frameTexts(t, other); len(got) != 2 {
		t.Errorf("another group got %v", got)
	}
	if e.Panics() != 2 {
		t.Errorf("%d panics", e.Panics())
	}
}

// TestSendBorrowed: what the kernel does not take of a borrowed frame is copied.
func TestSendBorrowed(t *testing.T) {
	e := simloop.New(simloop.Config{})
	c := e.Connect("c", 0, 4, false)
	frame := []byte("[reply borrowed]")
	c.Out.SendBorrowed(frame)
	copy(frame, "[reply mangled!]")
	c.Out.SendBorrowed(frame)
	copy(frame, "................")
	if c.Out.OwedBytes() != 28 || c.Out.TakenBytes() != 4 {
		t.Errorf("%d owed, %d taken", c.Out.OwedBytes(), c.Out.TakenBytes())
	}
	c.Socket.Room(simloop.Unlimited)
	settle(t, e)
	want := []string{"[reply borrowed]", "[reply mangled!]"}
	if got := frameTexts(t, c); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestBatchesReturn: batches of a loop return to its free list, also when their
// bytes went out by halves or their members went away.
func TestBatchesReturn(t *testing.T) {
	e := simloop.New(simloop.Config{})
	var conns []*simloop.Conn
	for i := range 4 {
		c := e.Connect(fmt.Sprint("c", i), 0, 20+150*i, false)
		c.Subscribe(subscription(t, "a", "all"), fanout.Plan{})
		conns = append(conns, c)
	}
	settle(t, e)
	e.Append(event("s1", 1))
	e.Append(event("s1", 2))
	settle(t, e)
	conns[1].Close()
	conns[2].Socket.Reset()
	settle(t, e)
	if n := e.Sets[0].Spare(); n != 0 {
		t.Errorf("%d batches are free while one is owed", n)
	}
	conns[0].Socket.Room(simloop.Unlimited)
	settle(t, e)
	if n := e.Sets[0].Spare(); n != 1 {
		t.Errorf("%d batches are free, want 1", n)
	}
}
