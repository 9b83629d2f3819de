package http1

import (
	"strings"
	"testing"
)

// TestChunked is C09, R48 and RFC 9112 section 7.1. Each body is fed whole and
// octet by octet.
func TestChunked(t *testing.T) {
	head := post("Transfer-Encoding: chunked")
	extension := func(size int) string { return "1;" + strings.Repeat("e", size-4) + "\r\nx\r\n" }
	trailers := func(size int) string { return "0\r\nT:" + strings.Repeat("t", size-6) + "\r\n\r\n" }
	for _, c := range []struct {
		rule, in, body string
		want           *Error
	}{
		{"one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello", nil},
		{"empty body", "0\r\n\r\n", "", nil},
		{"capitals and zeros", "00000A\r\n0123456789\r\n0000000\r\n\r\n", "0123456789", nil},
		{"data of line ends", "4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", nil},
		{"extensions", "1;a\r\nx\r\n1;a=b;c=\"d e\"\r\ny\r\n0;z\r\n\r\n", "xy", nil},
		{"empty extension", "1;\r\nx\r\n0\r\n\r\n", "x", nil},
		{"longest size line", extension(ChunkLineBytes) + "0\r\n\r\n", "x", nil},
		{"size line too long", extension(ChunkLineBytes + 1), "", ErrChunkLine},
		{"trailers", "0\r\nA: b\r\nC:\r\n\r\n", "", nil},
		{"longest trailers", trailers(TrailerBytes), "", nil},
		{"trailers too long", trailers(TrailerBytes + 1), "", ErrTrailerTooLarge},

		{"2^64-1", "ffffffffffffffff\r\n", "", ErrChunkSize},
		{"2^63-1", "7fffffffffffffff\r\n", "", ErrChunkSize},
		{"eight digits", "00000001\r\n", "", ErrChunkSize},
		{"minus", "-1\r\n", "", ErrChunkSize},
		{"plus", "+1\r\n", "", ErrChunkSize},
		{"0x", "0x5\r\n", "", ErrChunkSize},
		{"space before", " 5\r\nhello\r\n", "", ErrChunkSize},
		{"space after", "5 \r\nhello\r\n", "", ErrChunkSize},
		{"space before an extension", "5 ;a\r\nhello\r\n", "", ErrChunkSize},
		{"tab after", "5\t\r\nhello\r\n", "", ErrChunkSize},
		{"empty", "\r\n", "", ErrChunkSize},
		{"extension alone", ";a\r\n", "", ErrChunkSize},
		{"no digit", "g\r\n", "", ErrChunkSize},
		{"underscore", "1_0\r\n", "", ErrChunkSize},
		{"NUL", "1\x00\r\n", "", ErrChunkSize},
		{"bare LF", "5\nhello\r\n", "", ErrChunkSize},
		{"bare CR", "5\rhello\r\n", "", ErrChunkSize},
		{"bare LF in an extension", "5;a\nhello\r\n", "", ErrChunkExtension},
		{"bare CR in an extension", "5;a\rb\r\n", "", ErrChunkSize},
		{"NUL in an extension", "5;\x00\r\n", "", ErrChunkExtension},
		{"data too long", "5\r\nhello!\r\n", "hello", ErrChunkEnd},
		{"bare LF after data", "5\r\nhello\n0\r\n\r\n", "hello", ErrChunkEnd},
		{"bare CR after data", "5\r\nhello\r0\r\n\r\n", "hello", ErrChunkEnd},
		{"no CRLF after data", "5\r\nhello0\r\n\r\n", "hello", ErrChunkEnd},
		{"bare LF at the end", "0\r\n\n", "", ErrTrailer},
		{"bare CR at the end", "0\r\n\rx", "", ErrTrailer},
		{"trailer without colon", "0\r\nT\r\n\r\n", "", ErrTrailer},
		{"trailer without name", "0\r\n: t\r\n\r\n", "", ErrTrailer},
		{"trailer with a space", "0\r\nT : t\r\n\r\n", "", ErrTrailer},
		{"folded trailer", "0\r\nT: t\r\n u\r\n\r\n", "", ErrTrailer},
		{"bare LF in a trailer", "0\r\nT: t\n\r\n", "", ErrTrailer},
		{"bare CR in a trailer", "0\r\nT: t\ru\r\n\r\n", "", ErrTrailer},
		{"NUL in a trailer", "0\r\nT: \x00\r\n\r\n", "", ErrTrailer},
		{"endless extensions", strings.Repeat(extension(1000), 17), strings.Repeat("x", 16), ErrChunkOverhead},
		{"small chunks are no offence", strings.Repeat("1\r\nx\r\n", 20000) + "0\r\n\r\n", strings.Repeat("x", 20000), nil},
	} {
		s := NewScratch()
		in := []byte(head + c.in)
		for _, size := range []int{1, len(in)} {
			got := transcribe(t, s, octets(in, size)...)
			if len(got.requests) != 1 {
				t.Fatalf("%s: %v", c.rule, got)
			}
			r := got.requests[0]
			if got.err != c.want || string(r.body) != c.body || r.done != (c.want == nil) {
				t.Errorf("%s: %.80q in pieces of %d: body %.80q, done %v, err %v; want %.80q, %v",
					c.rule, c.in, size, r.body, r.done, got.err, c.body, c.want)
			}
		}
	}
}

// TestNothingHiddenIsRead is C01: after a refusal the octets behind it are
// never taken for a request, not even when they come later.
func TestNothingHiddenIsRead(t *testing.T) {
	s := NewScratch()
	in := []byte(post("Content-Length: 6", "Transfer-Encoding: chunked") +
		"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	for cut := range in {
		var p Parser
		heads := 0
		for _, piece := range [][]byte{in[:cut], in[cut:], in} {
			for {
				n, step, _, err := p.Feed(s, piece)
				if step == GotHead {
					heads++
				}
				if piece = piece[n:]; step == NeedMore || err != nil {
					break
				}
			}
		}
		if heads != 0 || p.Idle() || p.InBody() || p.InHead() {
			t.Fatalf("cut at %d: %d heads", cut, heads)
		}
	}
}
