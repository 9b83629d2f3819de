package repos

import (
	"context"
	"sync"
)

// batchBytes is how much waits between the connection and the sink; one message
// more is taken, however long. Beyond it the connection is not read, and the
// relay sees a slow consumer.
const batchBytes = 1 << 20

// keptBytes is the scratch that is kept from one batch to the next.
const keptBytes = 2 * batchBytes

// batch is some messages one behind the other. The zero value is empty.
type batch struct {
	data []byte
	list []message
}

// message is one message of a batch.
type message struct {
	end    int    // in the batch's data
	faulty string // what is wrong with it as a message, "" for nothing
}

func (b *batch) reset() {
	if cap(b.data) > keptBytes {
		b.data = nil
	}
	b.data, b.list = b.data[:0], b.list[:0]
}

// inbox hands messages from the goroutine that reads to the one that takes. Its
// batches are lent in turn: one is filled while the other is worked off.
type inbox struct {
	more chan struct{} // has a value if something was put or has ended
	room chan struct{} // has a value if something was taken

	mu      sync.Mutex
	filling *batch // guarded by mu
	ended   bool   // guarded by mu
	err     error  // guarded by mu; set with ended

	lent *batch // of the goroutine that takes
}

func newInbox() *inbox {
	return &inbox{
		more: make(chan struct{}, 1), room: make(chan struct{}, 1),
		filling: &batch{}, lent: &batch{},
	}
}

// put copies a message in, once there is room. It fails with ctx.
func (b *inbox) put(ctx context.Context, text []byte, faulty string) error {
	for {
		b.mu.Lock()
		if len(b.filling.data) < batchBytes && len(b.filling.list) < batchBytes/16 {
			f := b.filling
			f.data = append(f.data, text...)
			f.list = append(f.list, message{end: len(f.data), faulty: faulty})
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

// take returns what was put since the last call, lent until the next one, and
// reports whether that was all.
func (b *inbox) take() (lent *batch, ended bool, err error) {
	b.lent.reset()
	b.mu.Lock()
	b.lent, b.filling = b.filling, b.lent
	ended, err = b.ended, b.err
	b.mu.Unlock()
	signal(b.room)
	return b.lent, ended, err
}

// signal leaves a value in a channel with room for one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
