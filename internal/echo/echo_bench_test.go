package echo

import (
	"fmt"
	"testing"

	"github.com/sluice-relay/sluice/internal/relaytest"
)

// BenchmarkRoundTrip is one message there and back over a real socket.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{16, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, err := New(Config{Addr: "127.0.0.1:0"})
			if err != nil {
				b.Fatal(err)
			}
			s.Start()
			defer func() { _ = s.Shutdown(b.Context()) }()
			w, err := relaytest.DialWS(s.Addr(), "/", relaytest.WSOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			frame := relaytest.Frame{Opcode: relaytest.OpBinary, Payload: make([]byte, size)}.Bytes()
			b.SetBytes(int64(size))
			b.ReportAllocs() // the client's are counted too
			for b.Loop() {
				if err := w.Send(frame); err != nil {
					b.Fatal(err)
				}
				if _, err := w.Next(patience); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
