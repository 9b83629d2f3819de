package firehose

import (
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/sluice-relay/sluice/codec/dagcbor"
)

// sized is a #commit of a plausible shape with about size bytes.
func sized(t testing.TB, size int) []byte {
	t.Helper()
	root, blocks := repository(t, did, rev)
	in := message(t, KindCommit, commitFields(t))
	for len(in) < size {
		leaf := make([]byte, min(size-len(in), 300))
		blocks = sections(blocks, dagcbor.SHA256CID(dagcbor.CodecDAGCBOR, leaf), leaf)
		in = message(t, KindCommit, commitFields(t, "commit", link(root), "blocks", octets(blocks), "seq", "1b0000010000000000"))
	}
	return in
}

// unsorted is a message with its body in the order of the schema.
func unsorted(t testing.TB, in []byte) []byte {
	t.Helper()
	header := len(headers[KindCommit])
	var s dagcbor.Scanner
	var fields dagcbor.Fields
	if _, err := s.Map(in, header, &fields); err != nil {
		t.Fatal(err)
	}
	out := dagcbor.AppendMap([]byte(headers[KindCommit]), len(fields.List))
	for i := range fields.List {
		f := fields.List[len(fields.List)-1-i]
		out = append(dagcbor.AppendText(out, f.Key), f.Value...)
	}
	return out
}

// TestAllocations: a scanner and a frame that are used again cost nothing.
func TestAllocations(t *testing.T) {
	in := sized(t, 1200)
	mixed := unsorted(t, in)
	var s Scanner
	var f Frame
	dst := make([]byte, 0, 2*len(in))
	is := func(name string, want float64, run func() error) {
		t.Helper()
		if n := testing.AllocsPerRun(100, func() {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		}); n != want {
			t.Errorf("%s: %v allocations, want %v", name, n, want)
		}
	}
	is("scan", 0, func() error { return s.Scan(in, &f) })
	is("append", 0, func() error { _, err := f.Append(dst[:0], 1<<50); return err })
	is("verify", 0, func() error { _, err := s.Verify(&f); return err })
	is("scan in schema order", 0, func() error { return s.Scan(mixed, &f) })
	is("append in schema order", 0, func() error { _, err := f.Append(dst[:0], 1<<50); return err })
	is("append into nothing", 1, func() error { _, err := f.Append(nil, 1<<50); return err })
	c := sampleCommit()
	is("encode", 0, func() error { _, err := c.Append(dst[:0], 1<<50); return err })
}

func BenchmarkScan(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1200", 1200}, {"20000", 20000}} {
		in := sized(b, size.bytes)
		for _, order := range []struct {
			name string
			in   []byte
		}{{"canonical", in}, {"schema", unsorted(b, in)}} {
			b.Run(size.name+"/"+order.name+"/scan", func(b *testing.B) { benchScan(b, order.in, false, false) })
			b.Run(size.name+"/"+order.name+"/scan+append", func(b *testing.B) { benchScan(b, order.in, true, false) })
		}
		b.Run(size.name+"/canonical/scan+verify+append", func(b *testing.B) { benchScan(b, in, true, true) })
	}
}

func benchScan(b *testing.B, in []byte, write, verify bool) {
	var s Scanner
	var f Frame
	dst := make([]byte, 0, len(in)+16)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Scan(in, &f); err != nil {
			b.Fatal(err)
		}
		if verify {
			if _, err := s.Verify(&f); err != nil {
				b.Fatal(err)
			}
		}
		if write {
			var err error
			if dst, err = f.Append(dst[:0], 1<<50); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkLibrary is what Scan and Append cost with the library of the tests,
// which is not as strict.
func BenchmarkLibrary(b *testing.B) {
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden}.DecMode()
	if err != nil {
		b.Fatal(err)
	}
	enc, err := cbor.EncOptions{Sort: cbor.SortLengthFirst}.EncMode()
	if err != nil {
		b.Fatal(err)
	}
	in := sized(b, 1200)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		var header, body map[string]any
		rest, err := dec.UnmarshalFirst(in, &header)
		if err != nil {
			b.Fatal(err)
		}
		if err := dec.Unmarshal(rest, &body); err != nil {
			b.Fatal(err)
		}
		body[seqKey] = int64(1 << 50)
		if _, err := enc.Marshal(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommitAppend(b *testing.B) {
	c := sampleCommit()
	c.Blocks = make([]byte, 800)
	dst := make([]byte, 0, c.SizeBytes())
	b.SetBytes(int64(c.SizeBytes()))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = c.Append(dst[:0], 1<<50); err != nil {
			b.Fatal(err)
		}
	}
}
