package sse

import (
	"bytes"
	"fmt"
	"testing"
)

func BenchmarkAppendEvent(b *testing.B) {
	for _, size := range []int{200, 600, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			data, id := bytes.Repeat([]byte("x"), size), make([]byte, 0, 64)
			dst := make([]byte, 0, size+128)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				id, _ = AppendID(id[:0], "sess-5f2b9c", 1, 1842)
				dst = AppendEvent(dst[:0], "tool.started", data, id)
			}
		})
	}
}

func BenchmarkParseLastEventID(b *testing.B) {
	v := []byte("sess-5f2b9c:1:1842")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, ok := ParseLastEventID(v); !ok {
			b.Fatal("not parsed")
		}
	}
}

func BenchmarkDecoder(b *testing.B) {
	for _, size := range []int{200, 600, 16 << 10} {
		stream := AppendEvent(nil, "tool.started", bytes.Repeat([]byte("x"), size), []byte("s:1:2"))
		for _, pieces := range []int{1, 2} {
			b.Run(fmt.Sprintf("%d/pieces=%d", size, pieces), func(b *testing.B) {
				d, parts := new(Decoder), cut(stream, (len(stream)+pieces-1)/pieces)
				deliver := func(Item) error { return nil }
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					for _, p := range parts {
						if err := d.Feed(p, deliver); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
