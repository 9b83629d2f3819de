package sse

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// FuzzDecoderSplit: items and error do not depend on how the stream is cut (E2)
// and what is held stays bounded (E3).
func FuzzDecoderSplit(f *testing.F) {
	_, columns := table(f, "whatwg.txt")
	for _, row := range columns {
		f.Add([]byte(row[0]), uint8(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole := &Decoder{MaxLineBytes: 30, MaxEventBytes: 60}
		want, wantErr := decode(whole, stream)
		parts := &Decoder{MaxLineBytes: 30, MaxEventBytes: 60}
		got, err := decode(parts, cut(stream, int(size)+1)...)
		if !slices.Equal(got, want) || err != wantErr {
			t.Fatalf("cut by %d: %q, %v; whole: %q, %v", int(size)+1, got, err, want, wantErr)
		}
		for _, d := range []*Decoder{whole, parts} {
			if len(d.line) > 30 || len(d.typ)+len(d.data)+len(d.id) > 60 {
				t.Fatalf("%d and %d bytes held", len(d.line), len(d.data))
			}
		}
	})
}

// FuzzEventRoundTrip: an event that was written is read as one event, the same,
// whatever its parts hold (E1); so is a comment.
func FuzzEventRoundTrip(f *testing.F) {
	f.Add("tool.started", []byte(`{"a":1}`), []byte("s:0:1"), "ping")
	f.Add("", []byte(""), []byte(""), "")
	f.Add("a\nb", []byte("x\r\n\r\ndata: y\n\n: z"), []byte("1\x00"), "a\r\nb\x00c")
	f.Add(" a", []byte(" \xff"), []byte(" 7"), " x")
	f.Fuzz(func(t *testing.T, typ string, data, id []byte, comment string) {
		stream := AppendRetryOpen(nil, comment, 1000)
		stream = AppendEvent(stream, typ, data, id)
		stream = AppendComment(stream, comment)

		escape := strings.NewReplacer("\r", "%0D", "\n", "%0A", "\x00", "%00")
		note := show(Item{Kind: KindComment, Data: []byte(escape.Replace(comment))})
		event := Item{Kind: KindEvent, Type: []byte(typ), ID: id, IDSet: len(id) > 0}
		if typ == "" || strings.ContainsAny(typ, lineBreakers) {
			event.Type = []byte("message")
		}
		if bytes.ContainsAny(id, lineBreakers) {
			event.ID, event.IDSet = nil, false
		}
		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
		event.Data = []byte(lines.Replace(string(data)))
		want := []string{note, "retry 1000", show(event), note}

		got, err := decode(new(Decoder), stream)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %q, %v, want %q", stream, got, err, want)
		}
	})
}
