package validate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// readBytes is the size of a read.
const readBytes = 64 << 10

// lines cuts a stream into lines of bounded length.
type lines struct {
	r        *bufio.Reader
	maxBytes int
	number   int64 // of the line that next returned, from 1
	long     []byte
}

func newLines(r io.Reader, maxBytes int) *lines {
	return &lines{r: bufio.NewReaderSize(r, readBytes), maxBytes: maxBytes}
}

// next returns the next line without its end, borrowed until the next call.
// Of one that is longer than the limit nothing is kept, and fits is false. At
// the end the error is io.EOF.
func (l *lines) next() (line []byte, fits bool, err error) {
	l.long = l.long[:0]
	fits = true
	for {
		part, err := l.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if !errors.Is(err, io.EOF) || len(part) == 0 && len(l.long) == 0 && fits {
				return nil, true, err
			}
		}
		part = bytes.TrimSuffix(part, []byte("\n"))
		if fits = fits && len(l.long)+len(part) <= l.maxBytes; !fits {
			l.long = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if fits {
				l.long = append(l.long, part...)
			}
			continue
		}
		l.number++
		switch {
		case !fits:
			return nil, false, nil
		case len(l.long) == 0:
			return part, true, nil
		}
		l.long = append(l.long, part...)
		return l.long, true, nil
	}
}
