package repos

import (
	"context"
	"errors"
	"testing"
)

// What waits for the sink is bounded by bytes and by messages, and comes out as
// it went in.
func TestInboxBounds(t *testing.T) {
	f := func(size, most int) {
		t.Helper()
		b := newInbox()
		ctx, cancel := context.WithCancel(t.Context())
		text := make([]byte, size)
		for range most {
			if err := b.put(ctx, text, ""); err != nil {
				t.Fatal(err)
			}
		}
		full := make(chan error)
		go func() { full <- b.put(ctx, text, "late") }()
		cancel()
		if err := <-full; !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes: message %d is taken: %v", size, most+1, err)
		}
		got, ended, _ := b.take()
		if len(got.list) != most || len(got.data) != size*most || ended {
			t.Errorf("%d bytes: %d messages, %d bytes", size, len(got.list), len(got.data))
		}
		if err := b.put(t.Context(), text, "after"); err != nil {
			t.Error(err)
		}
		b.end(errEnded)
		got, ended, err := b.take()
		if len(got.list) != 1 || got.list[0] != (message{size, "after"}) || !ended || !errors.Is(err, errEnded) {
			t.Errorf("%d bytes: then %+v, %v, %v", size, got.list, ended, err)
		}
	}
	f(0, batchBytes/16)
	f(1<<10, batchBytes>>10)
	f(3*batchBytes, 1)
}
