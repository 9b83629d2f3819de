package sqldb

import (
	"fmt"
	"os"
)

// Whereabouts remembers which files a database has open. A process may write for
// weeks to one that somebody has removed or replaced, and all of it is gone when
// the process ends: what was acknowledged would be lost. Immutable.
type Whereabouts struct {
	paths []string
	files []os.FileInfo
}

// WhereaboutsOf takes down the database at path and its write-ahead log, which
// SQLite keeps as long as a connection is open.
func WhereaboutsOf(path string) (*Whereabouts, error) {
	p := &Whereabouts{paths: []string{path, path + "-wal"}}
	for _, path := range p.paths {
		f, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// Check returns ErrTakenAway unless both files are still where they were. It
// costs two calls of stat.
func (p *Whereabouts) Check() error {
	for i, path := range p.paths {
		f, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTakenAway, err)
		}
		if !os.SameFile(f, p.files[i]) {
			return fmt.Errorf("%w: %s is another file", ErrTakenAway, path)
		}
	}
	return nil
}
