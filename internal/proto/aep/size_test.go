package aep

import (
	"testing"
	"unsafe"
)

// TestSizes pins what a consumer costs at rest, besides the engine's part. The
// bounds are size classes of the allocator.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, most uintptr
	}{
		{"socket", unsafe.Sizeof(socket{}), 80},
		{"subscription, the engine's Sub included", unsafe.Sizeof(subscription{}), 112},
		{"eventStream", unsafe.Sizeof(eventStream{}), 24},
	} {
		if c.got > c.most {
			t.Errorf("%s has %d bytes, at most %d", c.name, c.got, c.most)
		}
	}
}

// TestGreetAlike: sockets that greet alike share what their hello means, others
// do not, and neither does one that cannot be read count.
func TestGreetAlike(t *testing.T) {
	w := &worker{}
	const plain, other = `{"type":"hello","versions":["0.1"],"role":"consumer"}`, `{"type":"hello","versions":["0.1"]}`
	msg := []byte(plain)
	first, err := w.decodeHello(msg)
	if err != nil || !first.VersionOK || first.Role != "consumer" {
		t.Fatalf("%s: %+v, %v", plain, first, err)
	}
	clear(msg) // borrowed
	if again, err := w.decodeHello([]byte(plain)); err != nil || again != first {
		t.Errorf("the same hello again: %+v, %v", again, err)
	}
	if h, err := w.decodeHello([]byte(`{"type":"hello"`)); err == nil {
		t.Errorf("half a hello: %+v", h)
	}
	if h, err := w.decodeHello([]byte(other)); err != nil || h == first || h.Role != "both" || first.Role != "consumer" {
		t.Errorf("%s: %+v, %v; the first is now %+v", other, h, err, first)
	}
}

// TestAskAlike: the same for filters.
func TestAskAlike(t *testing.T) {
	w := &worker{}
	text := []byte(`{"session":"a"}`)
	first, err := w.parseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text) // borrowed
	if again, err := w.parseFilter([]byte(`{"session":"a"}`)); err != nil || again != first {
		t.Errorf("the same filter again: %p, %v, want %p", again, err, first)
	}
	if f, err := w.parseFilter([]byte(`{"session":`)); err == nil {
		t.Errorf("half a filter: %+v", f)
	}
	if f, err := w.parseFilter([]byte(`{"session":"b"}`)); err != nil || f.Canonical() == first.Canonical() {
		t.Errorf("another filter: %+v, %v", f, err)
	}
	if f, err := w.parseFilter(nil); err != nil || f.Canonical() == first.Canonical() {
		t.Errorf("no filter: %+v, %v", f, err)
	}
}
