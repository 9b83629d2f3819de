package follow

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
)

// What waits when the reader ends comes again to the next one, and once: a
// state file remembers fewer events than may wait. Without one there is none to
// come, and it is handed on.
func TestWaitingAtEnd(t *testing.T) {
	t.Run("state", func(t *testing.T) { waitAtEnd(t, filepath.Join(t.TempDir(), "state")) })
	t.Run("none", func(t *testing.T) { waitAtEnd(t, "") })
}

func waitAtEnd(t *testing.T, state string) {
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
	o := Options{Relay: at(t, s.addr()), All: true, State: state}
	r := startFollow(t, o, c)
	c.awaitID(t, "behind")
	c.awaitID(t, "new0")
	if err := r.end(t); err != nil {
		t.Error(err)
	}
	if state != "" {
		r = startFollow(t, o, c)
		c.awaitID(t, "last")
		c.awaitID(t, fmt.Sprint("new", n-1))
		if err := r.end(t); err != nil {
			t.Error(err)
		}
	}
	for seq := range n {
		if id := fmt.Sprint("new", seq); c.ids[id] != 1 {
			t.Fatalf("%s came %d times", id, c.ids[id])
		}
	}
}
