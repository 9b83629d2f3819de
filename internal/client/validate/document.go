package validate

import (
	"bytes"
	"errors"
	"io"

	"github.com/sluice-relay/sluice/codec/aep"
)

// begin looks at the first line that is not blank. If it is only the beginning
// of a JSON text, the file may be one document over many lines: those are
// collected up to the limit of bytes. A document is checked as one event;
// otherwise the lines are checked one by one. It returns what next has to
// return after that.
//
// A line that begins with a brace, or is an event by itself, ends the search,
// unless an array is open: such a file has a line for each event, of which the
// first is torn. So a pipe that stays open is not held back by a torn line.
func (c *Checker) begin(in *lines, line []byte) ([]byte, bool, error) {
	if !c.torn(line) {
		return line, true, nil
	}
	array := bytes.Trim(line, blank)[0] == '['
	start, text := in.number, append(bytes.Clone(line), '\n')
	for {
		next, fits, err := in.next()
		if errors.Is(err, io.EOF) {
			c.document(text, start)
			return nil, true, err
		}
		if err != nil || !fits || len(text)+len(next) > c.options.MaxBytes || !array && c.separate(next) {
			next = bytes.Clone(next) // what follows scans, but does not read
			for part := range bytes.Lines(text) {
				c.line(bytes.TrimSuffix(part, []byte("\n")), true, start)
				start++
			}
			return next, fits, err
		}
		text = append(append(text, next...), '\n')
	}
}

// torn tells whether a line ends within its JSON text.
func (c *Checker) torn(line []byte) bool {
	text := bytes.Trim(line, blank)
	syntax, ok := errors.AsType[*aep.SyntaxError](c.scanner.Scan(text))
	return ok && syntax.Offset >= len(text)
}

// separate tells whether a line stands for itself.
func (c *Checker) separate(line []byte) bool {
	if len(line) > 0 && line[0] == '{' {
		return true
	}
	_, err := c.admit(line)
	return err == nil
}

// document checks a text over several lines as one event.
func (c *Checker) document(text []byte, start int64) {
	whole := bytes.TrimSpace(text)
	event, err := c.admit(whole)
	if err == nil {
		c.good(event, start)
		return
	}
	p := Problem{Line: start}
	p.explain(err, whole)
	if p.Column > 0 {
		before := text[:bytes.Index(text, whole[:1])+p.Column-1]
		p.Line += int64(bytes.Count(before, []byte("\n")))
		p.Column = len(before) - bytes.LastIndexByte(before, '\n')
	}
	c.bad(p)
}
