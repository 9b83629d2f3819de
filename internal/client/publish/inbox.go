package publish

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxErrors bounds the error frames kept between two pongs. A relay sends one
// for each line of a batch, and some that come late (R397).
const maxErrors = 2 * socketBatchLines

// settled is what the relay said about a batch, which its pong has covered.
type settled struct {
	ping   uint64
	errors []*message
}

// inbox reads a connection, so that the relay is never kept from writing while
// we write.
type inbox struct {
	conn      *socketConn
	onCommand func([]byte)
	ready     chan struct{} // has room for one

	mu      sync.Mutex
	errors  []*message // since the last pong
	settled []settled  // at most one for each ping under way
	err     error      // of the connection; nothing comes after it
}

func newInbox(c *socketConn, onCommand func([]byte)) *inbox {
	return &inbox{conn: c, onCommand: onCommand, ready: make(chan struct{}, 1)}
}

// read reads until the connection ends.
func (in *inbox) read(ctx context.Context) {
	for {
		m, err := in.conn.read(ctx)
		in.keep(m, err)
		if err != nil {
			return
		}
	}
}

// keep keeps what matters of a message.
func (in *inbox) keep(m *message, err error) {
	if err == nil && strings.Contains(m.Type, ".") {
		if in.onCommand != nil {
			in.onCommand(m.text)
		}
		return
	}
	in.mu.Lock()
	switch {
	case err != nil:
		in.err = err
	case m.Type == "error" && len(in.errors) < maxErrors:
		in.errors = append(in.errors, m)
	case m.Type == "pong":
		if n, err := strconv.ParseUint(string(m.T), 10, 64); err == nil {
			in.settled = append(in.settled, settled{ping: n, errors: in.errors})
			in.errors = nil
		}
	}
	in.mu.Unlock()
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

// take returns what came since the last call.
func (in *inbox) take() ([]settled, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.settled
	in.settled = nil
	return s, in.err
}

// lastTimeout is how long a close that explains a failed write is waited for.
const lastTimeout = 2 * time.Second

// last is take once the connection has failed: it waits for what the relay said
// last.
func (in *inbox) last() (all []settled, err error) {
	deadline := time.NewTimer(lastTimeout)
	defer deadline.Stop()
	for {
		got, err := in.take()
		if all = append(all, got...); err != nil {
			return all, err
		}
		select {
		case <-in.ready:
		case <-deadline.C:
			return all, nil
		}
	}
}
