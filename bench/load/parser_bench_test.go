//go:build linux

package load

import (
	"bytes"
	"fmt"
	"testing"
)

// BenchmarkParser is the cost per frame of recognising events in full reads,
// and in reads that end within every frame.
func BenchmarkParser(b *testing.B) {
	for _, k := range []Kind{WebSocket, SSE} {
		for _, size := range []int{200, 600, 16 << 10} {
			text := append(payload(77), bytes.Repeat([]byte("y"), size-len(payload(77)))...)
			one := frame(0x81, text)
			if k == SSE {
				one = chunk(fmt.Appendf(nil, "event: message\nid: 77\ndata: %s\n\n", text))
			}
			read := bytes.Repeat(one, max(1, readBytes/len(one)))
			for name, reads := range map[string][][]byte{
				"whole":      {read},
				"straddling": {read[:len(one)/2], read[len(one)/2 : len(one)]},
			} {
				b.Run(fmt.Sprintf("%v/%d/%s", k, size, name), func(b *testing.B) {
					lock()
					defer unlock()
					benchmarkParser(b, k, reads)
				})
			}
		}
	}
}

func benchmarkParser(b *testing.B, k Kind, reads [][]byte) {
	var p parser
	var s shape
	f := found{numbers: make([]int64, 0, maxPerRead)}
	frames := 0
	b.ReportAllocs()
	cpu := threadCPU()
	for b.Loop() {
		for _, read := range reads {
			f.reset()
			if err := p.parse(k, read, &s, &f); err != nil {
				b.Fatal(err)
			}
			frames += len(f.numbers)
		}
	}
	b.ReportMetric(float64((threadCPU()-cpu).Nanoseconds())/float64(frames), "cpu-ns/frame")
}

// BenchmarkDeliver is the cost per delivery of the accounting.
func BenchmarkDeliver(b *testing.B) {
	const events = 100
	lock()
	defer unlock()
	c, r := accountant(events, Class{Count: 1})
	cn := &c.consumers[0]
	numbers := make([]int64, events)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	b.ReportAllocs()
	n := 0
	cpu := threadCPU()
	for b.Loop() {
		cn.next, r.inFlight = 0, events
		for i := range r.missing {
			r.missing[i] = 1
		}
		r.deliver(cn, &c.classes[0], 0, numbers, int64(n))
		n += events
	}
	b.ReportMetric(float64((threadCPU()-cpu).Nanoseconds())/float64(n), "cpu-ns/delivery")
}

func BenchmarkHistogramRecord(b *testing.B) {
	var h Histogram
	v := int64(1)
	b.ReportAllocs()
	for b.Loop() {
		v = (v*1103515245 + 12345) & (1<<31 - 1)
		h.record(v)
	}
}

// BenchmarkFanOut is the whole path over sockets, with a goroutine per
// publisher message as the server. client-ns/delivery is the client's CPU.
func BenchmarkFanOut(b *testing.B) {
	for _, consumers := range []int{10, 1000} {
		for _, window := range []int{1, 32} {
			b.Run(fmt.Sprintf("%d/window %d", consumers, window), func(b *testing.B) {
				h := newHub(b)
				c := h.connect(ws(consumers))
				first, total := 0, Outcome{}
				for b.Loop() {
					out := mustRun(b, c, Load{Publisher: testPublisher, First: first, Events: 64, Window: window, Batch: window})
					first += 64
					total.ClientCPU += out.ClientCPU
					total.Deliveries += out.Deliveries
				}
				b.ReportMetric(float64(total.ClientCPU.Nanoseconds())/float64(total.Deliveries), "client-ns/delivery")
			})
		}
	}
}
