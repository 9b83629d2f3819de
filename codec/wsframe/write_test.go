package wsframe

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// TestWriteRFC6455Section5Point7 writes the examples that a server can send,
// and the masked one that a client sends.
func TestWriteRFC6455Section5Point7(t *testing.T) {
	ops := map[string]Op{"text": OpText, "binary": OpBinary, "ping": OpPing, "pong": OpPong}
	for _, v := range vectors(t) {
		var got []byte
		switch {
		case v.name == "fragmented-unmasked":
			continue // the relay never fragments
		case v.client:
			got = append(AppendHeader(nil, ops[v.op], len(v.payload)), v.payload...)
		default:
			got = AppendMasked(nil, ops[v.op], true, testMask, v.payload)
		}
		if !bytes.Equal(got, v.wire) {
			t.Errorf("%s: %.40x, want %.40x", v.name, got, v.wire)
		}
	}
}

// TestHeaderEqualsLibrary holds AppendHeader and HeaderLen to ws.WriteHeader at
// each border of the length encoding (RFC 6455, section 5.2).
func TestHeaderEqualsLibrary(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 31, 1<<63 - 1} {
		for _, op := range []Op{OpText, OpBinary, OpClose, OpPing, OpPong} {
			var want bytes.Buffer
			if err := ws.WriteHeader(&want, ws.Header{Fin: true, OpCode: ws.OpCode(op), Length: int64(n)}); err != nil {
				t.Fatal(err)
			}
			got := AppendHeader([]byte("<"), op, n)
			if !bytes.Equal(got[1:], want.Bytes()) || len(got)-1 != HeaderLen(n) {
				t.Errorf("op %d, length %d: %x, want %x; HeaderLen %d", op, n, got[1:], want.Bytes(), HeaderLen(n))
			}
		}
	}
}

func TestAppendText(t *testing.T) {
	for _, n := range []int{0, 5, 125, 126, 65535, 65536} {
		text := strings.Repeat("x", n)
		got := AppendText([]byte("<"), []byte(text))
		items, err := run(t, &Reader{Client: true, Limit: 1 << 20}, got[1:])
		if err != nil || len(items) != 1 || items[0] != `text "`+text+`"` {
			t.Errorf("%d bytes: %.40q, %v", n, items, err)
		}
	}
	text, dst := make([]byte, 600), make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { dst = AppendText(dst[:0], text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendClose(t *testing.T) {
	f := func(code int, reason string, wantCode int, wantReason string) {
		t.Helper()
		wire := AppendClose([]byte("<"), code, reason)[1:]
		r := &Reader{Client: true}
		s := new(Scratch)
		n, msg, err := r.Feed(wire, s)
		if err != nil || n != len(wire) || msg.Op != OpClose || msg.Code != wantCode || string(msg.Payload) != wantReason {
			t.Errorf("%d %q: %x gives %d %q, %v", code, reason, wire, msg.Code, msg.Payload, err)
		}
	}
	f(CloseGoingAway, "shutting down", 1001, "shutting down")
	f(CloseTryAgainLater, "backpressure", 1013, "backpressure")
	f(CloseUnsupported, "", 1003, "")
	for _, code := range []int{0, -1, 999, 1004, 1005, 1006, 1015, 2000, 5000, 1 << 40, 1<<32 + 1000} {
		f(code, "reason", 0, "")
	}
	long := strings.Repeat("x", 122)
	f(1000, long+"yz", 1000, long+"y")
	f(1000, long+"é", 1000, long)
	f(1000, long[:121]+"é€", 1000, long[:121]+"é")
	f(1000, long[:120]+"🙂", 1000, long[:120])
	f(1000, "a\xff\xfeb", 1000, "a\ufffdb")
	f(1000, strings.Repeat("\xe2\x82x", 200), 1000, strings.Repeat("\ufffdx", 30)+"\ufffd")

	if got := AppendClose(nil, 0, "x"); !bytes.Equal(got, ws.CompiledClose) {
		t.Errorf("no code: %x", got)
	}
	if got := AppendClose(nil, 1002, ""); !bytes.Equal(got, ws.CompiledCloseProtocolError) {
		t.Errorf("1002: %x", got)
	}
	for n := range 300 {
		reason := cutReason(strings.Repeat("€", n))
		if !utf8.ValidString(reason) || len(reason) > MaxReasonBytes || len(reason) != min(n*3, MaxReasonBytes) {
			t.Errorf("%d characters cut to %d bytes", n, len(reason))
		}
	}
}

func TestAppendPingPong(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 1000} {
		payload := bytes.Repeat([]byte("p"), n)
		want := string(payload[:min(n, MaxControlBytes)])
		wire := AppendPong(AppendPing(nil, payload), payload)
		items, err := run(t, &Reader{Client: true}, wire)
		if err != nil || !slices.Equal(items, []string{`ping "` + want + `"`, `pong "` + want + `"`}) {
			t.Errorf("%d bytes: %q, %v", n, items, err)
		}
	}
}

// TestAppendMaskedBorrows proves that the payload is not masked in place.
func TestAppendMaskedBorrows(t *testing.T) {
	payload := []byte(strings.Repeat("payload", 10))
	wire := AppendMasked([]byte("<"), OpText, true, testMask, payload)
	if string(payload) != strings.Repeat("payload", 10) {
		t.Errorf("payload became %q", payload)
	}
	f := ws.UnmaskFrame(ws.Frame{Header: ws.Header{Mask: testMask}, Payload: wire[1+2+4:]})
	if !bytes.Equal(f.Payload, payload) {
		t.Errorf("the library reads %q", f.Payload)
	}
}
