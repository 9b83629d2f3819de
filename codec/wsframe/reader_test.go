package wsframe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestRFC6455Section5Point7(t *testing.T) {
	for _, v := range vectors(t) {
		want := []string{fmt.Sprintf("%s %q", v.op, v.payload)}
		for _, size := range []int{1, 2, 3, 7, len(v.wire)} {
			r := &Reader{Client: v.client, Limit: 1 << 16}
			items, err := run(t, r, cut(v.wire, size)...)
			if err != nil || !slices.Equal(items, want) {
				t.Errorf("%s in pieces of %d: %.80q, %v", v.name, size, items, err)
			}
		}
	}
}

// conversation holds everything a client may send, with control frames between
// fragments (C21) and empty fragments.
func conversation() (wire []byte, items []string) {
	long := strings.Repeat("é", 200)
	wire = join(
		frame(OpText, true, "one"),
		frame(OpText, true, ""),
		frame(OpText, false, "spl\xe2\x82"),
		frame(OpPing, true, "hi"),
		frame(OpContinuation, false, ""),
		frame(OpPong, true, ""),
		frame(OpContinuation, true, "\xacit"),
		frame(OpBinary, true, "\xff\x00"),
		frame(OpBinary, false, ""),
		frame(OpContinuation, true, "whole\xff"),
		frame(OpText, true, long),
		frame(OpPing, true, strings.Repeat("p", MaxControlBytes)),
		frame(OpClose, true, "\x03\xe8bye é"),
		frame(OpText, true, "after the close"),
	)
	return wire, []string{
		`text "one"`, `text ""`, `ping "hi"`, `pong ""`, `text "spl€it"`,
		`binary "\xff\x00"`, `binary "whole\xff"`, fmt.Sprintf("text %q", long),
		fmt.Sprintf("ping %q", strings.Repeat("p", MaxControlBytes)), `close 1000 "bye é"`,
	}
}

func TestR303SplitAtEveryByte(t *testing.T) {
	wire, want := conversation()
	for i := 1; i < len(wire); i++ {
		items, err := run(t, new(Reader), wire[:i], wire[i:])
		if err != nil || !slices.Equal(items, want) {
			t.Fatalf("cut at %d: %q, %v", i, items, err)
		}
	}
	for _, size := range []int{1, 2, 3, 5, 13, 100, len(wire)} {
		r := new(Reader)
		items, err := run(t, r, cut(wire, size)...)
		if err != nil || !slices.Equal(items, want) {
			t.Errorf("in pieces of %d: %q, %v", size, items, err)
		}
		if r.HeldBytes() != 0 {
			t.Errorf("in pieces of %d: %d bytes held at the end", size, r.HeldBytes())
		}
	}
}

// header returns a masked header with any bits: no frame of ours looks so.
func header(first, second byte, rest ...byte) []byte {
	return append([]byte{first, second}, rest...)
}

// broken is a stream that ends with an error, and what precedes the error.
type broken struct {
	name  string
	wire  []byte
	want  *Error
	items []string
}

// brokenStreams has one stream or more for each rule, R332 and R333. The limit
// of the reader is 1000 bytes.
func brokenStreams() []broken {
	mask := string(testMask[:])
	big := func(length string) []byte { return []byte("\x82\xff" + length + mask) }
	list := []broken{
		{"C22 unmasked", []byte("\x81\x05Hello"), ErrUnmasked, nil},
		{"C22 unmasked empty", []byte("\x81\x00"), ErrUnmasked, nil},
		{"C22 RSV1", header(0xc1, 0x80, testMask[:]...), ErrReservedBits, nil},
		{"RSV2", header(0xa1, 0x80, testMask[:]...), ErrReservedBits, nil},
		{"RSV3", header(0x91, 0x80, testMask[:]...), ErrReservedBits, nil},
		{"RSV1 on a ping", header(0xc9, 0x80, testMask[:]...), ErrReservedBits, nil},
		{
			"RSV1 on a continuation", join(frame(OpText, false, "a"), header(0xc0, 0x80, testMask[:]...)),
			ErrReservedBits, nil,
		},
		{"C21 fragmented ping", frame(OpPing, false, "x"), ErrControlFragmented, nil},
		{"C21 ping of 126", frame(OpPing, true, strings.Repeat("x", 126)), ErrControlTooLong, nil},
		{"C21 close of 126", frame(OpClose, true, "\x03\xe8"+strings.Repeat("x", 124)), ErrControlTooLong, nil},
		{"pong of 2^16", frame(OpPong, true, strings.Repeat("x", 1<<16)), ErrControlTooLong, nil},
		{"C22 continuation first", frame(OpContinuation, true, "x"), ErrContinuationFirst, nil},
		{
			"continuation after the end", join(frame(OpText, true, "x"), frame(OpContinuation, false, "y")),
			ErrContinuationFirst,
			[]string{`text "x"`},
		},
		{
			"C22 text inside a message", join(frame(OpText, false, "x"), frame(OpPing, true, ""), frame(OpText, true, "y")),
			ErrMessageOpen,
			[]string{`ping ""`},
		},
		{"binary inside a message", join(frame(OpText, false, ""), frame(OpBinary, false, "")), ErrMessageOpen, nil},
		{"C19 MSB", big("\x80\x00\x00\x00\x00\x00\x00\x00"), ErrLengthMSB, nil},
		{"C19 all bits", big("\xff\xff\xff\xff\xff\xff\xff\xff"), ErrLengthMSB, nil},
		{"C19 2^34", big("\x00\x00\x00\x04\x00\x00\x00\x00"), ErrMessageTooBig, nil},
		{"C19 2^40", big("\x00\x00\x01\x00\x00\x00\x00\x00"), ErrMessageTooBig, nil},
		{"C19 2^63-1", big("\x7f\xff\xff\xff\xff\xff\xff\xff"), ErrMessageTooBig, nil},
		{"one over the limit", frame(OpText, true, strings.Repeat("x", 1001)), ErrMessageTooBig, nil},
		{
			"fragments over the limit",
			join(frame(OpText, false, strings.Repeat("x", 600)), frame(OpContinuation, true, strings.Repeat("x", 401))),
			ErrMessageTooBig, nil,
		},
		{"16 bits for 125", []byte("\x81\xfe\x00\x7d" + mask), ErrLengthNotMinimal, nil},
		{"64 bits for 125", big("\x00\x00\x00\x00\x00\x00\x00\x7d"), ErrLengthNotMinimal, nil},
		{"64 bits for 65535", big("\x00\x00\x00\x00\x00\x00\xff\xff"), ErrLengthNotMinimal, nil},
		{"control with 16 bits for 5", []byte("\x89\xfe\x00\x05" + mask), ErrLengthNotMinimal, nil},
		{"text not UTF-8", frame(OpText, true, "a\xff"), ErrTextUTF8, nil},
		{"text with a surrogate", frame(OpText, true, "\xed\xa0\x80"), ErrTextUTF8, nil},
		{"text ends inside a sequence", frame(OpText, true, "\xe2\x82"), ErrTextUTF8, nil},
		{
			"fragments end inside a sequence", join(frame(OpText, false, "\xe2"), frame(OpContinuation, true, "\x82")),
			ErrTextUTF8, nil,
		},
		{
			"empty fragment ends inside a sequence", join(frame(OpText, false, "\xe2"), frame(OpContinuation, true, "")),
			ErrTextUTF8, nil,
		},
		{"close of one byte", frame(OpClose, true, "\x03"), ErrClosePayload, nil},
		{"close reason not UTF-8", frame(OpClose, true, "\x03\xe8\xe2\x82"), ErrCloseReasonUTF8, nil},
	}
	for _, op := range []Op{3, 4, 5, 6, 7, 0xb, 0xc, 0xd, 0xe, 0xf} {
		list = append(list, broken{fmt.Sprint("C22 opcode ", op), frame(op, true, ""), ErrReservedOpcode, nil})
	}
	for _, code := range []int{0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535} {
		payload := string([]byte{byte(code >> 8), byte(code)})
		list = append(list, broken{fmt.Sprint("close code ", code), frame(OpClose, true, payload), ErrCloseCode, nil})
	}
	return list
}

func TestR333Errors(t *testing.T) {
	codes := map[*Error]int{
		ErrTextUTF8: CloseInvalidPayload, ErrCloseReasonUTF8: CloseInvalidPayload, ErrMessageTooBig: CloseTooBig,
	}
	for _, b := range brokenStreams() {
		for _, pieces := range [][][]byte{{b.wire}, cut(b.wire, 1), cut(b.wire, 3)} {
			r := &Reader{Limit: 1000}
			items, err := run(t, r, pieces...)
			if !errors.Is(err, b.want) || !slices.Equal(items, b.items) {
				t.Errorf("%s in %d pieces: %q, %v", b.name, len(pieces), items, err)
				continue
			}
			want := CloseProtocolError
			if code, other := codes[b.want]; other {
				want = code
			}
			if b.want.CloseCode() != want || len(err.Error()) > MaxReasonBytes {
				t.Errorf("%s: %d %q", b.name, b.want.CloseCode(), err)
			}
			again, err := run(t, r, frame(OpText, true, "x"))
			if err != error(b.want) || again != nil || r.HeldBytes() != 0 {
				t.Errorf("%s: lives on with %q, %v, %d bytes held", b.name, again, err, r.HeldBytes())
			}
		}
	}
}

func TestHeaderErrorIsNeverNil(t *testing.T) {
	if err := headerError(errors.New("a rule of a later version")); err != ErrHeader {
		t.Error(err)
	}
}

func TestCloseCodesOnTheWire(t *testing.T) {
	for code := -1; code <= 70000; code++ {
		want := code >= 1000 && code <= 1003 || code >= 1007 && code <= 1014 || code >= 3000 && code <= 4999
		if closeCodeOnWire(code) != want {
			t.Errorf("close code %d: %v", code, !want)
		}
	}
	items, err := run(t, new(Reader), frame(OpClose, true, ""))
	if err != nil || !slices.Equal(items, []string{`close 0 ""`}) {
		t.Errorf("close without a code: %q, %v", items, err)
	}
}

func TestClientRefusesMasked(t *testing.T) {
	items, err := run(t, &Reader{Client: true}, AppendText(nil, []byte("a")), frame(OpText, true, "b"))
	if !errors.Is(err, ErrMasked) || !slices.Equal(items, []string{`text "a"`}) {
		t.Errorf("%q, %v", items, err)
	}
}

// TestR332LimitFollowsTheField proves that the limit can change between
// messages and inside one.
func TestR332LimitFollowsTheField(t *testing.T) {
	r, s := new(Reader), new(Scratch)
	f := func(limit int64, fin bool, op Op, size int, want error) {
		t.Helper()
		r.Limit = limit
		if _, err := feedAll(t, r, s, frame(op, fin, strings.Repeat("x", size))); err != want {
			t.Errorf("limit %d, %d bytes: %v, want %v", limit, size, err, want)
		}
	}
	f(0, true, OpText, DefaultLimit, nil)
	f(1<<20, true, OpText, 1<<20, nil)
	f(10, false, OpText, 10, nil)
	f(10, false, OpContinuation, 0, nil)
	f(12, true, OpContinuation, 2, nil)
	f(10, false, OpText, 10, nil)
	f(5, true, OpPing, 10, nil)
	f(5, true, OpContinuation, 0, ErrMessageTooBig)

	r = new(Reader)
	f(0, true, OpText, DefaultLimit+1, ErrMessageTooBig)
}

// TestR332DecidedBeforeTheMask proves that a peer cannot put off the verdict
// by holding back the mask.
func TestR332DecidedBeforeTheMask(t *testing.T) {
	for _, wire := range []string{"\x81\xff\x00\x00\x00\x04\x00\x00\x00\x00", "\x81\xfe\xff\xff", "\xc1\x81"} {
		r := &Reader{Limit: 1000}
		for i, piece := range cut([]byte(wire), 1) {
			_, err := run(t, r, piece)
			if (err != nil) != (i == len(wire)-1) {
				t.Errorf("%x: %v after %d bytes", wire, err, i+1)
			}
		}
	}
}

// TestC19NothingIsAllocated covers W1: a declared length costs nothing, in the
// limit or over it.
func TestC19NothingIsAllocated(t *testing.T) {
	s := new(Scratch)
	for shift := range 63 {
		length := uint64(1)<<shift - 1
		wire := []byte{0x82, 0xff}
		for i := range 8 {
			wire = append(wire, byte(length>>(56-8*i)))
		}
		wire = append(wire, testMask[:]...)
		for _, limit := range []int64{1000, 1<<63 - 1} {
			r := new(Reader)
			allocs := testing.AllocsPerRun(5, func() {
				*r = Reader{Limit: limit}
				for _, piece := range [][]byte{wire[:11], wire[11:]} {
					if _, _, err := r.Feed(piece, s); err != nil {
						break
					}
				}
				if r.HeldBytes() != 0 {
					t.Fatalf("2^%d-1 declared: %d bytes held", shift, r.HeldBytes())
				}
			})
			if allocs != 0 {
				t.Errorf("2^%d-1 declared, limit %d: %v allocations", shift, limit, allocs)
			}
		}
	}
}

// TestW1HeldFollowsWhatArrived feeds a message in pieces and looks at the bound
// after each.
func TestW1HeldFollowsWhatArrived(t *testing.T) {
	const size = 1 << 20
	for _, piece := range []int{1000, 1447, 64 << 10} {
		r, s := &Reader{Limit: 4 * size}, new(Scratch)
		wire := frame(OpBinary, true, strings.Repeat("x", size))
		arrived := -14
		for _, p := range cut(wire, piece) {
			if _, err := feedAll(t, r, s, p); err != nil {
				t.Fatal(err)
			}
			arrived += len(p)
			if held := r.HeldBytes(); held > max(2*arrived, minHeldBytes) {
				t.Fatalf("%d bytes arrived in pieces of %d, %d held", arrived, piece, held)
			}
		}
		if r.HeldBytes() != 0 {
			t.Errorf("%d bytes held after the message", r.HeldBytes())
		}
	}
}

func TestW2ReaderIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Reader{}); size > 96 {
		t.Errorf("a reader takes %d bytes", size)
	}
}

// TestPayloadIsBorrowed proves both halves of the ownership rule: a payload is
// intact until the next Feed with its Scratch, and another reader's Feed with
// another Scratch does not touch it.
func TestPayloadIsBorrowed(t *testing.T) {
	a, b := new(Reader), new(Reader)
	sa, sb := new(Scratch), new(Scratch)
	wire := frame(OpText, true, strings.Repeat("a", 600))
	_, _, _ = a.Feed(wire[:300], sa)
	_, msg, err := a.Feed(wire[300:], sa)
	if err != nil || !msg.Complete() {
		t.Fatal(msg, err)
	}
	for range 3 {
		for _, p := range cut(frame(OpText, true, strings.Repeat("b", 600)), 50) {
			if _, err := feedAll(t, b, sb, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if string(msg.Payload) != strings.Repeat("a", 600) {
		t.Errorf("payload changed: %q", msg.Payload)
	}
}

// TestManyFragmentsAreLinear feeds 100,000 fragments of one byte, and as many
// empty ones, with pings between: the work a byte must not grow.
func TestManyFragmentsAreLinear(t *testing.T) {
	const count = 100_000
	var wire []byte
	wire = append(wire, frame(OpText, false, "")...)
	for i := range count {
		wire = append(wire, frame(OpContinuation, false, "x")...)
		wire = append(wire, frame(OpContinuation, false, "")...)
		if i%1000 == 0 {
			wire = append(wire, frame(OpPing, true, "p")...)
		}
	}
	wire = append(wire, frame(OpContinuation, true, "é")...)
	r, s := &Reader{Limit: count + 2}, new(Scratch)
	var last Message
	pings, grown := 0, 0
	for in := wire; len(in) > 0; {
		before := r.HeldBytes()
		n, msg, err := r.Feed(in[:min(len(in), 4096)], s)
		if err != nil {
			t.Fatal(err)
		}
		if r.HeldBytes() > before {
			grown++
		}
		if msg.Op == OpPing {
			pings++
		} else if msg.Complete() {
			last = msg
		}
		in = in[n:]
	}
	if len(last.Payload) != count+2 || pings != count/1000 {
		t.Errorf("%d bytes, %d pings", len(last.Payload), pings)
	}
	if grown > 10 {
		t.Errorf("the buffer grew %d times: not in doubles", grown)
	}
}

// TestSteadyStateDoesNotAllocate covers whole messages, control frames, and
// messages cut by a read.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	f := func(name string, client bool, pieces ...[]byte) {
		t.Helper()
		r, s := &Reader{Client: client, Limit: 1 << 20}, new(Scratch)
		allocs := testing.AllocsPerRun(100, func() {
			for _, in := range pieces {
				for len(in) > 0 {
					n, _, err := r.Feed(in, s)
					if err != nil {
						t.Fatal(name, err)
					}
					in = in[n:]
				}
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
	small := frame(OpText, true, strings.Repeat("x", 200))
	large := frame(OpText, true, strings.Repeat("é", 8<<10))
	f("small", false, small)
	f("large", false, large)
	f("three and a ping", false, join(small, large, frame(OpPing, true, "p"), small))
	f("client", true, AppendText(nil, []byte("hello")))
	f("small, cut", false, small[:100], small[100:])
	f("header cut", false, small[:3], small[3:])
	f("large, in tenths", false, cut(large, len(large)/10)...)
}

// TestScratchFollowsTheTraffic proves that the sizes of yesterday do not fill a
// Scratch forever.
func TestScratchFollowsTheTraffic(t *testing.T) {
	s := new(Scratch)
	for range freeCount {
		s.recycle(make([]byte, minHeldBytes))
	}
	r := new(Reader)
	pieces := cut(frame(OpText, true, strings.Repeat("x", 16<<10)), 10<<10)
	n := testing.AllocsPerRun(10*freeCount, func() {
		for _, in := range pieces {
			if _, _, err := r.Feed(in, s); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

// TestScratchIsBounded proves that neither a huge message nor many sizes make a
// Scratch keep more than its bound.
func TestScratchIsBounded(t *testing.T) {
	r, s := &Reader{Limit: 1 << 20}, new(Scratch)
	for size := 100; size < 1<<20; size *= 3 {
		wire := frame(OpBinary, true, strings.Repeat("x", size))
		last := len(wire) - 1
		for range 3 {
			for _, piece := range [][]byte{wire, wire[:last], wire[last:]} {
				if _, err := feedAll(t, r, s, piece); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s.trim()
	kept := cap(s.whole)
	for _, b := range s.free {
		if cap(b) > keepFreeBytes {
			t.Errorf("kept a buffer of %d bytes", cap(b))
		}
		kept += cap(b)
	}
	if kept > keepWholeBytes+freeCount*keepFreeBytes {
		t.Errorf("%d bytes kept", kept)
	}
}

// TestAtRest: a reader that says it is at rest can be replaced by a new one, and
// every reader is between messages.
func TestAtRest(t *testing.T) {
	wire, want := conversation()
	var items []string
	r, fresh := &Reader{Limit: 1 << 16}, 0
	for _, b := range cut(wire, 1) {
		more, err := run(t, r, b)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, more...)
		if r.AtRest() {
			r = &Reader{Limit: 1 << 16}
			fresh++
		}
	}
	if !slices.Equal(items, want) {
		t.Errorf("%.200q, want %.200q", items, want)
	}
	if fresh == 0 {
		t.Error("the reader never was at rest")
	}
	for name, wire := range map[string]string{
		"header": "\x81", "mask": "\x81\x81\x00", "payload": "\x81\x82\x00\x00\x00\x00a",
		"fragment": "\x01\x80\x00\x00\x00\x00", "control": "\x89\x82\x00\x00\x00\x00a",
		"close": "\x88\x80\x00\x00\x00\x00", "error": "\x83\x80\x00\x00\x00\x00",
	} {
		r := &Reader{}
		if _, _, err := r.Feed([]byte(wire), new(Scratch)); err == nil && name == "error" {
			t.Error("no error")
		}
		if r.AtRest() {
			t.Errorf("at rest after %s", name)
		}
	}
}
