package simloop

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-relay/sluice/engine/fanout"
)

// ErrCommand tells that a line of a scenario cannot be read.
var ErrCommand = errors.New("simloop: bad command")

// ErrExpect tells that something did not come as a scenario expects it.
var ErrExpect = errors.New("simloop: not as expected")

const (
	// settleSteps is how many rounds the loops get to come to rest.
	settleSteps = 100_000
	// The driver's own bounds, so that a script of random bytes ends.
	maxLoops  = 8
	maxConns  = 256
	maxCount  = 4096
	maxNumber = 64 << 20
	// eventCost is what an event counts at least against Budget.
	eventCost = 64
)

// Driver runs scenarios: one command a line, "#" begins a comment. A
// connection may be named by a range, c1..c40. Sizes are bytes.
//
// The engine is configured first:
//
//	loops 2
//	limits soft=1000 hard=8000 batch= lag= window= look=
//	log entries=64 bytes=100000
//	buffers events=10 sessions=3 bytes=0
//
// What happens:
//
//	append s1 0:5 [id=x] [key=x] [sev=notice] [size=300] [n=10] [k=v ...]
//	socket c1 [loop=0] [accept=512|all] [finite]
//	subscribe c1 id=a [filter=session:s1] [from=s1@0:3,s2@-|all] [extra=s3]
//	          [form=1] [notrack] [noack]
//	unsubscribe c1 a [noack]
//	reply c1 text
//	urgent c1 text
//	room c1 4096|all|none  room for more bytes, for all, no room
//	poll [loop=0]          sockets tell of writability and ends
//	turn [loop=0] [budget=3] [n=1]  turns that were asked for; see Loop.Turn
//	drain [c1|loop=0]      until nothing is left to do; c1 takes all meanwhile
//	stop c1                StopLive
//	close c1               from this side
//	reset c1               by the peer
//	advance 25s
//
// With n=10 an append makes ten events of rising sequence. An event is named
// e and its position unless id names it; buffers dedupe on key, or the name.
//
// What has come of it:
//
//	expect c1 [s1 0:5] [subscribed a]   frames since the last expect
//	expect c1 [s1 0:5]..[s1 0:9]        a run of one session
//	expect c1 nothing
//	expect-partial c1 17                bytes of an unfinished frame
//	expect-cut c1 hard delivered=a/s1@0:7,b/s2@0:1|none
//	expect-delivered c1 a/s1@0:7|none
//	expect-queued c1 1234
//	expect-live c1 yes|no
//	expect-finished c1
//	expect-closed c1
//	expect-shed [loop=0] 3              events shed so far
//	expect-gap [loop=0] 1               gap markers so far
//	expect-groups [loop=0] 2
//	expect-panics 1
//
// Frames are written without padding, and events without a name of the form e7.
type Driver struct {
	// Budget bounds the bytes that appends may make, each event counted with 64
	// at least, and so the work of a script.
	Budget int

	cfg    Config
	engine *Engine
	conns  map[string]*Conn
	panics int64 // expected so far
}

// NewDriver returns a driver without an engine: the first command that needs
// one makes it.
func NewDriver() *Driver { return &Driver{Budget: maxNumber, conns: map[string]*Conn{}} }

// Engine returns the engine under test.
func (d *Driver) Engine() *Engine {
	if d.engine == nil {
		d.engine = New(d.cfg)
	}
	return d.engine
}

// Run runs a script up to its end or the first line that fails, which the error
// names.
func (d *Driver) Run(script string) error {
	n := 0
	for line := range strings.Lines(script) {
		n++
		if err := d.Do(line); err != nil {
			return fmt.Errorf("line %d: %s: %w", n, strings.TrimSpace(line), err)
		}
	}
	if got := d.Engine().Panics(); got != d.panics {
		return fmt.Errorf("%w: %d panics, of which %d were expected", ErrExpect, got, d.panics)
	}
	return nil
}

// Do runs one line.
func (d *Driver) Do(line string) error {
	line, _, _ = strings.Cut(line, "#")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil
	}
	name, args := fields[0], newArgs(fields[1:])
	if set, ok := settings[name]; ok {
		if d.engine != nil {
			return fmt.Errorf("%w: %s after the engine was made", ErrCommand, name)
		}
		set(&d.cfg, args)
		return args.done()
	}
	if run, ok := commands[name]; ok {
		if err := run(d, args); err != nil {
			return err
		}
		return args.done()
	}
	if check, ok := checks[name]; ok {
		return check(d, args)
	}
	return fmt.Errorf("%w: %q", ErrCommand, name)
}

// Check tests what holds at the end of any script: loops come to rest, and then
// a connection that is alive and has all the room it needs owes nothing.
func (d *Driver) Check() error {
	e := d.Engine()
	for _, c := range e.Conns {
		if c.Member.QueuedBytes() < 0 || c.Out.OwedBytes() < 0 {
			return fmt.Errorf("%w: %s owes %d bytes", ErrExpect, c.Name, c.Member.QueuedBytes())
		}
		c.Socket.Room(Unlimited)
	}
	if err := e.Settle(settleSteps); err != nil {
		return err
	}
	for _, c := range e.Conns {
		owed := c.Member.QueuedBytes()
		_, partial, err := c.Frames()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", c.Name, err)
		case owed != 0:
			return fmt.Errorf("%w: %s still owes %d bytes", ErrExpect, c.Name, owed)
		case partial != 0 && !c.Closed:
			return fmt.Errorf("%w: %s has part of a frame", ErrExpect, c.Name)
		case c.Socket.Misuse != 0:
			return fmt.Errorf("%w: %s wrote to a socket that is gone", ErrExpect, c.Name)
		}
	}
	for _, l := range e.Loops {
		if l.Fatal != nil {
			return l.Fatal
		}
	}
	return nil
}

var settings = map[string]func(*Config, *args){
	"loops": func(c *Config, a *args) { c.Loops = clamp(a.number(a.word()), 1, maxLoops) },
	"limits": func(c *Config, a *args) {
		c.Limits = fanout.Limits{
			SoftBytes:   int64(a.value("soft", 0)),
			HardBytes:   int64(a.value("hard", 0)),
			BatchBytes:  a.value("batch", 0),
			LagBytes:    a.value("lag", 0),
			WindowBytes: a.value("window", 0),
			LookWrites:  a.value("look", 0),
		}
	},
	"log": func(c *Config, a *args) {
		c.LogEntries = min(a.value("entries", 0), maxCount)
		c.LogBytes = int64(a.value("bytes", 0))
	},
	"buffers": func(c *Config, a *args) {
		c.Buffers.EventsPerSession = min(a.value("events", 0), maxCount)
		c.Buffers.Sessions = min(a.value("sessions", 0), maxCount)
		c.Buffers.Bytes = int64(a.value("bytes", 0))
	},
}

func clamp(n, low, high int) int { return min(max(n, low), high) }
