package fanout

import (
	"testing"
	"unsafe"
)

// TestSizes pins what a connection costs at rest. The bounds are size classes of
// the allocator, or sums with what the struct is a part of: one byte more costs
// the step to the next.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, most uintptr
	}{
		{"Output, in serve.Conn", unsafe.Sizeof(Output{}), 40},
		{"Member, in serve.Peer", unsafe.Sizeof(Member{}), 160},
		{"Sub, alone or in a socket's subscription", unsafe.Sizeof(Sub{}), 72},
	} {
		if c.got > c.most {
			t.Errorf("%s has %d bytes, at most %d", c.name, c.got, c.most)
		}
	}
}
