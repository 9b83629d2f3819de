package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const (
	// maxLineBytes bounds a line of put --lines, and a row: above what fits an
	// envelope, so that the device names the limit.
	maxLineBytes = 1 << 20
	// maxBatchLines and maxBatchBytes bound one transaction.
	maxBatchLines = 1000
	maxBatchBytes = 8 << 20
	// blobTable is the table of manifests, which put does not write (D51).
	blobTable = "blob"
)

// rowLines is one run of put --lines: lines become edits, edits transactions.
type rowLines struct {
	name    string // of the input
	in      *bufio.Reader
	put     func(...devicestore.Edit) ([]devicestore.Row, error)
	line    int64 // number of the line that was read last
	batch   []devicestore.Edit
	numbers []int64 // of the batch's lines
	bytes   int     // in batch
	rows    int64   // written
	blobs   int64   // lines of the table blob, left out
}

// putLines writes the rows of a file, or of standard input.
func (r *deviceRun) putLines(ctx context.Context) error {
	file := r.cmd.String(flagDeviceLines)
	switch {
	case r.cmd.Args().Present():
		return r.usage("with --%s there is no TABLE, ID or ROW", flagDeviceLines)
	case file == "":
		return r.usage("--%s is empty", flagDeviceLines)
	}
	name, input := "stdin", r.stdin(ctx)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read from
		name, input = file, f
	}
	return r.with(func(d *device.Device) error {
		l := &rowLines{name: name, in: bufio.NewReaderSize(input, maxLineBytes), put: d.Put}
		err := l.run(ctx)
		if l.blobs > 0 {
			r.say("%d rows of the table %s left out: attach their files", l.blobs, blobTable)
		}
		r.say("rows written: %d", l.rows)
		if err != nil {
			return err
		}
		return r.syncIfAsked(ctx, d)
	})
}

// run reads all lines. At an error the lines before that one are written.
func (l *rowLines) run(ctx context.Context) error {
	for {
		edit, err := l.next()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			if failed := l.flush(); failed != nil {
				return failed
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return l.stopped(l.line, err)
		}
		if len(l.batch) == maxBatchLines || l.bytes+len(edit.Data) > maxBatchBytes {
			if err := l.flush(); err != nil {
				return err
			}
		}
		l.batch = append(l.batch, edit)
		l.numbers = append(l.numbers, l.line)
		l.bytes += len(edit.Data)
	}
}

// stopped is the error of a line behind which nothing is written.
func (l *rowLines) stopped(line int64, err error) error {
	return fmt.Errorf("%s:%d: %w; the lines before it are written", l.name, line, err)
}

// flush writes the batch. If the device refuses it, its lines are written one by
// one, up to the one that is wrong.
func (l *rowLines) flush() error {
	batch := l.batch
	l.batch, l.bytes = l.batch[:0], 0
	numbers := l.numbers
	l.numbers = l.numbers[:0]
	if len(batch) == 0 {
		return nil
	}
	if _, err := l.put(batch...); err == nil {
		l.rows += int64(len(batch))
		return nil
	}
	for i, edit := range batch {
		if _, err := l.put(edit); err != nil {
			return l.stopped(numbers[i], err)
		}
		l.rows++
	}
	return nil
}

// next reads a line that is a row, io.EOF behind the last.
func (l *rowLines) next() (devicestore.Edit, error) {
	for {
		text, err := l.in.ReadSlice('\n')
		l.line++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return devicestore.Edit{}, fmt.Errorf("the line has more than %d bytes", maxLineBytes)
		case err != nil && !errors.Is(err, io.EOF):
			return devicestore.Edit{}, err
		case err != nil && len(text) == 0:
			l.line--
			return devicestore.Edit{}, io.EOF
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		edit, err := parseRowLine(text)
		if err == nil && edit.Table == blobTable {
			l.blobs++
			continue
		}
		return edit, err
	}
}

// errRowLine tells what a line of put --lines is.
var errRowLine = errors.New(`not {"table":"...","id":"...","row":{...}}`)

// lineMembers are the members that a line may have: hlc is as export writes it,
// while the row gets a new one, deleted as list --deleted --json does.
var lineMembers = []string{"table", "id", "hlc", "deleted", "row"}

// parseRowLine reads one line. Data is a copy.
func parseRowLine(text []byte) (devicestore.Edit, error) {
	members, err := splitRowLine(text)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the line ends, not the input
	}
	if err != nil {
		return devicestore.Edit{}, fmt.Errorf("%w: %w", errRowLine, err)
	}
	var of struct {
		Table, ID *string
		Deleted   bool
		Row       json.RawMessage
	}
	of.Row = members["row"]
	err = errors.Join(lineText(members["table"], &of.Table), lineText(members["id"], &of.ID))
	if deleted := members["deleted"]; err == nil && deleted != nil {
		err = json.Unmarshal(deleted, &of.Deleted)
	}
	if err != nil {
		return devicestore.Edit{}, fmt.Errorf("%w: %w", errRowLine, err)
	}
	none := bytes.Equal(of.Row, []byte("null"))
	switch {
	case of.Table == nil || of.ID == nil:
		return devicestore.Edit{}, fmt.Errorf("%w: table or id is missing", errRowLine)
	case of.Deleted && of.Row != nil && !none:
		return devicestore.Edit{}, fmt.Errorf("%w: deleted, and has a row", errRowLine)
	case of.Row == nil && !of.Deleted:
		return devicestore.Edit{}, fmt.Errorf("%w: row is missing", errRowLine)
	}
	edit := devicestore.Edit{Key: devicestore.Key{Table: *of.Table, ID: *of.ID}}
	if !none {
		edit.Data = of.Row
	}
	return edit, nil
}

// splitRowLine returns the members of a line, each once and as it is spelled, as
// the device reads JSON (D10).
func splitRowLine(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if begin, err := dec.Token(); err != nil {
		return nil, err
	} else if begin != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	members := make(map[string]json.RawMessage, len(lineMembers))
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // a member's name is nothing else
		if !slices.Contains(lineMembers, name) {
			return nil, fmt.Errorf("unknown member %.40q", name)
		}
		if members[name] != nil {
			return nil, fmt.Errorf("%s occurs twice", name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		members[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind it")
	}
	return members, nil
}

// lineText reads a member that is a text; null and nil leave it nil. Half a
// surrogate pair, which encoding/json takes for U+FFFD, is no text.
func lineText(value json.RawMessage, text **string) error {
	if value == nil {
		return nil
	}
	if err := json.Unmarshal(value, text); err != nil || *text == nil {
		return err
	}
	spelled, err := synccrypt.Canonical(nil, value)
	if err != nil {
		return err
	}
	if strings.Count(**text, "\uFFFD") != bytes.Count(spelled, []byte("\uFFFD")) {
		return errors.New("half a surrogate pair")
	}
	return nil
}
