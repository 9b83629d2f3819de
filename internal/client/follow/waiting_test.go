package follow

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
)

// What waits when the reader ends comes again to the next one, and once: a
// state file remembers fewer events than may wait.
func TestWaitingAtEnd(t *testing.T) {
	const n = maxRecent + 10
	from := func(b *block, seq uint64) {
		for ; seq < n; seq++ {
			b.event(fmt.Sprint("new", seq), "new", seq)
		}
	}
	s := startScript(t, func(c int64, b *block, _ *http.Request) {
		b.say(": open x")
		switch c {
		case 1:
			b.event("first", "o", 0)
			return
		case 3:
			from(b, 1)
		case 2:
			from(b, 1)
			b.event("behind", "o", 1) // this one need not wait
		}
		b.hold()
	}, func(c int64, b *block, _ *http.Request) {
		if c == 1 {
			b.event("new0", "new", 0)
			b.hold()
			return
		}
		from(b, 0)
		b.event("last", "last", 0)
	})
	c := newCollector()
	o := Options{Relay: at(t, s.addr()), All: true, State: filepath.Join(t.TempDir(), "state")}
	r := startFollow(t, o, c)
	c.awaitID(t, "behind")
	c.awaitID(t, "new0")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	r = startFollow(t, o, c)
	c.awaitID(t, "last")
	c.awaitID(t, fmt.Sprint("new", n-1))
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	for seq := range n {
		if id := fmt.Sprint("new", seq); c.ids[id] != 1 {
			t.Fatalf("%s came %d times", id, c.ids[id])
		}
	}
}
