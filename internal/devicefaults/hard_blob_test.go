package devicefaults

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/device"
	"github.com/sluice-relay/sluice/internal/testdevice"
)

// noise is so many bytes that no two chunks have in common.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// attach has a device attach a blob of three chunks and bring it to the relay.
func (b *bed) attach(d *testdevice.Device, content []byte) synccrypt.Manifest {
	b.t.Helper()
	m, err := d.Attach(b.t.Context(), bytes.NewReader(content), "image/png", "x.png", nil)
	must(b.t, err)
	b.sync(d)
	return m
}

// TestHardCase12WrongChunk: D52: chunks that are swapped, cut off, too long,
// scrambled, empty or another one's, and answers that are none: the chunk is
// refused, named with its relay and counted, and nothing is written. What was
// right is kept, and once the relay is honest the rest comes.
func TestHardCase12WrongChunk(t *testing.T) {
	content := noise(2*synccrypt.ChunkBytes + 1000)
	for name, c := range map[string]struct {
		wrong   func(sealed, next []byte) answer
		counted bool
	}{
		"swapped":   {func(_, next []byte) answer { return answer{status: 200, body: next} }, true},
		"cut off":   {func(sealed, _ []byte) answer { return answer{status: 200, body: sealed[:len(sealed)-1]} }, true},
		"cut short": {func(sealed, _ []byte) answer { return answer{status: 200, body: sealed[:10]} }, true},
		"too long":  {func(sealed, _ []byte) answer { return answer{status: 200, body: append(sealed, 0)} }, true},
		"endless":   {func([]byte, []byte) answer { return answer{status: 200, body: make([]byte, 64<<20)} }, true},
		"one bit": {func(sealed, _ []byte) answer {
			sealed[len(sealed)/2] ^= 1
			return answer{status: 200, body: sealed}
		}, true},
		"empty":    {func([]byte, []byte) answer { return answer{status: 200} }, true},
		"withheld": {func([]byte, []byte) answer { return answer{status: 404} }, false},
		"error":    {func([]byte, []byte) answer { return answer{status: 500} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			writer, reader := b.device("writer", device.Options{}), b.device("reader", device.Options{})
			m := b.attach(writer, content)
			b.sync(reader)
			b.lie(wrongChunk(t, m, 1, c.wrong))
			path := filepath.Join(t.TempDir(), "out.png")
			err := reader.FetchFile(t.Context(), m.BlobID, path, nil)
			bad, named := errors.AsType[*device.ChunkError](err)
			if !named || bad.Index != 1 || bad.Hash != m.Chunks[1].Hash || bad.Relay != b.url() {
				t.Fatalf("the chunk is not named: %v", err)
			}
			if n := refused(reader, "bad_chunk"); c.counted != (n > 0) {
				t.Errorf("H4: %d chunks are counted: %+v", n, reader.State().Relays)
			}
			var out bytes.Buffer
			if err := reader.Fetch(t.Context(), m.BlobID, &out, nil); err == nil || out.Len() > 0 {
				t.Errorf("%d bytes were written, %v", out.Len(), err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file is there: %v", err)
			}
			onlyRight(t, reader, m)

			b.lie(nil)
			first := filepath.Join(reader.Dir, "chunks", m.Chunks[0].Hash)
			before, absent := os.Stat(first)
			must(t, reader.FetchFile(t.Context(), m.BlobID, path, nil))
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
			}
			// Its file would be another one. Requests tell nothing: one that was given up
			// before may come only now.
			if after, err := os.Stat(first); err != nil || absent == nil && !os.SameFile(before, after) {
				t.Errorf("a chunk that is here was fetched again, %v", err)
			}
		})
	}
}

// wrongChunk is a rule that answers for one chunk of a blob in another way; it
// is given that chunk and the one after it, as they are stored.
func wrongChunk(t *testing.T, m synccrypt.Manifest, index int, wrong func(sealed, next []byte) answer) rule {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, _ []byte, ask ask) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/"+m.Chunks[index].Hash) {
			return false
		}
		sealed := ask()
		r.URL.Path = strings.Replace(r.URL.Path, m.Chunks[index].Hash, m.Chunks[index+1].Hash, 1)
		next := ask()
		if sealed.status != 200 || next.status != 200 {
			t.Errorf("the relay has not the chunks: %d, %d", sealed.status, next.status)
		}
		write(w, wrong(sealed.body, next.body))
		return true
	}
}

// onlyRight wants every chunk that a device keeps to have its name's bytes.
func onlyRight(t *testing.T, d *testdevice.Device, m synccrypt.Manifest) {
	t.Helper()
	for i, chunk := range m.Chunks {
		sealed, err := os.ReadFile(filepath.Join(d.Dir, "chunks", chunk.Hash))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must(t, err)
		if synccrypt.ChunkHash(sealed) != chunk.Hash {
			t.Errorf("chunk %d is kept with other bytes", i)
		}
	}
}

// TestWrongChunkElsewhere: D52: what one relay has wrong is fetched from the
// next, and the first one's fault is counted.
func TestWrongChunkElsewhere(t *testing.T) {
	content := noise(3 * synccrypt.ChunkBytes)
	b, second := newBed(t), newFront(t)
	writer, reader := b.device("writer", device.Options{}), b.device("reader", device.Options{})
	for _, d := range b.fleet {
		must(t, d.AddRelay(second.url()))
	}
	m := b.attach(writer, content)
	b.sync(reader)
	b.lie(wrongChunk(t, m, 0, func(_, next []byte) answer { return answer{status: 200, body: next} }))
	var out bytes.Buffer
	must(t, reader.Fetch(t.Context(), m.BlobID, &out, nil))
	if !bytes.Equal(out.Bytes(), content) {
		t.Errorf("%d bytes that are not the content's %d", out.Len(), len(content))
	}
	if refused(reader, "bad_chunk") == 0 {
		t.Errorf("H4: %+v", reader.State().Relays)
	}
}

// TestChunksAfterWipe: D35 and D52: a relay that was wiped gets the chunks
// again from a device that holds them, and a new device can fetch the blob.
func TestChunksAfterWipe(t *testing.T) {
	content := noise(2*synccrypt.ChunkBytes + 1)
	b := newBed(t, "SEQ_FLOOR=clock")
	writer := b.device("writer", device.Options{})
	m := b.attach(writer, content)
	b.wipe()
	b.sync(writer)
	fresh := b.device("fresh", device.Options{})
	b.sync(fresh)
	var out bytes.Buffer
	must(t, fresh.Fetch(t.Context(), m.BlobID, &out, nil))
	if !bytes.Equal(out.Bytes(), content) {
		t.Errorf("%d bytes that are not the content's %d", out.Len(), len(content))
	}
}
