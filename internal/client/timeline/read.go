package timeline

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-relay/sluice/internal/client/render"
)

// MaxLineBytes bounds a line of a file: what a relay takes in one body by
// default (AEP_MAX_BODY).
const MaxLineBytes = 16 << 20

// maxOthers bounds the names kept of other sessions.
const maxOthers = 1000

// ErrLineTooLong is the error of a line over MaxLineBytes.
var ErrLineTooLong = fmt.Errorf("line is longer than %d bytes", MaxLineBytes)

// Read says what Builder.Read has found beside the session's own events.
type Read struct {
	// Bad is how many lines are no JSON object, and FirstBad the first of
	// them, from 1.
	Bad, FirstBad int
	// Others has the names of other sessions in the file, sorted, at most
	// 1,000.
	Others []string
}

// Read adds the events of a file, one JSON object a line, to the end. Lines of
// other sessions are passed over. The error is of reading, or ErrLineTooLong
// with the line.
func (b *Builder) Read(r io.Reader) (Read, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, MaxLineBytes)
	var found Read
	others := map[string]struct{}{}
	line := 0
	for in.Scan() {
		line++
		text := bytes.TrimSpace(in.Bytes())
		if len(text) == 0 {
			continue
		}
		e, ok := render.Parse(text)
		switch {
		case !ok:
			if found.Bad++; found.FirstBad == 0 {
				found.FirstBad = line
			}
		case !b.add(e) && e.Session != "" && len(others) < maxOthers:
			others[keep(e.Session)] = struct{}{}
		}
	}
	for name := range others {
		found.Others = append(found.Others, name)
	}
	slices.Sort(found.Others)
	err := in.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = ErrLineTooLong
	}
	if err != nil {
		err = fmt.Errorf("line %d: %w", line+1, err)
	}
	return found, err
}
