package repos

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/sluice-relay/sluice/codec/dagcbor"
	"github.com/sluice-relay/sluice/codec/firehose"
)

// Faults of an input.
var (
	// ErrCut tells that an input ends inside a frame.
	ErrCut = errors.New("the input ends inside a frame")
	// ErrTooLong tells that a frame is longer than may be, or is none.
	ErrTooLong = errors.New("frame is longer than " + strconv.Itoa(firehose.MaxFrameBytes) + " bytes")
	// ErrNotFrame tells that a header or body is not a map (F9, F14).
	ErrNotFrame = errors.New("not a frame: header and body are maps")
)

// Place says where a frame stands in its input.
type Place struct {
	Frame  int64 // counted from 1
	Offset int64 // bytes before it
	Line   int64 // counted from 1; 0 if the input has no lines
}

// String returns the place in words.
func (p Place) String() string {
	if p.Line > 0 {
		return fmt.Sprintf("line %d", p.Line)
	}
	return fmt.Sprintf("frame %d at byte %d", p.Frame, p.Offset)
}

// InputError is a fault of an input and where its frame begins.
type InputError struct {
	Place Place
	Err   error // ErrCut, ErrTooLong, ErrNotFrame, a dagcbor.SyntaxError, or of reading
}

func (e *InputError) Error() string { return fmt.Sprintf("%v: %v", e.Place, e.Err) }

// Unwrap returns the fault.
func (e *InputError) Unwrap() error { return e.Err }

// Frames gives the frames of an input one by one.
type Frames interface {
	// Next returns the next frame, lent until the next call, and its place. The
	// error is io.EOF at the end and an InputError for a fault; both stay.
	Next() ([]byte, Place, error)
}

// There is room for readBytes when room was made, and for leastRead always.
const (
	readBytes = 64 << 10
	leastRead = 16 << 10
)

// Splitter takes frames apart that stand one behind the other: header, body,
// header, body. It holds one frame, and reads no more ahead than one read
// gives. One goroutine.
type Splitter struct {
	r     io.Reader
	buf   []byte // what was read and is not given out begins at start
	start int
	place Place // of what begins at start
	scan  dagcbor.Scanner
	end   error // of reading
	err   error // of Next
}

// NewSplitter returns a splitter that reads from r.
func NewSplitter(r io.Reader) *Splitter { return &Splitter{r: r, place: Place{Frame: 1}} }

// Next implements [Frames].
func (s *Splitter) Next() ([]byte, Place, error) {
	if s.err != nil {
		return nil, s.place, s.err
	}
	n, err := s.frame()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = &InputError{Place: s.place, Err: err}
		}
		s.err = err
		return nil, s.place, err
	}
	frame, place := s.buf[s.start:s.start+n:s.start+n], s.place
	s.start += n
	s.place.Frame++
	s.place.Offset += int64(n)
	return frame, place, nil
}

// frame reads until a frame is whole, and returns its length.
func (s *Splitter) frame() (int, error) {
	for {
		b := s.buf[s.start:]
		if len(b) > 0 {
			n, err := frameLength(&s.scan, b)
			switch {
			case err == nil && n > firehose.MaxFrameBytes:
				return 0, ErrTooLong
			case err == nil || !errors.Is(err, dagcbor.ErrTruncated):
				return n, err
			case len(b) > firehose.MaxFrameBytes:
				return 0, ErrTooLong
			}
		}
		switch {
		case s.end == io.EOF && len(b) > 0:
			return 0, ErrCut
		case s.end != nil:
			return 0, s.end
		}
		s.fill()
	}
}

// fill reads once. It makes room first, if there is little left: half of the
// buffer at least, so that what is held is seldom moved.
func (s *Splitter) fill() {
	if cap(s.buf)-len(s.buf) < leastRead {
		size := max(cap(s.buf), 2*readBytes)
		if held := len(s.buf) - s.start; held > size/2 {
			size = min(2*size, firehose.MaxFrameBytes+2*readBytes)
		}
		if size > cap(s.buf) {
			s.buf = append(make([]byte, 0, size), s.buf[s.start:]...)
		} else {
			s.buf = s.buf[:copy(s.buf, s.buf[s.start:])]
		}
		s.start = 0
	}
	for range 100 { // a reader may return nothing, but not for ever
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if s.end = err; n > 0 || err != nil {
			return
		}
	}
	s.end = io.ErrNoProgress
}

// frameLength returns the length of the frame that b begins with. The error is
// one of an incomplete frame (dagcbor.ErrTruncated) or of none.
func frameLength(scan *dagcbor.Scanner, b []byte) (int, error) {
	body, err := mapEnd(scan, b, 0)
	if err != nil {
		return 0, err
	}
	return mapEnd(scan, b, body)
}

// mapEnd returns where the map at b[at:] ends.
func mapEnd(scan *dagcbor.Scanner, b []byte, at int) (int, error) {
	if at < len(b) && dagcbor.MajorOf(b[at:]) != dagcbor.Map {
		return 0, ErrNotFrame
	}
	end, _, err := scan.Value(b, at)
	return end, err
}

// Lines reads frames in hexadecimal, one a line. Empty lines are passed over.
// It holds one line. One goroutine.
type Lines struct {
	in    *bufio.Scanner
	place Place
	scan  dagcbor.Scanner
	err   error
}

// NewLines returns a reader of the lines of r.
func NewLines(r io.Reader) *Lines {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 2*firehose.MaxFrameBytes+64) // blanks around it, and the line's end
	return &Lines{in: in}
}

// Next implements [Frames].
func (l *Lines) Next() ([]byte, Place, error) {
	if l.err != nil {
		return nil, l.place, l.err
	}
	frame, err := l.next()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = &InputError{Place: l.place, Err: err}
		}
		l.err = err
		return nil, l.place, err
	}
	return frame, l.place, nil
}

func (l *Lines) next() ([]byte, error) {
	for {
		l.place.Line++
		if !l.in.Scan() {
			err := l.in.Err()
			switch {
			case err == nil:
				return nil, io.EOF
			case errors.Is(err, bufio.ErrTooLong):
				return nil, ErrTooLong
			}
			return nil, err
		}
		line := bytes.TrimSpace(l.in.Bytes())
		if len(line) == 0 {
			continue
		}
		l.place.Frame++
		n, err := hex.Decode(line, line) // in place: it writes behind what it reads
		if err != nil {
			return nil, errors.New("not hexadecimal: " + clean(err.Error()))
		}
		frame := line[:n]
		end, err := frameLength(&l.scan, frame)
		switch {
		case errors.Is(err, dagcbor.ErrTruncated):
			return nil, ErrCut
		case err == nil && end != n:
			err = &dagcbor.SyntaxError{Offset: end, Err: dagcbor.ErrTrailing}
		case err == nil && n > firehose.MaxFrameBytes:
			err = ErrTooLong
		}
		return frame, err
	}
}
