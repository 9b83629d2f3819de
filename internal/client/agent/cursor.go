package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-relay/sluice/codec/aepws"
)

// maxCursorBytes bounds the cursor file: a cursor and white space.
const maxCursorBytes = 256

// ErrCursorFile marks a cursor file that is there and cannot be used, or that
// cannot be written.
var ErrCursorFile = errors.New("cursor file")

// CheckCursor tells if a text is a cursor: an event's id, a colon and its
// number (B51). The error is aepws.ErrCursor.
func CheckCursor(text string) error {
	_, _, err := aepws.ParseCursor([]byte(text))
	return err
}

// numberOf returns the number in a cursor, 0 for what is none.
func numberOf(cursor string) int64 {
	_, n, err := aepws.ParseCursor([]byte(cursor))
	if err != nil {
		return 0
	}
	return n
}

// readCursor reads a cursor file. One that is not there is "" without an error;
// any other fault is an error, since to begin anew would miss events without a
// word.
func readCursor(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCursorFile, err)
	}
	defer func() { _ = f.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(f, maxCursorBytes+1))
	if err == nil && len(text) > maxCursorBytes {
		err = aepws.ErrCursor
	}
	cursor := strings.TrimSpace(string(text))
	if err == nil {
		err = CheckCursor(cursor)
	}
	if err != nil {
		return "", fmt.Errorf("%w %s: %w; move it away to begin anew", ErrCursorFile, path, err)
	}
	return cursor, nil
}

// writeCursor replaces the cursor file whole, so that a crash leaves the old or
// the new one.
func writeCursor(path, cursor string) error {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	f, err := os.CreateTemp(dir, name+".*.new")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCursorFile, err)
	}
	_, err = f.WriteString(cursor + "\n")
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
