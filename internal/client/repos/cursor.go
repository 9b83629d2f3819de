package repos

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-relay/sluice/codec/firehose"
)

// maxCursorBytes bounds the cursor file: a number and white space.
const maxCursorBytes = 64

// Errors of cursors.
var (
	// ErrCursor marks a cursor that is no number of a stream (F3, F15).
	ErrCursor = errors.New("cursor is not a decimal number of at most 2^53-1")
	// ErrCursorFile marks a cursor file that is there and cannot be used, or
	// that cannot be written.
	ErrCursorFile = errors.New("cursor file")
)

// ParseCursor reads a cursor: digits only.
func ParseCursor(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > firehose.MaxSeq || text[0] == '+' {
		return 0, ErrCursor
	}
	return int64(n), nil
}

// readCursor reads a cursor file. One that is not there is found = false; any
// other fault is an error, since to begin anew would miss frames without a
// word.
func readCursor(path string) (n int64, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("%w: %w", ErrCursorFile, err)
	}
	defer func() { _ = f.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(f, maxCursorBytes+1))
	if err == nil && len(text) > maxCursorBytes {
		err = ErrCursor
	}
	if err == nil {
		n, err = ParseCursor(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return 0, false, fmt.Errorf("%w %s: %w; move it away to begin anew", ErrCursorFile, path, err)
	}
	return n, true, nil
}

// writeCursor replaces the cursor file whole, so that a crash leaves the old or
// the new one.
func writeCursor(path string, n int64) error {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, name+".*.new")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCursorFile, err)
	}
	_, err = f.WriteString(strconv.FormatInt(n, 10) + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("%w: %w", ErrCursorFile, err)
	}
	// A rename survives a power failure once the directory is synced. Some file
	// systems cannot do that and say so; the file is written all the same.
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}
