package device

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-relay/sluice/codec/synccrypt"
)

func TestChunkStore(t *testing.T) {
	c := chunkStore(t.TempDir())
	for _, size := range []int{0, 1, maxSealedBytes} {
		data := bytesOf(1, size)
		hash := synccrypt.ChunkHash(data)
		if _, err := c.get(nil, hash); !errors.Is(err, errNoChunk) {
			t.Errorf("%d bytes: %v before they came", size, err)
		}
		for range 2 {
			if err := c.put(hash, data); err != nil {
				t.Error(err)
			}
		}
		got, err := c.get(nil, hash)
		if err != nil || !slices.Equal(got, data) || !c.holds(synccrypt.Chunk{Hash: hash, Size: int64(size)}) {
			t.Errorf("%d bytes: %d came back, %v", size, len(got), err)
		}
		if c.holds(synccrypt.Chunk{Hash: hash, Size: int64(size) + 1}) {
			t.Errorf("%d bytes: held with another size", size)
		}
	}
	long := bytesOf(1, maxSealedBytes+1)
	if err := c.put(synccrypt.ChunkHash(long), long); err == nil {
		t.Error("a chunk above the bound was kept")
	}
	for _, name := range []string{"", ".", "..", "../" + strings.Repeat("a", 40), strings.Repeat("a", 42), strings.Repeat("a", 42) + "/"} {
		if err := c.put(name, nil); err == nil {
			t.Errorf("%q was written", name)
		}
		if _, err := c.get(nil, name); !errors.Is(err, errNoChunk) {
			t.Errorf("%q: %v", name, err)
		}
		if c.holds(synccrypt.Chunk{Hash: name}) {
			t.Errorf("%q is held", name)
		}
	}
}

// Swept is what is old, unnamed and ours, and nothing while a blob is made.
func TestSweep(t *testing.T) {
	c := chunkStore(t.TempDir())
	name := func(b byte) string { return strings.Repeat(string(b), hashLetters) }
	now := time.Now()
	for file, age := range map[string]time.Duration{
		name('a'): 2 * sweepAge, name('b'): 2 * sweepAge, name('c'): sweepAge / 2,
		partPrefix + "1": 2 * sweepAge, partPrefix + "2": 0, "foreign": 9 * sweepAge,
	} {
		if err := os.WriteFile(c.path(file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(c.path(file), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	spare := func(candidates map[string]struct{}) error {
		asked++
		delete(candidates, name('b'))
		return nil
	}
	done, err := c.use()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.sweep(now, spare); n != 0 || err != nil || asked != 0 {
		t.Errorf("swept %d while a blob is made, %v", n, err)
	}
	done()
	if n, err := c.sweep(now, func(map[string]struct{}) error { return errCut }); n != 0 || !errors.Is(err, errCut) {
		t.Errorf("swept %d without knowing what is named, %v", n, err)
	}
	if n, err := c.sweep(now, spare); n != 2 || err != nil || asked != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
	entries, err := os.ReadDir(string(c))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{name('b'), name('c'), partPrefix + "2", "foreign"}
	slices.Sort(want)
	if slices.Sort(left); !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

func TestInParallel(t *testing.T) {
	var running, most, calls atomic.Int64
	met := make(chan struct{})
	err := inParallel(t.Context(), 100, func(_ context.Context, i int, _ *[]byte) error {
		n := running.Add(1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		if calls.Add(1) == chunkWorkers {
			close(met)
		}
		<-met // so that all of them are there at once
		running.Add(-1)
		return nil
	})
	if err != nil || calls.Load() != 100 || most.Load() != chunkWorkers {
		t.Errorf("%d calls, %d at once, %v", calls.Load(), most.Load(), err)
	}
	calls.Store(0)
	err = inParallel(t.Context(), 100, func(ctx context.Context, i int, _ *[]byte) error {
		calls.Add(1)
		if i == 2 {
			return errCut
		}
		<-ctx.Done() // the error ends the others
		return ctx.Err()
	})
	if !errors.Is(err, errCut) || calls.Load() > 2*chunkWorkers {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := inParallel(ctx, 3, func(context.Context, int, *[]byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := inParallel(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
}
