//go:build linux

package load

import (
	"reflect"
	"testing"
)

// fuzzCuts fails if a stream comes to something else when it is cut.
func fuzzCuts(t *testing.T, k Kind, p parser, stream []byte, cut uint16) {
	whole := feed(k, p, stream)
	i := int(cut) % (len(stream) + 1)
	if got := feed(k, p, stream[:i], stream[i:]); !reflect.DeepEqual(got, whole) {
		t.Fatalf("cut at %d: %+v, whole: %+v", i, got, whole)
	}
	bytes := make([][]byte, len(stream))
	for i := range stream {
		bytes[i] = stream[i : i+1]
	}
	if got := feed(k, p, bytes...); !reflect.DeepEqual(got, whole) {
		t.Fatalf("byte by byte: %+v, whole: %+v", got, whole)
	}
}

func FuzzWebSocketParser(f *testing.F) {
	f.Add(join(event(1), frame(0x81, []byte("{}")), event(2)), uint16(10))
	f.Add(join(frame(0x01, payload(5)[:20]), frame(0x89, []byte("abc")), frame(0x80, payload(5)[20:])), uint16(24))
	f.Add(frame(0x81, make([]byte, 300)), uint16(3))
	f.Add(frame(0x81, []byte(`"id":"bench-12`)), uint16(5))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) { fuzzCuts(t, WebSocket, parser{}, stream, cut) })
}

func FuzzSSEParser(f *testing.F) {
	f.Add(join(chunk(sseEvent(1)), chunk([]byte(":\n\n")), chunk(sseEvent(2))), uint16(10), false)
	f.Add(join(chunk(sseEvent(1)[:20]), chunk(sseEvent(1)[20:]), []byte("0\r\n\r\n")), uint16(3), false)
	f.Add(join(sseEvent(1), []byte("\r\n"), sseEvent(2)), uint16(3), true)
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16, whole bool) {
		var p parser
		if whole {
			p = parser{left: identity, stage: atPayload}
		}
		fuzzCuts(t, SSE, p, stream, cut)
	})
}
