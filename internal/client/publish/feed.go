package publish

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// readBytes is how much is read at once.
	readBytes = 256 << 10
	// spareBytes is the largest batch whose memory is used again.
	spareBytes = 16 << 20
)

// line is a place in the body of a batch, without its LF.
type line struct {
	start, end int
	number     int64 // in the input, from 1
}

// batch is some lines of the input, ready to be sent.
type batch struct {
	body    []byte // the lines, each ended by one LF
	lines   []line
	refused []Refusal // lines that are not even sent
	input   int64     // bytes of the input that it stands for
	begun   time.Time // when its first line was read
}

// empty reports whether there is nothing to do about a batch.
func (b *batch) empty() bool { return len(b.lines)+len(b.refused) == 0 }

// text returns a line. Borrowed from the batch.
func (b *batch) text(i int) []byte { return b.body[b.lines[i].start:b.lines[i].end] }

// bytes returns the lines of [from, to) as NDJSON. Borrowed from the batch.
func (b *batch) bytes(from, to int) []byte {
	return b.body[b.lines[from].start : b.lines[to-1].end+1]
}

// limits bound a batch.
type limits struct {
	lines, bytes, lineBytes int
	linger                  time.Duration // how long a line waits for others
}

// feed cuts an input into batches. One goroutine runs read, another calls next.
type feed struct {
	// Immutable after construction.
	limits limits

	// Owned by read.
	part   []byte // the beginning of a line
	skip   bool   // the line is too long: it has more than white space beyond part
	number int64  // of the line that is being read

	// Guarded by mu.
	mu      sync.Mutex
	changed sync.Cond
	open    *batch
	spare   *batch
	full    bool  // nothing more fits into open
	ended   bool  // nothing more will come
	stopped bool  // nothing more is wanted, not even what is in open
	err     error // of the input
}

// blanks are the octets of white space around a line.
const blanks = " \t\r"

func newFeed(l limits) *feed {
	f := &feed{limits: l, open: new(batch), number: 1}
	f.changed.L = &f.mu
	return f
}

// read reads r to its end, or until end or stop is called: then it returns when
// Read does.
func (f *feed) read(r io.Reader) {
	buf := make([]byte, readBytes)
	for {
		n, err := r.Read(buf)
		if !f.take(buf[:n]) {
			return
		}
		if err != nil {
			f.finish(err)
			return
		}
	}
}

// take cuts p, borrowed, into lines. It waits while nothing more fits, and
// reports whether more is wanted.
func (f *feed) take(p []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(p) > 0 {
		if f.ended {
			return false
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			f.open.input += int64(len(p))
			f.keep(p)
			return true
		}
		text := p[:i]
		if len(f.part) > 0 {
			f.keep(text)
			text = f.part
		}
		if !f.addLocked(text) {
			return false
		}
		f.open.input += int64(i + 1)
		f.newline()
		p = p[i+1:]
	}
	return !f.ended
}

// keep keeps p as a part of a line, as far as a line may be. White space before
// the line, and beyond what is kept, counts for nothing.
func (f *feed) keep(p []byte) {
	if len(f.part) == 0 {
		p = bytes.TrimLeft(p, blanks)
	}
	if room := max(f.limits.lineBytes+1-len(f.part), 0); len(p) > room {
		f.skip = f.skip || len(bytes.Trim(p[room:], blanks)) > 0
		p = p[:room]
	}
	f.part = append(f.part, p...)
}

// newline begins the next line.
func (f *feed) newline() {
	f.number++
	f.skip = false
	if f.part = f.part[:0]; cap(f.part) > spareBytes {
		f.part = nil
	}
}

// addLocked adds a line, borrowed, to the batch, and reports whether more is
// wanted. White space around a line counts for nothing, and a line of nothing
// else neither (R74).
func (f *feed) addLocked(text []byte) bool {
	text = bytes.Trim(text, blanks)
	if len(text) == 0 {
		return true
	}
	long := f.skip || len(text) > f.limits.lineBytes
	for !f.ended && f.crowdedLocked(len(text), long) {
		f.full = true
		f.changed.Broadcast()
		f.changed.Wait()
	}
	if f.ended {
		return false
	}
	b := f.open
	if b.empty() {
		b.begun = time.Now()
		f.changed.Broadcast()
	}
	if long {
		b.refused = append(b.refused, Refusal{Line: f.number, Reason: fmt.Sprintf("longer than %d bytes", f.limits.lineBytes)})
		return true
	}
	b.lines = append(b.lines, line{start: len(b.body), end: len(b.body) + len(text), number: f.number})
	b.body = append(append(b.body, text...), '\n')
	if len(b.lines) == f.limits.lines {
		f.full = true
		f.changed.Broadcast()
	}
	return true
}

// crowdedLocked reports whether a line of n bytes has to wait for the next
// batch. Lines that are too long count only.
func (f *feed) crowdedLocked(n int, long bool) bool {
	b := f.open
	return len(b.lines)+len(b.refused) >= f.limits.lines ||
		!long && len(b.lines) > 0 && len(b.body)+n+1 > f.limits.bytes
}

// finish takes what Read said at the end, and a last line without LF.
func (f *feed) finish(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.part) > 0 {
		f.addLocked(f.part)
	}
	if err != io.EOF && !f.ended {
		f.err = err
	}
	f.ended = true
	f.changed.Broadcast()
}

// end ends the input here: what was read is still handed out. Any goroutine.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.changed.Broadcast()
}

// stop ends it all. Any goroutine.
func (f *feed) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.stopped = true, true
	f.changed.Broadcast()
}

// next waits for a batch that is due: full, at the end of the input, or with a
// line that has waited long enough. The last one may have no lines. It returns
// nil behind it, with the error of the input. The batch belongs to the caller until give.
func (f *feed) next() (*batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		b := f.open
		wait := f.limits.linger - time.Since(b.begun)
		switch {
		case f.stopped, b.input == 0 && b.empty() && f.ended:
			return nil, f.err
		case b.empty() && !f.ended:
			f.changed.Wait()
		case f.ended, f.full, wait <= 0:
			f.open, f.spare = f.spare, nil
			if f.open == nil {
				f.open = new(batch)
			}
			f.full = false
			f.changed.Broadcast()
			return b, nil
		default:
			wake := time.AfterFunc(wait, f.wake)
			f.changed.Wait()
			wake.Stop()
		}
	}
}

// wake lets next look again, under the lock so that it cannot come before it
// waits.
func (f *feed) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed.Broadcast()
}

// give gives a batch back, so that its memory is used again.
func (f *feed) give(b *batch) {
	if cap(b.body) > spareBytes {
		return
	}
	*b = batch{body: b.body[:0], lines: b.lines[:0]}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spare = b
}
