package device

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
)

// BenchmarkBlob is attaching, with every chunk on the medium, and reading what
// is here: twice, as Fetch verifies all before it writes.
func BenchmarkBlob(b *testing.B) {
	const size = 16 << 20
	data := bytesOf(1, size)
	d, err := Create(filepath.Join(b.TempDir(), "device"), newKey(b), "", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	blob := ""
	b.Run("attach", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			m, err := d.Attach(b.Context(), bytes.NewReader(data), "", "", nil)
			if err != nil {
				b.Fatal(err)
			}
			blob = m.BlobID
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			if err := d.Fetch(b.Context(), blob, io.Discard, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
