package session

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

// newBuffers returns buffers on a log that holds the last 16 entries, so that
// nothing can depend on more of it.
func newBuffers(cfg Config) (*Buffers, *stream.Log) {
	log := stream.NewLog(16, math.MaxInt64)
	return New(cfg, log), log
}

// newBuffersKeeping returns buffers on a log that holds the given number of
// entries.
func newBuffersKeeping(cfg Config, entries int) (*Buffers, *stream.Log) {
	log := stream.NewLog(entries, math.MaxInt64)
	return New(cfg, log), log
}

// newEntry returns an entry of a session with a frame of frameBytes.
func newEntry(session string, seq stream.Sequence, frameBytes int) *stream.Entry {
	e := stream.NewEntry(nil, make([]byte, frameBytes))
	e.Session, e.Sequence, e.Sequenced = session, seq, true
	return e
}

// keyOf returns the key with a number, mixed as a hash would be.
func keyOf(n uint64) (k Key) {
	for i := 0; i < len(k); i += 8 {
		n += 0x9e3779b97f4a7c15
		z := (n ^ n>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(k[i:], z^z>>31)
	}
	return k
}

// at reads a position such as "1:8".
func at(t testing.TB, text string) (s stream.Sequence) {
	t.Helper()
	if _, err := fmt.Sscanf(text, "%d:%d", &s.Epoch, &s.Seq); err != nil {
		t.Fatalf("position %q: %v", text, err)
	}
	return s
}

func text(s stream.Sequence) string { return fmt.Sprintf("%d:%d", s.Epoch, s.Seq) }

func texts(entries []*stream.Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, text(e.Sequence))
	}
	return strings.Join(all, " ")
}

// writer puts entries with keys of their own unless told otherwise.
type writer struct {
	t    testing.TB
	b    *Buffers
	keys uint64
}

// put puts entries at the positions named in seqs.
func (w *writer) put(session, seqs string) {
	w.t.Helper()
	for _, s := range strings.Fields(seqs) {
		w.keys++
		w.b.Put(newEntry(session, at(w.t, s), 100), keyOf(w.keys))
	}
}

// run puts seq from..to of an epoch, in order.
func (w *writer) run(session string, epoch, from, to int64) {
	w.t.Helper()
	for n := from; n <= to; n++ {
		w.put(session, fmt.Sprintf("%d:%d", epoch, n))
	}
}

// resume replays a session whole, as of now, and returns the announced
// position, "" for none, and what was delivered.
func resume(t testing.TB, b *Buffers, session string, after stream.Sequence) (earliest, delivered string) {
	t.Helper()
	r, exhausted, first := b.Start(session, after, b.log.Next())
	if exhausted {
		earliest = text(first)
	}
	entries, gap, _, done := b.Next(&r, nil, math.MaxInt, math.MaxInt)
	if gap || !done {
		t.Fatalf("undisturbed replay of %q: gap %v, done %v", session, gap, done)
	}
	return earliest, texts(entries)
}

// names returns the names of all sessions.
func names(b *Buffers) (all []string) {
	for shard := range Shards {
		all = b.AppendNames(all, shard)
	}
	return all
}
