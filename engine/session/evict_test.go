package session

import (
	"fmt"
	"testing"

	"github.com/sluice-relay/sluice/engine/stream"
)

// TestOldestIsVerified: a session that is written between the search for the
// oldest one and its end is not taken, unless it is the oldest all the same
// (B6).
func TestOldestIsVerified(t *testing.T) {
	b, _ := newBuffers(Config{EventsPerSession: 9, Sessions: 1000})
	w := &writer{t: t, b: b}
	w.put("a", "0:0") // position 1
	w.put("a", "0:1") // position 2
	first := b.shard("a")
	var others []string // of other shards
	for i := 0; len(others) < 3; i++ {
		if name := fmt.Sprint(i); b.shard(name) != first {
			w.put(name, "0:0")
			others = append(others, name)
		}
	}
	took := ""
	take := func(_ *shard, s *buffer) { took = s.name }

	oldest, bound := b.oldestShard(everySession)
	if oldest != first || bound != 3 {
		t.Fatalf("oldest shard is a's: %v, bound %d, want 3", oldest == first, bound)
	}
	w.put("a", "0:2")
	if oldest.withFirst(everySession, bound, take) {
		t.Errorf("took %q, which was written meanwhile", took)
	}
	if !b.withOldestLocked(everySession, take) || took != others[0] {
		t.Errorf("took %q, want %q", took, others[0])
	}

	// Alone it is the oldest however often it is written.
	b, _ = newBuffers(Config{EventsPerSession: 9, Sessions: 1000})
	w.b = b
	w.put("a", "0:0")
	oldest, bound = b.oldestShard(everySession)
	w.put("a", "0:1")
	if bound != ^stream.Pos(0) || !oldest.withFirst(everySession, bound, take) || took != "a" {
		t.Errorf("took %q with bound %d, want a", took, bound)
	}
}
