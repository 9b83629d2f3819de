package sync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	// memoryBytes is how much of a push body is kept in memory, the rest goes to
	// its spool file (S20a).
	memoryBytes = 1 << 20
	// spoolBytes bounds all spool files together (S20a).
	spoolBytes = 256 << 20
	// spoolPiece is how much is collected for one write to a spool file.
	spoolPiece = 256 << 10
)

// spool is an unlinked file: nothing of it is left when the process dies. Its
// methods block and belong to one job at a time.
type spool struct {
	dir  string
	file *os.File
}

// write appends pieces, and makes the file first if there is none.
func (sp *spool) write(pieces [][]byte) error {
	if sp.file == nil {
		f, err := os.CreateTemp(sp.dir, "sync-spool-*")
		if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(sp.dir, 0o700) == nil {
			f, err = os.CreateTemp(sp.dir, "sync-spool-*")
		}
		if err != nil {
			return fmt.Errorf("sync: spool: %w", err)
		}
		if err := os.Remove(f.Name()); err != nil {
			_ = f.Close()
			return fmt.Errorf("sync: spool: %w", err)
		}
		sp.file = f
	}
	for _, p := range pieces {
		if _, err := sp.file.Write(p); err != nil {
			return fmt.Errorf("sync: spool: %w", err)
		}
	}
	return nil
}

// readAt fills p from offset at.
func (sp *spool) readAt(p []byte, at int64) error {
	if sp.file == nil {
		return fmt.Errorf("sync: spool: nothing was written")
	}
	if _, err := sp.file.ReadAt(p, at); err != nil {
		return fmt.Errorf("sync: spool: %w", err)
	}
	return nil
}

// close gives the file's space back.
func (sp *spool) close() {
	if sp.file != nil {
		_ = sp.file.Close()
		sp.file = nil
	}
}
