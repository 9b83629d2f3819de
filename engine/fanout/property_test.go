package fanout_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/simloop"
	"github.com/sluice-relay/sluice/engine/stream"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run only the property case with this seed")
	timeFlag = flag.Duration("property-time", 2*time.Second, "how long to run random property cases")
)

// op is one step of a random run. Its numbers are read modulo what there is, so
// that any list of ops is a run, and ops can be taken out of it.
type op struct {
	kind       int
	a, b, c, d int
}

// opKinds are the steps, as often as their weight.
var opKinds = []struct {
	weight int
	name   string
	do     func(*run, op)
}{
	{40, "append", (*run).append},
	{8, "subscribe", (*run).subscribe},
	{4, "unsubscribe", (*run).unsubscribe},
	{5, "reply", (*run).reply},
	{3, "urgent", (*run).urgent},
	{12, "room", func(r *run, o op) { r.conn(o).Socket.Room(o.b % 400) }},
	{2, "room all", func(r *run, o op) { r.conn(o).Socket.Room(simloop.Unlimited) }},
	{3, "stall", func(r *run, o op) { r.conn(o).Socket.Stall() }},
	{10, "poll", func(r *run, o op) { r.loop(o).Poll() }},
	{22, "turn briefly", func(r *run, o op) { r.loop(o).Turn(1 + o.b%4) }},
	{5, "turn", func(r *run, o op) { r.loop(o).Turn(0) }},
	{1, "stop", (*run).stop},
	{1, "close", func(r *run, o op) { r.conn(o).Close() }},
	{1, "reset", func(r *run, o op) { r.conn(o).Socket.Reset() }},
	{3, "connect", func(r *run, o op) { r.connect(o) }},
}

// shape is the size of everything in a run.
type shape struct {
	cfg     simloop.Config
	names   int  // of sessions
	first   int  // connections at the beginning
	tagged  bool // several subscriptions a connection, told apart by form
	fragile bool // selectors that panic, and events that make them
}

// newShape draws a shape.
func newShape(rng *rand.Rand) shape {
	pick := func(values ...int) int { return values[rng.IntN(len(values))] }
	soft := pick(200, 500, 2000, 1<<20)
	return shape{
		cfg: simloop.Config{
			Loops: 1 + rng.IntN(3),
			Limits: fanout.Limits{
				SoftBytes:   int64(soft),
				HardBytes:   int64(soft * pick(1, 2, 4, 100)),
				BatchBytes:  pick(50, 300, 1000, 128<<10),
				LagBytes:    pick(50, 200, 1000, 16<<10),
				WindowBytes: pick(50, 200, 1000, 256<<10),
				LookWrites:  pick(1, 1, 2, 32),
			},
			LogEntries: pick(32, 256, 4096, 4096, 4096),
			Buffers: session.Config{
				EventsPerSession: pick(3, 10, 4096, 4096),
				Sessions:         pick(2, 4, 100, 100),
			},
		},
		names:   1 + rng.IntN(8),
		first:   1 + rng.IntN(10),
		tagged:  rng.IntN(3) > 0,
		fragile: rng.IntN(8) == 0,
	}
}

// newOps draws the steps of a run.
func newOps(rng *rand.Rand) []op {
	var deck []int
	for i, k := range opKinds {
		for range k.weight {
			deck = append(deck, i)
		}
	}
	ops := make([]op, 50+rng.IntN(500))
	for i := range ops {
		n := func() int { return rng.IntN(1 << 20) }
		ops[i] = op{deck[rng.IntN(len(deck))], n(), n(), n(), n()}
	}
	return ops
}

// run is one run under way.
type run struct {
	shape
	*model
	highest []int64 // sequence per session
	past    []*simloop.Event
}

// play runs ops and checks what came of them.
func play(sh shape, ops []op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	r := &run{shape: sh, highest: make([]int64, sh.names)}
	r.model = &model{
		engine: simloop.New(sh.cfg), byName: map[string]*stream.Entry{},
		hard: sh.cfg.Limits.HardBytes,
	}
	for i := range sh.first {
		r.connect(op{a: i, b: 7 * i})
	}
	for _, o := range ops {
		opKinds[o.kind].do(r, o)
	}
	return r.finish()
}

// finish lets every peer take what it is owed and checks everything.
func (r *run) finish() error {
	for _, c := range r.conns {
		c.Socket.Room(simloop.Unlimited)
	}
	if err := r.engine.Settle(100_000); err != nil {
		return err
	}
	if n := r.engine.Panics(); n > 0 && !r.fragile {
		return fmt.Errorf("%d panics", n)
	}
	held := r.held()
	for i, c := range r.conns {
		if err := r.verify(c, held); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if c.Socket.Misuse > 0 {
			return fmt.Errorf("connection %d: %d writes to a socket that is gone", i, c.Socket.Misuse)
		}
	}
	return nil
}

func (r *run) loop(o op) *simloop.Loop { return r.engine.Loops[o.a%len(r.engine.Loops)] }

func (r *run) conn(o op) *modelConn { return r.conns[o.a%len(r.conns)] }

// peer returns a connection that can still ask for something, or nil.
func (r *run) peer(o op) *modelConn {
	if c := r.conn(o); !c.Ended() && !c.stopped && !c.Socket.Gone() {
		return c
	}
	return nil
}

func (r *run) connect(o op) {
	if len(r.conns) >= 20 {
		return
	}
	room := []int{simloop.Unlimited, simloop.Unlimited, 0, 100, 500}[o.b%5]
	finite := !r.tagged && o.c%6 == 5
	c := &modelConn{finite: finite}
	c.Conn = r.engine.Connect(fmt.Sprintf("c%d", len(r.conns)), o.a%len(r.engine.Loops), room, finite)
	c.OnCut = func(fanout.Cut) { c.oldest = r.engine.Log.Oldest() }
	r.conns = append(r.conns, c)
}

// append adds an event: in order, far ahead, late, or one that was there.
func (r *run) append(o op) {
	i := o.a % r.names
	ev := &simloop.Event{
		Session:  fmt.Sprintf("s%d", i),
		Name:     fmt.Sprintf("n%d", len(r.entries)),
		Severity: simloop.Severity(o.c % 4),
		Bytes:    20 + o.d%150,
		Attrs:    []string{fmt.Sprintf("k=%d", o.d%3)},
	}
	switch kind := o.b % 20; {
	case kind == 0 && len(r.past) > 0:
		old := r.past[o.c%len(r.past)]
		ev.Session, ev.Seq, ev.ID = old.Session, old.Seq, old.Name
	case kind == 1:
		r.highest[i] += 5
		ev.Seq.Seq = r.highest[i]
	case kind <= 3:
		ev.Seq.Seq = int64(o.c) % (r.highest[i] + 1)
	default:
		r.highest[i]++
		ev.Seq.Seq = r.highest[i]
	}
	if r.fragile && o.c%40 == 7 {
		ev.Attrs = append(ev.Attrs, "boom=1")
	}
	e := r.engine.Append(ev)
	r.past = append(r.past, ev)
	r.entries = append(r.entries, e)
	r.byName[ev.Name] = e
}

var filters = []string{
	"all", "all", "session:s0", "session:s0|s1", "attr:k=1", "sev:notice",
	"session:s1&attr:k=2|k=0", "session:s0", "all&panic:boom=1", "session:s0&panic:boom=1",
}

func (r *run) subscribe(o op) {
	c := r.peer(o)
	if c == nil || c.finite && len(c.subs) > 0 {
		return
	}
	n := len(filters)
	if !r.fragile {
		n -= 2
	}
	selector, err := simloop.ParseFilter(filters[o.b%n])
	if err != nil {
		panic(err)
	}
	sub := &fanout.Sub{ID: "a", Selector: selector, Track: o.c%7 > 0}
	if r.tagged {
		slot := o.c % 4
		generation := 0
		sub.ID = string(rune('a' + slot))
		for _, s := range c.subs {
			if s.sub.ID == sub.ID {
				generation++
			}
		}
		sub.Form = stream.Form(1 + slot*3 + generation%3)
	}
	r.model.subscribe(c, sub, r.plan(o))
}

// plan draws what to replay: nothing, all, or some sessions from some place.
func (r *run) plan(o op) (p fanout.Plan) {
	switch o.d % 4 {
	case 0:
	case 1:
		p.All = true
	default:
		for i := range r.names {
			if o.c>>i&1 == 1 {
				at := int64(o.b>>(i%4))%(r.highest[i]+2) - 1
				p.From = append(p.From, fanout.From{Session: fmt.Sprintf("s%d", i), After: stream.Sequence{Seq: at}})
			}
		}
	}
	return p
}

func (r *run) unsubscribe(o op) {
	if c := r.peer(o); c != nil && !c.finite {
		r.model.unsubscribe(c, string(rune('a'+o.b%4)))
	}
}

func (r *run) reply(o op) {
	if c := r.peer(o); c != nil && !c.finite {
		r.model.reply(c)
	}
}

func (r *run) urgent(o op) {
	if c := r.peer(o); c != nil {
		text := fmt.Sprintf("[urgent %d]", c.urgents)
		if c.Member.Urgent([]byte(text)) {
			c.urgents++
		}
	}
}

func (r *run) stop(o op) {
	if c := r.peer(o); c != nil {
		r.model.stop(c)
	}
}

var rule = regexp.MustCompile(`\b[RS][0-9]+:|panic`)

// shrink takes ops out of a run that fails, as long as it goes on failing for
// the same rule.
func shrink(sh shape, ops []op, broken error) []op {
	kind := func(err error) string { return rule.FindString(strings.TrimPrefix(err.Error(), "connection")) }
	for size := len(ops) / 2; size > 0; {
		taken := false
		for at := 0; at+size <= len(ops); {
			fewer := append(append([]op(nil), ops[:at]...), ops[at+size:]...)
			if err := play(sh, fewer); err != nil && kind(err) == kind(broken) {
				ops, taken = fewer, true
			} else {
				at += size
			}
		}
		if !taken {
			size /= 2
		}
	}
	return ops
}

// report describes a run that fails.
func report(t *testing.T, seed uint64, sh shape, ops []op, err error) {
	t.Helper()
	ops = shrink(sh, ops, err)
	var text strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&text, "  %-14s %d %d %d %d\n", opKinds[o.kind].name, o.a, o.b, o.c, o.d)
	}
	t.Fatalf("seed %d (go test -run TestProperty -seed %d): %v\n%+v\nshrunk to %d steps:\n%s%v",
		seed, seed, err, sh, len(ops), &text, play(sh, ops))
}

// TestProperty runs random interleavings of everything that can happen and
// compares what the peers received with a naive model: every selected entry
// exactly once and in order, replay before live, or a gap, a shed notice, or a
// cut with the positions that the peer really has (S2, P1, R192, R193, R329,
// R420 to R430).
func TestProperty(t *testing.T) {
	if *seedFlag != 0 {
		playSeed(t, *seedFlag)
		return
	}
	end := time.Now().Add(*timeFlag)
	first := rand.Uint64() >> 16
	for n := uint64(1); n <= 100 || time.Now().Before(end); n++ {
		playSeed(t, first+n)
	}
}

func playSeed(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	sh, ops := newShape(rng), newOps(rng)
	if err := play(sh, ops); err != nil {
		report(t, seed, sh, ops, err)
	}
}
