package wsframe

import (
	"fmt"
	"strings"
	"testing"
)

// benchFeed measures one message that arrives in pieces.
func benchFeed(b *testing.B, r *Reader, size int, pieces ...[]byte) {
	r.Limit = 1 << 20
	s := new(Scratch)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		done := false
		for _, in := range pieces {
			for len(in) > 0 {
				n, msg, err := r.Feed(in, s)
				if err != nil {
					b.Fatal(err)
				}
				done = msg.Complete()
				in = in[n:]
			}
		}
		if !done {
			b.Fatal("no message")
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	for _, size := range []int{200, 600, 16 << 10} {
		text := strings.Repeat("x", size)
		wire := frame(OpText, true, text)
		b.Run(fmt.Sprint("whole/", size), func(b *testing.B) {
			benchFeed(b, new(Reader), size, wire)
		})
		b.Run(fmt.Sprint("split/", size), func(b *testing.B) {
			benchFeed(b, new(Reader), size, wire[:size/2], wire[size/2:])
		})
		b.Run(fmt.Sprint("client/", size), func(b *testing.B) {
			benchFeed(b, &Reader{Client: true}, size, AppendText(nil, []byte(text)))
		})
		fragments := frame(OpText, false, "")
		for _, p := range cut([]byte(text), 20) {
			fragments = append(fragments, frame(OpContinuation, false, string(p))...)
		}
		fragments = append(fragments, frame(OpContinuation, true, "")...)
		b.Run(fmt.Sprint("fragments/", size), func(b *testing.B) {
			benchFeed(b, new(Reader), size, fragments)
		})
	}
	// The bad case: every byte in a frame of its own, and every byte of the
	// wire in a read of its own.
	var worst []byte
	worst = append(worst, frame(OpText, false, "")...)
	for range 600 {
		worst = append(worst, frame(OpContinuation, false, "x")...)
	}
	worst = append(worst, frame(OpContinuation, true, "")...)
	b.Run("worst/600", func(b *testing.B) {
		benchFeed(b, new(Reader), 600, cut(worst, 1)...)
	})
}

func BenchmarkFeedMultibyte(b *testing.B) {
	wire := frame(OpText, true, strings.Repeat("é", 300))
	benchFeed(b, new(Reader), 600, wire)
}

func BenchmarkAppendText(b *testing.B) {
	for _, size := range []int{200, 600, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			text, dst := make([]byte, size), make([]byte, 0, size+10)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				dst = AppendText(dst[:0], text)
			}
		})
	}
}

func BenchmarkHandshake(b *testing.B) {
	q := rfcRequest()
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Check(); err != nil {
			b.Fatal(err)
		}
		dst = AppendSwitching(dst[:0], q.Key, "")
	}
}
