package synccrypt

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// TestChunks is D50.
func TestChunks(t *testing.T) {
	id := identity(t, goodPhrase)
	for _, size := range []int{0, 1, 1000, ChunkBytes} {
		plain := bytes.Repeat([]byte{7}, size)
		sealed, err := id.SealChunk([]byte("x"), plain, "photo \"1\"", MaxChunks-1, nil)
		if err != nil || len(sealed) != 1+size+SealedExtra {
			t.Fatalf("%d bytes: %d, %v", size, len(sealed), err)
		}
		opened, err := id.OpenChunk([]byte("x"), sealed[1:], "photo \"1\"", MaxChunks-1)
		if err != nil || string(opened) != "x"+string(plain) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	for _, c := range []struct {
		name   string
		size   int
		blob   string
		index  int
		random io.Reader
		want   error
	}{
		{"too long", ChunkBytes + 1, "b", 0, zeros{}, ErrChunk},
		{"index -1", 1, "b", -1, zeros{}, ErrChunk},
		{"index 2048", 1, "b", MaxChunks, zeros{}, ErrChunk},
		{"no blob id", 1, "", 0, zeros{}, ErrChunk},
		{"a blob id of control characters", 1, "\n", 0, zeros{}, ErrChunk},
		{"no random bytes", 1, "b", 0, iotest.ErrReader(io.ErrClosedPipe), io.ErrClosedPipe},
	} {
		got, err := id.SealChunk([]byte("x"), make([]byte, c.size), c.blob, c.index, c.random)
		if !errors.Is(err, c.want) || string(got) != "x" {
			t.Errorf("%s: %d bytes, %v", c.name, len(got), err)
		}
		if c.want != ErrChunk {
			continue
		}
		if got, err := id.OpenChunk([]byte("x"), make([]byte, c.size+SealedExtra), c.blob, c.index); !errors.Is(err, c.want) || string(got) != "x" {
			t.Errorf("open, %s: %d bytes, %v", c.name, len(got), err)
		}
	}
}

// TestChunkFaults is hard case 12: swapped, cut, changed.
func TestChunkFaults(t *testing.T) {
	id := identity(t, goodPhrase)
	sealed, err := id.SealChunk(nil, []byte("forty-two bytes of a photograph, or so"), "b", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func(what string, sealed []byte, id *Identity, blob string, index int, want error) {
		t.Helper()
		if got, err := id.OpenChunk([]byte("x"), sealed, blob, index); !errors.Is(err, want) || string(got) != "x" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	open("another index", sealed, id, "b", 4, ErrTag)
	open("another blob", sealed, id, "c", 3, ErrTag)
	open("another owner", sealed, identity(t, goodNative), "b", 3, ErrTag)
	for n := range len(sealed) {
		want := ErrTag
		if n < SealedExtra {
			want = ErrChunk
		}
		open("cut", sealed[:n], id, "b", 3, want)
	}
	for at := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[at] ^= 1 << bit
			open("changed", changed, id, "b", 3, ErrTag)
			if ChunkHash(changed) == ChunkHash(sealed) {
				t.Error("the same hash")
			}
		}
	}
}

// someHash spells a hash.
const someHash = "QK_y6dLYki5Hr9RkjmlnSXFYeF-9Hahw5xECZr-USIA"

func someManifest(chunks int, last int64) *Manifest {
	m := &Manifest{
		Version: 1, OwnerID: "R6E5CFJqIZPbP0EYZHkUCg", BlobID: "photo \"1\"", MimeType: "image/png",
		ChunkSize: ChunkBytes, SHA256: someHash, CreatedAt: "2024-07-09T10:00:00.000Z",
	}
	for i := range chunks {
		size := int64(ChunkBytes)
		if i == chunks-1 {
			size = last
		}
		m.Chunks = append(m.Chunks, Chunk{someHash, size + SealedExtra, size})
		m.ByteSize += size
	}
	return m
}

// TestManifest is D51: both ways, and the largest fits into a row.
func TestManifest(t *testing.T) {
	longest := someManifest(MaxChunks, ChunkBytes)
	longest.BlobID = strings.Repeat(`"`, maxRowIDBytes)
	longest.MimeType = strings.Repeat(`"`, maxMimeBytes)
	longest.OwnerID = strings.Repeat(`"`, maxOwnerChars)
	longest.CreatedAt = "2024-07-09T10:00:00.000000000+00:00"
	unknownType := someManifest(1, 1)
	unknownType.MimeType = ""
	for _, m := range []*Manifest{
		someManifest(0, 0), someManifest(1, 0), someManifest(1, 1), someManifest(3, 5), unknownType, longest,
	} {
		row, err := m.Append([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		row = row[1:]
		if len(row) > MaxRowBytes {
			t.Errorf("%d chunks: %d bytes of %d", len(m.Chunks), len(row), MaxRowBytes)
		}
		if form, err := Canonical(nil, row); err != nil || !bytes.Equal(form, row) {
			t.Errorf("not canonical: %v, %.200s", err, row)
		}
		got, err := DecodeManifest(append([]byte(" "), row...))
		if err != nil || !reflect.DeepEqual(&got, m) {
			t.Errorf("%d chunks: %v", len(m.Chunks), err)
		}
	}
	row, err := someManifest(2, 9).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(strings.Replace(string(row), `{"hash"`, `{"x":[],"hash"`, 1), `{"blobId"`, `{"name":"a","blobId"`, 1)
	if got, err := DecodeManifest([]byte(more)); err != nil || !reflect.DeepEqual(&got, someManifest(2, 9)) {
		t.Errorf("unknown members: %v", err)
	}
}

// TestManifestFaults is D51 and D52: neither written nor read.
func TestManifestFaults(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"version 0":             func(m *Manifest) { m.Version = 0 },
		"no owner":              func(m *Manifest) { m.OwnerID = "" },
		"a long owner":          func(m *Manifest) { m.OwnerID = strings.Repeat("a", 129) },
		"an owner of others":    func(m *Manifest) { m.OwnerID = "é" },
		"no blob id":            func(m *Manifest) { m.BlobID = "" },
		"a long type":           func(m *Manifest) { m.MimeType = strings.Repeat("a", 256) },
		"a type with a break":   func(m *Manifest) { m.MimeType = "a\n" },
		"chunk size 0":          func(m *Manifest) { m.ChunkSize = 0 },
		"chunk size above":      func(m *Manifest) { m.ChunkSize = ChunkBytes + 1 },
		"another chunk size":    func(m *Manifest) { m.ChunkSize = ChunkBytes - 1 },
		"a byte too many":       func(m *Manifest) { m.ByteSize++ },
		"a byte too few":        func(m *Manifest) { m.ByteSize-- },
		"no bytes":              func(m *Manifest) { m.ByteSize = 0 },
		"a short hash":          func(m *Manifest) { m.Chunks[1].Hash = someHash[1:] },
		"a spare bit":           func(m *Manifest) { m.Chunks[1].Hash = someHash[:42] + "B" },
		"a break in a hash":     func(m *Manifest) { m.Chunks[1].Hash = someHash[:42] + "\n" },
		"a hash in hexadecimal": func(m *Manifest) { m.SHA256 = strings.Repeat("0f", 32) },
		"no sha256":             func(m *Manifest) { m.SHA256 = "" },
		"a wrong size":          func(m *Manifest) { m.Chunks[2].Size++ },
		"a short middle":        func(m *Manifest) { m.Chunks[1] = Chunk{someHash, 28 + 5, 5}; m.ByteSize -= ChunkBytes - 5 },
		"an empty end":          func(m *Manifest) { m.Chunks[2] = Chunk{someHash, 28, 0}; m.ByteSize -= 5 },
		"a negative end":        func(m *Manifest) { m.Chunks[2] = Chunk{someHash, 27, -1}; m.ByteSize -= 6 },
		"chunks missing":        func(m *Manifest) { m.Chunks = nil },
		"too many chunks":       func(m *Manifest) { *m = *someManifest(MaxChunks+1, 5) },
		"no time":               func(m *Manifest) { m.CreatedAt = "" },
		"a time in words":       func(m *Manifest) { m.CreatedAt = "yesterday" },
		"a long time":           func(m *Manifest) { m.CreatedAt = "2024-07-09T10:00:00." + strings.Repeat("0", 60) + "Z" },
	} {
		m := someManifest(3, 5)
		change(m)
		if row, err := m.Append([]byte("x")); !errors.Is(err, ErrManifest) || string(row) != "x" {
			t.Errorf("%s: written, %v", name, err)
		}
		row, err := json.Marshal(wire(m))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeManifest(row); !errors.Is(err, ErrManifest) || !reflect.DeepEqual(got, Manifest{}) {
			t.Errorf("%s: read, %v", name, err)
		}
	}
	row, err := someManifest(2, 9).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		from, to string
		want     error
	}{
		"version 2":        {`"version":1`, `"version":2`, ErrUnknown},
		"no version":       {`"version":1`, `"versions":1`, ErrManifest},
		"version as text":  {`"version":1`, `"version":"1"`, ErrManifest},
		"no chunks":        {`"chunks":`, `"x":`, ErrManifest},
		"no list":          {`"chunks":[`, `"chunks":5,"x":[`, ErrManifest},
		"no chunk object":  {`"chunks":[`, `"chunks":[5,`, ErrManifest},
		"a size as text":   {`"size":37`, `"size":"37"`, ErrManifest},
		"a size of 1e3":    {`"size":37`, `"size":3.7e1`, ErrManifest},
		"a huge size":      {`"size":37`, `"size":99999999999999999999`, ErrManifest},
		"an unsafe size":   {`"size":37`, `"size":9007199254740992`, ErrManifest},
		"half a character": {`image/png`, `\ud83d`, ErrManifest},
		"a member twice":   {`"size":37`, `"size":37,"size":37`, ErrManifest},
		"cut":              {`"version":1}`, ``, ErrManifest},
		"no object":        {string(row), `[]`, ErrManifest},
	} {
		changed := strings.Replace(string(row), c.from, c.to, 1)
		if changed == string(row) {
			t.Fatalf("%s: nothing has changed", name)
		}
		if _, err := DecodeManifest([]byte(changed)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// wire is a manifest with the names of D51, for encoding/json.
func wire(m *Manifest) map[string]any {
	chunks := []any{}
	for _, c := range m.Chunks {
		chunks = append(chunks, map[string]any{"hash": c.Hash, "size": c.Size, "plaintextSize": c.PlaintextSize})
	}
	return map[string]any{
		"version": m.Version, "ownerId": m.OwnerID, "blobId": m.BlobID, "mimeType": m.MimeType, "byteSize": m.ByteSize,
		"chunkSize": m.ChunkSize, "chunks": chunks, "sha256": m.SHA256, "createdAt": m.CreatedAt,
	}
}
