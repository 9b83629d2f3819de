package netloop

import (
	"fmt"
	"math"
)

// Limits are the descriptor numbers that the connection cap comes from (N1).
// All are counts.
type Limits struct {
	// Descriptors is the process's limit on open descriptors.
	Descriptors int
	// Reserve is what is kept for all that is no client connection.
	Reserve int
	// Conns is the connection cap.
	Conns int

	slots int // enrolments in flight at once, and lingering sockets at once
}

const (
	minSlots, maxSlots = 2, 64
	minOther, maxOther = 8, 256

	// loopDescriptors are what one event loop holds: its epoll set, its
	// eventfd and both ends of the keeper socket.
	loopDescriptors = 4
	// ownDescriptors are the watcher's epoll set and eventfd and the spare.
	ownDescriptors = 3
)

// deriveLimits computes the cap for a descriptor limit, of which open are in
// use already. Nothing it returns but the cap grows with the limit beyond the
// bounds above, whatever the limit is.
func deriveLimits(limit uint64, open int, cfg *Config) (Limits, error) {
	n := int(min(limit, math.MaxInt32))
	l := Limits{Descriptors: n, Reserve: cfg.Reserve, slots: min(max(n/32, minSlots), maxSlots)}
	if l.Reserve == 0 {
		// While a socket is enrolled it has two descriptors; a lingering one
		// is no longer a connection. Others: files, databases, look-ups.
		other := min(max(n/8, minOther), maxOther)
		l.Reserve = open + cfg.Loops*loopDescriptors + 2*len(cfg.Addrs) + ownDescriptors +
			2*l.slots + other
	}
	l.Conns = n - l.Reserve
	switch {
	case l.Conns < 1:
		return l, fmt.Errorf("%w: limit %d, reserve %d", ErrFewDescriptors, n, l.Reserve)
	case cfg.MaxConns > l.Conns:
		return l, fmt.Errorf("%w: MaxConns %d, limit %d, reserve %d",
			ErrMaxConns, cfg.MaxConns, n, l.Reserve)
	case cfg.MaxConns > 0:
		l.Conns = cfg.MaxConns
	}
	return l, nil
}
