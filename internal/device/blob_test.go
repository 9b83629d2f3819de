package device

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-relay/sluice/codec/synccrypt"
	"github.com/sluice-relay/sluice/internal/store/devicestore"
)

const chunk = synccrypt.ChunkBytes

// D50 to D52: what one device attaches another fetches, whatever the size.
func TestAttachAndFetch(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, "a", h), newTestDevice(t, key, "b", h)
	for i, size := range []int{0, 1, chunk, chunk + 1, 3 << 20} {
		data := bytesOf(uint64(i), size)
		m := attach(t, a, data)
		if m.ByteSize != int64(size) || len(m.Chunks) != (size+chunk-1)/chunk || m.MimeType != "image/png" {
			t.Errorf("%d bytes: manifest of %d bytes, %d chunks, %s", size, m.ByteSize, len(m.Chunks), m.MimeType)
		}
		wantBlob(t, a, m.BlobID, data) // from its own copy
		if err := b.Fetch(t.Context(), m.BlobID, io.Discard, nil); !errors.Is(err, ErrNoBlob) {
			t.Errorf("fetched before it came: %v", err)
		}
		syncAll(t, a, b)
		wantBlob(t, b, m.BlobID, data)
		if n := soleRelay(t, a).Blobs; n != 0 {
			t.Errorf("%d blobs are owed still", n)
		}
	}
	if h.puts.Load() != 1+1+2+12 {
		t.Errorf("%d chunks were sent", h.puts.Load())
	}
	gets := h.gets.Load()
	if b.Sync(t.Context(), SyncOptions{Blobs: true}); h.gets.Load() != gets {
		t.Error("chunks that are here were fetched again")
	}
	c := newTestDevice(t, key, "c", h)
	if _, err := c.Sync(t.Context(), SyncOptions{Blobs: true}); err != nil {
		t.Fatal(err)
	}
	if got, want := len(chunkFiles(t, c)), len(chunkFiles(t, a)); got != want {
		t.Errorf("a full copy has %d chunks of %d", got, want)
	}
}

// Sizes of files and buffers are seen before anything is read.
func TestAttachRefuses(t *testing.T) {
	d := newTestDevice(t, newKey(t), "")
	f := func(want error, r io.Reader, mediaType string) {
		t.Helper()
		_, err := d.Attach(t.Context(), r, mediaType, "x", nil)
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if errors.Is(want, ErrBlobSize) && !strings.Contains(err.Error(), strconv.Itoa(MaxBlobBytes)) {
			t.Errorf("%v does not name the limit", err)
		}
		if len(chunkFiles(t, d)) != 0 {
			t.Errorf("%v left chunks", want)
		}
		if n, err := d.LastChange(); n != 0 || err != nil {
			t.Errorf("%v: %d changes, %v", want, n, err)
		}
	}
	path := filepath.Join(t.TempDir(), "large")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := file.Truncate(MaxBlobBytes + 1); err != nil {
		t.Fatal(err)
	}
	f(ErrBlobSize, file, "")
	if at, _ := file.Seek(0, io.SeekCurrent); at != 0 {
		t.Errorf("%d bytes of it were read", at)
	}
	f(errCut, cutAfter(bytes.NewReader(bytesOf(1, 2*chunk)), chunk+9), "")
	f(ErrMime, strings.NewReader("x"), "image")
	f(ErrMime, strings.NewReader("x"), "a/"+strings.Repeat("b", maxMimeBytes))
	f(ErrMime, strings.NewReader("x"), "a/b\x1b[2J")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Attach(ctx, strings.NewReader("x"), "", "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	m, err := d.Attach(t.Context(), strings.NewReader("x"), "", "", nil)
	if err != nil || m.MimeType != defaultMime {
		t.Errorf("%q, %v", m.MimeType, err)
	}
}

// One chunk more than a manifest names is refused although the reader does not
// tell its size.
func TestAttachUnsized(t *testing.T) {
	d := newTestDevice(t, newKey(t), "")
	id, err := d.identity()
	if err != nil {
		t.Fatal(err)
	}
	f := func(last int64, want error) {
		t.Helper()
		m := synccrypt.Manifest{
			Version: 1, OwnerID: id.OwnerID, BlobID: drawBlobID(), MimeType: "a/" + strings.Repeat("b", maxMimeBytes-2),
			ChunkSize: chunk, CreatedAt: isoTime(d.o.Now()),
		}
		for range synccrypt.MaxChunks - 1 {
			m.Chunks = append(m.Chunks, synccrypt.Chunk{Hash: synccrypt.ChunkHash(nil), Size: maxSealedBytes, PlaintextSize: chunk})
			m.ByteSize += chunk
		}
		err := d.sealInto(t.Context(), id, &m, io.LimitReader(zeros{}, last), func(int64) {})
		if !errors.Is(err, want) {
			t.Errorf("%d bytes more: %v, want %v", last, err, want)
		}
		if want != nil {
			return
		}
		if err := d.keepManifest(&m); err != nil || m.ByteSize != MaxBlobBytes {
			t.Errorf("the largest, %d bytes: %v", m.ByteSize, err)
		}
	}
	f(chunk, nil)
	f(chunk+1, ErrBlobSize)
}

// Neither attaching nor fetching needs more memory than a few chunks.
func TestBlobMemory(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, "a", h), newTestDevice(t, key, "b", h)
	heap := func() int64 {
		runtime.GC() // what is garbage does not count
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var most atomic.Int64
	watch := func(p Progress) {
		if p.Done%(4<<20) == 0 {
			most.Store(max(most.Load(), heap()))
		}
	}
	before := heap()
	const size = 64 << 20
	m, err := a.Attach(t.Context(), io.LimitReader(zeros{}, size), "", "", watch)
	if err != nil {
		t.Fatal(err)
	}
	syncAll(t, a, b)
	if err := b.FetchFile(t.Context(), m.BlobID, filepath.Join(t.TempDir(), "out"), watch); err != nil {
		t.Fatal(err)
	}
	if grown := most.Load() - before; grown > size/4 {
		t.Errorf("%d MiB of heap for %d MiB", grown>>20, size>>20)
	} else {
		t.Logf("%d KiB of heap", grown>>10)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An id can be an argument of a command.
func TestDrawBlobID(t *testing.T) {
	drawn := map[string]bool{}
	for range 1000 { // one in 64 would begin with a dash
		id := drawBlobID()
		if len(id) != 22 || id[0] == '-' || !synccrypt.ValidRowID(id) || drawn[id] {
			t.Fatalf("drew %q", id)
		}
		drawn[id] = true
	}
}

// D52: a fetch that was cut goes on where it was, and writes nothing before it
// has all.
func TestFetchResumes(t *testing.T) {
	h := newHouse(t)
	key := newKey(t)
	a, b := newTestDevice(t, key, "a", h), newTestDevice(t, key, "b", h)
	data := bytesOf(4, 20*chunk-7)
	m := attach(t, a, data)
	syncAll(t, a, b)
	cut := cutAt(8, func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/blobs/")
	})
	h.set(nil, func(r *http.Response) error {
		if cut(r.Request) {
			r.Body = struct {
				io.Reader
				io.Closer
			}{cutAfter(r.Body, chunk/2), r.Body}
		}
		return nil
	})
	path := filepath.Join(t.TempDir(), "out")
	err := b.FetchFile(t.Context(), m.BlobID, path, nil)
	var named *ChunkError
	if !errors.As(err, &named) || !errors.Is(err, ErrChunk) || named.Relay != h.door.URL || named.Blob != m.BlobID {
		t.Fatalf("the cut is %v", err)
	}
	for _, name := range []string{path, path + ".part"} {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", filepath.Base(name), err)
		}
	}
	if came := len(chunkFiles(t, b)); came != 8 {
		t.Errorf("%d chunks came before the cut, want 8", came)
	}
	h.set(nil, nil)
	h.gets.Store(0)
	var told []Progress
	b = openAgain(t, b)
	if err := b.FetchFile(t.Context(), m.BlobID, path, func(p Progress) { told = append(told, p) }); err != nil {
		t.Fatal(err)
	}
	if h.gets.Load() != 20-8 {
		t.Errorf("%d chunks were fetched after the cut, and 8 before", h.gets.Load())
	}
	if n := len(told); n != 20 || told[n-1].Done != m.ByteSize || told[n-1].Total != m.ByteSize {
		t.Errorf("progress %v", told)
	}
	wantBlob(t, b, m.BlobID, data)
}

// Hard case 12: chunks that were swapped, cut, made longer or changed are
// refused, named and not written; the next relay is asked, and the right ones
// are had from the first later.
func TestWrongChunks(t *testing.T) {
	liar, honest := newHouse(t), newHouse(t)
	key := newKey(t)
	a := newTestDevice(t, key, "a", liar, honest)
	data := bytesOf(5, 3*chunk)
	m := attach(t, a, data)
	syncAll(t, a)
	path := func(i int) string { return "/v1/blobs/" + m.Chunks[i].Hash }
	lies := map[string]func(r *http.Request, body []byte) []byte{
		"swapped": func(r *http.Request, body []byte) []byte {
			if r.URL.Path == path(0) {
				other, _ := a.chunks().get(nil, m.Chunks[1].Hash)
				return other
			}
			return body
		},
		"cut": func(r *http.Request, body []byte) []byte {
			if r.URL.Path == path(0) {
				return body[:len(body)-1]
			}
			return body
		},
		"longer": func(r *http.Request, body []byte) []byte {
			if r.URL.Path == path(0) {
				return append(body, make([]byte, 4*maxSealedBytes)...)
			}
			return body
		},
		"empty": func(r *http.Request, body []byte) []byte {
			if r.URL.Path == path(0) {
				return nil
			}
			return body
		},
		"one bit": func(r *http.Request, body []byte) []byte {
			if r.URL.Path == path(0) {
				body[len(body)/2] ^= 4
			}
			return body
		},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			liar.set(nil, func(r *http.Response) error {
				if r.Request.Method != http.MethodGet || !strings.HasPrefix(r.Request.URL.Path, "/v1/blobs/") {
					return nil
				}
				body, err := io.ReadAll(r.Body)
				body = lie(r.Request, body)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				r.Header.Set("Content-Length", strconv.Itoa(len(body)))
				return err
			})
			defer liar.set(nil, nil)
			b := newTestDevice(t, key, "b", liar)
			syncAll(t, b)
			var out bytes.Buffer
			err := b.Fetch(t.Context(), m.BlobID, &out, nil)
			var named *ChunkError
			if !errors.As(err, &named) || named.Relay != liar.door.URL || named.Index != 0 || named.Hash != m.Chunks[0].Hash {
				t.Errorf("refused as %v", err)
			}
			if name != "longer" && !errors.Is(err, errChunkHash) {
				t.Errorf("it was opened before its hash was known: %v", err)
			}
			if out.Len() > 0 || b.chunks().holds(m.Chunks[0]) {
				t.Error("something of it was written")
			}
			if n := countRefusals(t, b, reasonBadChunk); n != 1 {
				t.Errorf("%d refusals are counted", n)
			}
			if err := b.AddRelay(honest.door.URL); err != nil {
				t.Fatal(err)
			}
			wantBlob(t, b, m.BlobID, data)
			if err := b.RemoveRelay(honest.door.URL); err != nil {
				t.Fatal(err)
			}
			liar.set(nil, nil)
			wantBlob(t, b, m.BlobID, data)
		})
	}
}

// A manifest whose chunk is another blob's, or whose SHA-256 is wrong, gives
// nothing: only a device of the owner can have made it.
func TestWrongManifest(t *testing.T) {
	d := newTestDevice(t, newKey(t), "")
	m, other := attach(t, d, bytesOf(6, 2*chunk)), attach(t, d, bytesOf(7, 2*chunk))
	write := func(id string, change func(*synccrypt.Manifest)) string {
		t.Helper()
		wrong := m
		wrong.Chunks = append([]synccrypt.Chunk(nil), m.Chunks...)
		wrong.BlobID = id
		change(&wrong)
		row, err := wrong.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.write(devicestore.Edit{Key: devicestore.Key{Table: blobTable, ID: id}, Data: row}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	f := func(blob string, want error) {
		t.Helper()
		var out bytes.Buffer
		if err := d.Fetch(t.Context(), blob, &out, nil); !errors.Is(err, want) || out.Len() > 0 {
			t.Errorf("%v, want %v; %d bytes written", err, want, out.Len())
		}
	}
	f(write(m.BlobID, func(m *synccrypt.Manifest) { m.Chunks[0], m.Chunks[1] = m.Chunks[1], m.Chunks[0] }), synccrypt.ErrTag)
	f(write(m.BlobID, func(m *synccrypt.Manifest) { m.Chunks[1] = other.Chunks[1] }), synccrypt.ErrTag)
	f(write(m.BlobID, func(m *synccrypt.Manifest) { m.SHA256 = other.SHA256 }), ErrBlobHash)
	f(write("another", func(*synccrypt.Manifest) {}), synccrypt.ErrTag)
	f(write(m.BlobID, func(m *synccrypt.Manifest) { m.OwnerID = "somebody" }), ErrOldBlob)
	f("none", ErrNoBlob)
	if _, err := d.Put(edit(blobTable, other.BlobID, "")); err != nil {
		t.Fatal(err)
	}
	f(other.BlobID, ErrNoBlob)
}

// A copy that is damaged here is had from a relay again.
func TestDamagedCopy(t *testing.T) {
	h := newHouse(t)
	d := newTestDevice(t, newKey(t), "", h)
	data := bytesOf(8, 3*chunk)
	m := attach(t, d, data)
	syncAll(t, d)
	for i, spoil := range []func(path string) error{
		func(path string) error { return os.Truncate(path, 99) },
		func(path string) error { return os.WriteFile(path, make([]byte, maxSealedBytes), 0o600) },
		func(path string) error { return os.WriteFile(path, make([]byte, 2*maxSealedBytes), 0o600) },
		os.Remove,
	} {
		if err := spoil(d.chunks().path(m.Chunks[i%3].Hash)); err != nil {
			t.Fatal(err)
		}
		wantBlob(t, d, m.BlobID, data)
	}
}

// D35: a relay that was wiped gets every chunk again, from a device that holds
// them.
// A relay that is added late gets the chunks too, from the device that made
// them or from one that had to fetch them first.
// A relay without room for chunks gets its rows, status says why, and the chunks
// follow when there is room.
// A chunk that is too large for a relay stops no blob that is not.
// A relay that is forgotten while a blob is on its way is owed it still.
// Deleting an attachment delivers nothing more of it and lets its copy be swept.
