package simloop

import (
	"errors"
	"strconv"

	"github.com/sluice-relay/sluice/engine/fanout"
	"github.com/sluice-relay/sluice/engine/session"
	"github.com/sluice-relay/sluice/engine/stream"
)

// ErrRestless tells that loops went on working with nothing new to do.
var ErrRestless = errors.New("simloop: the loops do not come to rest")

// Config sizes an Engine. Zero values stand for the defaults in brackets.
type Config struct {
	Loops      int           // how many loops (1)
	Limits     fanout.Limits // of each loop's set
	LogEntries int           // what the log holds (4,096)
	LogBytes   int64         // (64 MiB)
	Buffers    session.Config
}

func (c Config) withDefaults() Config {
	if c.Loops == 0 {
		c.Loops = 1
	}
	if c.LogEntries == 0 {
		c.LogEntries = 4096
	}
	if c.LogBytes == 0 {
		c.LogBytes = 64 << 20
	}
	if c.Buffers.EventsPerSession == 0 {
		c.Buffers.EventsPerSession = 4096
	}
	if c.Buffers.Sessions == 0 {
		c.Buffers.Sessions = 500
	}
	return c
}

// Engine is the fan-out core on simulated loops. One goroutine.
type Engine struct {
	Clock   *Clock
	Log     *stream.Log
	Buffers *session.Buffers
	Loops   []*Loop
	Sets    []*fanout.Set // of the loop with the same index
	Conns   []*Conn       // in the order in which they were made
}

// New returns an engine.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	e := &Engine{Clock: NewClock(), Log: stream.NewLog(cfg.LogEntries, cfg.LogBytes)}
	e.Buffers = session.New(cfg.Buffers, e.Log)
	for i := range cfg.Loops {
		l := NewLoop(i, e.Clock)
		e.Loops = append(e.Loops, l)
		e.Sets = append(e.Sets, fanout.NewSet(l.Loop, e.Log, e.Buffers, cfg.Limits))
	}
	return e
}

// Append admits ev, whose name becomes e and its position when it has none,
// and rings the loops that follow the log.
func (e *Engine) Append(ev *Event) *stream.Entry {
	if ev.Name == "" {
		ev.Name = "e" + strconv.FormatUint(uint64(e.Log.Next()), 10)
	}
	entry := ev.Entry()
	e.Buffers.Put(entry, ev.Key())
	for i, s := range e.Sets {
		if s.Active() {
			e.Loops[i].Ring()
		}
	}
	return entry
}

// Settle polls and turns all loops until nothing is left to do. It returns
// ErrRestless when that does not come within steps rounds.
func (e *Engine) Settle(steps int) error {
	for ; steps > 0; steps-- {
		busy := false
		for _, l := range e.Loops {
			if l.Busy() {
				busy = true
				l.Poll()
				l.Turn(0)
			}
		}
		if !busy {
			return nil
		}
	}
	return ErrRestless
}

// Panics returns how many panics the loops have contained.
func (e *Engine) Panics() (n int64) {
	for _, l := range e.Loops {
		n += l.Panics()
	}
	return n
}
