//go:build linux

package load

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// result is what a stream of frames comes to, however it is cut.
type result struct {
	numbers        []int64
	other, corrupt int64
	replies        string
	err            error
}

// feed parses the pieces of a stream.
func feed(k Kind, p parser, pieces ...[]byte) result {
	var s shape
	var r result
	var f found
	for _, piece := range pieces {
		f.reset()
		err := p.parse(k, slices.Clone(piece), &s, &f)
		r.numbers = append(r.numbers, f.numbers...)
		r.replies += string(f.replies)
		r.other += f.other
		r.corrupt += f.corrupt
		if err != nil {
			r.err = err
			break
		}
	}
	return r
}

// cuts calls f with a stream cut in two at every byte, in equal pieces, and
// in one.
func cuts(stream []byte, f func(name string, pieces ...[]byte)) {
	f("whole", stream)
	for i := 1; i < len(stream); i++ {
		f(fmt.Sprintf("cut at %d", i), stream[:i], stream[i:])
	}
	for _, n := range []int{1, 2, 3, 5, 13, 64} {
		f(fmt.Sprintf("pieces of %d", n), slices.Collect(slices.Chunk(stream, n))...)
	}
}

// checkCuts fails unless a stream comes to the same in all cuts.
func checkCuts(t *testing.T, k Kind, p parser, stream []byte, want result) {
	t.Helper()
	cuts(stream, func(name string, pieces ...[]byte) {
		if got := feed(k, p, pieces...); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %+v, want %+v", name, got, want)
		}
	})
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// RFC 6455, section 5: frames in all lengths, fragments, control frames
// between them, split at every byte.
func TestWebSocketParser(t *testing.T) {
	f := func(name string, stream []byte, want result) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			checkCuts(t, WebSocket, parser{}, stream, want)
		})
	}
	long := func(n, size int, before string) []byte {
		return frame(0x81, append([]byte(before), append(payload(n), bytes.Repeat([]byte("y"), size)...)...))
	}
	wide := append([]byte{0x81, length64, 0, 0, 0, 0, 0, 0, 0, byte(len(payload(3)))}, payload(3)...)
	f("events", join(event(0), event(1), event(9999999999)), result{numbers: []int64{0, 1, 9999999999}})
	f("binary", frame(0x82, payload(7)), result{numbers: []int64{7}})
	f("lengths", join(event(1), long(2, 300, ""), wide, event(4)), result{numbers: []int64{1, 2, 3, 4}})
	f("marker moves", join(event(1), long(2, 0, "....."), long(3, 0, ""), event(4)), result{numbers: []int64{1, 2, 3, 4}})
	f("others", join(event(1), frame(0x81, []byte(`{"type":"ping"}`)), frame(0x81, nil), event(2)),
		result{numbers: []int64{1, 2}, other: 2})
	f("nearly a marker", join(frame(0x81, []byte(`{"id":"id":"bench"id":"bench-0000000003"`)), event(4)), result{numbers: []int64{3, 4}})
	f("not digits", join(frame(0x81, []byte(`{"id":"bench-00000x0001"}`)), event(1)), result{numbers: []int64{1}, corrupt: 1})
	f("too few digits", join(frame(0x81, []byte(`{"id":"bench-00001`)), event(1)), result{numbers: []int64{1}, corrupt: 1})
	f("too many digits", join(event(0), frame(0x81, []byte(`{"type":"x","id":"bench-00000000001"}`)), event(1)),
		result{numbers: []int64{0, 1}, corrupt: 1})

	if got := feed(WebSocket, parser{}, join(long(1, 70000, ""), event(2))); !reflect.DeepEqual(got, result{numbers: []int64{1, 2}}) {
		t.Errorf("a frame of 70,000 bytes: %+v", got)
	}

	whole := payload(5)
	f("fragments", join(frame(0x01, whole[:20]), frame(0x00, whole[20:30]), frame(0x80, whole[30:]), event(6)), result{numbers: []int64{5, 6}})
	pong := string(appendMasked(nil, 0x8a, []byte("abc")))
	f("ping between fragments", join(frame(0x01, whole[:20]), frame(0x89, []byte("abc")), frame(0x80, whole[20:]), frame(0x8a, nil)),
		result{numbers: []int64{5}, replies: pong})
	f("pings", join(frame(0x89, nil), event(1), frame(0x89, []byte("abc"))),
		result{numbers: []int64{1}, replies: string(appendMasked(nil, 0x8a, nil)) + pong})
	f("close", join(event(1), frame(0x88, []byte{3, 232}), event(2)), result{numbers: []int64{1}, err: errClosed})

	f("masked", join(event(1), encodeEvent(nil, 1)), result{numbers: []int64{1}, err: errMasked})
	f("reserved bit", join(event(1), frame(0xc1, payload(2))), result{numbers: []int64{1}, err: errReserved})
	f("reserved opcode", frame(0x83, payload(2)), result{err: errReserved})
	f("reserved control", frame(0x8b, nil), result{err: errReserved})
	f("long ping", frame(0x89, make([]byte, 126)), result{err: errControl})
	f("ping in fragments", frame(0x09, nil), result{err: errControl})
	f("continuation of nothing", frame(0x80, payload(1)), result{err: errFragments})
	f("event between fragments", join(frame(0x01, nil), event(1)), result{err: errFragments})
	f("length of 64 bits", []byte{0x81, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, result{err: errFrameLength})
}

// RFC 9112, section 7.1, and the event stream in it, chunked in any way and
// split at every byte.
func TestSSEParser(t *testing.T) {
	f := func(name string, stream []byte, want result) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			checkCuts(t, SSE, parser{}, stream, want)
		})
	}
	want := result{numbers: []int64{1, 2, 13}, other: 1}
	text := join([]byte(":hello\n\n"), sseEvent(1), []byte(`: "id":"bench-0000000099"`+"\n"), sseEvent(2), []byte("event: ping\ndata: {}\n\n\n\n"), sseEvent(13))
	for size := 1; size <= len(text); size += 1 + size/3 {
		var stream []byte
		for part := range slices.Chunk(text, size) {
			stream = append(stream, chunk(part)...)
		}
		f(fmt.Sprintf("chunks of %d", size), stream, want)
	}
	f("one event a chunk", join(chunk(sseEvent(1)), chunk([]byte(":\n\n")), chunk(sseEvent(2)), chunk(sseEvent(3))), result{numbers: []int64{1, 2, 3}})
	f("two events a chunk", join(chunk(sseEvent(1)), chunk(join(sseEvent(2), sseEvent(3))), chunk(sseEvent(4))), result{numbers: []int64{1, 2, 3, 4}})
	f("CRLF", chunk(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))), want)
	f("event and comment in one chunk", join(chunk(join(sseEvent(1), []byte(":\n"))), chunk(sseEvent(2))), result{numbers: []int64{1, 2}})
	f("data in lines", chunk([]byte("data: {\"id\":\"bench-0000000042\",\ndata: \"x\":1}\n\n")), result{numbers: []int64{42}})
	f("damaged", join(chunk([]byte("data: \"id\":\"bench-12\n\n")), chunk([]byte("data: \"id\":\"bench-0000000a00\"\n\n"))), result{corrupt: 2})
	f("extension and capitals", join([]byte("00"), fmt.Appendf(nil, "%X ; a=\"b\"\r\n%s\r\n", len(sseEvent(3)), sseEvent(3)), chunk(sseEvent(4))),
		result{numbers: []int64{3, 4}})
	f("last chunk", join(chunk(sseEvent(1)), []byte("0\r\n\r\n")), result{numbers: []int64{1}, err: errClosed})
	f("no size", []byte("x\r\n"), result{err: errChunkSize})
	f("empty size", []byte("\r\n"), result{err: errChunkSize})
	f("great size", []byte("1000000000000000000\r\n"), result{err: errChunkSize})
	f("endless size line", join([]byte("1;"), bytes.Repeat([]byte("e"), 300)), result{err: errChunkLine})
	f("long chunk", join(chunk(sseEvent(1))[:len(chunk(sseEvent(1)))-2], []byte("zz")), result{numbers: []int64{1}, err: errChunkEnd})

	t.Run("identity", func(t *testing.T) {
		checkCuts(t, SSE, parser{left: identity, stage: atPayload}, text, want)
	})
}

// A chunk that looks like one learned, but is not one event, is read by line.
func TestSSELearnsOnlySingleEvents(t *testing.T) {
	one := sseEvent(1)
	short := []byte("data: " + `"id":"bench-0000000005"` + "\n\n")
	pair := join(short, short)
	pair = append(pair[:len(pair)-2], append(bytes.Repeat([]byte(" "), len(one)-len(pair)), "\n\n"...)...)
	if len(pair) != len(one) {
		t.Fatalf("%d bytes and %d", len(pair), len(one))
	}
	got := feed(SSE, parser{}, join(chunk(one), chunk(pair), chunk(one)))
	if want := (result{numbers: []int64{1, 5, 5, 1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// No read allocates, whole or straddling (the figure of the package comment).
func TestParsersAllocateNothing(t *testing.T) {
	for _, k := range []Kind{WebSocket, SSE} {
		one := event(77)
		if k == SSE {
			one = chunk(sseEvent(77))
		}
		stream := join(one, one, one)
		var p parser
		var s shape
		f := found{numbers: make([]int64, 0, 16)}
		for _, cut := range []int{len(one), len(one) + 1, len(one) + 30, 2*len(one) - 1} {
			allocs := testing.AllocsPerRun(100, func() {
				f.reset()
				if err := errors.Join(p.parse(k, stream[:cut], &s, &f), p.parse(k, stream[cut:], &s, &f)); err != nil || len(f.numbers) != 3 {
					t.Fatalf("%v %v", f.numbers, err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v cut at %d: %v allocations", k, cut, allocs)
			}
		}
	}
}
