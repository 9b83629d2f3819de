package firehose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	codec "github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/engine/stream"
	"github.com/sluice-relay/sluice/internal/relaytest"
)

// modelFrame is a published frame as the model knows it.
type modelFrame struct {
	seq  int64
	kind uint8
	size int64 // bytes on the wire
}

// modelConsumer is what a model says that one consumer gets.
type modelConsumer struct {
	*wire
	c     *consumer // nil once it was ended or has left
	name  string
	first int // index of the first frame that it gets, in model.frames
	info  bool
	excl  stream.Kinds
	head  int64 // bytes before the first frame
	slow  int   // frames that it was given before it was too slow, or -1
	left  bool
}

// model runs a surface beside a naive model of the contract.
type model struct {
	*loopRig
	rnd    *rand.Rand
	frames []modelFrame
	all    []*modelConsumer
	slow   int64
}

// F19 to F24, F29 to F35, F37, F38: any sequence of publishes, partial writes,
// joins and leaves gives each consumer a gapless run of what it does not
// exclude, or tells it what is missing exactly when that is so.
func TestDeliveryModel(t *testing.T) {
	rounds := uint64(150)
	if testing.Short() {
		rounds = 20
	}
	slow, informed := int64(0), 0
	for seed := range rounds {
		m := newModel(t, seed)
		for range 250 {
			m.act()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		m.end()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		slow += m.slow
		for _, c := range m.all {
			if c.info {
				informed++
			}
		}
	}
	if slow < 10 || informed == 0 {
		t.Errorf("%d consumers were too slow and %d told of an old cursor: the runs prove too little", slow, informed)
	}
}

func newModel(t *testing.T, seed uint64) *model {
	rnd := rand.New(rand.NewPCG(seed, 7))
	cfg := rigConfig{Loops: 1 + rnd.IntN(2), Settings: DefaultSettings(), Reserved: rnd.Int64N(2) * 50}
	cfg.Settings.ReplayFrames = 2 + rnd.IntN(12)
	cfg.Settings.ReplayBytes = int64(200 + rnd.IntN(3000))
	cfg.Settings.PingInterval, cfg.Settings.WriteTimeout = 1e6*step, 1e6*step
	return &model{loopRig: newLoopRig(t, cfg), rnd: rnd}
}

// act does one thing at random and then compares.
func (m *model) act() {
	switch n := m.rnd.IntN(20); {
	case n < 9:
		for range 1 + m.rnd.IntN(3) {
			m.publishOne()
			if m.rnd.IntN(3) > 0 {
				m.run()
			}
		}
	case n < 12 && len(m.all) < 30:
		m.join()
	case n < 17 && len(m.all) > 0:
		c := m.all[m.rnd.IntN(len(m.all))]
		switch m.rnd.IntN(4) {
		case 0:
			c.Stall()
		case 1:
			c.Room(-1)
		default:
			c.Room(m.rnd.IntN(400))
		}
	case n < 18 && len(m.all) > 0:
		m.leave(m.all[m.rnd.IntN(len(m.all))])
	default:
		m.run()
		m.surface.Tick()
		m.run()
		m.surface.Tick()
		m.tidy()
	}
	m.run()
	m.compare()
}

// publishOne publishes a frame. Frames that somebody needs go only past twice a
// bound (F31).
func (m *model) publishOne() {
	kind := uint8(m.rnd.IntN(4))
	if m.rnd.IntN(2) == 0 {
		kind = KindCommit
	}
	needed := m.lowestNeeded()
	seq := m.put(kind, m.rnd.IntN(300))
	f := modelFrame{seq: seq, kind: kind}
	var one [1]*stream.Frame
	if _, _, err := m.ring.Fetch(m.ring.Next()-1, one[:], 0); err != nil {
		m.t.Fatal("F29: the newest frame is not held")
	}
	f.size = int64(len(one[0].Bytes))
	m.frames = append(m.frames, f)
	frames, bytes := m.ring.Held()
	bounds := m.surface.cfg
	gone := len(m.frames) - frames - 1 // the last one that went
	if gone >= 0 && gone >= needed &&
		frames+1 <= 2*bounds.ReplayFrames && bytes+m.frames[gone].size <= 2*bounds.ReplayBytes {
		m.t.Errorf("F31: frame %d went at %d frames of %d bytes, and frame %d is needed", m.frames[gone].seq, frames, bytes, m.frames[needed].seq)
	}
	if frames > 2*bounds.ReplayFrames || bytes > 2*bounds.ReplayBytes && frames > 1 {
		m.t.Errorf("F37: %d frames of %d bytes are held", frames, bytes)
	}
}

// next returns the index of the first frame from i on that c gets.
func (m *model) next(c *modelConsumer, i int) int {
	for i < len(m.frames) && c.excl&stream.KindsOf(m.frames[i].kind) != 0 {
		i++
	}
	return i
}

// lowestNeeded returns the lowest index that a consumer has yet to send, as the
// loops knew at their last pass, or a later one.
func (m *model) lowestNeeded() int {
	lowest := len(m.frames)
	for _, c := range m.all {
		if c.c != nil && !c.c.peer.Gone() {
			i, _ := m.given(c)
			lowest = min(lowest, m.next(c, i))
		}
	}
	return lowest
}

// given returns the index behind the last frame that was handed to the socket of
// c, and the size of that.
func (m *model) given(c *modelConsumer) (index int, size int64) {
	bytes := c.c.peer.TakenBytes() + c.c.peer.QueuedBytes() - c.head
	for i := m.next(c, c.first); bytes > 0; i = m.next(c, i+1) {
		if i == len(m.frames) {
			m.t.Fatalf("%s: it was given %d bytes too many", c.name, bytes)
		}
		size = m.frames[i].size
		bytes -= size
		index = i + 1
	}
	if bytes < 0 {
		m.t.Fatalf("%s: F30: it was not given whole frames: %d", c.name, bytes)
	}
	return max(index, c.first), size
}

func (m *model) join() {
	last, outdated := m.ring.Numbers()
	cursor := int64(-1)
	switch m.rnd.IntN(5) {
	case 0:
	case 1:
		cursor = 0
	default:
		cursor = m.rnd.Int64N(last + 3)
	}
	c := &modelConsumer{slow: -1, excl: stream.Kinds(m.rnd.IntN(16))}
	if m.rnd.IntN(2) == 0 {
		c.excl = 0
	}
	var params []string
	if cursor >= 0 {
		params = append(params, fmt.Sprintf("cursor=%d", cursor))
	}
	for kind := range codec.KindInfo {
		if c.excl&stream.KindsOf(kind) != 0 {
			params = append(params, "exclude="+codec.KindName(kind))
		}
	}
	query := strings.Join(params, "&")
	loop := m.rnd.IntN(len(m.loops))
	c.name = fmt.Sprintf("consumer %d, loop %d, %s, L %d, E %d", len(m.all), loop, query, last, outdated)
	c.wire = m.dial(loop)
	before := len(m.all)
	c.send(handshake(query))
	c.head = int64(strings.Index(string(c.Received()), "\r\n\r\n") + 4)
	c.upgraded()
	held, _ := m.ring.Held()
	oldest := len(m.frames) - held
	switch {
	case cursor > last: // F23
		m.run()
		c.want(c.name, futureEnd...)
		c.Reset()
		return
	case cursor < 0, cursor == last && cursor > 0: // F19, F21
		c.first = len(m.frames)
	case cursor < outdated || cursor == 0: // F20, F22
		c.first, c.info = oldest, outdated > 0
	default:
		c.first = oldest
		for c.first < len(m.frames) && m.frames[c.first].seq <= cursor {
			c.first++
		}
	}
	if c.info {
		in := c.Received()[c.read:]
		size, head := frameLen(in)
		c.head += int64(size + head)
	}
	c.c = m.consumerOf(loop)
	m.all = append(m.all, c)
	if len(m.all) != before+1 || c.c == nil {
		m.t.Fatalf("%s: it is not registered", c.name)
	}
	if m.rnd.IntN(2) == 0 {
		c.Stall()
		c.Room(m.rnd.IntN(300))
	}
}

// consumerOf returns the consumer that a loop has added last.
func (m *model) consumerOf(loop int) *consumer {
	behind := m.surface.feeds[loop].behind
	if len(behind) == 0 {
		return nil
	}
	return behind[len(behind)-1]
}

func (m *model) leave(c *modelConsumer) {
	if c.left {
		return
	}
	c.left = true
	if m.rnd.IntN(2) == 0 {
		c.Reset()
	} else {
		c.send(clientFrame(relaytest.OpClose, "\x03\xe8"))
	}
	m.run()
	if c.c != nil && !c.c.peer.Gone() {
		m.t.Errorf("%s: it has left and is kept", c.name)
	}
	c.c = nil
}

// compare looks at every consumer, with all loops at rest.
func (m *model) compare() {
	_, outdated := m.ring.Numbers()
	alive := int64(0)
	for _, c := range m.all {
		if c.c == nil {
			continue
		}
		if c.c.peer.Gone() { // ended: it was too slow, and nothing else
			m.slow++
			c.slow = 0
			c.c = nil
			continue
		}
		alive++
		index, size := m.given(c)
		next := m.next(c, index)
		owed := c.c.peer.QueuedBytes()
		switch {
		case next < len(m.frames) && m.frames[next].seq <= outdated:
			m.t.Errorf("%s: F32: its next frame, %d, is gone and it was not told", c.name, m.frames[next].seq)
		case next < len(m.frames) && owed == 0:
			m.t.Errorf("%s: F30: it has room and was not given frame %d", c.name, m.frames[next].seq)
		case owed > max(size, c.head):
			m.t.Errorf("%s: F34: %d bytes are owed and the last frame has %d", c.name, owed, size)
		}
	}
	if n := m.surface.Counters(); n.Consumers != alive || n.TooSlow != m.slow {
		m.t.Errorf("%d consumers are counted and %d too slow, want %d and %d", n.Consumers, n.TooSlow, alive, m.slow)
	}
}

// tidy wants, after two ticks, no frame past the bounds but for a consumer that
// needs the oldest (F31, F33).
func (m *model) tidy() {
	frames, bytes := m.ring.Held()
	bounds := m.surface.cfg
	if frames <= 1 || frames <= bounds.ReplayFrames && bytes <= bounds.ReplayBytes {
		return
	}
	if oldest := len(m.frames) - frames; m.lowestNeeded() > oldest {
		m.t.Errorf("F33: %d frames of %d bytes are held and nobody needs the oldest", frames, bytes)
	}
}

// end lets everybody read and compares what came with what should.
func (m *model) end() {
	for _, c := range m.all {
		if !c.left {
			c.Room(-1)
		}
	}
	m.run()
	m.compare()
	for _, c := range m.all {
		var want []string
		if c.info {
			want = append(want, outdated...)
		}
		for i := m.next(c, c.first); i < len(m.frames); i = m.next(c, i+1) {
			want = append(want, fmt.Sprintf("%s=%d", codec.KindName(m.frames[i].kind), m.frames[i].seq))
		}
		got := c.wire.frames()
		run, end := got, []string(nil)
		for i, frame := range got {
			if strings.HasPrefix(frame, "error") || strings.HasPrefix(frame, "close") {
				run, end = got[:i], got[i:]
				break
			}
		}
		switch {
		case len(run) > len(want) || !slices.Equal(run, want[:len(run)]):
			m.t.Errorf("%s: %q is no gapless run of %q", c.name, run, want)
		case c.c != nil && (len(run) != len(want) || len(end) != 0):
			m.t.Errorf("%s: it has %q and %q, want %q", c.name, run, end, want)
		case c.slow == 0 && !c.left && !slices.Equal(end, tooSlowEnd):
			m.t.Errorf("%s: F34: it was too slow and ends with %q", c.name, end)
		case c.slow == 0 && !c.left:
			missed := len(run)
			if c.info {
				missed--
			}
			m.gone(c, missed)
		}
	}
	for _, c := range m.all {
		m.leave(c)
	}
	m.released("after all have left")
}

// gone wants that the frame behind the first given ones is not held any more
// (F32).
func (m *model) gone(c *modelConsumer, given int) {
	i := m.next(c, c.first)
	for range given {
		i = m.next(c, i+1)
	}
	if _, outdated := m.ring.Numbers(); i == len(m.frames) || m.frames[i].seq > outdated {
		m.t.Errorf("%s: F32: it was told that a frame is gone and none is", c.name)
	}
}
