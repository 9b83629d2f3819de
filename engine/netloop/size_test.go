package netloop

import (
	"testing"
	"unsafe"
)

// TestConnSize pins what a connection costs here at rest, besides what the
// reactor needs for it: a size class of the allocator.
func TestConnSize(t *testing.T) {
	if got, most := unsafe.Sizeof(conn{}), uintptr(96); got > most {
		t.Errorf("conn has %d bytes, at most %d", got, most)
	}
}
