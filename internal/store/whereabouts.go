package store

import (
	"fmt"
	"os"
)

// whereabouts remembers which files a store has open. A process may write for weeks to
// a database that somebody has removed or replaced, and all of it is gone when
// the process ends: to acknowledge that would break S25. Immutable.
type whereabouts struct {
	paths []string
	files []os.FileInfo
}

// whereaboutsOf takes down the database at path and its write-ahead log, which SQLite
// keeps as long as a connection is open.
func whereaboutsOf(path string) (*whereabouts, error) {
	p := &whereabouts{paths: []string{path, path + "-wal"}}
	for _, path := range p.paths {
		f, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// check returns ErrTakenAway unless both files are still where they were. It
// costs two calls of stat.
func (p *whereabouts) check() error {
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
