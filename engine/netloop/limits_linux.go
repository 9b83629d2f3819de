package netloop

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// raiseLimit raises the soft descriptor limit to the hard one and returns the
// limit in force (getrlimit(2)). A refused raise leaves the soft limit.
func raiseLimit() (uint64, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("netloop: descriptor limit: %w", err)
	}
	if r.Cur < r.Max {
		raised := unix.Rlimit{Cur: r.Max, Max: r.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			r = raised
		}
	}
	return r.Cur, nil
}

// guessedDescriptors stands in where /proc is not mounted.
const guessedDescriptors = 32

// openDescriptors returns how many descriptors the process has open.
func openDescriptors() int {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return guessedDescriptors
	}
	defer d.Close() //nolint:errcheck // only read from
	names, err := d.Readdirnames(-1)
	if err != nil {
		return guessedDescriptors
	}
	return len(names) - 1 // less the directory itself
}
