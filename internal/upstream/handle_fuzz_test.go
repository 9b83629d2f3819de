package upstream

import (
	"context"
	"testing"

	"github.com/sluice-relay/sluice/codec/firehose"
	"github.com/sluice-relay/sluice/internal/upstream/state"
)

// FuzzHandle: whatever a host sends, two messages long, nothing panics, what is
// published can be read again, and last_seq is a number that was sent.
func FuzzHandle(f *testing.F) {
	v := readVectors(f)
	for _, vector := range v.Frames {
		f.Add(unhex(f, vector.Hex), commit(f, 5, did('a'), 1), false)
	}
	for _, vector := range v.Invalid {
		f.Add(unhex(f, vector.Hex), unhex(f, vector.Hex), true)
	}
	f.Add(account(f, 1, did('a'), false, "deleted"), syncFrame(f, 2, did('a'), 1), true)
	f.Fuzz(func(t *testing.T, first, second []byte, off bool) {
		published := &stream{}
		cfg := Config{Store: newMemory(t), Publish: published.publish}
		if off {
			cfg.Verify = VerifyOff
		}
		m, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := newHost(m, state.Host{ID: 1, LastSeq: state.NoSeq})
		m.addLocked(h)
		c := newConnection(h, nil)
		var s firehose.Scanner
		for _, message := range [][]byte{first, second} {
			before := h.lastSeq
			c.message = append(c.message[:0], message...)
			err := c.handle(context.Background())
			var got firehose.Frame
			scanned := s.Scan(message, &got)
			if (firehose.ReactionTo(scanned) == firehose.DropConnection || got.Kind() == firehose.KindError && scanned == nil) != (err != nil) {
				t.Errorf("%v, %v", err, scanned)
			}
			if h.lastSeq != before && (h.lastSeq != got.Seq || got.Seq < 1 || h.lastSeq < before) {
				t.Errorf("from %d to %d by %d", before, h.lastSeq, got.Seq)
			}
			if err != nil {
				break
			}
		}
		published.lines(t)
		if n := int64(len(published.frames)); h.counts.published.Load() != n || n > h.counts.frames.Load() {
			t.Errorf("%d published", n)
		}
	})
}
