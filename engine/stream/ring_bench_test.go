package stream

import (
	"fmt"
	"testing"
)

// BenchmarkRingPublish publishes past the bounds, so that a frame goes with
// each. Stalled pins make it look at the minimum of each.
func BenchmarkRingPublish(b *testing.B) {
	frame := make([]byte, 1200)
	for _, pins := range []int{0, 1, 8, 1000} {
		b.Run(fmt.Sprintf("pins=%d", pins), func(b *testing.B) {
			r := listening(b, 4096, 1<<30)
			for range pins {
				r.Pin().SetMin(1)
			}
			publish(b, r, 1, 10_000, 1)
			b.ReportAllocs()
			seq := int64(10_000)
			for b.Loop() {
				seq++
				if _, err := r.Publish(seq, 0, frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRingFetch reads batches of 64, alone and beside a publisher that
// never rests.
func BenchmarkRingFetch(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("publisher=%v", busy), func(b *testing.B) {
			r := listening(b, 65536, 1<<30)
			publish(b, r, 1, 65536, 1)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				frame := make([]byte, 1)
				for seq := int64(65537); busy; seq++ {
					select {
					case <-stop:
						return
					default:
						_, _ = r.Publish(seq, 0, frame)
					}
				}
			}()
			dst := make([]*Frame, 64)
			p := r.Oldest()
			b.ReportAllocs()
			for b.Loop() {
				n, next, err := r.Fetch(p, dst, 0)
				if p = next; err != nil || n == 0 {
					p = r.Oldest()
				}
			}
			close(stop)
			<-stopped
		})
	}
}

// BenchmarkRingSeek passes over 5,000 excluded frames (F38).
func BenchmarkRingSeek(b *testing.B) {
	r := listening(b, 65536, 1<<30)
	publish(b, r, 1, 5000, 1)
	for b.Loop() {
		if p, err := r.Seek(1, KindsOf(0)); p != 5001 || err != nil {
			b.Fatal(p, err)
		}
	}
}

// BenchmarkRingJoin finds the position of a number in a full ring.
func BenchmarkRingJoin(b *testing.B) {
	r := listening(b, 65536, 1<<30)
	publish(b, r, 1, 65536, 1)
	pin := r.Pin()
	for b.Loop() {
		if p, answer := pin.Join(40_000); p != 40_001 || answer != Replay {
			b.Fatal(p, answer)
		}
	}
}
