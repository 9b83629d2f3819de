package serve

import (
	"slices"
	"testing"
)

// What is asked for after the input is done once for all requests of a read,
// and at once when nothing is read; a handler that panics does not keep it.
func TestAfterInput(t *testing.T) {
	var done []string
	broken := false
	a := &app{extra: map[string]func(*Exchange){"/mark": func(x *Exchange) {
		w := x.Worker()
		w.AfterInput(func() { done = append(done, "after") })
		done = append(done, "served")
		reply(x, 200, "")
		if broken {
			panic("broken")
		}
	}}}
	r := newRig(t, a)
	s := r.dial()
	const mark = "GET /mark HTTP/1.1\r\nHost: x\r\n\r\n"
	check := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(done, want) {
			t.Errorf("%s: %q, want %q", what, done, want)
		}
		done = nil
	}
	s.send(mark + mark + mark)
	check("three requests in a read", "served", "served", "served", "after")
	s.conn().w.AfterInput(func() { done = append(done, "at once") })
	check("outside of input", "at once")

	broken = true
	r.faults = 1
	s.send(mark)
	check("a panic", "served", "after")
}
