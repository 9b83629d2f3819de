package agent

import (
	"context"
	"sync"
)

// Bounds of what waits between the goroutine that reads a connection and the
// one that takes: so many messages, or one more than these bytes.
const (
	maxWaitingBytes = 1 << 20
	maxWaiting      = 4096
)

// message is one message of the relay.
type message struct {
	text   []byte
	faulty string // what is wrong with it as a message, "" for nothing
}

// inbox hands messages from the goroutine that reads to the one that takes.
type inbox struct {
	more chan struct{} // has a value if something was put or has ended
	room chan struct{} // has a value if something was taken

	mu    sync.Mutex
	list  []message // guarded by mu
	bytes int       // guarded by mu
	ended bool      // guarded by mu
	err   error     // guarded by mu; set with ended
}

func newInbox() *inbox {
	return &inbox{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put takes a message over, once there is room. It fails with ctx.
func (b *inbox) put(ctx context.Context, m message) error {
	for {
		b.mu.Lock()
		if b.bytes < maxWaitingBytes && len(b.list) < maxWaiting {
			b.list = append(b.list, m)
			b.bytes += len(m.text)
			b.mu.Unlock()
			signal(b.more)
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end tells why nothing more comes.
func (b *inbox) end(err error) {
	b.mu.Lock()
	b.ended, b.err = true, err
	b.mu.Unlock()
	signal(b.more)
}

// take returns what was put since the last call, which is the caller's, and
// reports whether that was all. Of an end more tells again.
func (b *inbox) take() (list []message, ended bool, err error) {
	b.mu.Lock()
	list, b.list, b.bytes = b.list, nil, 0
	ended, err = b.ended, b.err
	b.mu.Unlock()
	signal(b.room)
	if ended {
		signal(b.more)
	}
	return list, ended, err
}

// signal leaves a value in a channel with room for one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
