package http1

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// usualPost is one event as agents send it: a head of about 370 octets and a
// body of 600.
var usualPost = []byte("POST /events HTTP/1.1\r\nHost: relay.example.com\r\n" +
	"User-Agent: agent/1.0\r\nAccept: */*\r\nAuthorization: Bearer " +
	strings.Repeat("t", 80) + "\r\nContent-Type: application/cloudevents+json\r\n" +
	"X-Request-Id: 7c9e6679-7425-40de-944b-e07fc1f90ae7\r\nContent-Length: 600\r\n\r\n" +
	strings.Repeat("x", 600))

// benchmarkFeed feeds in by pieces of size octets, once per iteration.
func benchmarkFeed(b *testing.B, in []byte, size int) {
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	var p Parser
	s := NewScratch()
	for b.Loop() {
		ends := 0
		for at := 0; at < len(in); at += size {
			piece := in[at:min(at+size, len(in))]
			for {
				n, step, _, err := p.Feed(s, piece)
				if err != nil {
					b.Fatal(err)
				}
				if piece = piece[n:]; step == NeedMore {
					break
				}
				if step == GotEnd {
					ends++
				}
			}
		}
		if ends == 0 {
			b.Fatal("no request ended")
		}
	}
}

func BenchmarkPost600(b *testing.B) {
	b.Run("whole", func(b *testing.B) { benchmarkFeed(b, usualPost, len(usualPost)) })
	b.Run("pipelined-16", func(b *testing.B) { benchmarkFeed(b, bytes.Repeat(usualPost, 16), 16<<10) })
	b.Run("dripped", func(b *testing.B) { benchmarkFeed(b, usualPost, 1) })
}

func BenchmarkBody16MiB(b *testing.B) {
	body := strings.Repeat("y", 16<<20)
	fixed := []byte(post(fmt.Sprint("Content-Length: ", len(body))) + body)
	chunk := "4000\r\n" + body[:16<<10] + "\r\n"
	chunked := []byte(post("Transfer-Encoding: chunked") + strings.Repeat(chunk, 1024) + LastChunk)
	b.Run("fixed", func(b *testing.B) { benchmarkFeed(b, fixed, 16<<10) })
	b.Run("chunked", func(b *testing.B) { benchmarkFeed(b, chunked, 16<<10) })
}

// BenchmarkHeadDripped shows that the cost of a head which comes octet by octet
// grows with its length and not with its square.
func BenchmarkHeadDripped(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10} {
		in := []byte(get("X: " + strings.Repeat("x", size)))
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) { benchmarkFeed(b, in, 1) })
	}
}

func BenchmarkHeadManyFields(b *testing.B) {
	in := []byte(get(strings.TrimSuffix(strings.Repeat("a:\r\n", 30000), "\r\n")))
	benchmarkFeed(b, in, len(in))
}
