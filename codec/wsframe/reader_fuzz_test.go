package wsframe

import (
	"bytes"
	"slices"
	"testing"
	"unicode/utf8"
)

// FuzzReaderSplit: whatever arrives, items and error do not depend on how it is
// cut (W3), and what is held stays bounded (W1).
func FuzzReaderSplit(f *testing.F) {
	wire, _ := conversation()
	f.Add(wire, uint8(1), false)
	for _, b := range brokenStreams() {
		if len(b.wire) < 200 {
			f.Add(b.wire, uint8(3), false)
		}
	}
	for _, v := range vectors(f) {
		if len(v.wire) < 300 {
			f.Add(v.wire, uint8(2), v.client)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte, size uint8, client bool) {
		want, wantErr := run(t, &Reader{Client: client, Limit: 1000}, wire)
		s := new(Scratch)
		r := &Reader{Client: client, Limit: 1000}
		var got []string
		var err error
		arrived := 0
		for _, piece := range cut(wire, int(size)+1) {
			var items []string
			items, err = feedAll(t, r, s, piece)
			got = append(got, items...)
			arrived += len(piece)
			if r.HeldBytes() > max(2*arrived, minHeldBytes)+1+MaxControlBytes {
				t.Fatalf("%d bytes held of %d", r.HeldBytes(), arrived)
			}
			if err != nil {
				break
			}
		}
		if !slices.Equal(got, want) || err != wantErr {
			t.Fatalf("cut by %d: %q, %v; whole: %q, %v", int(size)+1, got, err, want, wantErr)
		}
	})
}

// FuzzReencode: what was decoded can be encoded, decodes to the same, and
// encodes to the same bytes again.
func FuzzReencode(f *testing.F) {
	wire, _ := conversation()
	f.Add(wire)
	f.Fuzz(func(t *testing.T, wire []byte) {
		encode := func(wire []byte) (out []byte) {
			r, s := &Reader{Limit: 1 << 20}, new(Scratch)
			for in := wire; len(in) > 0; {
				n, msg, err := r.Feed(in, s)
				if err != nil {
					break
				}
				in = in[n:]
				payload := msg.Payload
				if msg.Op == OpClose && msg.Code != 0 {
					payload = append([]byte{byte(msg.Code >> 8), byte(msg.Code)}, payload...)
				}
				if msg.Complete() {
					out = AppendMasked(out, msg.Op, true, testMask, payload)
				}
			}
			return out
		}
		once := encode(wire)
		if twice := encode(once); !bytes.Equal(once, twice) {
			t.Fatalf("%x, then %x", once, twice)
		}
	})
}

// FuzzTextUTF8: the verdict on a text message, however fragmented and cut, is
// that of utf8.Valid on the whole (R333, RFC 6455, section 8.1).
func FuzzTextUTF8(f *testing.F) {
	f.Add([]byte("κόσμε"), uint8(1), uint8(1))
	f.Add([]byte("\xed\xa0\x80edited"), uint8(2), uint8(5))
	f.Add([]byte("\xf4\x90\x80\x80"), uint8(0), uint8(0))
	f.Add([]byte("a\xf0\x9f\x99\x82\xe2\x82"), uint8(3), uint8(9))
	f.Fuzz(func(t *testing.T, text []byte, fragment, piece uint8) {
		wire := frame(OpText, false, "")
		for _, p := range cut(text, int(fragment)+1) {
			wire = append(wire, frame(OpContinuation, false, string(p))...)
		}
		wire = append(wire, frame(OpContinuation, true, "")...)
		r := &Reader{Limit: int64(len(text)) + 1}
		items, err := run(t, r, cut(wire, int(piece)+1)...)
		want := []string{show(Message{Op: OpText, Payload: text})}
		switch {
		case utf8.Valid(text) && (err != nil || !slices.Equal(items, want)):
			t.Fatalf("%q refused: %q, %v", text, items, err)
		case !utf8.Valid(text) && err != error(ErrTextUTF8):
			t.Fatalf("%q taken: %q, %v", text, items, err)
		}
	})
}
