package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-relay/sluice/codec/aep"
)

// DefaultMaxBytes is what a relay takes in one body by default (AEP_MAX_BODY).
const DefaultMaxBytes = 16 << 20

// blank is what may surround an event on its line (R74).
const blank = " \t\r"

// Options say what is checked. The zero value is the default.
type Options struct {
	// MaxBytes is the longest line, without its end; 0 for DefaultMaxBytes.
	MaxBytes int
	// NoWarnings leaves the warnings out, and the memory that they need.
	NoWarnings bool
}

// Counts is what a Checker has found.
type Counts struct {
	Events   int64 // good ones
	Bad      int64 // lines that are no event
	Warnings int64
}

// Checker checks files one after another; what it remembers for the warnings
// it remembers over all of them. One goroutine.
type Checker struct {
	options   Options
	report    func(Problem)
	scanner   aep.Scanner
	counts    Counts
	file      string
	files     []string
	events    *recent[place]    // by source and id
	positions *recent[position] // by source and session
}

// place is where an event was seen.
type place struct {
	line int64
	file int32 // in Checker.files
}

// position is the highest position of a session, and where it was.
type position struct {
	epoch, seq int64
	place
}

// New returns a checker that calls report for each problem, in order, from
// within Check.
func New(o Options, report func(Problem)) *Checker {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	return &Checker{
		options: o, report: report,
		events: newRecent[place](recentCount), positions: newRecent[position](recentCount),
	}
}

// Counts returns what all files had so far.
func (c *Checker) Counts() Counts { return c.counts }

// Check reads r to its end and reports under the name of file. The error is of
// reading alone.
func (c *Checker) Check(file string, r io.Reader) error {
	c.file = file
	c.files = append(c.files, file)
	in := newLines(r, c.options.MaxBytes)
	for first := true; ; {
		line, fits, err := in.next()
		if err == nil && fits && first && len(bytes.Trim(line, blank)) > 0 {
			first = false
			line, fits, err = c.begin(in, line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s, line %d: %w", file, in.number+1, err)
		}
		c.line(line, fits, in.number)
	}
}

// line checks one line.
func (c *Checker) line(line []byte, fits bool, number int64) {
	if !fits {
		c.bad(Problem{Line: number, Rule: "R76", Reason: fmt.Sprintf("line is longer than %d bytes", c.options.MaxBytes)})
		return
	}
	text := bytes.Trim(line, blank)
	if len(text) == 0 {
		return
	}
	event, err := c.admit(text)
	if err != nil {
		p := Problem{Line: number}
		p.explain(err, text)
		if p.Column > 0 {
			p.Column += bytes.Index(line, text[:1])
		}
		c.bad(p)
		return
	}
	c.good(event, number)
}

func (c *Checker) admit(text []byte) (*aep.Event, error) {
	if err := c.scanner.Scan(text); err != nil {
		return nil, err
	}
	return c.scanner.Event()
}

func (c *Checker) bad(p Problem) {
	c.counts.Bad++
	p.File = c.file
	c.report(p)
}

func (c *Checker) warn(line int64, rule, format string, args ...any) {
	c.counts.Warnings++
	c.report(Problem{File: c.file, Line: line, Rule: rule, Reason: fmt.Sprintf(format, args...), Warning: true})
}

// good counts an event and warns of what a relay does not refuse.
func (c *Checker) good(e *aep.Event, line int64) {
	c.counts.Events++
	if c.options.NoWarnings {
		return
	}
	here := place{line: line, file: int32(len(c.files) - 1)}
	before, again := c.events.get(e.Source(), e.ID())
	if again {
		c.warn(line, "R161", "same source and id as %s: a relay keeps the first only", c.where(before))
		return
	}
	c.events.put(e.Source(), e.ID(), here)
	if seq, ok := e.Seq(); ok {
		c.order(e, seq, here)
	}
}

// order warns of an event whose position is not above the last one of the
// same source and session (R162: a relay sorts it in).
func (c *Checker) order(e *aep.Event, seq int64, here place) {
	last, ok := c.positions.get(e.Source(), e.Session())
	switch {
	case !ok, e.Epoch() > last.epoch, e.Epoch() == last.epoch && seq > last.seq:
		c.positions.put(e.Source(), e.Session(), position{e.Epoch(), seq, here})
	case e.Epoch() < last.epoch:
		c.warn(here.line, "R162", "epoch %d after epoch %d at %s", e.Epoch(), last.epoch, c.where(last.place))
	case seq == last.seq:
		c.warn(here.line, "R162", "seq %d again, as at %s", seq, c.where(last.place))
	default:
		c.warn(here.line, "R162", "seq %d after seq %d at %s", seq, last.seq, c.where(last.place))
	}
}

// where names a place for people.
func (c *Checker) where(p place) string {
	if int(p.file) == len(c.files)-1 {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("%s:%d", c.files[p.file], p.line)
}
